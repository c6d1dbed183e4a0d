"""The store: a run that is not whole is named, and never read as one."""

import errno
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from zipfile import ZipFile

import pandas as pd
import pyarrow.parquet
import pytest

from pairlab import store
from pairlab.errors import DamagedRun, NoRuns, SchemaMismatch, StoreError
from pairlab.model.records import SCHEMA
from pairlab.model.spec import Spec
from pairlab.store import metadata, runs
from pairlab.store.dataset import load_runs
from tests.support.runs import Failing, files_below, made_up, rate_of, rewrite_head, truncate


def deepen(place):
    (place / "run.json").write_text("[" * 100_000)


def drop_a_row(place):
    pd.read_parquet(place / "flows.parquet").iloc[:0].to_parquet(place / "flows.parquet")


def replaced_by(name, make):
    def spoil(place):
        (place / name).unlink()
        make(place / name)

    return spoil


def grow(path):
    """A sparse file: of no blocks, and too large to be read."""
    os.truncate(path, 2**40)


DAMAGE = {
    "no run.json": lambda place: (place / "run.json").unlink(),
    "empty run.json": lambda place: (place / "run.json").write_text(""),
    "truncated run.json": lambda place: truncate(place / "run.json"),
    "bytes in run.json": lambda place: (place / "run.json").write_bytes(b"\xff\xfe\x00"),
    "a list in run.json": lambda place: (place / "run.json").write_text("[1]"),
    "a deep run.json": deepen,
    "a schema there never was": lambda place: rewrite_head(place, schema=0),
    "no schema": lambda place: rewrite_head(place, schema=None),
    "unknown status": lambda place: rewrite_head(place, status="fine"),
    "unknown table": lambda place: rewrite_head(place, rows={"things": 1}),
    "a time without a zone": lambda place: rewrite_head(place, measured_at="2026-01-01T12:00:00"),
    "no time": lambda place: rewrite_head(place, measured_at="yesterday"),
    "a spec that is none": lambda place: rewrite_head(place, spec={"pairs": 0}),
    "another run's spec": lambda place: rewrite_head(place, spec={"pairs": 77}),
    "no flows": lambda place: (place / "flows.parquet").unlink(),
    "truncated flows": lambda place: truncate(place / "flows.parquet"),
    "garbage for flows": lambda place: (place / "flows.parquet").write_bytes(b"PAR1" + b"\0" * 400 + b"PAR1"),
    "fewer flows": drop_a_row,
    "run.json is a device": replaced_by("run.json", lambda path: path.symlink_to("/dev/zero")),
    "run.json is a FIFO": replaced_by("run.json", os.mkfifo),
    "run.json is a link": replaced_by("run.json", lambda path: path.symlink_to("/etc/passwd")),
    "run.json is a folder": replaced_by("run.json", os.mkdir),
    "run.json has no end": lambda place: grow(place / "run.json"),
    "flows are a device": replaced_by("flows.parquet", lambda path: path.symlink_to("/dev/zero")),
    "flows are a FIFO": replaced_by("flows.parquet", os.mkfifo),
    "flows have no end": lambda place: grow(place / "flows.parquet"),
    "a time that is a text": lambda place: rewrite_head(place, times_s={"up_s": "\x1b[2J"}),
    "a skew that is a list": lambda place: rewrite_head(place, skew_s=[1]),
    "a check that is a table": lambda place: rewrite_head(place, checks={"skew_s": {}}),
    "reasons that are a number": lambda place: rewrite_head(place, reasons=7),
    "facts of no host": lambda place: rewrite_head(place, facts={"host": {"kernel": "6.1"}}),
    "a kernel that is a list": lambda place: rewrite_head(
        place, facts={"host": {"kernel": ["6.1"], "cpu_model": "", "cpus": 2}}
    ),
    "facts that are a text": lambda place: rewrite_head(place, facts="none"),
    "nothing at all": lambda place: [path.unlink() for path in place.iterdir()],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_run_is_named_and_the_others_still_load(tmp_path, damage):
    spoilt = store.write(made_up(1e9, pairs=1), tmp_path)
    whole = store.write(made_up(2e9, pairs=2), tmp_path)
    DAMAGE[damage](spoilt.path)
    with pytest.raises(DamagedRun, match=f"{spoilt.path} is not a whole run: .*pairlab clean"):
        store.read(spoilt.path)
    found = load_runs(tmp_path)
    assert [run.key for run in found] == [whole.key]
    assert list(found.flows["throughput_bps"]) == [2e9]
    assert len(found.damaged) == 1
    assert str(spoilt.path) in found.damaged[0]
    # A folder with no part of a run in it is somebody else's, whatever it is called.
    left = [] if damage == "nothing at all" else [(spoilt.path, "damaged, kept in .replaced/")]
    assert list(store.leftovers(tmp_path)) == left
    assert store.find(spoilt.spec, tmp_path) is None
    assert rate_of(store.write(made_up(3e9, pairs=1), tmp_path)) == 3e9
    assert load_runs(tmp_path).damaged == ()


def test_any_error_of_the_parquet_reader_means_a_damaged_run(tmp_path, monkeypatch):
    run = store.write(made_up(), tmp_path)
    for error in (
        pyarrow.ArrowNotImplementedError("64 bits"),
        pyarrow.ArrowInvalid("magic"),
        MemoryError(),
        OSError("Corrupt snappy compressed data."),
    ):
        monkeypatch.setattr(pyarrow.parquet, "read_metadata", Failing(pyarrow.parquet.read_metadata, error))
        with pytest.raises(DamagedRun):
            store.read(run.path)
        monkeypatch.undo()
        stored = store.read(run.path)
        monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Failing(pyarrow.parquet.ParquetFile, error))
        with pytest.raises(DamagedRun):
            stored.flows  # noqa: B018
        monkeypatch.undo()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize(
    "step", [(metadata, "read_text"), (pyarrow.parquet, "read_metadata")], ids=["the head", "a table"]
)
def test_a_run_that_cannot_be_read_just_now_is_not_damaged(tmp_path, monkeypatch, number, step):
    run = store.write(made_up(), tmp_path)
    before = files_below(tmp_path)
    owner, name = step
    for attempt in (lambda: store.read(run.path), lambda: store.find(run.spec, tmp_path), lambda: load_runs(tmp_path)):
        monkeypatch.setattr(owner, name, Failing(getattr(owner, name), OSError(number, os.strerror(number))))
        with pytest.raises(StoreError, match=f"{run.path} could not be read: {os.strerror(number)}") as caught:
            attempt()
        assert not isinstance(caught.value, DamagedRun)
        monkeypatch.undo()
    monkeypatch.setattr(owner, name, Failing(getattr(owner, name), OSError(number, os.strerror(number))))
    assert list(store.leftovers(tmp_path)) == []
    assert files_below(tmp_path) == before


def spoil_the_pages(path):
    """Damage that neither the length of the file nor its footer tells of."""
    text = bytearray(path.read_bytes())
    text[4:40] = bytes(36)
    path.write_bytes(bytes(text))


def test_damage_within_a_table_is_told_when_the_table_is_read_and_cleaned_up(tmp_path):
    spoilt = store.write(made_up(1e9, pairs=1), tmp_path)
    store.write(made_up(2e9, pairs=2), tmp_path)
    spoil_the_pages(spoilt.path / "flows.parquet")
    told = f"{spoilt.path} is not a whole run: .*pairlab clean"
    found = load_runs(tmp_path)
    for attempt in (
        lambda: found.flows,
        lambda: found.select("flows", ["pair"]),
        lambda: store.read(spoilt.path).flows,
    ):
        with pytest.raises(DamagedRun, match=told):
            attempt()
    assert list(store.leftovers(tmp_path)) == [(spoilt.path, "damaged, kept in .replaced/")]
    store.clean_up(spoilt.path)
    assert list(load_runs(tmp_path).flows["throughput_bps"]) == [2e9]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO], ids=errno.errorcode.get)
def test_a_table_that_cannot_be_read_just_now_is_not_damaged(tmp_path, monkeypatch, number):
    run = store.write(made_up(), tmp_path)
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", Failing(pyarrow.parquet.ParquetFile, error))
    with pytest.raises(StoreError, match=f"{run.path} could not be read: {os.strerror(number)}") as caught:
        run.flows  # noqa: B018
    assert not isinstance(caught.value, DamagedRun)
    assert rate_of(run) == 1e9  # it was not kept as failed


def test_files_running_out_while_parquet_is_read_is_not_damage(tmp_path):
    store.write(made_up(), tmp_path)
    script = """
        import os, resource, sys
        from pathlib import Path
        import pandas, pyarrow.parquet
        from pairlab import Spec, store
        from pairlab.errors import StoreError
        root = Path(sys.argv[1])
        (place,) = store.directories(root)
        store.read(place)  # all modules are loaded
        used = len(os.listdir("/proc/self/fd")) - 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (used, used))
        try:
            store.read(place)
        except StoreError as error:
            print(type(error).__name__, "Too many open files" in str(error))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "StoreError True\n", done.stderr


def test_the_status_of_a_run_is_read_from_its_head(tmp_path):
    run = store.write(made_up(status="invalid", reasons=("started apart",)), tmp_path)
    assert store.status(run.spec, tmp_path) == "invalid"
    assert store.status(Spec(pairs=9), tmp_path) is None
    for damage in ("empty run.json", "a list in run.json", "a deep run.json", "no run.json"):
        DAMAGE[damage](run.path)
        assert store.status(run.spec, tmp_path) is None


def test_a_copied_run_is_not_counted_twice(tmp_path):
    run = store.write(made_up(), tmp_path)
    shutil.copytree(run.path, run.path.with_name("0123456789abcdef"))
    found = load_runs(tmp_path)
    assert len(found) == 1
    assert f"it holds the run {run.key}" in found.damaged[0]


def test_only_damaged_runs_are_no_runs_and_it_is_said_so(tmp_path):
    (store.write(made_up(), tmp_path).path / "run.json").unlink()
    with pytest.raises(NoRuns, match=r"but 1 left out, the first: .* is not a whole run"):
        load_runs(tmp_path)


NEWER = {
    "schema": ({"schema": SCHEMA + 1}, f"with schema {SCHEMA + 1}, and this one knows up to {SCHEMA}"),
    "spec": ({"spec": {"pairs": 1, "flux_capacity": 3, "a": 1}}, "whose specs have 'a', 'flux_capacity'"),
}


@pytest.mark.parametrize("newer", NEWER)
def test_a_run_of_a_newer_pairlab_is_neither_guessed_at_nor_taken_away(tmp_path, newer):
    changes, told = NEWER[newer]
    run = store.write(made_up(pairs=1), tmp_path)
    other = store.write(made_up(2e9, pairs=2), tmp_path)
    rewrite_head(run.path, **changes)
    told = f"{run.path} was written by a newer pairlab, {told}: update pairlab to read it"
    for attempt in (lambda: store.read(run.path), lambda: store.find(run.spec, tmp_path)):
        with pytest.raises(SchemaMismatch) as caught:
            attempt()
        assert str(caught.value) == told
    found = load_runs(tmp_path)
    assert ([each.key for each in found], found.newer, found.damaged) == ([other.key], (told,), ())
    assert list(store.leftovers(tmp_path)) == []


def test_a_damaged_run_is_set_aside_and_not_deleted(tmp_path):
    run = store.write(made_up(raw={"client-0.out": "precious"}), tmp_path)
    (run.path / "run.json").unlink()
    store.clean_up(run.path)
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert kept.name.startswith(f"{run.key}-")
    assert ZipFile(kept / "raw.zip").read("client-0.out") == b"precious"
    assert list(store.leftovers(tmp_path)) == []
    store.clean_up(kept)
    assert files_below(tmp_path) == []


@pytest.fixture
def lower_layer(monkeypatch):
    """Makes directories ones that cannot be renamed, as those of the lower layer of overlayfs (rename(2), EXDEV)."""
    lower, real = set(), os.rename

    def rename(path, target, **options):
        if Path(path) in lower:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
        real(path, target, **options)

    def exchange(one, other):
        if {one, other} & lower:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(one))
        return False

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(runs, "exchange", exchange)
    return lower.add


@pytest.mark.parametrize("damage", ["no run.json", "run.json is a FIFO", "run.json is a link", "run.json has no end"])
def test_a_damaged_run_that_cannot_be_renamed_is_set_aside_too(tmp_path, lower_layer, damage):
    run = store.write(made_up(raw={"client-0.out": "precious"}), tmp_path)
    DAMAGE[damage](run.path)
    lower_layer(run.path)
    ((place, why),) = store.leftovers(tmp_path)
    assert (place, why) == (run.path, "damaged, kept in .replaced/")
    store.clean_up(place)
    assert list(store.leftovers(tmp_path)) == []
    (kept,) = (tmp_path / "throughput" / ".replaced").iterdir()
    assert ZipFile(kept / "raw.zip").read("client-0.out") == b"precious"
    assert sorted(each.name for each in (tmp_path / "throughput").iterdir()) == [".replaced"]


def test_a_damaged_run_that_cannot_be_renamed_makes_room_for_a_new_one(tmp_path, lower_layer):
    older = store.write(made_up(1e9), tmp_path)
    DAMAGE["no flows"](older.path)
    lower_layer(older.path)
    newer = store.write(made_up(2e9), tmp_path)
    found = load_runs(tmp_path)
    assert [rate_of(each) for each in found] == [2e9]
    assert found.damaged == ()
    assert store.directories(tmp_path) == [newer.path]


def test_a_run_that_cannot_be_renamed_is_taken_away_and_comes_back(tmp_path, lower_layer):
    run = store.write(made_up(1e9), tmp_path)
    lower_layer(run.path)
    (archived,) = store.remove([run.path])
    assert store.directories(tmp_path) == []
    lower_layer(archived)
    restored = store.restore(archived)
    assert rate_of(store.read(restored)) == 1e9
    assert store.removed(tmp_path) == {}


def test_where_there_is_no_room_for_a_copy_a_run_stays_where_it_is(tmp_path, lower_layer, monkeypatch):
    run = store.write(made_up(1e9), tmp_path)
    lower_layer(run.path)
    (tmp_path / "cp").write_text("#!/bin/sh\necho cp: no room >&2; exit 1\n")
    (tmp_path / "cp").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreError, match="Invalid cross-device link, and no copy could be made: cp: no room"):
        store.remove([run.path])
    assert rate_of(store.read(run.path)) == 1e9
    assert not [place for place in (tmp_path / "throughput").iterdir() if "draft" in place.name]


ON_OVERLAYFS = """
set -e
mount -t tmpfs tmpfs "$1/upper"
mkdir "$1/upper/files" "$1/upper/work"
mount -t overlay overlay -o "lowerdir=$1/lower,upperdir=$1/upper/files,workdir=$1/upper/work$2" "$1/merged" || exit 77
exec "$3" -c "$4" "$1/merged"
"""
CLEANED = """
import sys
from pathlib import Path
from pairlab import store
root = Path(sys.argv[1])
for place, _ in list(store.leftovers(root)):
    store.clean_up(place)
print(len(list(store.leftovers(root))), len(store.directories(root)), len(list(root.glob("*/.replaced/*/raw.zip"))))
"""


def test_on_overlayfs_itself_a_damaged_run_of_the_lower_layer_is_set_aside(tmp_path):
    for name in ("lower", "upper", "merged"):
        (tmp_path / name).mkdir()
    run = store.write(made_up(raw={"client-0.out": "precious"}), tmp_path / "lower")
    (run.path / "run.json").unlink()
    root = os.geteuid() == 0
    alone = ["unshare", "--mount"] if root else ["unshare", "--user", "--map-root-user", "--mount"]
    words = [*alone, "sh", "-c", ON_OVERLAYFS, "sh", tmp_path, "" if root else ",userxattr", sys.executable, CLEANED]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and "pairlab" not in done.stderr:
        pytest.skip(f"this host mounts no overlayfs here: {done.stderr}")
    assert (done.stdout, done.stderr) == ("0 0 1\n", "")
