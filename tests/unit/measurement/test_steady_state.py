"""steady_state: where a series has settled, changed its level, or was silent, on series of which that is known."""

import numpy as np
import pytest

from pairlab.measurement.checks.steady_state import (
    LEAST_INTERVALS,
    LEAST_PACKETS,
    longest_silence_s,
    settle,
    shift,
    silent_share,
)
from pairlab.model.records import MOST_SHIFT


def noisy(values, share=0.03, seed=1):
    return np.asarray(values, float) * (1 + share * np.random.default_rng(seed).standard_normal(len(values)))


def test_a_flat_series_has_no_warm_up_and_is_settled():
    found = settle(noisy([10e9] * 20))
    assert (found.warmup, found.settled) == (0, True)


@pytest.mark.parametrize("ramp", [[1e9, 4e9, 7e9], [0.0]])
def test_leading_intervals_below_the_later_level_are_warm_up(ramp):
    found = settle(noisy([*ramp, *[10e9] * 17]))
    assert (found.warmup, found.settled) == (len(ramp), True)


@pytest.mark.parametrize("begin", [[20e9, 15e9], [10.6e9] * 2 + [30e9]])
def test_a_beginning_that_is_faster_is_no_warm_up(begin):
    found = settle(noisy([*begin, *[10e9] * 17]))
    assert (found.warmup, found.settled) == (0, True)


@pytest.mark.parametrize("later", [0.0, 3e9])
def test_a_collapse_is_a_result(later):
    values = noisy([10e9] * 5 + [later] * 15)
    assert (settle(values).warmup, settle(values).settled) == (0, True)
    assert shift(values) == pytest.approx(later / 10e9 - 1, abs=0.03)


def test_a_single_dip_in_the_middle_is_no_warm_up():
    values = noisy([10e9] * 20)
    values[7] = 1e9
    assert settle(values).warmup == 0


def test_a_series_that_rises_all_the_way_never_settles():
    assert settle(noisy(np.linspace(2e9, 10e9, 20))).settled is False
    assert settle(noisy(np.linspace(10e9, 2e9, 20))).settled is True
    assert settle(noisy(np.linspace(6e9, 10e9, 20))).settled is True  # a result


def test_one_that_begins_after_more_than_half_of_the_time_never_settles():
    assert settle(noisy([1e9] * 12 + [10e9] * 8)).settled is False


@pytest.mark.parametrize("place", [5, 10, 15])
def test_a_change_of_level_on_the_way_is_a_result(place):
    values = noisy([8e9] * place + [10e9] * (20 - place))
    assert settle(values).settled is True
    assert shift(values) == pytest.approx(0.2, abs=0.03)


def test_too_few_intervals_say_nothing():
    found = settle([1e9] * (LEAST_INTERVALS - 1))
    assert (found.warmup, found.settled) == (0, None)


def test_missing_values_say_nothing():
    assert settle([1e9] * 10 + [float("nan")]).settled is None


def test_a_link_that_carries_nothing_is_steady_at_that():
    assert settle([0.0] * 20).settled is True
    assert shift([0.0] * 20) == 0.0


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_noise_alone_is_seldom_called_unsettled_or_warm_up(noise):
    """Of 500 series of 20 intervals: at most 2 % of either."""
    rng = np.random.default_rng(7)
    found = [settle(10e9 * (1 + noise * rng.standard_normal(20))) for _ in range(500)]
    assert sum(each.settled is False for each in found) <= 10
    assert sum(each.warmup > 0 for each in found) <= 10


def test_two_speeds_seldom_look_like_a_rise_all_the_way():
    """Of 500 series that change between two speeds at random, as where a scheduler moves processes: none."""
    rng = np.random.default_rng(7)
    unsettled = 0
    for _ in range(500):
        fast = (np.cumsum(rng.random(20) < 0.1) + rng.integers(2)) % 2
        unsettled += settle(noisy(np.where(fast, 10e9, 6e9), seed=rng.integers(1000))).settled is False
    assert unsettled == 0


@pytest.mark.parametrize(("levels", "share"), [((10, 3), -0.7), ((3, 10), 0.7), ((10, 9.8), 0.0)])
@pytest.mark.parametrize("place", [3, 10, 17])
def test_a_change_of_level_is_found_wherever_it_is_and_told_as_a_share_of_the_higher_one(levels, share, place):
    values = noisy([levels[0] * 1e9] * place + [levels[1] * 1e9] * (20 - place))
    assert shift(values) == pytest.approx(share, abs=0.03)


def test_of_too_few_intervals_or_none_no_level_is_known():
    for values in ([], [1e9] * (LEAST_INTERVALS - 1)):
        assert shift(values) is None


def test_noise_alone_seldom_has_a_shift_that_counts():
    """Of 500 series of 20 intervals with 8 % noise: at most 2 %."""
    rng = np.random.default_rng(7)
    series = [10e9 * (1 + 0.08 * rng.standard_normal(20)) for _ in range(500)]
    assert sum(abs(shift(each)) > MOST_SHIFT for each in series) <= 10


def test_throughput_that_wanders_seldom_has_a_shift_that_counts():
    """Of 500 series of 20 intervals with 30 % noise, each of which is half the one before: at most 2 %."""
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(500):
        noise = rng.standard_normal(20)
        for place in range(1, 20):
            noise[place] = 0.5 * noise[place - 1] + 0.75**0.5 * noise[place]
        found += abs(shift(10e9 * (1 + 0.3 * noise))) > MOST_SHIFT
    assert found <= 10


def test_silence_is_told_by_its_share_and_by_the_longest():
    took_s = np.array([0.1] * 10)
    packets = np.array([500, 0, 500, 10, 3, 0, 500, 400, 500, 500])
    assert silent_share(took_s, packets) == pytest.approx(0.4)
    assert longest_silence_s(took_s, packets) == pytest.approx(0.3)
    assert (silent_share(took_s, packets + 100), longest_silence_s(took_s, packets + 100)) == (0.0, 0.0)


def test_of_few_packets_silence_is_not_known():
    took_s, packets = np.array([0.1] * 4), np.array([LEAST_PACKETS - 1, 0, 0, 0])
    assert (silent_share(took_s, packets), longest_silence_s(took_s, packets)) == (None, 0.0)
    assert silent_share(np.array([]), np.array([])) is None


def test_two_samples_close_to_each_other_do_not_make_all_else_silent():
    """As after one that came late: the step has no more packets than its time, and a rate of chance."""
    took_s = np.array([0.1] * 8 + [0.8, 1e-5, 0.1])
    packets = np.array([500] * 8 + [4000, 5, 500])
    assert silent_share(took_s, packets) == 0.0
