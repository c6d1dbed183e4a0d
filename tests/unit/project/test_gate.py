"""The gate's own rules (.ci/gate.py): what fails twice stops it, what passes at a second look is told, a hang ends."""

import importlib.util
import sys

import pytest

from pairlab import paths

spec = importlib.util.spec_from_file_location("gate", paths.ROOT / ".ci/gate.py")
gate = importlib.util.module_from_spec(spec)
sys.modules["gate"] = gate  # where dataclasses look for it
spec.loader.exec_module(gate)

#: Stands for `python -m tests`: reports these tests as failed, or at a second look those.
REPORTS = """#!/bin/sh
[ "$3" = --again ] && failing="{again}" passing="{passing}" || failing="{first}" passing=sound
mkdir -p .cache/parts
{{
    echo '<testsuites><testsuite>'
    for each in $passing; do echo "<testcase classname='t' name='$each'/>"; done
    echo '<testcase classname="t" name="left out"><skipped/></testcase>'
    for each in $failing; do
        echo "<testcase classname='t' name='$each'><failure>$each was not so</failure></testcase>"
    done
    echo '</testsuite></testsuites>'
}} > .cache/unit.xml
[ -z "$failing" ]
status=$?
echo "{{\\"status\\": $status}}" > .cache/parts/unit.json
exit $status
"""


@pytest.fixture
def concluded(tmp_path):
    """concluded(first, again) -> the gate's status, where these tests fail first, and those at the second look.

    passing: the tests that pass then; None: all others that failed.
    """
    python = tmp_path / gate.PYTHON
    python.parent.mkdir(parents=True)

    def concluded(first, again="", passing=None):
        passing = " ".join({*first.split()} - {*again.split()}) if passing is None else passing
        python.write_text(REPORTS.format(first=first, again=again, passing=passing))
        python.chmod(0o755)
        outcome = gate.run(gate.Part("unit", f"{gate.TESTS} unit", 60, tests=("unit",)), tmp_path)
        return gate.conclude([outcome], [] if outcome.ok else gate.second_look(outcome, tmp_path))

    return concluded


def test_where_all_passes_the_gate_is_open(concluded, capfd):
    assert concluded("") == 0
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 1 skipped"


def test_a_test_that_fails_twice_stops_it_and_says_why_last(concluded, capfd):
    assert concluded("one two", "two") == 1
    *_, said, _, closing = capfd.readouterr().out.splitlines()
    assert (said, closing) == ("  two was not so", "2 passed, 1 failed, 1 skipped")


def test_one_that_passes_at_the_second_look_is_told_and_stops_nothing(concluded, capfd):
    assert concluded("one") == 0
    assert "flaky: t::one (unit) failed, and passed alone.\nFirst:\n  one was not so" in capfd.readouterr().out


def test_one_that_the_second_look_did_not_run_has_failed(concluded):
    assert concluded("one", passing="") == 1


def test_more_than_three_of_those_stop_it(concluded):
    assert [concluded("one two three"), concluded("one two three four")] == [0, 1]


@pytest.mark.parametrize(("command", "status"), [("exec sleep 100", 124), ("exit 3", 3)])
def test_what_hangs_or_ends_without_a_report_is_not_looked_at_again(command, status, tmp_path, capfd):
    outcome = gate.run(gate.Part("unit", command, 1, tests=("unit",)), tmp_path)
    assert gate.second_look(outcome, tmp_path) == []
    assert gate.conclude([outcome], []) == 1
    assert f"failed: unit, status {status}" in capfd.readouterr().out


def test_a_command_is_repeated_as_a_whole(tmp_path):
    part = gate.Part("bench", "mkdir there 2> /dev/null && exit 3 || true", 60)
    outcome = gate.run(part, tmp_path)
    assert (outcome.status, len(gate.second_look(outcome, tmp_path)), outcome.ok) == (3, 1, True)
