"""Correlations within repetitions: against the textbooks, and how often their intervals hold the truth."""

import numpy as np
import pytest

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import correlation as correlations
from tests.support.simulated import correlated, holds, likely


def correlation(*parts, **options):
    return correlations.correlation(*parts, **options).estimate()


TUNA = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1], [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8]


@pytest.mark.parametrize(("method", "published"), [("kendall", 4 / 9), ("spearman", 0.6), ("pearson", 0.5712)])
def test_one_repetition_gives_the_textbooks_coefficient_and_no_interval(method, published):
    # Hollander and Wolfe 1973, page 185: lightness of canned tuna against a panel's score.
    found = correlation(*TUNA, np.zeros(9), method=method)
    bias = published / 16 if method == "pearson" else 0
    assert found.value == pytest.approx(np.tanh(np.arctanh(published) - bias), abs=1e-4)
    assert np.isnan([found.low, found.high]).all()
    assert found.n == 1


def test_repetitions_are_averaged_on_fishers_scale():
    # Ranks 1..5 against 2 1 3 4 5, 3 1 2 4 5 and 1 3 2 4 5: Kendall's tau 0.8, 0.6 and 0.8.
    x, y = [1, 2, 3, 4, 5] * 3, [2, 1, 3, 4, 5, 3, 1, 2, 4, 5, 1, 3, 2, 4, 5]
    found = correlation(x, y, np.repeat(range(3), 5), method="kendall")
    z = np.arctanh([0.8, 0.6, 0.8])
    half = 4.302653 * z.std(ddof=1) / np.sqrt(3)
    assert found.value == pytest.approx(np.tanh(z.mean()))
    assert (found.low, found.high) == pytest.approx(tuple(np.tanh([z.mean() - half, z.mean() + half])), rel=1e-5)
    assert found.n == 3


def test_a_coefficient_of_exactly_one_leaves_the_mean_finite():
    x = [1, 2, 3, 4, 5] * 2
    found = correlation(x, [*range(5), 2, 1, 3, 4, 5], [0] * 5 + [1] * 5, method="kendall")
    assert found.value == pytest.approx(np.tanh(np.arctanh([1 - 2 / 20, 0.8]).mean()))


def test_repetitions_without_a_coefficient_are_not_counted_and_if_none_has_one_it_is_said():
    x, y, repetition = correlated(np.random.default_rng(1), 3, 10)
    more = np.r_[x, 1, 2, np.arange(10)], np.r_[y, 5, 6, np.zeros(10)], np.r_[repetition, 3, 3, [4] * 10]
    assert correlation(*more) == correlation(x, y, repetition)
    told = "1 have fewer than 4 clients, and in 1 all clients have the same x or the same y"
    with pytest.raises(TooFewSamples, match=told):
        correlation(*(part[x.size :] for part in more))
    with pytest.raises(AnalysisError, match="no finite value"):
        correlation([1, 2, 3, np.nan], [1, 2, 3, 4], [0] * 4)
    with pytest.raises(AnalysisError, match=r"no correlation 'tau'; there are: pearson, spearman, kendall"):
        correlation(x, y, repetition, method="tau")
    with pytest.raises(AnalysisError, match="differ in length"):
        correlation(x, y, repetition[:-1])


def test_leverage_is_the_most_that_leaving_one_client_out_changes_the_correlation():
    random = np.random.default_rng(6)
    x, y = random.normal(size=(2, 30))
    whole = np.corrcoef(x, y)[0, 1]
    changes = [np.corrcoef(np.delete(x, at), np.delete(y, at))[0, 1] - whole for at in range(30)]
    assert correlations.leverage(x, y) == pytest.approx(np.abs(changes).max())
    x[0] = y[0] = 100.0
    assert correlations.leverage(x, y) > 0.6
    assert correlations.leverage([1, 1, 1, 1, 1, 5], [2, 2, 2, 2, 2, 9]) == pytest.approx(1)  # of one client alone
    assert np.isnan(correlations.leverage([1, 2, 3, 4], [1, 2, 3, 4]))
    assert np.isnan(correlations.leverage([1, 1, 1, 1, 1], [1, 2, 3, 4, 5]))


@pytest.mark.whole
@pytest.mark.parametrize("repetitions", [3, 6])
def test_a_correlations_interval_holds_the_truth_where_that_of_pooled_clients_does_not(repetitions):
    random, n, held, pooled = np.random.default_rng(6), 300, 0, 0
    for _ in range(n):
        x, y, labels = correlated(random, repetitions, 20)
        held += holds(correlation(x, y, labels), -0.5)
        z, half = np.arctanh(np.corrcoef(x, y)[0, 1]), 1.96 / np.sqrt(x.size - 3)
        pooled += z - half <= np.arctanh(-0.5) <= z + half
    assert likely(held, n, 0.95)
    assert pooled < 0.8 * n
