"""What part of a difference something explains: against shares that were planted."""

import numpy as np
import pytest

from pairlab.statistics.intervals import Student, share_of


def of(together, apart, stated=0.0, confidence=0.95):
    """Three estimates from the repetitions of two: some is their difference, and rest what is left of the whole."""
    together, apart = np.asarray(together, float), np.asarray(apart, float)
    return share_of(Student.of(together - apart), Student.of(together - stated), Student.of(apart - stated), confidence)


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.4, 1.0, 1.3])
def test_a_planted_share_lies_in_its_interval_as_often_as_is_said(share):
    random, held = np.random.default_rng(3), 0
    for _ in range(1000):
        drift = random.normal(0, 0.1, 6)  # common to both: it cancels in some, and not in the whole
        found = of(1 + drift + random.normal(0, 0.15, 6), 1 - share + drift + random.normal(0, 0.15, 6))
        held += found.low <= share <= found.high
    assert 930 <= held <= 970


def test_without_noise_the_share_is_exact():
    found = of([1.4, 1.4, 1.4], [0.5, 0.5, 0.5], stated=0.2)
    assert found == pytest.approx((0.75, 0.75, 0.75, 3))


def test_of_a_whole_that_may_be_nothing_any_share_might_be_true():
    found = of([0.5, -0.6, 0.2, 0.1], [0.3, 0.2, -0.2, 0.0])
    assert np.isnan(found[:3]).all()


def test_two_repetitions_have_a_share_and_no_interval():
    found = of([1.0, 1.2], [0.5, 0.6])
    assert found.value == pytest.approx(0.5)
    assert np.isnan([found.low, found.high]).all()


def test_a_share_of_nothing_is_not_known():
    assert np.isnan(of([0.0, 0.0], [1.0, 1.0]).value)
