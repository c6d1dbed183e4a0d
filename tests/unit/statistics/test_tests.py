"""Tests of ranks with Holm's correction and Cliff's delta: against the textbooks, and how often they err."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import tests
from tests.support.simulated import by_driver, by_repetition, holds, permuted, several_groups, two_groups

# --- Kruskal and Wallis


MUCOCILIARY = {"normal": [2.9, 3.0, 2.5, 2.6, 3.2], "airways": [3.8, 2.7, 4.0, 2.4]}
MUCOCILIARY["asbestosis"] = [2.8, 3.4, 3.7, 2.2, 2.0]


def test_the_rank_test_of_several_groups_gives_the_textbooks_statistic():
    # Hollander and Wolfe 1973, page 116: mucociliary efficiency; H = 0.7714, p = 0.68 by chi-squared.
    found = tests.kruskal(by_driver(**MUCOCILIARY), "rate", "driver")
    assert found.statistic == pytest.approx(0.77143, abs=1e-5)
    assert found.p == pytest.approx(0.71, abs=0.03)
    assert (found.n, found.groups) == (14, 3)


def test_few_repetitions_get_the_p_of_the_published_exact_tables():
    # Kruskal and Wallis 1952, table 6.1: of 3, 3 and 3, H >= 7.2 has p 0.004 and H >= 5.6 has 0.050 (6 and 84 of 1680).
    apart = tests.kruskal(by_driver(a=[1, 2, 3], b=[4, 5, 6], c=[7, 8, 9]), "rate", "driver")
    assert apart.statistic == pytest.approx(7.2)
    assert apart.p == pytest.approx(6 / 1680, abs=0.002)
    nearly = tests.kruskal(by_driver(a=[1, 2, 6], b=[3, 4, 5], c=[7, 8, 9]), "rate", "driver")
    assert nearly.statistic == pytest.approx(5.6)
    assert nearly.p == pytest.approx(84 / 1680, abs=0.008)


def test_many_repetitions_get_the_p_of_chi_squared():
    table = by_driver(a=[1, 2, 3, 4, 5, 18], b=[6, 7, 8, 9, 10, 11], c=[12, 13, 14, 15, 16, 17])
    found = tests.kruskal(table, "rate", "driver")
    assert found.p == pytest.approx(stats.chi2.sf(found.statistic, 2))


def test_groups_whose_values_are_all_equal_do_not_differ():
    table = by_driver(bridge=[3, 3, 3], ovs=[3, 3, 3])
    assert tests.kruskal(table, "rate", "driver")[:2] == (0.0, 1.0)
    (row,) = tests.pairwise(table, "rate", "driver").itertuples()
    assert (row.p, row.p_holm, row.delta, row.different) == (1.0, 1.0, 0.0, False)


@pytest.mark.parametrize("test", [tests.kruskal, tests.pairwise])
def test_what_cannot_be_compared_is_refused_in_words(test):
    with pytest.raises(TooFewSamples, match="at least 2 of driver, and there are 1"):
        test(by_driver(bridge=[1, 2, 3]), "rate", "driver")
    with pytest.raises(TooFewSamples, match="driver ovs has 1 repetition, and a comparison needs at least 2"):
        test(by_driver(bridge=[1, 2, 3], ovs=[1]), "rate", "driver")
    with pytest.raises(AnalysisError, match="driver ovs has no finite rate"):
        test(by_driver(bridge=[1, 2, 3], ovs=[1, np.nan]), "rate", "driver")
    flows = pd.concat([by_driver(bridge=[1, 2], ovs=[3, 4])] * 2)
    with pytest.raises(AnalysisError, match="rows of one repetition are not independent"):
        test(flows, "rate", "driver")


# --- Mann and Whitney, Holm, Cliff


def test_pairs_of_groups_get_the_textbooks_p():
    # Hollander and Wolfe 1973, page 69: permeability of membranes; W = 35, one-sided p = 0.1272.
    table = by_driver(
        term=[0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46], earlier=[1.15, 0.88, 0.90, 0.74, 1.21]
    )
    (row,) = tests.pairwise(table, "rate", "driver").itertuples()
    assert row.p == pytest.approx(2 * 0.1272, abs=1e-4)
    assert (row.first, row.second, row.n_first, row.n_second) == ("earlier", "term", 5, 10)
    assert row.difference == pytest.approx(0.90 - 1.415)
    assert row.delta == pytest.approx(1 - 2 * 35 / 50)


def test_holm_multiplies_the_smallest_p_most_and_keeps_their_order():
    # All 5 below all 5 happens in 2 of 252 orders; the middle pair overlaps.
    table = by_driver(a=[1, 2, 3, 4, 5], b=[11, 12, 13, 14, 15], c=[11.5, 12.5, 13.5, 14.5, 10.5])
    found = tests.pairwise(table, "rate", "driver").set_index(["first", "second"])
    assert found.loc[("a", "b"), "p"] == pytest.approx(2 / 252)
    assert found.loc[("a", "b"), "p_holm"] == pytest.approx(3 * 2 / 252)
    assert found.loc[("a", "c"), "p_holm"] == pytest.approx(3 * 2 / 252)
    assert found.loc[("b", "c"), "p_holm"] == found.loc[("b", "c"), "p"] > 0.5
    assert list(found["different"]) == [True, True, False]
    assert list(tests.pairwise(table, "rate", "driver", alpha=0.01)["different"]) == [False] * 3


def test_the_least_p_tells_when_a_pair_cannot_be_told_apart_however_it_differs():
    (row,) = tests.pairwise(by_driver(bridge=[1, 2, 3], ovs=[100, 200, 300]), "rate", "driver").itertuples()
    assert row.p == row.least_p == pytest.approx(2 / 20)


def test_the_effect_size_counts_pairs():
    assert tests.cliffs_delta_interval([1, 2, 3], [1, 2, 3]).value == 0
    assert tests.cliffs_delta_interval([4, 5], [1, 2, 3]).value == 1
    assert tests.cliffs_delta_interval([1, 2], [4, 5]).value == -1
    assert tests.cliffs_delta_interval([1, 3], [2, 2, 3]).value == pytest.approx((-3 + 2 + 0) / 6)
    with pytest.raises(TooFewSamples, match="there are 2 and 0 values"):
        tests.cliffs_delta_interval([1, 2], [])
    with pytest.raises(AnalysisError, match="no value"):
        tests.cliffs_delta_interval([1, np.nan], [2])


def test_the_effect_sizes_interval_is_the_published_formula_over_all_pairs():
    a, b = [3.0, 5.0, 7.0, 9.0, 4.0], [1.0, 6.0, 2.0, 5.0]
    signs = np.sign(np.subtract.outer(a, b))
    delta, (n, m) = signs.mean(), signs.shape
    variance = (
        m**2 * ((signs.mean(1) - delta) ** 2).sum()
        + n**2 * ((signs.mean(0) - delta) ** 2).sum()
        - ((signs - delta) ** 2).sum()
    ) / (n * m * (n - 1) * (m - 1))
    t = stats.t.ppf(0.975, n + m - 2)
    half = t * np.sqrt(variance) * np.sqrt((1 - delta**2) ** 2 + t**2 * variance)
    found = tests.cliffs_delta_interval(a, b)
    assert found.value == pytest.approx(delta)
    assert found.low == pytest.approx((delta - delta**3 - half) / (1 - delta**2 + t**2 * variance))
    assert found.high == pytest.approx(min(1, (delta - delta**3 + half) / (1 - delta**2 + t**2 * variance)))
    assert found.n == 9


def test_where_all_exceed_all_the_effect_size_keeps_a_bound_that_few_repetitions_justify():
    found = tests.cliffs_delta_interval([6, 7, 8, 9, 10], [1, 2, 3, 4, 5])
    assert found[1:3] == (pytest.approx((5 - 1.95996**2) / (5 + 1.95996**2), abs=1e-5), 1)
    opposite = tests.cliffs_delta_interval([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert (opposite.low, opposite.high) == (-found.high, -found.low)
    alone = tests.cliffs_delta_interval([6], [1, 2])
    assert alone.value == 1
    assert np.isnan([alone.low, alone.high]).all()


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_effect_sizes_interval_holds_the_truth_as_often_as_it_says(shift):
    random, n = np.random.default_rng(3), 1500
    truth = 2 * stats.norm.cdf(shift / np.sqrt(2)) - 1
    held = sum(
        holds(tests.cliffs_delta_interval(random.normal(shift, 1, 7), random.normal(0, 1, 7)), truth) for _ in range(n)
    )
    assert 0.935 <= held / n <= 0.985


def test_holms_correction_is_that_of_the_paper_and_leaves_out_what_is_no_test():
    # Holm 1979: the smallest of four times four, the next times three, and never below one that comes before it.
    assert tests.holm([0.01, np.nan, 0.04, 0.03, 0.005]) == pytest.approx([0.03, np.nan, 0.06, 0.06, 0.02], nan_ok=True)
    assert np.isnan(tests.holm([np.nan])).all()


# --- false positives, and the mean over flows that would have them


@pytest.mark.whole
def test_no_difference_is_found_no_more_often_than_alpha_although_flows_are_clustered():
    random, n = np.random.default_rng(7), 250
    found = dict.fromkeys(["kruskal", "pairwise", "permuted", "swapped"], 0)
    for _ in range(n):
        values, repetition, group = two_groups(random, 6, 15, drift=0.5)
        table = by_repetition(values, repetition, group)
        found["kruskal"] += tests.kruskal(table, "value", "group").p <= 0.05
        found["pairwise"] += tests.pairwise(table, "value", "group")["different"].any()
        found["permuted"] += permuted(values, repetition, group).p <= 0.05
        found["swapped"] += permuted(values, repetition, group, swapped=True).p <= 0.05
    most = stats.binom.ppf(0.999, n, 0.05)
    assert all(hits <= most for hits in found.values()), found
    assert found["swapped"] > 0.01 * n  # a test that never finds anything would pass, too


def test_over_flows_the_same_tests_find_what_is_not_there():
    random, n, ranks, curves = np.random.default_rng(7), 200, 0, 0
    for _ in range(n):
        values, _, group = two_groups(random, 6, 15)
        ranks += stats.kruskal(values[group == "a"], values[group == "b"]).pvalue <= 0.05
        curves += stats.ks_2samp(values[group == "a"], values[group == "b"]).pvalue <= 0.05
    assert ranks > 0.2 * n
    assert curves > 0.2 * n


@pytest.mark.whole
def test_among_several_groups_without_a_difference_one_is_found_no_more_often_than_alpha():
    random, n, ranks, pairs, uncorrected = np.random.default_rng(9), 200, 0, 0, 0
    for _ in range(n):
        table = several_groups(random, 4, 10, 3)
        ranks += tests.kruskal(table, "value", "group").p <= 0.05
        found = tests.pairwise(table, "value", "group")
        pairs += found["different"].any()
        uncorrected += (found["p"] <= 0.05).any()
    most = stats.binom.ppf(0.999, n, 0.05)
    assert ranks <= most
    assert pairs <= most
    assert ranks > 0.01 * n
    assert uncorrected > most
