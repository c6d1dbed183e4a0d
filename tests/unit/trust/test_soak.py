"""The soak itself: it sees what is leaked, tells what was broken, and goes on where it was."""

import os
import socket
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from pairlab import paths
from pairlab.errors import Unavailable
from tests.soak import __main__ as soak
from tests.soak import load as soak_load
from tests.trust import evidence


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Parts of the test's own, by name, with a cache of its own."""
    monkeypatch.setattr(evidence, "CACHE", tmp_path)
    told = {}
    monkeypatch.setattr(soak, "PARTS", told)
    return told


def good(record, *, quick=False):
    """A part that measures something."""
    record("descriptors", 3)


def broken(record, *, quick=False):
    """A part that finds a leak."""
    record("descriptors", 4)
    raise AssertionError("one descriptor more")


def test_a_descriptor_and_a_child_that_stay_are_seen(monkeypatch):
    monkeypatch.setattr(soak_load, "SETTLE_S", 0.2)
    before = soak_load.holdings()
    with socket.socket(), open(os.devnull):
        assert soak_load.settled(before).beyond(before)["descriptors"] == 2
    assert "descriptors" not in soak_load.settled(before).beyond(before)


def test_a_part_is_kept_with_its_figures_whether_it_passed_or_broke_its_promise(parts):
    parts |= {"good": good, "broken": broken}
    parts["lacking"] = lambda record, quick: (_ for _ in ()).throw(Unavailable("no Docker daemon"))
    done = CliRunner().invoke(soak.main, [])
    assert done.exit_code == 1
    assert "failed: broken" in done.output
    assert {each.test: (each.outcome, each.figures) for each in evidence.all_kept()} == {
        "soak:good": ("passed", {"descriptors": [3]}),
        "soak:broken": ("failed", {"descriptors": [4]}),
        "soak:lacking": ("skipped", {}),
    }


@pytest.mark.skipif(not (paths.ROOT / ".git").exists(), reason="not a clone: there are no commits to go by")
def test_what_passed_since_the_last_commit_is_not_run_again_unless_asked(parts):
    runs = []
    parts["good"] = lambda record, quick: runs.append(quick)
    for options in ([], [], ["--again"], ["--part", "good"], ["--quick"]):
        assert CliRunner().invoke(soak.main, options).exit_code == 0
    assert runs == [False, False, False, True]


def test_what_passed_before_the_last_commit_is_run_again(parts):
    runs = []
    parts["good"] = lambda record, quick: runs.append(quick)
    long_ago = (datetime.now(UTC) - timedelta(days=10000)).isoformat()
    evidence.write(evidence.Evidence("soak:good", "passed", long_ago, "", 1.0, {}))
    CliRunner().invoke(soak.main, [])
    assert len(runs) == 1
