"""docs/trust.md lists every promise with what its tests measured."""

import json

import pytest

from tests.trust import __main__ as trust
from tests.trust import evidence
from tests.trust.evidence import Evidence

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
    known = trust.taken_in({}, found, {"tests/x.py"})["tests/x.py"]
    assert known["figures"] == {"left_s": [1.0, 3.0]}
    assert (known["passed"], known["failed"], known["skipped"]) == (1, 1, 0)


def test_older_evidence_replaces_no_newer_one_and_that_of_no_promise_is_dropped():
    new, old = part("soak:x", n=[2.0]), part("soak:x", when="2020-01-01T00:00:00+00:00", n=[1.0])
    measured = trust.taken_in({}, [new], {"soak:x"})
    assert trust.taken_in(measured, [old], {"soak:x"}) == measured
    assert trust.taken_in(measured, [], {"soak:x"}) == measured
    assert trust.taken_in(measured, [], {"soak:y"}) == {}


def rows(made, start):
    return [line for line in made.splitlines() if line.startswith(start)]


def page(promises, measured, summary=()):
    return trust.page(trust.BEGIN + trust.END, {"Load": promises}, measured, summary)


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
    never = "not measured: `tests.soak --part never-run`"
    assert rows(made, "| 1.1 | Pairs") == [
        f"| 1.1 | Pairs come \\| go | {never} | `tests.soak --part x` | 2026-11-21: 1 passed | A |"
    ]
    assert "|  |  |  | `tests.soak --part never-run` | not measured yet | – |" in made
    assert rows(made, "| 1.1 | left") == ["| 1.1 | left after | 0.5 s | 0.25 s | 1 s | 3 |"]
    assert rows(made, "| 1.1 | rate") == ["| 1.1 | rate | 9,400,000,000 bit/s |  |  | 1 |"]
    assert rows(made, "| 1.1 | verdict") == ["| 1.1 | verdict | ok, invalid |  |  | 2 |"]
    assert "| A | 2 CPUs |" in made


def test_values_of_one_kind_are_joined_and_of_many_texts_a_few_are_shown():
    figures = {"rate/netns": [0.5], "rate/docker": [1.5], "killed_in": list("abcdef")}
    made = page([{"promise": "Much", "tests": ["soak:x"]}], trust.taken_in({}, [part("soak:x", **figures)], {"soak:x"}))
    assert "| 1.1 | killed in | a, b, c, d and 2 more |  |  | 6 |" in made
    assert "| 1.1 | rate | 1 | 0.5 | 1.5 | 2 |" in made


def test_a_promise_that_was_never_measured_says_so():
    made = page([{"promise": "Much", "tests": ["tests/x.py::test_a_is_b"]}], {})
    assert "| 1.1 | Much | not measured: [x](../tests/x.py): a is b | [x](../tests/x.py): a is b |" in made
    assert "0 of 1 promises were kept" in made


def test_the_summary_counts_the_promises_kept_names_the_others_and_has_its_values():
    measured = trust.taken_in({}, [part("soak:x", verdict=["ok", "ok"], skew_ms=[1.0, 3.0])], {"soak:x"})
    promises = [{"promise": "Much", "tests": ["soak:x"], "requires": {"verdict": "ok"}}] * 2
    lines = [
        {"says": "Spread", "test": "soak:x", "figure": "skew_ms"},
        {"says": "Load", "test": "soak:y", "figure": "n"},
    ]
    made = page(promises, measured, lines)
    assert "2 of 2 promises were kept in the last run of their tests." in made
    assert "| Spread | 2 ms | 1 ms | 3 ms | 2 |" in made
    assert "| Load | not measured yet |  |  |  |" in made


@pytest.mark.parametrize(
    ("values", "requires", "outcome", "verdict"),
    [
        ({"verdict": ["ok"], "left_s": [5.0]}, {"verdict": "ok", "left_s": {"at_most": 5}}, "passed", trust.KEPT),
        ({"verdict": ["ok", "invalid"]}, {"verdict": "ok"}, "passed", "not kept: verdict invalid in PART"),
        ({"failed_flows": [0, 20]}, {"failed_flows": 0}, "passed", "not kept: failed flows 20 in PART"),
        ({"left_s": [4.0, 6.0]}, {"left_s": {"at_most": 5}}, "passed", "not kept: left 6 in PART"),
        ({}, {}, "failed", "not kept: 1 tests of PART failed"),
    ],
)
def test_a_promise_is_kept_if_its_tests_passed_and_measured_what_it_requires(values, requires, outcome, verdict):
    measured = trust.taken_in({}, [part("soak:x", outcome=outcome, **values)], {"soak:x"})
    assert trust.kept({"promise": "Much", "tests": ["soak:x"], "requires": requires}, measured) == verdict.replace(
        "PART", "`tests.soak --part x`"
    )


def test_every_promise_has_a_test_and_every_fault_test_a_promise():
    assert trust.unheld() == set()
    assert trust.unpromised() == set()


def test_the_page_is_made_from_promises_and_measured_values():
    measured = json.loads(trust.MEASURED.read_text())
    assert trust.page(trust.PAGE.read_text(), trust.promises(), measured, trust.summary()) == trust.PAGE.read_text()
    assert set(measured) <= trust.named()


def test_every_value_of_the_summary_and_every_required_one_was_measured():
    measured = json.loads(trust.MEASURED.read_text())
    for line in trust.summary():
        assert line["test"] in trust.named()
        assert trust._value_of(measured, line["test"], line["figure"])[0] != "not measured yet", line
    for section in trust.promises().values():
        for each in section:
            known = {name for test in each["tests"] if test in measured for name in measured[test]["figures"]}
            assert set(each.get("requires", {})) <= known, each["promise"]
