"""`pairlab compare BEFORE AFTER --fail-if`: what changed fails, what did not passes, what is not known is undecided."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.comparison import gate, sides
from pairlab.analysis.comparison.compute import compare
from pairlab.errors import BadInput, NoRuns, UnknownName
from pairlab.model.environment import Environment
from tests.support.runs import WHEN, made_up
from tests.support.simulated import likely

HERE = Environment("Model, 2 CPUs", "m", "6.1")


def measured(random, label, change=1.0, *, sessions, spread=0.01, drift=0.0, repetitions=4, root=None, pairs=1):
    """Runs on these occasions (in hours), each with a level of its own that drifts by so much, as a share."""
    runs = []
    for occasion, hours in enumerate(sessions):
        level = change * np.exp(drift * random.normal())
        for repetition in range(repetitions):
            at = WHEN + timedelta(hours=hours, seconds=20 * repetition)
            rate = 1e9 * level * np.exp(spread * random.normal())
            run = made_up(rate, at=at, environment=HERE, pairs=pairs, repetition=occasion * repetitions + repetition)
            run = store.with_label(run, label)
            block = f"{at:%Y-%m-%dT%H:%M:%S.%fZ} x/{repetition}"
            object.__setattr__(run, "facts", {**run.facts, "block": block})
            vars(run).pop("environment", None)
            runs.append(store.write(run, root) if root else run)
    return runs


def verdicts(runs, rule="throughput worse 5 %"):
    return [each.verdict for each in gate.judge(gate.Rule.of(rule), compare(runs, by="label", base="before"))]


@pytest.mark.whole
def test_over_sessions_a_change_of_nothing_passes_and_a_slowdown_fails_as_often_as_they_should():
    """The machine drifts between occasions, by as much as repetitions differ by within one."""
    random, trials = np.random.default_rng(6), 30
    passed = failed = wrongly = 0
    for _ in range(trials):
        before = measured(random, "before", sessions=range(6), drift=0.01)
        for change in (1.0, 0.9):
            found = verdicts([*before, *measured(random, "after", change, sessions=[30], drift=0.01)])
            passed += found == [gate.PASSES] and change == 1.0
            failed += found == [gate.FAILS] and change == 0.9
            wrongly += found == [gate.FAILS] and change == 1.0
    assert wrongly == 0
    assert passed >= 0.8 * trials
    assert failed >= 0.5 * trials


@pytest.mark.whole
@pytest.mark.parametrize("trials", [80, pytest.param(400, marks=pytest.mark.long)])
def test_a_change_of_just_the_bound_fails_in_a_case_of_twenty_at_most(trials):
    random = np.random.default_rng(7)
    failed = 0
    for _ in range(trials):
        before = measured(random, "before", sessions=range(4), drift=0.02)
        failed += verdicts([*before, *measured(random, "after", 0.95, sessions=[30], drift=0.02)]) == [gate.FAILS]
    assert likely(failed, trials, 0.025)


def test_one_after_the_other_on_one_occasion_each_decides_nothing():
    random = np.random.default_rng(1)
    runs = [*measured(random, "before", sessions=[0]), *measured(random, "after", 0.5, sessions=[5])]
    (found,) = gate.judge(gate.Rule.of("throughput worse 5 %"), compare(runs, by="label", base="before"))
    assert found.verdict == gate.UNDECIDED
    assert "measure both in turn, or the base on three occasions" in found.why


def test_within_ten_minutes_repetitions_are_the_samples():
    random = np.random.default_rng(2)
    for change, verdict in ((1.0, gate.PASSES), (0.8, gate.FAILS)):
        after = measured(random, "after", change, sessions=[0.05])
        assert verdicts([*measured(random, "before", sessions=[0]), *after]) == [verdict]


def test_where_others_load_leaves_it_undecided_no_number_of_repetitions_is_told_to_decide_it():
    random = np.random.default_rng(3)
    runs = [*measured(random, "before", sessions=[0.0]), *measured(random, "after", 0.8, sessions=[0.01])]
    (known,) = compare(runs, by="label", base="before")
    blurred = replace(known, found=replace(known.found, blur=(2.0, 2.0)))
    (alone, beside) = [gate.judge(gate.Rule.of("throughput worse 5 %"), [each])[0] for each in (known, blurred)]
    assert alone.verdict == gate.FAILS
    assert (beside.verdict, beside.repetitions_needed) == (gate.UNDECIDED, None)


def test_what_is_worse_depends_on_the_measure_and_a_rule_is_read_or_refused():
    assert gate.Rule.of("p99 worse 5 %") == gate.Rule("p99 worse 5 %", ("latency_p99_s", "fct_p99_s"), 5.0)
    assert gate.Rule.of("total_bps worse 2.5%").measures == ("total_bps",)
    with pytest.raises(BadInput, match="say a measure and by how much"):
        gate.Rule.of("p99 > 5")


@pytest.mark.whole
@pytest.mark.parametrize("trials", [25, pytest.param(100, marks=pytest.mark.long)])
def test_the_more_cells_are_looked_at_the_rarer_one_fails_by_chance(trials):
    random = np.random.default_rng(8)
    runs = lambda label, change, at: [  # noqa: E731 - ten cells of it
        run
        for pairs in range(1, 11)
        for run in measured(random, label, change, sessions=[at], spread=0.03, repetitions=3, pairs=pairs)
    ]
    failed = sum(gate.FAILS in verdicts([*runs("before", 1.0, 0), *runs("after", 0.95, 0.05)]) for _ in range(trials))
    assert failed <= 0.12 * trials  # uncorrected, one of ten fails in every fifth trial


def test_sides_are_labels_days_folders_packs_filters_and_sweeps(tmp_path):
    random, root = np.random.default_rng(3), tmp_path / "runs"
    before = measured(random, "before", sessions=[0], root=root)
    after = measured(random, "after", sessions=[48], root=root, pairs=2)
    store.remember_sweep("mine", [run.spec for run in after], root)

    def keys(name):
        return {run.measured_at for run in sides.side(name, root)}

    of_before, of_after = ({run.measured_at for run in its} for its in (before, after))
    assert keys("before") == keys(f"{WHEN:%Y-%m-%d}") == keys("pairs=1") == of_before
    assert keys("after") == keys("2024-05-02..2024-05-04") == keys("pairs=2,driver=bridge") == keys("mine") == of_after
    assert keys("mine/netns") == of_after
    pack = store.pack("throughput", root, tmp_path / "packed").path
    assert keys(str(pack)) == keys(str(root)) == of_before | of_after
    with pytest.raises(UnknownName, match=r"no label \(there are: after, before\), sweep \(there are: mine\)"):
        sides.side("nothing", root)
    with pytest.raises(NoRuns, match="no runs were measured 2001-01-01"):
        sides.side("2001-01-01", root)
    assert {run.environment.label for run in sides.both("pairs=1", "2024-05-03", root, {})} == {"pairs=1", "2024-05-03"}
    with pytest.raises(NoRuns, match="no runs of after have pairs=1"):
        sides.both("before", "after", root, {"pairs": "1"})
