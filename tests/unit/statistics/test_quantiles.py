"""Percentiles, their intervals and their change, against known answers."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from tests.support.simulated import lognormal


def percentile(values, repetition, q, confidence=0.95, **options):
    return quantiles.percentile(Clusters.of(values, repetition), q, **options).estimate(confidence)


def percent_change(before, labels_before, after, labels_after, q=0.99, paired=False, **options):
    sides = Clusters.of(before, labels_before), Clusters.of(after, labels_after)
    return quantiles.percent_change(*sides, q, paired=paired, **options).estimate()


def unbiased(values, q):
    return np.quantile(values, q, method="median_unbiased")


def true_quantile(q, *, between=0.1, within=0.4):
    return np.exp(stats.norm.ppf(q) * np.hypot(between, within))


# --- percentiles


@example([-5.0, -5.0, 1.0, 1.0, 2.0, -5.0], 0.5625)  # each repetition's is positive, and that of all is not
@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=80), st.floats(0.01, 0.99))
def test_the_value_is_numpys_quantile_of_all_flows(values, q):
    repetition = np.arange(len(values)) % 3
    if quantiles.too_few(len(values), q):
        with pytest.raises(TooFewSamples):
            percentile(values, repetition, q)
    else:
        found = percentile(values, repetition, q, resamples=50)
        assert found.value == pytest.approx(unbiased(values, q), rel=1e-9, abs=1e-6)
        assert found.n == min(3, len(values))
        assert len(values) < 3 or found.low <= found.value <= found.high


def test_the_value_is_numpys_whatever_the_repetitions_lengths_are():
    random = np.random.default_rng(5)
    values, repetition = random.lognormal(size=20_001), random.integers(0, 7, 20_001) ** 2
    for q in (0.001, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999):
        assert percentile(values, repetition, q).value == pytest.approx(unbiased(values, q), rel=1e-12)


def test_of_two_repetitions_that_are_each_one_value_the_error_is_known_and_there_is_no_interval():
    # Of two repetitions at ln 1 = 0 and ln e = 1, half the draws hold both: their lower median is 1. Of all draws
    # three in four give 0 and one gives 1: variance 3/16, times n / (n − 1) = 2.
    clusters = Clusters.of([1.0] * 5 + [np.e] * 5, [0] * 5 + [1] * 5)
    found = quantiles.percentile(clusters, 0.5, resamples=200_000)
    # Five flows lie beyond the median: the error is wider by the root of 1 + 1/5.
    assert found.error == pytest.approx(np.sqrt(3 / 8 * 6 / 5), rel=0.01)
    assert (found.n, found.df) == (2, 1)
    assert np.isnan(found.estimate()[1:3]).all()


def test_the_interval_scales_with_the_unit_and_does_not_know_the_order_of_rows_or_the_names_of_repetitions():
    random = np.random.default_rng(2)
    values, repetition = lognormal(random, 5, 200)
    found = np.array(percentile(values, repetition, 0.9))
    in_ms = np.array(percentile(1e3 * values, repetition, 0.9))
    assert in_ms[:3] == pytest.approx(1e3 * found[:3])
    order = random.permutation(len(values))
    assert tuple(percentile(values[order], repetition[order], 0.9)) == tuple(found)
    assert tuple(percentile(values, repetition * 10 + 3, 0.9)) == tuple(found)
    assert tuple(percentile(values, np.array(list("abcde"))[repetition], 0.9)) == tuple(found)


def test_repetitions_that_do_not_differ_leave_no_doubt():
    values = np.tile([1.0, 2.0, 3.0, 4.0, 5.0], 4)
    assert percentile(values, np.repeat(range(4), 5), 0.5) == pytest.approx((3.0, 3.0, 3.0, 4))


def test_a_higher_confidence_gives_the_wider_interval_by_students_quantiles():
    values, repetition = lognormal(np.random.default_rng(2), 4, 100)
    narrow, wide = (percentile(values, repetition, 0.5, confidence=c) for c in (0.8, 0.99))
    told = stats.t.ppf(0.995, 3) / stats.t.ppf(0.9, 3)
    assert np.log(wide.high / wide.value) / np.log(narrow.high / narrow.value) == pytest.approx(told)


def test_values_below_zero_have_an_interval_around_the_value():
    random = np.random.default_rng(3)
    values, repetition = random.normal(-5, 1, 400), np.repeat(range(4), 100)
    found = percentile(values, repetition, 0.5)
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


@pytest.mark.whole
@pytest.mark.parametrize(("repetitions", "flows", "q", "between", "least", "most"), COVERED)
def test_intervals_hold_the_quantile_about_as_often_as_they_say(repetitions, flows, q, between, least, most):
    random, held, times = np.random.default_rng(11), 0, 500
    for _ in range(times):
        found = percentile(*lognormal(random, repetitions, flows, between=between), q, resamples=200)
        held += found.low <= true_quantile(q, between=between) <= found.high
    assert least <= held / times <= most


def test_one_repetition_has_a_percentile_and_no_interval():
    found = percentile(np.arange(101.0), np.zeros(101), 0.9)
    assert (found.value, found.n) == (pytest.approx(unbiased(np.arange(101.0), 0.9)), 1)
    assert np.isnan([found.low, found.high]).all()


@pytest.mark.parametrize(("q", "needed"), [(0.5, 2), (0.9, 10), (0.95, 20), (0.99, 100), (0.999, 1000), (0.01, 100)])
def test_a_percentile_needs_a_flow_beyond_it(q, needed):
    values = np.arange(1.0, needed + 1)
    assert percentile(values, values % 2, q).n == 2
    told = f"p{100 * q:g} needs at least {needed} flows, and there are {needed - 1}: measure more"
    with pytest.raises(TooFewSamples, match=told):
        percentile(values[1:], values[1:] % 2, q)


def test_what_is_not_a_number_a_share_or_a_label_is_an_error_in_words():
    with pytest.raises(AnalysisError, match="a flow has no value: leave it out by name, or give one that failed"):
        percentile([1.0, np.nan, 2.0], [0, 0, 1], 0.5)
    with pytest.raises(AnalysisError, match=r"a share between 0 and 1, such as 0.99, not 99"):
        percentile([1.0, 2.0], [0, 1], 99)
    with pytest.raises(AnalysisError, match=r"confidence is a share between 0 and 1, such as 0.95, not 95"):
        percentile([1.0, 2.0], [0, 1], 0.5, confidence=95)
    with pytest.raises(AnalysisError, match="2 values have 3 labels"):
        percentile([1.0, 2.0], [0, 1, 1], 0.5)
    with pytest.raises(TooFewSamples, match="there are 0"):
        percentile([], [], 0.5)


def test_a_percentile_is_that_of_all_flows_however_many_failed_beyond_it():
    """As if the slow half of the flows had been cut off at a limit: what lies below it stays as it was."""
    values, repetition = lognormal(np.random.default_rng(2), 5, 100, between=0.05)
    cut = np.where(values > np.quantile(values, 0.7), np.inf, values)
    assert percentile(cut, repetition, 0.5) == percentile(values, repetition, 0.5)
    with pytest.raises(TooFewSamples, match="150 of 500 flows failed: p70"):
        percentile(cut, repetition, 0.7)


def test_where_a_draw_of_repetitions_holds_too_many_failed_flows_there_is_a_percentile_and_no_interval():
    values, repetition = np.tile(np.arange(1.0, 101), 4), np.repeat(range(4), 100)
    values[:60] = np.inf  # of the first repetition; three draws of it in four would be most of all flows
    found = percentile(values, repetition, 0.7)
    assert found.value == pytest.approx(unbiased(np.where(np.isinf(values), 1e9, values), 0.7))
    assert np.isnan([found.low, found.high]).all()
    assert found.n == 4
    change = percent_change(np.tile(np.arange(1.0, 101), 4), repetition, values, repetition, q=0.7)
    assert change.value == pytest.approx(100 * (found.value / unbiased(np.tile(np.arange(1.0, 101), 4), 0.7) - 1))
    assert np.isnan([change.low, change.high]).all()


# --- percent change


def test_twice_as_long_is_a_hundred_percent_and_paired_it_is_certain():
    values, repetition = lognormal(np.random.default_rng(6), 5, 200)
    found = percent_change(values, repetition, 2 * values, repetition, q=0.9, paired=True)
    assert found == pytest.approx((100, 100, 100, 5))
    apart = percent_change(values, repetition, 2 * values, repetition, q=0.9)
    assert apart.value == pytest.approx(100)
    assert apart.low < 90
    assert apart.high > 110


def test_a_change_and_its_reverse_undo_each_other():
    random = np.random.default_rng(7)
    first, second = lognormal(random, 5, 100), lognormal(random, 4, 150, level=0.3)
    there, back = (percent_change(*a, *b, q=0.9) for a, b in ((first, second), (second, first)))
    assert (1 + there.value / 100) * (1 + back.value / 100) == pytest.approx(1)
    assert (1 + there.low / 100) * (1 + back.high / 100) == pytest.approx(1, rel=0.1)
    assert (there.n, back.n) == (4, 4)


@pytest.mark.whole
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
        found = percent_change(first, repetition, second, repetition, q=0.9, paired=paired, resamples=200)
        held += found.low <= 100 * np.expm1(0.25) <= found.high
    assert 0.91 <= held / times <= 0.985


def test_sides_of_other_repetitions_are_not_paired_and_none_is_left_out():
    values, repetition = lognormal(np.random.default_rng(8), 6, 100)
    odd = repetition != 0
    some = percent_change(values, repetition, 3 * values[odd], repetition[odd], q=0.5, paired=True)
    assert some == percent_change(values, repetition, 3 * values[odd], repetition[odd], q=0.5, paired=False)
    assert some.value == pytest.approx(300 * np.median(values[odd]) / np.median(values) - 100)
    assert some.n == 5


def test_what_is_not_positive_has_no_percentage():
    values, repetition = lognormal(np.random.default_rng(9), 3, 20)
    for sides in ((values, np.zeros(60)), (np.zeros(60), values)):
        with pytest.raises(AnalysisError, match="the quantile is 0: a change has no percentage"):
            percent_change(sides[0], repetition, sides[1], repetition, q=0.5)


def test_a_contrast_of_four_undoes_what_is_common_to_two_and_finds_what_is_not():
    random = np.random.default_rng(10)
    sides = [lognormal(random, 5, 200, level=level) for level in (0.0, 1.0, 0.0, 1.0 + np.log(1.5))]
    parts = [(weight, Clusters.of(*side)) for weight, side in zip((1, -1, -1, 1), sides, strict=True)]
    found = quantiles.contrast(parts, 0.5).estimate()
    assert found.low < 50 < found.high
    assert found.low > 0
    same = quantiles.contrast([parts[0], (-1, parts[0][1]), parts[1], (1, parts[1][1])], 0.5).estimate()
    assert same[:3] == pytest.approx((0, 0, 0), abs=1e-9)


# --- how far several lie apart


def spread_of(*levels, seed=13, repetitions=6):
    random = np.random.default_rng(seed)
    return [Clusters.of(*lognormal(random, repetitions, 100, level=level)) for level in levels]


def test_the_spread_is_the_ratio_of_the_medians_and_its_interval_stays_above_one():
    sides = spread_of(0.0, 0.2, np.log(3))
    found = quantiles.most_over_least(sides, 0.5).estimate()
    assert found.value == pytest.approx(sides[2].quantile(0.5) / sides[0].quantile(0.5))
    assert 2.2 < found.low < found.value < 3 < found.high < 3.6
    near = quantiles.most_over_least(spread_of(0.0, 0.0, seed=1), 0.5).estimate()
    assert 1 <= near.low <= near.value < 1.2


def test_the_ratio_of_two_spreads_is_one_where_they_are_equal_and_found_where_they_are_not():
    wide, narrow = spread_of(0.0, 1.0), spread_of(0.0, 0.1, seed=14)
    assert quantiles.spread_ratio(wide, wide, 0.5).estimate() == pytest.approx((1, 1, 1, 6))
    found = quantiles.spread_ratio(wide, narrow, 0.5).estimate()
    assert 1 < found.low < np.exp(0.9) < found.high
    fewer = quantiles.most_over_least([wide[0], spread_of(1.0, repetitions=5, seed=3)[0]], 0.5).estimate()
    assert (fewer.n, fewer.low < np.exp(1) < fewer.high) == (5, True)  # of other blocks, each draws its own


def test_a_change_of_too_few_flows_says_on_which_side_and_one_repetition_has_no_interval():
    values, repetition = lognormal(np.random.default_rng(9), 2, 60)
    with pytest.raises(TooFewSamples, match="after: p99 needs at least 100 flows, and there are 60"):
        percent_change(values, repetition, values[:60], repetition[:60])
    found = percent_change(values, repetition, 2 * values[:60], repetition[:60], q=0.5)
    assert np.isnan([found.low, found.high]).all()
    assert found.n == 1


def test_a_change_is_not_told_apart_from_what_others_took_more_of_one_sides_time():
    """Flows alike but for 6 %, in repetitions alike: as much may be the 8 % that others had more of the one side."""
    values, labels = np.tile(np.linspace(0.99, 1.01, 200), 6), np.repeat(np.arange(6), 200)
    plain = Clusters.of(values, labels), Clusters.of(1.06 * values, labels)

    def change(*lost):
        sides = (replace(side, lost=each) for side, each in zip(plain, lost, strict=True))
        return quantiles.percent_change(*sides, 0.5).estimate()

    assert change(0.09, 0.09) == change(np.nan, 0.09) == quantiles.percent_change(*plain, 0.5).estimate()
    assert change(0.09, 0.09).low > 5
    assert change(0.01, 0.09).low < 0 < 6 < change(0.01, 0.09).high
    assert change(0.01, 0.02).low > 4
