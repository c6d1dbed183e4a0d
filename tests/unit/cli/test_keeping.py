"""`pairlab ls` and `pairlab clean`."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from pairlab import store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.store.dataset import load_runs
from pairlab.testbed.audit import leftovers
from tests.support.runs import truncate
from tests.unit.cli.helpers import WHEN, made_up


def test_ls_without_runs_says_how_to_get_some(refused, runs_dir):
    status, said = refused("ls")
    assert (status, said[: len(f"no runs in {runs_dir}: measure some")]) == (1, f"no runs in {runs_dir}: measure some")
    assert refused("ls", "/tmp")[1].startswith("no runs of '/tmp' in ")


def test_ls_shows_whole_keys_and_every_damaged_run(pairlab, runs_dir):
    run, spoilt = made_up(driver="macvlan", pairs=7, workload="flowgen"), made_up(pairs=8)
    (spoilt.path / "run.json").write_text("{")
    status, out, _ = pairlab("ls")
    assert status == 0
    row = next(line for line in out.splitlines() if run.key in line)
    told = f"{run.key} throughput netns macvlan 7 flowgen 0 ok 4.20 Gbit/s in total 3.5 s 2024-05-01 12:00 UTC"
    assert row.split() == told.split()
    assert f"{spoilt.path} is not a whole run" in out


def test_ls_lists_the_newest_first_and_sees_what_changed_since_it_last_looked(pairlab):
    old, new = made_up(pairs=7), made_up(pairs=8, at=WHEN + timedelta(days=1))
    assert keys(pairlab("ls")[1]) == [new.key, old.key]
    newest = made_up(pairs=9, at=WHEN + timedelta(days=2))
    shutil.rmtree(new.path)
    assert keys(pairlab("ls")[1]) == [newest.key, old.key]
    truncate(old.path / "flows.parquet")
    _, out, _ = pairlab("ls")
    assert keys(out) == [newest.key]
    assert f"{old.path} is not a whole run" in out
    assert "no runs" not in out


def test_ls_by_kernel_lists_each_kernel_by_itself(pairlab):
    for day, kernel in enumerate(("6.1", "6.18")):
        made_up(
            pairs=7, at=WHEN + timedelta(days=day), facts={"host": {"cpu_model": "a CPU", "cpus": 2, "kernel": kernel}}
        )
    _, out, _ = pairlab("ls", "--by", "kernel")
    assert re.findall("^kernel (.*)$", out, re.MULTILINE) == ["6.1: 1 run", "6.18: 1 run"]
    assert [line.split()[-1] for line in pairlab("ls")[1].splitlines()] == ["kernel", "6.18", "6.1"]


def keys(out):
    return [line.split()[0] for line in out.splitlines() if re.match("[0-9a-f]{16} ", line)]


def test_ls_tells_why_a_run_does_not_count(pairlab):
    store.write(Run(Spec(), "failed", ("no server", "no client")))
    assert f"{Spec().key}: failed: no server; no client" in pairlab("ls")[1]


def test_ls_as_json_is_json_and_names_damaged_runs_beside_it(pairlab):
    run, spoilt = made_up(pairs=7), made_up(pairs=8)
    (spoilt.path / "run.json").write_text("{")
    status, out, err = pairlab("ls", "--json")
    (row,) = json.loads(out)
    assert (status, row["key"], row["pairs"], row["status"]) == (0, run.key, 7, "ok")
    assert row["measured_at"].startswith("2024-05-01T12:00:00")
    assert f"{spoilt.path} is not a whole run" in err


def test_a_reader_that_goes_away_is_no_error_to_tell_of(runs_dir):
    for pairs in range(1, 40):
        made_up(pairs=pairs)
    command = [Path(sys.executable).with_name("pairlab"), "ls"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""


@pytest.fixture
def nothing_left(monkeypatch):
    """As if no testbed of a dead process were on this host; others may be working on it."""
    monkeypatch.setattr(leftovers, "find", lambda: leftovers.Found([], []))


def test_clean_on_an_empty_store_has_nothing_to_do(pairlab, nothing_left, runs_dir):
    assert pairlab("clean", "--dry-run") == (0, "nothing to clean\n", "")
    assert pairlab("clean") == (0, "nothing to clean\n", "")
    assert not runs_dir.exists()


def test_clean_lists_what_it_leaves_as_its_owner_may_live_and_says_what_to_do(pairlab, monkeypatch):
    unclear = ["directory /tmp/pairlab-0", "Docker testbed [x]"]
    monkeypatch.setattr(leftovers, "find", lambda: leftovers.Found([], unclear))
    status, out, _ = pairlab("clean")
    head, *listed, why, remedy = out.splitlines()
    assert status == 0
    assert head == "left 2 things, as it cannot be told from here whether the process that made them still runs:"
    assert [each.strip() for each in listed] == unclear
    assert "another container, PID or time namespace" in why
    assert "Run `pairlab clean` where it ran, or as root" in remedy
    assert "label=pairlab.run=NAME" in remedy


def test_clean_removes_what_is_damaged_and_only_that(pairlab, nothing_left):
    run, spoilt = made_up(pairs=7, status="invalid"), made_up(pairs=8)
    made_up(pairs=7)
    (spoilt.path / "run.json").write_text("{")
    what = f"run {spoilt.path} (damaged, kept in .replaced/)\n"
    assert pairlab("clean", "--dry-run") == (0, f"would remove {what}", "")
    assert spoilt.path.exists()
    assert pairlab("clean") == (0, f"removing {what}", "")
    assert not spoilt.path.exists()
    assert [each.key for each in load_runs()] == [run.key]
    kept = sorted((run.path.parent / ".replaced").iterdir())
    assert {path.name.partition("-")[0] for path in kept} == {run.key, spoilt.key}
    assert pairlab("clean", "--replaced") == (0, "".join(f"removing run {path} (replaced)\n" for path in kept), "")
    assert pairlab("clean", "--replaced") == (0, "nothing to clean\n", "")


def test_clean_that_may_not_remove_says_so(pairlab, nothing_left, monkeypatch):
    spoilt = made_up()
    (spoilt.path / "run.json").write_text("{")

    def rename(path, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", rename)
    status, _, err = pairlab("clean")
    assert status == 1
    assert err == f"pairlab: {spoilt.path} could not be removed: Permission denied. Is it yours to remove?\n"


def test_clean_leaves_the_draft_of_another_host_and_says_so(pairlab, nothing_left, runs_dir):
    draft = runs_dir / "throughput" / ".0123456789abcdef-0123456789ab-1.pairlab-draft"
    draft.mkdir(parents=True)
    status, printed, _ = pairlab("clean")
    assert status == 0
    assert printed.startswith("left 1 thing, as it cannot be told from here whether the process that made it")
    assert f"  draft {draft}\n" in printed
    assert "on another host" in printed
    assert draft.exists()


def test_clean_leaves_what_others_made_and_goes_on_past_what_it_cannot_remove(
    pairlab, nothing_left, runs_dir, tmp_path, monkeypatch
):
    """Folders and files that are called as ours are, links to elsewhere, and one run that cannot be moved."""
    whole, held, spoilt = made_up(pairs=1), made_up(pairs=2), made_up(pairs=3)
    for each in (held, spoilt):
        (each.path / "run.json").write_text("{")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    experiment = whole.path.parent
    (experiment / "0123456789abcdef").mkdir()
    (experiment / "0123456789abcdef" / "notes.txt").write_text("mine")
    (experiment / "fedcba9876543210").symlink_to(theirs, target_is_directory=True)
    (experiment / ".0123456789abcdef-12345678").mkdir()
    (experiment / ".0123456789abcdef-1.pairlab-draft").symlink_to(theirs, target_is_directory=True)
    (whole.path / ".notebook.ipynb-mine").write_text("mine")
    (whole.path / ".notebook.ipynb-1.pairlab-draft").symlink_to("/dev/zero")
    (experiment / ".replaced").mkdir()
    (experiment / ".replaced" / "0123456789abcdef-1").symlink_to(theirs, target_is_directory=True)
    ours = (held.path, spoilt.path)
    before = {path for path in runs_dir.rglob("*") if not any(path.is_relative_to(each) for each in ours)}
    real = Path.rename

    def rename(path, target):
        if path == held.path:
            raise PermissionError(13, "Permission denied")
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    status, printed, err = pairlab("clean", "--replaced")
    assert (status, printed.count("removing run")) == (1, 2)
    assert err == f"pairlab: {held.path} could not be removed: Permission denied. Is it yours to remove?\n"
    assert held.path.exists()
    assert not spoilt.path.exists()
    assert {path for path in before if os.path.lexists(path)} == before
