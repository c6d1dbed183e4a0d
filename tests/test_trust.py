"""docs/trust.md tells of every promise, in figures that were measured."""

import json

from tests import evidence, trust
from tests.evidence import Evidence

JUNIT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" timestamp="2026-11-21T12:35:13.677646+02:00" hostname="secret">
<properties><property name="host" value="2 CPUs"/></properties>
<testcase classname="tests.faults.test_kill" name="test_kill[bridge-1]" time="1.5"><properties>
<property name="left_after_s" value="0.25"/><property name="left_after_s" value="0.75"/>
<property name="verdict" value="ok"/></properties></testcase>
<testcase classname="tests.faults.test_kill" name="test_kill[ovs]" time="0"><skipped message="no ovs"/></testcase>
<testcase classname="tests.faults.test_kill" name="test_other" time="2"><failure message="x">y</failure></testcase>
</testsuite></testsuites>
"""


def part(test, when="2026-11-21T10:00:00+00:00", outcome="passed", **figures):
    return Evidence(test, outcome, when, "2 CPUs", 1.0, figures)


def test_junit_xml_gives_each_case_with_its_figures_and_not_the_name_of_the_host(tmp_path):
    (tmp_path / "faults.xml").write_text(JUNIT)
    first, second, third = evidence.of_junit(tmp_path / "faults.xml")
    assert (first.test, first.outcome, first.took_s) == ("tests/faults/test_kill.py::test_kill", "passed", 1.5)
    assert (first.when, first.where) == ("2026-11-21T10:35:13+00:00", "2 CPUs")
    assert first.figures == {"left_after_s": [0.25, 0.75], "verdict": ["ok"]}
    assert (second.outcome, third.outcome) == ("skipped", "failed")
    assert third.test.endswith("::test_other")


def test_what_a_part_of_the_soak_measured_is_kept_and_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "CACHE", tmp_path)
    assert evidence.read("soak:load") is None
    evidence.write(part("soak:load", skew_ms=[1.0]))
    evidence.write(part("soak:load", skew_ms=[2.0]))
    (tmp_path / "faults.xml").write_text(JUNIT)
    assert evidence.read("soak:load").figures == {"skew_ms": [2.0]}
    assert sorted({each.test for each in evidence.all_kept()}) == [
        "soak:load",
        "tests/faults/test_kill.py::test_kill",
        "tests/faults/test_kill.py::test_other",
    ]


def test_figures_of_a_file_are_those_of_its_tests_in_its_last_run_only():
    found = [
        part("tests/x.py::test_a", left_s=[1.0]),
        part("tests/x.py::test_b", left_s=[3.0], outcome="failed"),
        part("tests/x.py::test_a", when="2026-11-20T10:00:00+00:00", left_s=[99.0]),
        part("tests/xyz.py::test_a", left_s=[50.0]),
    ]
    told = trust.taken_in({}, found, {"tests/x.py"})["tests/x.py"]
    assert told["figures"] == {"left_s": [1.0, 3.0]}
    assert (told["passed"], told["failed"], told["skipped"]) == (1, 1, 0)


def test_older_evidence_replaces_no_newer_one_and_what_holds_no_promise_is_dropped():
    new, old = part("soak:x", n=[2.0]), part("soak:x", when="2020-01-01T00:00:00+00:00", n=[1.0])
    measured = trust.taken_in({}, [new], {"soak:x"})
    assert trust.taken_in(measured, [old], {"soak:x"}) == measured
    assert trust.taken_in(measured, [], {"soak:x"}) == measured
    assert trust.taken_in(measured, [], {"soak:y"}) == {}


def test_a_page_made_again_changes_nothing_but_between_its_marks():
    promises = {"Load": [{"promise": "Pairs\ncome | go", "tests": ["soak:x", "soak:never-run"]}]}
    found = [part("soak:x", left_after_s=[0.5, 0.25, 1.0], skew_ms=[4.0], verdict=["ok", "invalid"], rate_bps=[9.4e9])]
    measured = trust.taken_in({}, found, {"soak:x"})
    text = f"before\n{trust.BEGIN}old{trust.END}after\n"
    made = trust.page(text, promises, measured)
    assert made.startswith("before\n")
    assert made.endswith("after\n")
    assert "old" not in made
    assert trust.page(made, promises, measured) == made
    first, second = [line for line in made.splitlines() if "soak" in line]
    assert first == (
        "| Pairs come \\| go | `tests.soak --part x` | left after 0.5 s (0.25 to 1, n = 3)<br>rate 9,400,000,000 bit/s"
        "<br>skew 4 ms<br>verdict: ok, invalid | 2026-11-21; 2 CPUs; 1 passed |"
    )
    assert second == "|  | `tests.soak --part never-run` | – | not measured yet |"


def test_figures_of_one_kind_are_told_together_and_of_many_texts_a_few():
    figures = {"truth/netns": [0.5], "truth/docker": [1.5], "killed_in": list("abcdef")}
    measured = trust.taken_in({}, [part("soak:x", **figures)], {"soak:x"})
    made = trust.page(trust.BEGIN + trust.END, {"Load": [{"promise": "Much", "tests": ["soak:x"]}]}, measured)
    assert "| killed in: a, b, c, d and 2 more<br>truth 1 (0.5 to 1.5, n = 2) |" in made


def test_a_promise_that_was_never_measured_says_so():
    made = trust.page(
        trust.BEGIN + trust.END, {"Load": [{"promise": "Much", "tests": ["tests/x.py::test_a_is_b"]}]}, {}
    )
    assert "| Much | [x](../tests/x.py): a is b | – | not measured yet |" in made


def test_every_promise_has_a_test_and_every_fault_test_a_promise():
    assert trust.unheld() == set()
    assert trust.unpromised() == set()


def test_the_page_is_what_promises_and_figures_make_of_it():
    measured = json.loads(trust.MEASURED.read_text())
    assert trust.page(trust.PAGE.read_text(), trust.promises(), measured) == trust.PAGE.read_text()
    assert set(measured) <= trust.named()
