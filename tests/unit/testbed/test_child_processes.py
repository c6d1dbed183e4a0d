"""What programs that pairlab starts have of the user's environment."""

import os

import pytest

from pairlab.testbed.cleanup import child_processes
from pairlab.testbed.requirements import WATCHDOGS, Program, missing_programs


@pytest.mark.parametrize("environment", [child_processes.needed, child_processes.needed_with_docker])
@pytest.mark.parametrize(("path", "own"), [(None, []), ("", []), ("/opt/x:/usr/bin:", ["/opt/x", "/usr/bin"])])
def test_programs_are_looked_for_where_path_says_and_then_in_the_usual_folders(monkeypatch, environment, path, own):
    monkeypatch.delenv("PATH") if path is None else monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(os, "defpath", "/nowhere")
    found = environment()["PATH"].split(os.pathsep)
    assert found[: len(own)] == own
    assert {"/usr/sbin", "/sbin", "/usr/bin", "/bin"} <= {*found}
    assert "" not in found  # which would be the working directory
    assert "/nowhere" not in found
    assert len(found) == len({*found})


def test_what_a_watchdog_runs_is_missing_by_name(monkeypatch):
    assert missing_programs(WATCHDOGS) == []
    monkeypatch.setattr(child_processes, "search_path", lambda *further: "/nowhere")
    lacks = list(map(str, missing_programs(WATCHDOGS)))
    assert "mktemp is not installed: sudo apt-get install coreutils" in lacks
    assert Program("sh", "dash").command == "sh"
