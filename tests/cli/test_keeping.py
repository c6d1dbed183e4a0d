"""`pairlab ls` and `pairlab clean`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pairlab import store
from pairlab.collection import load_runs
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.testbed import leftovers
from tests.cli.helpers import made_up


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
    assert row.split() == f"{run.key} throughput netns macvlan 7 flowgen 0 ok 4.20 2024-05-01 12:00".split()
    assert f"{spoilt.path} is not a whole run" in out


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
    monkeypatch.setattr(leftovers, "find", lambda: iter(()))


def test_clean_on_an_empty_store_has_nothing_to_do(pairlab, nothing_left, runs_dir):
    assert pairlab("clean", "--dry-run") == (0, "nothing to clean\n", "")
    assert pairlab("clean") == (0, "nothing to clean\n", "")
    assert not runs_dir.exists()


def test_clean_removes_what_is_damaged_and_only_that(pairlab, nothing_left):
    run, spoilt = made_up(pairs=7), made_up(pairs=8)
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
