"""How far hosts differ beyond their repetitions: against spreads that were planted, and against none."""

import numpy as np
import pytest
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.components import components
from tests.support.simulated import holds, likely

EVEN, UNEVEN = (5, 5, 5, 5, 5, 5), (2, 3, 9, 4, 2, 6)
DRAWS = 500


def drawn(random, sizes, between, within=1.0):
    """The repetitions of each host: levels around 10 that differ by `between`."""
    return [10 + random.normal(0, between) + random.normal(0, within, size) for size in sizes]


@pytest.mark.parametrize("sizes", [EVEN, UNEVEN])
@pytest.mark.parametrize("between", [0.3, 1.0, 4.0])
def test_a_planted_spread_between_hosts_lies_in_its_interval_at_least_as_often_as_is_said(between, sizes):
    random = np.random.default_rng(11)
    found = [components(drawn(random, sizes, between)).between for _ in range(DRAWS)]
    assert 0.93 * DRAWS <= sum(holds(each, between) for each in found) <= 0.99 * DRAWS
    squares = np.square([each.value for each in found])
    if between > 1:  # no estimate is cut off at zero, so that their mean is the variance that was planted
        assert squares.mean() == pytest.approx(between**2, rel=0.1)
        assert np.mean([each.low > 0 for each in found]) > 0.98


@pytest.mark.parametrize("sizes", [EVEN, UNEVEN])
def test_where_none_was_planted_the_spread_is_near_zero_and_its_interval_begins_there(sizes):
    random = np.random.default_rng(12)
    found = [components(drawn(random, sizes, 0.0)) for _ in range(DRAWS)]
    values = np.array([each.between.value for each in found])
    assert values.min() == 0
    assert np.median(values) < 0.2  # of a repetition's spread, which is 1
    assert likely(sum(each.between.low == 0 for each in found), DRAWS, 0.975)
    assert np.mean([each.within for each in found]) == pytest.approx(1, rel=0.05)


def test_of_as_many_repetitions_on_each_it_is_what_the_analysis_of_variance_says():
    random = np.random.default_rng(13)
    for _ in range(20):
        groups = drawn(random, EVEN, 0.5)
        found = components(groups)
        squares = 5 * np.var(np.mean(groups, axis=1), ddof=1), np.mean(np.var(groups, axis=1, ddof=1))
        assert found.between.value**2 == pytest.approx(max(0, (squares[0] - squares[1]) / 5))
        assert found.within**2 == pytest.approx(squares[1])
        assert (found.between.low > 0) is bool(stats.f_oneway(*groups).pvalue < 0.025)


def test_hosts_without_any_noise_differ_by_their_levels_alone():
    between, within = components([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    low, high = np.sqrt(2 / stats.chi2.ppf([0.975, 0.025], 2))
    assert between == pytest.approx((1, low, high, 3))
    assert within == 0


def test_two_hosts_have_a_spread_and_no_interval_and_one_has_none():
    two, one = components([[1.0, 2.0], [5.0, 6.0]]), components([[1.0, 3.0]])
    assert two.between.value == pytest.approx(np.sqrt(8 - 0.25))
    assert np.isnan([two.between.low, two.between.high, one.between.value]).all()
    assert (two.between.n, one.between.n, one.within) == (2, 1, pytest.approx(np.sqrt(2)))


def test_without_repetitions_hosts_and_repetitions_cannot_be_told_apart():
    between, within = components([[1.0], [2.0], [4.0]])
    assert np.isnan([between.value, between.low, within]).all()


def test_what_has_no_spread_is_refused():
    for groups in ([], [[1.0], []]):
        with pytest.raises(TooFewSamples, match="measure them"):
            components(groups)
    with pytest.raises(AnalysisError, match="no finite value"):
        components([[1.0, np.nan], [1.0]])
