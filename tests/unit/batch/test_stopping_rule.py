"""Repetition until an estimate is known: the rule, what its intervals hold, and a sweep that follows it."""

import math
from datetime import UTC, datetime

import numpy as np
import pytest
import yaml

from pairlab import store
from pairlab.batch import runner
from pairlab.batch.stopping_rule import (
    ESTIMATES,
    Until,
    expected,
    goes_on,
    half_width,
    lack,
    shortfall,
    taken,
    value_of,
)
from pairlab.errors import BadSweep, TestbedError, Unavailable
from pairlab.measurement import measure
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import SHARE
from pairlab.store.dataset import load_runs
from tests.support.synthetic import transacting

WITHIN_5 = Until(estimate="total_throughput_bps", within=0.05, at_least=3, at_most=20)


def run_of(spec, rate_bps):
    rows = [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": rate_bps}]
    return Run(spec, "ok", (), datetime.now(UTC), flows=table("flows", rows))


# --- the rule


def test_the_half_width_is_the_longer_side_of_students_interval_as_a_share_of_the_mean():
    # t(0.975, 2) = 4.302653; of 9, 10, 11 the standard error is 1/sqrt(3), and its share of the mean a tenth of that
    assert half_width([9, 10, 11], 0.95) == pytest.approx(math.exp(4.302653 / math.sqrt(3) / 10) - 1)
    assert half_width([0.9, 0.9, 0.9], 0.95, SHARE) == 0
    # A share is farther from zero than from one: of its logit, log 9, t · error / 0.09 is taken away.
    low = 1 / (1 + math.exp(4.302653 * 0.05 / math.sqrt(3) / 0.09) / 9)
    assert half_width([0.85, 0.95, 0.9], 0.95, SHARE) == pytest.approx(1 - low / 0.9)
    assert half_width([0, 0, 0], 0.95) == 0
    assert half_width([10, 10], 0.95) == math.inf  # two have no interval
    assert half_width([10], 0.95) == half_width([], 0.95) == math.inf


@pytest.mark.parametrize(
    ("values", "tried", "more"),
    [
        ([], 0, True),
        ([10, 10], 2, True),  # at_least
        ([10, 10, 10], 3, False),
        ([9, 10, 11], 3, True),
        ([10, 10], 3, True),  # one had no value: it is made up for
        ([10, 10, 10], 4, False),
        ([], 3, False),  # none had: there is no sense in trying on
        ([9, 11] * 10, 20, False),  # at_most
        ([9, 11] * 9, 18, True),
    ],
)
def test_a_cell_goes_on_until_its_estimate_is_known(values, tried, more):
    assert goes_on(WITHIN_5, values, tried) is more
    assert (expected(WITHIN_5, values, tried) > tried) is more


def test_a_fixed_number_is_a_fixed_number():
    assert [goes_on(2, [1e9, 2e9][:tried], tried) for tried in range(4)] == [True, True, False, False]
    assert expected(2, [], 0) == 2


def test_how_many_it_will_take_follows_from_how_they_spread():
    assert expected(WITHIN_5, [], 0) == 3
    assert expected(WITHIN_5, [9, 10, 11], 3) == 20  # 24.8 % after 3: more than 20 are wanted
    close = [9.7, 10, 10.3]
    wanted = 3 * (half_width(close, 0.95) / 0.05) ** 2
    assert expected(WITHIN_5, close, 3) == math.ceil(wanted) == 8


def test_what_is_not_known_at_the_end_is_reported_with_its_half_width():
    assert shortfall(WITHIN_5, [8, 12] * 10, 20) == (
        "total_throughput_bps is ± 10.1 % after 20 repetitions, of which 20 have a value, and was to be within 5 %"
    )
    assert shortfall(WITHIN_5, [8], 20).startswith("total_throughput_bps is not known after 20 repetitions, of which 1")
    assert shortfall(WITHIN_5, [10, 10, 10], 3) == shortfall(3, [], 3) == shortfall(WITHIN_5, [], 3) == ""


def test_each_estimate_is_what_its_name_says():
    rows = [
        {"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 3e9, "fct_s": 1.0, "retransmits": 4},
        {"pair": 1, "flow": 0, "status": "ok", "throughput_bps": 1e9, "fct_s": 2.0, "retransmits": 5},
        {"pair": 2, "flow": 0, "status": "failed", "error": "it broke"},
    ]
    run = Run(Spec(pairs=3), "ok", flows=table("flows", rows))
    found = {name: value_of(run, Until(estimate=name, within=0.1)) for name in ESTIMATES}
    assert list(found.pop("median_fct_s")) == [1.0, 2.0, math.inf]
    assert taken(run, "median_fct_s") == 2.0  # the failed flow took longer than that
    assert found == {
        "total_throughput_bps": 4e9,
        "jain_index": pytest.approx(16 / (3 * 10)),  # the failed client got nothing
        "retransmits": 9,
        "transactions_per_s": None,  # these flows were no transactions
        "latency_p50_s": None,
        "latency_p99_s": None,
        "service_demand_s": None,
        "mean_fct_s": None,
        "max_fct_s": None,
    }
    bare = Run(Spec(), "ok", flows=table("flows", [{"pair": 0, "flow": 0, "status": "ok", "throughput_bps": 1e9}]))
    assert value_of(bare, Until(estimate="retransmits", within=0.1)) is None
    assert value_of(Run(Spec(), "invalid", ("apart",), flows=run.flows), WITHIN_5) is None


def test_latencies_are_those_of_a_run_of_transactions_and_lost_ones_hide_them():
    rules = {
        name: Until(estimate=name, within=0.1) for name in ("transactions_per_s", "latency_p50_s", "latency_p99_s")
    }
    found = {name: value_of(transacting({2e-5: 980, 9e-4: 20}), rule) for name, rule in rules.items()}
    assert found == {"transactions_per_s": 1000, "latency_p50_s": 2e-5, "latency_p99_s": 9e-4}
    assert value_of(transacting({2e-5: 980}, lost=20), rules["latency_p99_s"]) is None
    assert lack(rules["latency_p50_s"], Spec(workload="rr")) == ""
    assert "latency_p50_s is of requests: take a workload that sends them (rr)" in lack(rules["latency_p50_s"], Spec())


def test_equal_latencies_of_whole_microseconds_are_no_nearer_than_half_of_one():
    rule = Until(estimate="latency_p50_s", within=0.05, at_least=3, at_most=20)
    assert goes_on(rule, [4e-6] * 5, 5)
    assert "latency_p50_s is ± 12.5 % after 5 repetitions" in shortfall(rule, [4e-6] * 5, 5)
    assert not goes_on(rule, [4.001e-6, 4.002e-6, 4.0015e-6], 3)


def test_a_median_goes_by_all_flows_of_all_repetitions_as_it_is_reported():
    rule = Until(estimate="median_fct_s", within=0.02, at_least=3, at_most=20)
    drawn = [np.sort(np.random.default_rng(at).lognormal(0, 0.3, 20)) for at in range(12)]
    value, low, high, _ = quantiles.percentile(Clusters(np.arange(12), tuple(drawn)), 0.5).estimate(0.95)
    width = max(high - value, value - low) / value
    assert f"median_fct_s is ± {100 * width:.1f} % after 12 repetitions" in shortfall(rule, drawn, 12)
    assert goes_on(rule, drawn, 12)
    assert not goes_on(rule.model_copy(update={"within": 1.01 * width}), drawn, 12)
    hidden = np.array([1.0, math.inf, math.inf])  # more than half of the flows failed
    assert "median_fct_s is not known" in shortfall(rule, [hidden] * 3, 3)


# --- what its intervals hold


@pytest.mark.parametrize(("at_least", "bound"), [(3, 0.86), (5, 0.89)])
@pytest.mark.parametrize("variation", [0.05, 0.1])
def test_intervals_after_stopping_hold_nearly_what_they_should(at_least, bound, variation, record_property):
    """500 cells each; the standard error of the coverage is 1 to 1.3 %."""
    rule = Until(estimate="total_throughput_bps", within=0.05, at_least=at_least, at_most=20)
    random = np.random.default_rng(20)
    held, repetitions = 0, 0
    for _ in range(500):
        drawn = random.normal(10e9, variation * 10e9, rule.at_most)
        tried = 0
        while goes_on(rule, drawn[:tried], tried):
            tried += 1
        width = half_width(drawn[:tried], rule.confidence) * abs(drawn[:tried].mean())
        held += abs(drawn[:tried].mean() - 10e9) <= width
        repetitions += tried
    record_property(f"coverage, at_least {at_least}, variation {variation}", held / 500)
    record_property(f"mean repetitions, at_least {at_least}, variation {variation}", repetitions / 500)
    assert bound < held / 500 < 0.98


# --- a sweep that follows it


@pytest.fixture
def load(tmp_path, any_host, runs_dir):
    def load(**keys):
        file = tmp_path / "sweep.yaml"
        grid = {"driver": ["bridge", "host"], "duration_s": 2, "workload": "flowgen"}
        file.write_text(yaml.safe_dump({"name": "small", "seed": 3, "experiments": {"throughput": grid}, **keys}))
        return runner.load(file)

    return load


UNTIL = {"estimate": "total_throughput_bps", "within": 0.05, "at_least": 3, "at_most": 8}


class Executor:
    """Stores a run whose rate spreads by driver: bridge always gives the same, host more and less in turn."""

    def __init__(self, spread=0.5, trouble=lambda spec: None):
        self.given, self.spread, self.trouble = [], spread, trouble

    def __call__(self, spec):
        self.given.append(spec)
        if error := self.trouble(spec):
            raise error
        rate_bps = 1e9 if spec.driver == "bridge" else 1e9 * (1 + self.spread * (-1) ** spec.repetition)
        return store.write(run_of(spec, rate_bps))


def counted(given):
    return {driver: [spec.repetition for spec in given if spec.driver == driver] for driver in ("bridge", "host")}


def test_each_cell_is_repeated_until_its_own_estimate_is_known(load):
    executor, reports = Executor(), []
    tally = runner.run(load(until=UNTIL), execute=executor, tell=reports.append)
    assert counted(executor.given) == {"bridge": [0, 1, 2], "host": list(range(8))}
    assert (tally.done, tally.good) == (11, True)
    (told,) = tally.imprecise
    assert told.startswith("throughput: flowgen over host, 2 pairs, 2 s (netns): total_throughput_bps is ± ")
    assert told.endswith(" % after 8 repetitions, of which 8 have a value, and was to be within 5 %")
    assert [report.number for report in reports] == list(range(1, 12))
    assert (reports[0].total, reports[0].most) == (6, 16)
    assert (reports[5].total, reports[5].most) == (11, 11)  # after 3 of each: bridge is known, host will need all
    assert reports[-1].left_s == 0
    assert reports[5].left_s > reports[6].left_s > reports[-2].left_s > 0
    assert len(load_runs(sweep="small", environment="all")) == 11


def test_blocks_visit_each_cell_that_still_needs_it_once_and_are_shuffled_by_the_seed(load):
    def order(seed):
        executor = Executor(0.02)
        runner.run(load(until={**UNTIL, "within": 0.001}, seed=seed), execute=executor)
        return [(spec.driver, spec.repetition) for spec in executor.given]

    one = order(3)
    assert [repetition for _, repetition in one] == sorted(repetition for _, repetition in one)
    assert one[:6] == [(spec.driver, spec.repetition) for spec in runner.cells(load(until=UNTIL))]


def test_it_goes_on_where_it_was_and_decides_as_it_would_have(load):
    plan = load(until=UNTIL)
    whole = Executor()
    runner.run(plan, execute=whole)
    for spec in whole.given[7:]:
        store.clean_up(store.find(spec).path)
    rest, states = Executor(), []
    tally = runner.run(plan, execute=rest, tell=lambda report: states.append(report.state))
    assert rest.given == whole.given[7:]
    assert states == ["stored"] * 7 + ["done"] * 4
    assert tally.done == 11


def test_repetitions_that_failed_are_made_up_for(load):
    bad = lambda spec: TestbedError("it broke") if spec.repetition == 1 else None  # noqa: E731
    executor = Executor(0, bad)
    tally = runner.run(load(until=UNTIL), execute=executor)
    assert counted(executor.given) == {"bridge": [0, 1, 2, 3], "host": [0, 1, 2, 3]}
    assert (tally.done, len(tally.not_done), tally.imprecise) == (6, 2, [])


def test_a_cell_that_never_has_a_value_is_given_up_after_at_least(load, monkeypatch):
    def check(spec):
        if spec.driver == "host":
            raise Unavailable("no host here")

    monkeypatch.setattr(measure, "check", check)
    executor = Executor()
    tally = runner.run(load(until=UNTIL, unavailable="skip"), execute=executor)
    assert counted(executor.given) == {"bridge": [0, 1, 2], "host": []}
    assert (tally.done, tally.skipped, tally.imprecise, tally.good) == (3, 3, [], True)


def test_a_grid_may_have_its_own_rule_or_a_fixed_number(load):
    grids = [{"driver": "bridge", "repetitions": 2}, {"driver": "host", "until": {**UNTIL, "at_most": 4}}]
    executor = Executor()
    plan = load(repetitions=2, experiments={"throughput": [{"workload": "flowgen", **grid} for grid in grids]})
    runner.run(plan, execute=executor)
    assert counted(executor.given) == {"bridge": [0, 1], "host": [0, 1, 2, 3]}
    assert len(runner.cells(plan)) == 2 + 3
    assert len(runner.cells(plan, at_most=True)) == 2 + 4


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"until": {**UNTIL, "estimate": "speed"}}, "until.estimate: input should be 'total_throughput_bps', 'jain_"),
        ({"until": {**UNTIL, "within": 5}}, "until.within: input should be less than 1"),
        ({"until": {**UNTIL, "within": 0}}, "until.within: input should be greater than 0"),
        ({"until": {**UNTIL, "confidence": 95}}, "until.confidence: input should be less than 1"),
        ({"until": {**UNTIL, "at_least": 1}}, "until.at_least: input should be greater than or equal to 2"),
        ({"until": {**UNTIL, "at_least": 9}}, "until: at_most 8 is below at_least 9"),
        ({"until": {"within": 0.05}}, "until.estimate: field required"),
        ({"until": {**UNTIL, "most": 3}}, "unknown key 'until.most' (there are: estimate, within, confidence,"),
        ({"until": UNTIL, "repetitions": 3}, "give either repetitions or until, not both"),
        (
            {"experiments": {"throughput": {"until": UNTIL, "repetitions": 3}}},
            "experiments.throughput.0: give either repetitions or until, not both",
        ),
        ({"until": {**UNTIL, "estimate": "median_fct_s"}}, "median_fct_s is of flows with an end: give flow_bytes"),
    ],
)
def test_a_rule_that_is_wrong_is_refused_before_anything_is_measured(load, runs_dir, keys, told):
    with pytest.raises(BadSweep) as caught:
        runner.cells(load(**keys))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not runs_dir.exists()
