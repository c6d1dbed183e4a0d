"""Ratios within repetitions: against the textbooks, and where drift hides a difference from ranks."""

import numpy as np
import pytest
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import changes, tests
from tests.support.simulated import by_driver, holds, likely


def test_the_ratio_of_two_is_taken_within_each_repetition_and_turns_around():
    # Logarithms of the ratios: log 2, log 8 and log 4, so their mean is log 4 and their spread log 2.
    found = changes.ratio([1.0, 10.0, 2.0], [2.0, 80.0, 8.0]).estimate()
    assert found.value == pytest.approx(300)
    half = 4.302653 * np.log(2) / np.sqrt(3)  # t(0.975, 2)
    assert (found.low, found.high) == pytest.approx(
        (100 * np.expm1(np.log(4) - half), 100 * np.expm1(np.log(4) + half))
    )
    assert found.n == 3
    turned = changes.ratio([2.0, 80.0, 8.0], [1.0, 10.0, 2.0]).estimate()
    assert [1 + bound / 100 for bound in turned[:3]] == pytest.approx(
        [1 / (1 + bound / 100) for bound in (found.value, found.high, found.low)]
    )


def test_two_repetitions_have_a_ratio_and_neither_interval_nor_test():
    found = changes.change([1.0, 10.0], [2.0, 80.0])
    assert found.change_percent == pytest.approx(300)
    assert np.isnan([found.low_percent, found.high_percent, found.p]).all()
    assert not found.differs()


def test_a_ratio_needs_values_above_zero_and_both_of_each_repetition():
    with pytest.raises(AnalysisError, match="no value above zero"):
        changes.ratio([1.0, 10.0], [2.0, 0.0])
    with pytest.raises(TooFewSamples, match="0 repetitions"):
        changes.ratio([], [])
    with pytest.raises(AnalysisError, match="2 values cannot be paired with 1"):
        changes.ratio([1.0, 2.0], [1.0])


def test_groups_of_their_own_repetitions_are_compared_as_welch_does():
    first, second = [10.0, 10.2, 9.9, 10.1], [11.5, 11.6, 11.2]
    found = changes.ratio(first, second, paired=False)
    expected = stats.ttest_ind(np.log(second), np.log(first), equal_var=False)
    assert (found.df, found.p()) == pytest.approx((expected.df, expected.pvalue))
    assert found.estimate()[1:3] == pytest.approx([100 * np.expm1(bound) for bound in expected.confidence_interval()])


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        ("abc", "abc", "abc"),
        ("abcde", "cdexy", "cde"),
        ("abcde", "dexyz", None),
        ("abcd", "ab", "ab"),
        ("ab", "cd", None),
    ],
)
def test_repetitions_are_paired_where_enough_are_common_or_one_side_has_no_others(first, second, common):
    found = changes.in_common(dict.fromkeys(first), dict.fromkeys(second))
    assert found == (None if common is None else list(common))


@pytest.mark.whole
def test_drift_that_hides_a_difference_from_ranks_does_not_hide_it_from_ratios():
    random, n, ratios, covered = np.random.default_rng(5), 200, 0, 0
    unpaired = 0
    for _ in range(n):
        drift = np.exp(random.normal(0, 0.3, 5))
        bridge, ovs = drift * np.exp(random.normal(0, 0.02, 5)), 1.1 * drift * np.exp(random.normal(0, 0.02, 5))
        found = changes.ratio(bridge, ovs).estimate()
        ratios += found.low > 0
        covered += holds(found, 10)
        unpaired += tests.kruskal(by_driver(bridge=bridge, ovs=ovs), "rate", "driver").p < 0.05
    assert likely(covered, n, 0.95)
    assert ratios > 0.95 * n
    assert unpaired < 0.05 * n


# --- values that a tool printed in steps


@pytest.mark.parametrize("paired", [True, False])
def test_whole_steps_tell_no_more_than_what_is_rounded_to_them(paired):
    found = changes.ratio([4e-6] * 5, [5e-6] * 5, paired=paired, resolutions=(1e-6, 1e-6))
    assert found.estimate()[:3] == pytest.approx((25, 0, 100 * (5.5 / 3.5 - 1)), abs=1e-4)
    assert found.estimate().low <= 0
    assert found.p() == 1
    apart = changes.ratio([4e-6] * 5, [9e-6] * 5, paired=paired, resolutions=(1e-6, 1e-6))
    assert apart.estimate()[:3] == pytest.approx((125, 100 * (8.5 / 4.5 - 1), 100 * (9.5 / 3.5 - 1)), abs=1e-4)
    assert 0 < apart.p() < 0.01


def test_steps_of_which_none_is_below_the_value_leave_it_open_to_zero():
    found = changes.ratio([1.0] * 5, [0.25] * 5, resolutions=(1.0, 1.0)).estimate()
    assert (found.low, found.high) == pytest.approx((-100, 50), abs=1e-4)


@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3, 0.7])
@pytest.mark.parametrize("repetitions", [3, 5])
def test_intervals_of_rounded_values_hold_the_planted_ratio_as_often_as_they_say(spread, repetitions):
    random, held, exact = np.random.default_rng(1), 0, 0
    for turn in range(200):
        level, times = random.uniform(5, 9), random.uniform(0.8, 1.25)
        sides = random.normal([[level], [times * level]], spread, (2, repetitions))
        rounded = np.maximum(np.rint(sides), 1)
        found = changes.ratio(*rounded, paired=bool(turn % 2), resolutions=(1.0, 1.0)).estimate()
        held += found.low <= 100 * (times - 1) <= found.high
        one = changes.ratio(*sides, paired=bool(turn % 2)).estimate()
        exact += one.low <= 100 * (times - 1) <= one.high
        assert one == changes.ratio(*sides, paired=bool(turn % 2), resolutions=(0.0, 0.0)).estimate()
    assert held >= 0.95 * 200
    assert held >= exact
