"""Intervals of means: over repetitions, of bounded quantities, and how often they hold the truth."""

import numpy as np
import pytest

from pairlab.errors import AnalysisError
from pairlab.statistics.intervals import FROM_ONE, POSITIVE, SHARE, SIGNED, mean_interval
from tests.support.simulated import clustered, holds, likely


def test_the_interval_of_a_mean_over_repetitions_holds_where_that_over_flows_fails():
    random, n, held, naive = np.random.default_rng(10), 1000, 0, 0
    for _ in range(n):
        values, labels = clustered(random, 5, 20, between=1.0)
        held += holds(mean_interval(values.reshape(5, 20).mean(axis=1)), 0.0)
        naive += holds(mean_interval(values), 0.0)
    assert labels.max() == 4
    assert likely(held, n, 0.95)
    assert naive < 0.6 * n


# --- bounded quantities


@pytest.mark.parametrize(
    ("scale", "values", "least", "most"),
    [
        (POSITIVE, [0.001, 0.004, 0.046], 0, np.inf),
        (POSITIVE, [0.0, 0.0, 3.0], 0, np.inf),
        (SHARE, [0.999, 0.81, 0.998], 0, 1),
        (SHARE, [0.0, 0.0, 0.01], 0, 1),
        (FROM_ONE, [1.01, 1.02, 4.0], 1, np.inf),
        (SIGNED, [-0.9, 0.99, 0.98], -1, 1),
    ],
)
def test_an_interval_stays_within_the_quantitys_bounds_and_holds_the_plain_mean(scale, values, least, most):
    found = mean_interval(values, scale=scale)
    assert found.value == pytest.approx(np.mean(values))
    assert least < found.low < found.value < found.high < most


def test_far_from_its_bounds_the_interval_is_students():
    values = [100.0, 100.1, 99.95, 100.02]
    assert mean_interval(values, scale=POSITIVE) == pytest.approx(mean_interval(values), rel=1e-5)


def test_what_lies_at_a_bound_has_an_interval_of_no_width_and_what_lies_beyond_is_refused():
    assert mean_interval([1.0, 1.0, 1.0], scale=SHARE) == (1, 1, 1, 3)
    assert mean_interval([0.0, 0.0, 0.0], scale=POSITIVE) == (0, 0, 0, 3)
    with pytest.raises(AnalysisError, match="not within 0 and 1"):
        mean_interval([0.5, 0.6, 1.2], scale=SHARE)


@pytest.mark.parametrize("repetitions", [3, 5, 10])
@pytest.mark.parametrize(
    ("scale", "draw", "truth"),
    [
        (POSITIVE, lambda random, n: random.lognormal(0, 0.3, n), np.exp(0.3**2 / 2)),
        (SHARE, lambda random, n: random.beta(30, 2, n), 30 / 32),
        (FROM_ONE, lambda random, n: 1 + random.lognormal(0, 0.3, n), 1 + np.exp(0.3**2 / 2)),
    ],
    ids=["rates", "shares near one", "ratios"],
)
def test_intervals_of_bounded_quantities_hold_the_mean_about_as_often_as_they_say(scale, draw, truth, repetitions):
    random, n = np.random.default_rng(21), 1500
    held = sum(holds(mean_interval(draw(random, repetitions), scale=scale), truth) for _ in range(n))
    assert 0.925 <= held / n <= 0.985
