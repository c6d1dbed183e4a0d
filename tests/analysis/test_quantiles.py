"""Percentiles, their intervals and their change, against known answers; CDFs that keep what they show."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pairlab.analysis import quantiles
from pairlab.errors import AnalysisError, TooFewSamples

QS = (0.5, 0.9, 0.99)


def clustered(random, repetitions, flows, *, between=0.1, within=0.4, level=0.0):
    """Log-normal flows whose repetitions drift: values and labels."""
    drift = random.normal(level, between, (repetitions, 1))
    values = np.exp(drift + random.normal(0, within, (repetitions, flows)))
    return values.ravel(), np.repeat(np.arange(repetitions), flows)


def true_quantile(q, *, between=0.1, within=0.4):
    return np.exp(stats.norm.ppf(q) * np.hypot(between, within))


def frame(values, repetition, **columns):
    return pd.DataFrame({"driver": "ovs", "repetition": repetition, "fct_s": values, "status": "ok"} | columns)


# --- percentiles


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=80), st.floats(0.01, 0.99))
def test_the_value_is_numpys_quantile_of_all_flows(values, q):
    repetition = np.arange(len(values)) % 3
    if quantiles.too_few(len(values), q):
        with pytest.raises(TooFewSamples):
            quantiles.percentile(values, repetition, q)
    else:
        found = quantiles.percentile(values, repetition, q, resamples=50)
        assert found.value == pytest.approx(np.quantile(values, q), rel=1e-12, abs=1e-6)
        assert found.n == min(3, len(values))
        assert found.low <= found.value <= found.high


def test_the_value_is_numpys_whatever_the_repetitions_lengths_are():
    random = np.random.default_rng(5)
    values, repetition = random.lognormal(size=20_001), random.integers(0, 7, 20_001) ** 2
    for q in (0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999):
        assert quantiles.percentile(values, repetition, q).value == np.quantile(values, q)


def test_of_two_repetitions_that_are_each_one_value_the_interval_is_known():
    # Of two repetitions at ln 1 = 0 and ln e = 1, half the draws hold both: their lower median is 1. Of all draws
    # three in four give 0 and one gives 1: variance 3/16, times n / (n − 1) = 2; t(0.975, 1) = 12.7062.
    found = quantiles.percentile([1.0] * 5 + [np.e] * 5, [0] * 5 + [1] * 5, 0.5, resamples=200_000)
    assert np.log(found.high / found.value) == pytest.approx(12.7062 * np.sqrt(3 / 8), rel=0.01)
    assert found.n == 2


def test_the_interval_scales_with_the_unit_and_does_not_know_the_order_of_rows_or_the_names_of_repetitions():
    random = np.random.default_rng(2)
    values, repetition = clustered(random, 5, 200)
    found = np.array(quantiles.percentile(values, repetition, 0.9))
    in_ms = np.array(quantiles.percentile(1e3 * values, repetition, 0.9))
    assert in_ms[:3] == pytest.approx(1e3 * found[:3])
    order = random.permutation(len(values))
    assert tuple(quantiles.percentile(values[order], repetition[order], 0.9)) == tuple(found)
    assert tuple(quantiles.percentile(values, repetition * 10 + 3, 0.9)) == tuple(found)
    assert tuple(quantiles.percentile(values, np.array(list("abcde"))[repetition], 0.9)) == tuple(found)


def test_repetitions_that_do_not_differ_leave_no_doubt():
    values = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 4)
    assert quantiles.percentile(values, np.repeat(range(4), 5), 0.5) == (3.0, 3.0, 3.0, 4)


def test_a_higher_confidence_gives_the_wider_interval_by_students_quantiles():
    values, repetition = clustered(np.random.default_rng(2), 4, 100)
    narrow, wide = (quantiles.percentile(values, repetition, 0.5, confidence=c) for c in (0.8, 0.99))
    told = stats.t.ppf(0.995, 3) / stats.t.ppf(0.9, 3)
    assert np.log(wide.high / wide.value) / np.log(narrow.high / narrow.value) == pytest.approx(told)


def test_values_below_zero_have_an_interval_around_the_value():
    random = np.random.default_rng(3)
    values, repetition = random.normal(-5, 1, 400), np.repeat(range(4), 100)
    found = quantiles.percentile(values, repetition, 0.5)
    assert found.high - found.value == pytest.approx(found.value - found.low)
    assert found.low < -5 < found.high


COVERED = [
    # repetitions, flows of each, q, between, least and most share of intervals that may hold it
    (3, 100, 0.5, 0.1, 0.90, 0.99),
    (4, 100, 0.5, 0.1, 0.91, 0.98),
    (4, 100, 0.9, 0.1, 0.91, 0.98),
    (4, 400, 0.99, 0.0, 0.90, 0.98),
    (5, 100, 0.5, 0.4, 0.91, 0.98),
    (5, 400, 0.95, 0.1, 0.90, 0.98),
    (10, 50, 0.5, 0.1, 0.92, 0.98),
    (10, 150, 0.99, 0.1, 0.88, 0.98),
]


@pytest.mark.parametrize(("repetitions", "flows", "q", "between", "least", "most"), COVERED)
def test_intervals_hold_the_quantile_about_as_often_as_they_say(repetitions, flows, q, between, least, most):
    random, held, times = np.random.default_rng(11), 0, 500
    for _ in range(times):
        found = quantiles.percentile(*clustered(random, repetitions, flows, between=between), q, resamples=200)
        held += found.low <= true_quantile(q, between=between) <= found.high
    assert least <= held / times <= most


def test_one_repetition_has_a_percentile_and_no_interval():
    found = quantiles.percentile(np.arange(101.0), np.zeros(101), 0.9)
    assert (found.value, found.n) == (90.0, 1)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(("q", "needed"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000), (0.01, 100)])
def test_a_percentile_needs_a_flow_beyond_it(q, needed):
    values = np.arange(1.0, needed + 1)
    assert quantiles.percentile(values, values % 2, q).n == 2
    told = f"p{100 * q:g} needs at least {needed} flows, and there are {needed - 1}: measure more"
    with pytest.raises(TooFewSamples, match=told):
        quantiles.percentile(values[1:], values[1:] % 2, q)


def test_what_is_not_a_number_a_share_or_a_label_is_an_error_in_words():
    with pytest.raises(AnalysisError, match="leave failed flows out by name"):
        quantiles.percentile([1.0, np.nan, 2.0], [0, 0, 1], 0.5)
    with pytest.raises(AnalysisError, match=r"a share between 0 and 1, such as 0.99, not 99"):
        quantiles.percentile([1.0, 2.0], [0, 1], 99)
    with pytest.raises(AnalysisError, match=r"confidence is a share between 0 and 1, such as 0.95, not 95"):
        quantiles.percentile([1.0, 2.0], [0, 1], 0.5, confidence=95)
    with pytest.raises(AnalysisError, match="2 values have 3 labels"):
        quantiles.percentile([1.0, 2.0], [0, 1, 1], 0.5)
    with pytest.raises(TooFewSamples, match="there are 0"):
        quantiles.percentile([], [], 0.5)


# --- tables of percentiles


def test_the_table_has_for_each_group_what_percentile_gives():
    random = np.random.default_rng(4)
    parts = {driver: clustered(random, 4, 60, level=level) for driver, level in (("ovs", 0.0), ("bridge", 1.0))}
    flows = pd.concat([frame(*part, driver=driver) for driver, part in parts.items()]).sample(frac=1, random_state=1)
    found = quantiles.percentiles(flows, ["driver"], "fct_s", QS)
    assert list(found["driver"]) == ["bridge"] * 3 + ["ovs"] * 3
    for row in found.itertuples():
        assert (row.value, row.low, row.high, row.repetitions) == quantiles.percentile(*parts[row.driver], row.q)
        assert (row.flows, row.failed_flows, row.gap, row.confidence) == (240, 0, "", 0.95)


def test_categories_as_of_chosen_columns_give_the_same_table():
    flows = frame(*clustered(np.random.default_rng(4), 4, 60), key="x").assign(
        pairs=np.tile([10, 50], 120), driver=np.repeat(["ovs", "bridge"], 120)
    )
    flows["key"] = flows["driver"] + flows["pairs"].astype(str) + flows["repetition"].astype(str)
    once = flows.astype(dict.fromkeys(["driver", "pairs", "repetition", "key", "status"], "category"))
    by = ["driver", "pairs"]
    plain = quantiles.percentiles(flows, by, "fct_s", QS)
    pd.testing.assert_frame_equal(quantiles.percentiles(once, by, "fct_s", QS), plain, check_dtype=False)
    assert len(plain) == 12


def test_rows_in_any_order_give_the_same_table(monkeypatch):
    flows = frame(*clustered(np.random.default_rng(4), 4, 60), role=np.tile(["mouse", "mouse", "elephant"], 80))
    told = quantiles.percentiles(flows, ["driver", "role"], "fct_s", QS)
    monkeypatch.setattr(quantiles, "_SCATTERED", 10)
    pd.testing.assert_frame_equal(quantiles.percentiles(flows, ["driver", "role"], "fct_s", QS), told)
    assert list(told["flows"]) == [80] * 3 + [160] * 3


def test_failed_flows_are_counted_and_where_they_could_hide_the_percentile_it_is_a_gap():
    flows = frame(np.arange(1.0, 1001), np.repeat(range(5), 200))
    flows.loc[flows.index[-20:], ["status", "fct_s"]] = ["failed", np.nan]
    found = quantiles.percentiles(flows, ["driver"], "fct_s", (0.5, 0.98, 0.99))
    assert list(found["failed_flows"]) == [20] * 3
    assert list(found["flows"]) == [1000] * 3
    assert found["value"][0] == np.quantile(np.arange(1.0, 981), 0.5)
    assert found["gap"][1] == ""
    assert found["gap"][2] == "20 of 1000 flows failed, more than the 1 % that lie beyond p99: it is not known"
    assert np.isnan(found.loc[2, ["value", "low", "high"]].astype(float)).all()


def test_what_a_failed_flow_measured_before_it_failed_is_not_used():
    flows = frame([1.0, 2.0, 3.0, 900.0] * 10, np.repeat(range(4), 10))
    flows.loc[flows["fct_s"] == 900, "status"] = "failed"
    found = quantiles.percentiles(flows, ["driver"], "fct_s", (0.5,))
    assert (found["value"][0], found["failed_flows"][0]) == (2.0, 10)


def test_too_few_flows_and_a_tool_that_does_not_tell_are_gaps_in_words():
    flows = pd.concat(
        [
            frame(np.arange(1.0, 51), np.repeat(range(5), 10)),
            frame([np.nan] * 10, range(10), driver="none"),
            frame([np.nan, 2.0], [0, 1], driver="some", status=["ok", "ok"]),
            frame([np.nan] * 3, range(3), driver="all failed", status="failed"),
        ]
    )
    found = quantiles.percentiles(flows, ["driver"], "fct_s", (0.5, 0.99)).set_index(["driver", "q"])["gap"]
    assert found["ovs", 0.5] == ""
    assert found["ovs", 0.99] == "p99 needs at least 100 flows, and there are 50: measure more repetitions or pairs"
    assert found["none", 0.5] == "10 of 10 flows are ok and have no fct_s: their tool does not tell it"
    assert found["some", 0.5] == "1 of 2 flows are ok and have no fct_s: their tool does not tell it"
    assert found["all failed", 0.5].startswith("3 of 3 flows failed")


def test_runs_that_claim_the_same_repetition_are_not_pooled():
    flows = frame(np.arange(1.0, 21), np.repeat(range(2), 10), key=np.tile(["a", "b"], 10), pairs=np.tile([1, 2], 10))
    with pytest.raises(AnalysisError, match=r"several runs claim to be repetition 0 of ovs: .*Name what sets them"):
        quantiles.percentiles(flows, ["driver"], "fct_s")
    assert len(quantiles.percentiles(flows, ["driver", "pairs"], "fct_s", (0.5,))) == 2


def test_a_column_that_there_is_not_is_named():
    with pytest.raises(AnalysisError, match="there is no column pairs; there are: driver, repetition"):
        quantiles.percentiles(frame([1.0], [0]), ["driver", "pairs"], "fct_s")


# --- percent change


def test_twice_as_long_is_a_hundred_percent_and_paired_it_is_certain():
    values, repetition = clustered(np.random.default_rng(6), 5, 200)
    found = quantiles.percent_change(values, repetition, 2 * values, repetition, q=0.9, paired=True)
    assert found == pytest.approx((100, 100, 100, 5))
    apart = quantiles.percent_change(values, repetition, 2 * values, repetition, q=0.9)
    assert apart.value == pytest.approx(100)
    assert apart.low < 90
    assert apart.high > 110


def test_a_change_and_its_reverse_undo_each_other():
    random = np.random.default_rng(7)
    first, second = clustered(random, 5, 100), clustered(random, 4, 150, level=0.3)
    there, back = (quantiles.percent_change(*a, *b, q=0.9) for a, b in ((first, second), (second, first)))
    assert (1 + there.value / 100) * (1 + back.value / 100) == pytest.approx(1)
    assert (1 + there.low / 100) * (1 + back.high / 100) == pytest.approx(1, rel=0.1)
    assert (there.n, back.n) == (4, 4)


@pytest.mark.parametrize("paired", [False, True])
def test_intervals_of_a_change_hold_it_about_as_often_as_they_say(paired):
    random, held, times = np.random.default_rng(12), 0, 400
    for _ in range(times):
        drift = np.repeat(random.normal(0, 0.2, 5), 100)  # both sides' own: a sweep's slow drift
        repetition = np.repeat(range(5), 100)
        first, second = (
            np.exp(level + drift * paired + np.repeat(random.normal(0, 0.1, 5), 100) + random.normal(0, 0.4, 500))
            for level in (0, 0.25)
        )
        found = quantiles.percent_change(first, repetition, second, repetition, q=0.9, paired=paired, resamples=200)
        held += found.low <= 100 * np.expm1(0.25) <= found.high
    assert 0.91 <= held / times <= 0.985


def test_only_repetitions_that_both_sides_have_are_paired():
    values, repetition = clustered(np.random.default_rng(8), 6, 100)
    odd = repetition != 0
    found = quantiles.percent_change(values, repetition, 3 * values[odd], repetition[odd], q=0.5, paired=True)
    assert found == pytest.approx((200, 200, 200, 5))
    with pytest.raises(TooFewSamples, match="nothing is paired"):
        quantiles.percent_change(values, repetition, values, repetition + 10, q=0.5, paired=True)


def test_a_change_to_zero_is_minus_a_hundred_and_from_zero_it_has_no_percentage():
    values, repetition = clustered(np.random.default_rng(9), 3, 20)
    zero = np.zeros(60)
    found = quantiles.percent_change(values, repetition, zero, repetition, q=0.5)
    assert found.value == -100
    assert (found.low, found.high) == pytest.approx((-100, -100))
    with pytest.raises(AnalysisError, match="the quantile before is 0"):
        quantiles.percent_change(zero, repetition, values, repetition, q=0.5)


def test_a_change_of_too_few_flows_says_on_which_side_and_one_repetition_has_no_interval():
    values, repetition = clustered(np.random.default_rng(9), 2, 60)
    with pytest.raises(TooFewSamples, match="after: p99 needs at least 100 flows, and there are 60"):
        quantiles.percent_change(values, repetition, values[:60], repetition[:60])
    found = quantiles.percent_change(values, repetition, 2 * values[:60], repetition[:60], q=0.5)
    assert np.isnan([found.low, found.high]).all()
    assert found.n == 1


# --- CDFs

SHOWN = np.linspace(0.001, 0.999, 4999)


def off(values, line):
    """By what share of itself any shown quantile moves, but for what floating point itself is off by."""
    exact, drawn = np.quantile(values, SHOWN), np.interp(SHOWN, line["share"], line["value"])
    moved = np.maximum(np.abs(drawn - exact) - 1e-12 * np.abs(values).max(), 0)
    return np.max(moved / np.maximum(np.abs(exact), 1e-300))


def test_a_line_of_few_values_is_the_empirical_cdf_itself():
    line = quantiles.cdf([3.0, 1.0, 2.0, 2.0])
    assert line.to_dict("list") == {"value": [1.0, 2.0, 2.0, 3.0], "share": [0, 1 / 3, 2 / 3, 1]}
    assert quantiles.cdf([7.0]).to_dict("list") == {"value": [7.0, 7.0], "share": [0.0, 1.0]}


DRAWN = {
    "log-normal": lambda random, n: random.lognormal(-2, 0.6, n),
    "wide log-normal": lambda random, n: random.lognormal(0, 3, n),
    "heavy tail": lambda random, n: random.pareto(0.5, n),
    "ties": lambda random, n: random.poisson(3, n).astype(float),
    "mostly zero": lambda random, n: random.poisson(0.05, n) * random.lognormal(size=n),
    "both signs": lambda random, n: random.normal(0, 1, n),
    "two far apart": lambda random, n: np.where(random.random(n) < 0.3, 1e-3, 1e3) * random.lognormal(0, 0.01, n),
    "one value": lambda random, n: np.full(n, 0.25),
    "a clock's ticks": lambda random, n: np.round(random.lognormal(-2, 0.6, n), 3),
}


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(DRAWN)),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(2, 60_000),
    scale=st.sampled_from([1.0, 1e-9, -3.0, 1e12]),
)
def test_a_reduced_cdf_moves_no_shown_quantile_by_more_than_a_thousandth(kind, seed, count, scale):
    values = scale * DRAWN[kind](np.random.default_rng(seed), count)
    line = quantiles.cdf(values, points=100)
    assert off(values, line) <= 1e-3
    assert (line["value"].iloc[0], line["value"].iloc[-1]) == (values.min(), values.max())
    assert (line["share"].iloc[0], line["share"].iloc[-1]) == (0, 1)
    assert (np.diff(line["value"]) >= 0).all()
    assert (np.diff(line["share"]) > 0).all()


def test_a_million_flows_become_some_hundred_points():
    values = np.random.default_rng(1).lognormal(-2, 0.5, 1_000_000)
    line = quantiles.cdf(values)
    assert 50 < len(line) < 500
    assert off(values, line) <= 1e-3


def test_the_cdf_of_each_group_tells_what_failed_in_it():
    flows = pd.concat(
        [
            frame([1.0, 2.0, 3.0, np.nan], [0, 0, 1, 1], status=["ok", "ok", "ok", "failed"]),
            frame([5.0, 6.0], [0, 1], driver="bridge"),
            frame([np.nan], [0], driver="none", status="failed"),
        ]
    )
    found = quantiles.cdf_by(flows, ["driver"], "fct_s")
    assert list(found["driver"]) == ["bridge"] * 2 + ["ovs"] * 3
    assert list(found["value"]) == [5, 6, 1, 2, 3]
    assert list(found["share"]) == [0, 1, 0, 0.5, 1]
    assert list(found["flows"]) == [2, 2, 4, 4, 4]
    assert list(found["failed_flows"]) == [0, 0, 1, 1, 1]
    assert list(found["repetitions"]) == [2] * 5


def test_percentiles_and_cdf_in_one_pass_are_the_same():
    random = np.random.default_rng(4)
    flows = pd.concat([frame(*clustered(random, 4, 60), driver=driver) for driver in ("ovs", "bridge")])
    table, lines = quantiles.percentiles_and_cdf(flows, ["driver"], "fct_s", QS, confidence=0.9, points=50)
    pd.testing.assert_frame_equal(table, quantiles.percentiles(flows, ["driver"], "fct_s", QS, confidence=0.9))
    pd.testing.assert_frame_equal(lines, quantiles.cdf_by(flows, ["driver"], "fct_s", points=50))


def test_a_cdf_of_nothing_is_an_error():
    with pytest.raises(TooFewSamples, match="at least one value"):
        quantiles.cdf([])
    with pytest.raises(AnalysisError, match="no finite value"):
        quantiles.cdf([1.0, np.inf])
    with pytest.raises(TooFewSamples, match="no flow has a fct_s"):
        quantiles.cdf_by(frame([np.nan], [0], status="failed"), ["driver"], "fct_s")
