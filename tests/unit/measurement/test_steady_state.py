"""steady: where a series has settled, on series of which that is known."""

import itertools

import numpy as np
import pytest

from pairlab.measurement.checks.steady_state import LEAST_INTERVALS, MOST_DRIFT, drift, outliers, settle, shift


def noisy(values, share=0.03, seed=1):
    return np.asarray(values, float) * (1 + share * np.random.default_rng(seed).standard_normal(len(values)))


def test_a_flat_series_has_no_warm_up_and_is_settled():
    found = settle(noisy([10e9] * 20))
    assert (found.warmup, found.settled, found.drift) == (0, True, 0.0)


@pytest.mark.parametrize("ramp", [[1e9, 4e9, 7e9], [20e9, 15e9], [0.0]])
def test_leading_intervals_off_the_later_level_are_warm_up(ramp):
    found = settle(noisy([*ramp, *[10e9] * 17]))
    assert (found.warmup, found.settled) == (len(ramp), True)


@pytest.mark.parametrize("later", [0.0, 3e9])
def test_a_collapse_is_no_warm_up_before_it(later):
    found = settle(noisy([10e9] * 5 + [later] * 15))
    assert (found.warmup, found.settled) == (0, False)


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


@pytest.mark.parametrize(
    ("place", "level"), [*itertools.product([0, 7, 19], [0.0, 0.5]), *itertools.product([0, 19], [3.0])]
)
def test_outlying_intervals_change_the_mean_by_their_part_wherever_they_are(place, level):
    values = noisy([10e9] * 20)
    values[place] = level * 10e9
    assert outliers(values) == pytest.approx((level - 1) / 20, abs=0.005)


@pytest.mark.parametrize(("levels", "share"), [((10, 3), -0.7), ((3, 10), 0.7), ((10, 9.8), 0.0)])
@pytest.mark.parametrize("place", [3, 10, 17])
def test_a_change_of_level_is_found_wherever_it_is_and_told_as_a_share_of_the_higher_one(levels, share, place):
    values = noisy([levels[0] * 1e9] * place + [levels[1] * 1e9] * (20 - place))
    assert shift(values) == pytest.approx(share, abs=0.03)


TO_AND_FRO = [10e9] * 4 + [15e9] * 3 + [10e9] * 5 + [15e9] * 2 + [10e9] * 6


def test_a_series_that_goes_to_and_fro_between_two_speeds_has_no_outliers():
    assert outliers(noisy(TO_AND_FRO)) == pytest.approx(0.0, abs=0.005)


@pytest.mark.parametrize("place", [2, 5, 19])
@pytest.mark.parametrize("level", [0.0, 1e9])
def test_what_is_of_neither_of_two_speeds_is_outlying(place, level):
    values = noisy(TO_AND_FRO)
    values[place] = level
    without = sum(TO_AND_FRO) - TO_AND_FRO[place] + 10e9
    assert outliers(values) == pytest.approx((level - 10e9) / without, abs=0.01)


def test_faster_moments_amid_usual_ones_are_no_outliers_and_what_a_disturbance_leaves_at_an_end_is():
    """The first as measured: one pair of requests, whose ends share a CPU for moments."""
    usual = noisy([1.0] * 19)
    for places in ([4], [10, 12], [5, 14]):
        values = usual.copy()
        values[places] *= 2.3
        assert abs(outliers(values)) < 0.03
        values[7] = 0.0  # a stall beside them
        assert outliers(values) == pytest.approx(-1 / (18 + 1.3 * len(places)), abs=0.015)
    disturbed = noisy([2.0] * 2 + [1.0] * 15 + [2.0] * 2)
    assert outliers(disturbed) == pytest.approx(4 / 19, abs=0.02)


def test_a_disturbance_that_comes_once_is_no_second_speed():
    values = noisy([10e9] * 8 + [5e9] * 4 + [10e9] * 8)
    assert outliers(values) == pytest.approx(-0.1, abs=0.01)


def test_neighbours_that_are_alike_make_no_trend():
    """Of 500 series of an autoregressive process (0.7) of 20 intervals; taken as independent, 24 % would drift."""
    rng, drifting = np.random.default_rng(3), 0
    for _ in range(500):
        noise = rng.standard_normal(20)
        for at in range(1, 20):
            noise[at] = 0.7 * noise[at - 1] + np.sqrt(1 - 0.7**2) * noise[at]
        drifting += drift(10e9 * (1 + 0.1 * noise)) != 0
    assert drifting <= 0.17 * 500


def test_of_too_few_intervals_or_none_nothing_is_known():
    for values in ([], [1e9] * (LEAST_INTERVALS - 1)):
        assert (outliers(values), shift(values)) == (None, None)


def test_a_link_that_carries_nothing_has_neither_outliers_nor_shifts():
    assert (outliers([0.0] * 20), shift([0.0] * 20)) == (0.0, 0.0)


def test_noise_alone_seldom_has_outliers_or_shifts_that_count():
    """Of 500 series of 20 intervals with 8 % noise: at most 2 % of either."""
    rng = np.random.default_rng(7)
    series = [10e9 * (1 + 0.08 * rng.standard_normal(20)) for _ in range(500)]
    assert sum(abs(outliers(each)) > 0.03 for each in series) <= 10
    assert sum(abs(shift(each)) > MOST_DRIFT for each in series) <= 10


def test_throughput_that_wanders_seldom_has_a_shift_that_counts():
    """Of 500 series of 20 intervals with 30 % noise, each of which is half the one before: at most 2 %."""
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(500):
        noise = rng.standard_normal(20)
        for place in range(1, 20):
            noise[place] = 0.5 * noise[place - 1] + 0.75**0.5 * noise[place]
        found += abs(shift(10e9 * (1 + 0.3 * noise))) > MOST_DRIFT
    assert found <= 10
