"""CDFs of few points, which keep what they show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import distributions

#: Beside the shares at which steps rise, where the inverse is either of two values.
SHOWN = np.linspace(0.001, 0.999, 4999) - 1e-9


def off(values, line):
    """By what share of itself any shown quantile moves, but for what floating point itself is off by."""
    exact, drawn = np.quantile(values, SHOWN, method="inverted_cdf"), np.interp(SHOWN, line["share"], line["value"])
    moved = np.maximum(np.abs(drawn - exact) - 1e-12 * np.abs(values).max(), 0)
    return np.max(moved / np.maximum(np.abs(exact), 1e-300))


def test_a_line_of_few_values_is_the_empirical_cdf_itself_in_steps():
    line = distributions.cdf([3.0, 1.0, 2.0, 2.0])
    assert line.to_dict("list") == {
        "value": [1, 1, 2, 2, 2, 2, 3, 3],
        "share": [0, 1 / 4, 1 / 4, 1 / 2, 1 / 2, 3 / 4, 3 / 4, 1],
    }
    assert distributions.cdf([7.0]).to_dict("list") == {"value": [7.0, 7.0], "share": [0.0, 1.0]}


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


@settings(max_examples=60)
@given(
    kind=st.sampled_from(sorted(DRAWN)),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(2, 60_000),
    scale=st.sampled_from([1.0, 1e-9, -3.0, 1e12]),
)
def test_a_reduced_cdf_moves_no_shown_quantile_by_more_than_a_thousandth(kind, seed, count, scale):
    values = scale * DRAWN[kind](np.random.default_rng(seed), count)
    line = distributions.cdf(values, points=100)
    assert off(values, line) <= 1e-3
    assert (line["value"].iloc[0], line["value"].iloc[-1]) == (values.min(), values.max())
    assert (line["share"].iloc[0], line["share"].iloc[-1]) == (0, 1)
    assert (np.diff(line["value"]) >= 0).all()
    assert (np.diff(line["share"]) >= 0).all()


def test_a_million_flows_become_some_hundred_points():
    values = np.random.default_rng(1).lognormal(-2, 0.5, 1_000_000)
    line = distributions.cdf(values)
    assert 50 < len(line) < 1500
    assert off(values, line) <= 1e-3


def test_a_cdf_of_nothing_or_of_what_is_not_finite_is_an_error():
    with pytest.raises(TooFewSamples, match="at least one value"):
        distributions.cdf([])
    with pytest.raises(AnalysisError, match="no finite value"):
        distributions.cdf([1.0, np.inf])
