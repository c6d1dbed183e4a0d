"""The store: a run is there whole or not at all, whatever becomes of the writing."""

import errno
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from datetime import timedelta
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pytest

from pairlab import store
from pairlab.base.environment import boot_id
from pairlab.errors import StoreError
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store import drafts, runs
from pairlab.store.dataset import load_runs
from tests.support.runs import FULL, WHEN, Failing, files_below, made_up, rate_of

STEPS = {
    "the draft's directory": (os, "mkdir", 1),
    "the first table": (pd.DataFrame, "to_parquet", 1),
    "the last table": (pd.DataFrame, "to_parquet", 3),
    "the tools' output": (ZipFile, "writestr", 1),
    "the head": (json, "dump", 1),
    "syncing": (os, "fsync", 1),
    "naming the new run": (runs, "exchange", 1),
    "moving the old run": (Path, "rename", 1),
}


@pytest.fixture(autouse=True)
def rescue(tmp_path_factory, monkeypatch):
    """Where temporary files are, the runs among them that could not be written to their place."""
    place = tmp_path_factory.mktemp("rescue")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


ENDS = pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["failing", "interrupted"])


@ENDS
@pytest.mark.parametrize("step", STEPS)
def test_a_write_that_does_not_end_leaves_the_older_run_as_it_was(tmp_path, monkeypatch, step, error):
    store.write(made_up(1e9, status="invalid", raw={"client-0.out": "x"}), tmp_path)
    before = files_below(tmp_path)
    owner, name, call = STEPS[step]
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, Failing(getattr(owner, name), error, call))
        with pytest.raises((StoreError, KeyboardInterrupt), match=r"^$|No space left on device\. Make room"):
            store.write(made_up(2e9, raw={"client-0.out": "x"}), tmp_path)
    assert files_below(tmp_path) == before
    assert rate_of(load_runs(tmp_path).runs[0]) == 1e9
    assert rate_of(store.write(made_up(2e9, raw={"client-0.out": "x"}), tmp_path)) == 2e9


@pytest.mark.parametrize("call", [1, 2], ids=["moving the old run", "naming the new run"])
@ENDS
def test_where_names_cannot_be_exchanged_a_write_that_fails_leaves_the_older_run_too(
    tmp_path, monkeypatch, error, call
):
    monkeypatch.setattr(runs, "exchange", lambda one, other: False)
    store.write(made_up(1e9, status="invalid"), tmp_path)
    before = files_below(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(Path, "rename", Failing(Path.rename, error, call))
        with pytest.raises((StoreError, KeyboardInterrupt)):
            store.write(made_up(2e9), tmp_path)
    assert files_below(tmp_path) == before
    assert rate_of(store.write(made_up(2e9), tmp_path)) == 2e9
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert rate_of(store.read(kept)) == 1e9


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FULL, "No space left on device. Make room"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "Disk quota exceeded. Make room"),
        (OSError(errno.EROFS, "Read-only file system"), "Is the folder yours to write? PAIRLAB_RUNS names another one"),
    ],
    ids=["full", "quota", "read-only"],
)
def test_a_write_that_fails_says_where_why_and_what_to_do(tmp_path, monkeypatch, error, told):
    monkeypatch.setattr(os, "fsync", Failing(os.fsync, error))
    with pytest.raises(StoreError) as caught:
        store.write(made_up(), tmp_path)
    assert told in str(caught.value)
    assert str(tmp_path / "throughput") in str(caught.value)


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC, errno.ESTALE], ids=errno.errorcode.get)
def test_what_cannot_be_written_to_its_place_is_kept_whole_elsewhere(tmp_path, monkeypatch, rescue, number):
    real = os.fsync

    def fails_below_the_store(descriptor):
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(tmp_path)):
            raise OSError(number, os.strerror(number))
        real(descriptor)

    older = store.write(made_up(1e9, at=WHEN - timedelta(hours=1)), tmp_path)  # of the same spec, as `fresh` has it
    monkeypatch.setattr(os, "fsync", fails_below_the_store)
    with pytest.raises(StoreError, match=re.escape(os.strerror(number))) as caught:
        store.write(made_up(2e9), tmp_path)
    (kept,) = rescue.iterdir()
    assert f"`pairlab import {kept}` brings it into the folder of runs" in str(caught.value)
    monkeypatch.setattr(os, "fsync", real)
    store.merge(kept, tmp_path)
    assert rate_of(store.read(older.path)) == 1e9
    assert sorted(rate_of(store.read(place)) for place in store.directories(tmp_path)) == [1e9, 2e9]


def test_where_nothing_can_be_written_anywhere_the_first_reason_is_told_and_nothing_left(tmp_path, monkeypatch, rescue):
    def fails(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(StoreError, match=f"written to {tmp_path}/throughput: Input/output error"):
        store.write(made_up(2e9), tmp_path)
    assert [*rescue.iterdir()] == []


@pytest.mark.parametrize("exchanges", [True, False], ids=["exchanged", "set aside"])
def test_beside_a_run_that_cannot_be_moved_the_new_one_has_a_name_of_its_own(tmp_path, monkeypatch, rescue, exchanges):
    """As on overlayfs, where a directory of the lower layer cannot be renamed (rename(2), EXDEV)."""
    older = store.write(made_up(1e9, status="invalid"), tmp_path)
    lower, real = os.stat(older.path).st_ino, Path.rename

    def rename(path, target):
        if path.stat().st_ino == lower:
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(path))
        return real(path, target)

    def exchange(one, other):
        if exchanges:
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(other))
        return False

    monkeypatch.setattr(Path, "rename", rename)
    monkeypatch.setattr(runs, "exchange", exchange)
    newer = store.write(made_up(2e9), tmp_path)
    assert rate_of(store.find(newer.spec, tmp_path)) == 2e9
    assert newer.path != older.path
    assert rate_of(store.read(older.path)) == 1e9
    assert [*rescue.iterdir()] == []


def test_facts_that_json_does_not_know_store_nothing(tmp_path):
    for fact in (float("nan"), object()):
        run = Run(Spec(), "ok", facts={"host": {"load": fact}})
        with pytest.raises((TypeError, ValueError)):
            store.write(run, tmp_path)
    assert files_below(tmp_path) == []


def test_a_notebook_that_cannot_be_kept_leaves_its_run_whole(tmp_path, monkeypatch):
    run = store.write(made_up(), tmp_path)
    before = files_below(tmp_path)
    monkeypatch.setattr(shutil, "copyfile", Failing(shutil.copyfile, FULL))
    with pytest.raises(StoreError, match=r"No space left on device\. Make room"):
        store.attach_notebook(run, tmp_path / "executed.ipynb")
    assert files_below(tmp_path) == before


def test_the_draft_of_a_living_process_is_no_debris_however_old_it_is(tmp_path):
    with store.draft(Spec(), tmp_path) as draft:
        os.utime(draft, (0, 0))
        assert list(store.leftovers(tmp_path)) == []
        script = "import sys, pathlib; from pairlab import store; print(*store.leftovers(pathlib.Path(sys.argv[1])))"
        other = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
        assert other.stdout == "\n"
    assert files_below(tmp_path) == []
    assert not draft.exists()


def test_what_another_host_may_be_writing_is_no_debris_though_its_lock_is_not_seen_from_here(tmp_path, monkeypatch):
    """On NFS or 9p, a lock that another kernel has given is free here: so it looks from another boot, too."""
    folder = tmp_path / ".sweeps" / "small"
    folder.mkdir(parents=True)
    theirs = folder / ".workers-0123456789ab-1.pairlab-draft"
    theirs.write_text("[")
    unnamed = tmp_path / "throughput" / f".{Spec().key}-1.pairlab-draft"
    unnamed.mkdir(parents=True)
    with store.draft(Spec(), tmp_path) as mine:
        assert store.drafts_of_others(tmp_path) == [unnamed, theirs]
        monkeypatch.setattr(drafts, "boot_id", lambda: "f" * 32)
        monkeypatch.setattr(fcntl, "flock", lambda descriptor, how: None)
        assert list(store.leftovers(tmp_path)) == []
        assert set(store.drafts_of_others(tmp_path)) == {unnamed, mine, theirs}


@pytest.mark.parametrize(("umask", "folder", "file"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644), (0, 0o777, 0o666)])
def test_who_may_read_a_run_is_what_the_umask_says(umask, folder, file, tmp_path):
    (tmp_path / "executed.ipynb").write_text("{}")
    before = os.umask(umask)
    try:
        run = store.write(made_up(raw={"client-0.out": "1"}), tmp_path / "runs")
        store.attach_notebook(run, tmp_path / "executed.ipynb")
        store.remember_sweep("small", [Spec()], tmp_path / "runs")
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o777 for path in (tmp_path / "runs").rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {folder}
    assert {mode for path, mode in modes.items() if path.is_file()} == {file}


@pytest.mark.parametrize("name", ["netns.json", "workers"])
def test_what_a_killed_sweep_was_noting_is_debris(tmp_path, name):
    folder = tmp_path / ".sweeps" / "small"
    folder.mkdir(parents=True)
    (folder / name).write_text("[]")
    draft = f".{name}-{boot_id()[:12]}-1.pairlab-draft"
    (folder / draft).write_text("[")
    assert [draft.name for draft, _ in store.leftovers(tmp_path)] == [draft]


def test_where_there_are_no_locks_runs_are_written_and_no_draft_is_debris(tmp_path, monkeypatch):
    (tmp_path / "throughput" / f".{Spec().key}-{boot_id()[:12]}-1.pairlab-draft").mkdir(parents=True)
    assert len(list(store.leftovers(tmp_path))) == 1

    def flock(descriptor, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert rate_of(store.write(made_up(2e9), tmp_path)) == 2e9
    assert list(store.leftovers(tmp_path)) == []


def test_a_process_killed_while_it_writes_leaves_a_draft_that_nobody_takes_for_a_run(tmp_path):
    store.write(made_up(1e9), tmp_path)
    script = """
        import json, os, signal, sys
        from pathlib import Path
        from pairlab import Spec, store
        from pairlab.model.records import Run
        json.dump = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
        store.write(Run(Spec(duration_s=2), "ok"), Path(sys.argv[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], check=False)
    assert done.returncode == -9
    found = load_runs(tmp_path)
    assert ([rate_of(run) for run in found], found.damaged) == ([1e9], ())
    (draft,) = (path for path in (tmp_path / "throughput").iterdir() if path.name.startswith("."))
    assert list(store.leftovers(tmp_path)) == [(draft, "a draft that was never finished")]
    store.clean_up(draft)
    assert list(store.leftovers(tmp_path)) == []
    store.clean_up(draft)  # somebody else was faster
