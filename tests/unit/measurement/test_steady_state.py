"""steady: where a series has settled, on series of which that is known."""

import numpy as np
import pytest

from pairlab.measurement.steady_state import LEAST_INTERVALS, MOST_DRIFT, drift, settle


def noisy(values, share=0.03, seed=1):
    return np.asarray(values, float) * (1 + share * np.random.default_rng(seed).standard_normal(len(values)))


def test_a_flat_series_has_no_warm_up_and_is_settled():
    found = settle(noisy([10e9] * 20))
    assert (found.warmup, found.settled, found.drift) == (0, True, 0.0)


@pytest.mark.parametrize("ramp", [[1e9, 4e9, 7e9], [20e9, 15e9], [0.0]])
def test_leading_intervals_off_the_later_level_are_warm_up(ramp):
    found = settle(noisy([*ramp, *[10e9] * 17]))
    assert (found.warmup, found.settled) == (len(ramp), True)


def test_a_single_dip_in_the_middle_is_no_warm_up():
    values = noisy([10e9] * 20)
    values[7] = 1e9
    assert settle(values).warmup == 0


def test_a_series_that_rises_all_the_way_never_settles():
    found = settle(noisy(np.linspace(5e9, 10e9, 20)))
    assert found.settled is False
    assert found.drift == pytest.approx(0.44, abs=0.05)


def test_a_change_of_level_late_in_the_series_never_settles():
    assert settle(noisy([5e9] * 15 + [10e9] * 5)).settled is False


def test_too_few_intervals_say_nothing():
    found = settle([1e9] * (LEAST_INTERVALS - 1))
    assert (found.warmup, found.settled, found.drift) == (0, None, None)


def test_missing_values_say_nothing():
    assert settle([1e9] * 10 + [float("nan")]).settled is None


def test_a_link_that_carries_nothing_is_steady_at_that():
    assert settle([0.0] * 20).settled is True


def test_noise_alone_is_seldom_called_unsettled_or_warm_up():
    """Of 500 series of 20 intervals with 5 % noise: at most 2 % of either."""
    rng = np.random.default_rng(7)
    found = [settle(10e9 * (1 + 0.05 * rng.standard_normal(20))) for _ in range(500)]
    assert sum(each.settled is False for each in found) <= 10
    assert sum(each.warmup > 0 for each in found) <= 10


def test_drift_is_found_where_it_matters_and_told_by_its_size():
    rng = np.random.default_rng(7)
    rising = [drift(np.linspace(1, 1.4, 20) * (1 + 0.03 * rng.standard_normal(20))) for _ in range(100)]
    assert np.mean([each > MOST_DRIFT for each in rising]) > 0.95
    assert np.median(rising) == pytest.approx(0.27 / 1.2, abs=0.03)
