import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics import changes, power, tests
from pairlab.statistics import correlation as correlations
from pairlab.statistics.intervals import FROM_ONE, POSITIVE, SHARE, SIGNED, mean_interval
from pairlab.statistics.permutation import cdf_permutation
from tests.support.simulated import by_repetition, clustered, correlated, holds, likely, several_groups, two_groups


def correlation(*parts, **options):
    return correlations.correlation(*parts, **options).estimate()


def frame(**groups):
    rows = [(name, repetition, value) for name, values in groups.items() for repetition, value in enumerate(values)]
    return pd.DataFrame(rows, columns=["driver", "repetition", "rate"])


# --- Kruskal and Wallis


MUCOCILIARY = {"normal": [2.9, 3.0, 2.5, 2.6, 3.2], "airways": [3.8, 2.7, 4.0, 2.4]}
MUCOCILIARY["asbestosis"] = [2.8, 3.4, 3.7, 2.2, 2.0]


def test_the_rank_test_of_several_groups_gives_the_textbooks_statistic():
    # Hollander and Wolfe 1973, page 116: mucociliary efficiency; H = 0.7714, p = 0.68 by chi-squared.
    found = tests.kruskal(frame(**MUCOCILIARY), "rate", "driver")
    assert found.statistic == pytest.approx(0.77143, abs=1e-5)
    assert found.p == pytest.approx(0.71, abs=0.03)
    assert (found.n, found.groups) == (14, 3)


def test_few_repetitions_get_the_p_of_the_published_exact_tables():
    # Kruskal and Wallis 1952, table 6.1: of 3, 3 and 3, H >= 7.2 has p 0.004 and H >= 5.6 has 0.050 (6 and 84 of 1680).
    apart = tests.kruskal(frame(a=[1, 2, 3], b=[4, 5, 6], c=[7, 8, 9]), "rate", "driver")
    assert apart.statistic == pytest.approx(7.2)
    assert apart.p == pytest.approx(6 / 1680, abs=0.002)
    nearly = tests.kruskal(frame(a=[1, 2, 6], b=[3, 4, 5], c=[7, 8, 9]), "rate", "driver")
    assert nearly.statistic == pytest.approx(5.6)
    assert nearly.p == pytest.approx(84 / 1680, abs=0.008)


def test_many_repetitions_get_the_p_of_chi_squared():
    table = frame(a=[1, 2, 3, 4, 5, 18], b=[6, 7, 8, 9, 10, 11], c=[12, 13, 14, 15, 16, 17])
    found = tests.kruskal(table, "rate", "driver")
    assert found.p == pytest.approx(stats.chi2.sf(found.statistic, 2))


def test_groups_whose_values_are_all_equal_do_not_differ():
    table = frame(bridge=[3, 3, 3], ovs=[3, 3, 3])
    assert tests.kruskal(table, "rate", "driver")[:2] == (0.0, 1.0)
    (row,) = tests.pairwise(table, "rate", "driver").itertuples()
    assert (row.p, row.p_holm, row.delta, row.different) == (1.0, 1.0, 0.0, False)


@pytest.mark.parametrize("test", [tests.kruskal, tests.pairwise])
def test_what_cannot_be_compared_is_refused_in_words(test):
    with pytest.raises(TooFewSamples, match="at least 2 of driver, and there are 1"):
        test(frame(bridge=[1, 2, 3]), "rate", "driver")
    with pytest.raises(TooFewSamples, match="driver ovs has 1 repetition, and a comparison needs at least 2"):
        test(frame(bridge=[1, 2, 3], ovs=[1]), "rate", "driver")
    with pytest.raises(AnalysisError, match="driver ovs has no finite rate"):
        test(frame(bridge=[1, 2, 3], ovs=[1, np.nan]), "rate", "driver")
    flows = pd.concat([frame(bridge=[1, 2], ovs=[3, 4])] * 2)
    with pytest.raises(AnalysisError, match="rows of one repetition are not independent"):
        test(flows, "rate", "driver")


# --- Mann and Whitney, Holm, Cliff


def test_pairs_of_groups_get_the_textbooks_p():
    # Hollander and Wolfe 1973, page 69: permeability of membranes; W = 35, one-sided p = 0.1272.
    table = frame(
        term=[0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46], earlier=[1.15, 0.88, 0.90, 0.74, 1.21]
    )
    (row,) = tests.pairwise(table, "rate", "driver").itertuples()
    assert row.p == pytest.approx(2 * 0.1272, abs=1e-4)
    assert (row.first, row.second, row.n_first, row.n_second) == ("earlier", "term", 5, 10)
    assert row.difference == pytest.approx(0.90 - 1.415)
    assert row.delta == pytest.approx(1 - 2 * 35 / 50)


def test_holm_multiplies_the_smallest_p_most_and_keeps_their_order():
    # All 5 below all 5 happens in 2 of 252 orders; the middle pair overlaps.
    table = frame(a=[1, 2, 3, 4, 5], b=[11, 12, 13, 14, 15], c=[11.5, 12.5, 13.5, 14.5, 10.5])
    found = tests.pairwise(table, "rate", "driver").set_index(["first", "second"])
    assert found.loc[("a", "b"), "p"] == pytest.approx(2 / 252)
    assert found.loc[("a", "b"), "p_holm"] == pytest.approx(3 * 2 / 252)
    assert found.loc[("a", "c"), "p_holm"] == pytest.approx(3 * 2 / 252)
    assert found.loc[("b", "c"), "p_holm"] == found.loc[("b", "c"), "p"] > 0.5
    assert list(found["different"]) == [True, True, False]
    assert list(tests.pairwise(table, "rate", "driver", alpha=0.01)["different"]) == [False] * 3


def test_the_least_p_tells_when_a_pair_cannot_be_told_apart_however_it_differs():
    (row,) = tests.pairwise(frame(bridge=[1, 2, 3], ovs=[100, 200, 300]), "rate", "driver").itertuples()
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


# --- ratios within repetitions


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
    found = changes.together(dict.fromkeys(first), dict.fromkeys(second))
    assert found == (None if common is None else list(common))


def test_drift_that_hides_a_difference_from_ranks_does_not_hide_it_from_ratios():
    random, n, ratios, covered = np.random.default_rng(5), 200, 0, 0
    unpaired = 0
    for _ in range(n):
        drift = np.exp(random.normal(0, 0.3, 5))
        bridge, ovs = drift * np.exp(random.normal(0, 0.02, 5)), 1.1 * drift * np.exp(random.normal(0, 0.02, 5))
        found = changes.ratio(bridge, ovs).estimate()
        ratios += found.low > 0
        covered += holds(found, 10)
        unpaired += tests.kruskal(frame(bridge=bridge, ovs=ovs), "rate", "driver").p < 0.05
    assert likely(covered, n, 0.95)
    assert ratios > 0.95 * n
    assert unpaired < 0.05 * n


# --- permutation of whole repetitions


def test_two_repetitions_against_two_can_be_assigned_in_six_ways():
    found = cdf_permutation([1, 2, 1, 3, 11, 12, 11, 13], [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    assert found.p == found.least_p == pytest.approx(2 / 6)
    assert (found.n, found.groups) == (4, 2)


def test_the_distance_is_the_root_mean_square_between_the_two_mean_cdfs():
    # The means of the CDFs at 1, 2, 3, 4, 5, 6: a is 1/4, 1/2, 1, 1, 1, 1 and b is 0, 0, 0, 1/2, 3/4, 1.
    found = cdf_permutation([1, 3, 2, 3, 4, 5, 4, 6], [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    at = {1: 1 / 4, 2: 1 / 2, 3: 1, 4: 1 / 2, 5: 1 / 4, 6: 0}
    places = [1, 2, 3, 3, 4, 4, 5, 6]
    assert found.statistic == pytest.approx(np.sqrt(np.mean([at[place] ** 2 for place in places])))


def test_exact_p_is_that_of_scipys_permutations_of_the_same_distance():
    random = np.random.default_rng(8)
    a, b = random.normal(0, 1, 4), random.normal(0.8, 1, 5)

    def distance(a, b):
        places = np.sort(np.concatenate([a, b]))
        difference = [np.mean(a <= place) - np.mean(b <= place) for place in places]
        return np.sqrt(np.mean(np.square(difference)))

    told = stats.permutation_test((a, b), distance, n_resamples=np.inf, alternative="greater")
    found = cdf_permutation(np.r_[a, b], np.arange(9), list("aaaabbbbb"))
    assert found.statistic == pytest.approx(told.statistic)
    assert found.p == pytest.approx(told.pvalue)
    assert found.least_p == pytest.approx(1 / 126)


def test_within_blocks_the_two_labels_are_swapped_and_blocks_that_one_group_lacks_are_not_used():
    values, repetition, group = two_groups(np.random.default_rng(2), 5, 30, shift=2.0, drift=5.0, between=0.1)
    alone = np.r_[values, 3.0], np.r_[repetition, 5], np.append(group, "a")
    found = cdf_permutation(*alone, blocks=alone[1])
    assert found.p == found.least_p == pytest.approx(2 / 2**5)
    assert found.n == 10
    assert cdf_permutation(*alone).p > 0.3  # the drift drowns it


def test_the_exact_p_of_swaps_counts_the_swaps_that_set_the_groups_as_far_apart():
    # One value each: in three of the four blocks a is the smaller. Of 16 swaps 2 put all on one side, 8 three.
    labels = [0, 0, 1, 1, 2, 2, 3, 3]
    found = cdf_permutation([1, 5, 2, 3, 7, 4, 8, 9], labels, list("abababab"), blocks=labels)
    # At a block's lower value only the smaller one's CDF is 1, at the upper both are.
    assert found.statistic == pytest.approx(np.sqrt(((3 - 1) / 4) ** 2 / 2))
    assert found.p == pytest.approx(10 / 16)
    assert found.least_p == 2 / 16


def test_drawn_permutations_never_give_a_p_of_zero_and_the_same_p_for_the_same_seed():
    values, repetition, group = two_groups(np.random.default_rng(4), 12, 20, shift=9.0)
    found = cdf_permutation(values, repetition, group, permutations=499)
    assert found.p == found.least_p == pytest.approx(1 / 500)
    values, repetition, group = two_groups(np.random.default_rng(4), 12, 20)
    first, again, other = (
        cdf_permutation(values, repetition, group, permutations=499, seed=seed).p for seed in (1, 1, 2)
    )
    assert first == again != other
    blocks = cdf_permutation(values, repetition, group, permutations=499, blocks=repetition)
    every = cdf_permutation(values, repetition, group, permutations=5000, blocks=repetition)
    assert every.least_p == 2 / 2**12
    assert blocks.least_p == 1 / 500
    assert blocks.p == pytest.approx(every.p, abs=0.09)  # four standard errors of 499 draws


def test_a_repetition_counts_once_however_many_flows_it_has():
    once = cdf_permutation([1, 2, 3, 4, 2, 3, 4, 5], [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    more = cdf_permutation([1, 2] * 50 + [3, 4, 2, 3, 4, 5], [0] * 100 + [1, 1, 0, 0, 1, 1], ["a"] * 102 + list("bbbb"))
    assert more.p == once.p


def test_a_failed_flow_can_be_counted_as_one_that_never_ends():
    values = [1, 1, 1, 1, np.inf, 1, np.inf, 1]
    found = cdf_permutation(values, [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    assert found.p == found.least_p


def test_permutation_refuses_what_it_cannot_permute():
    with pytest.raises(TooFewSamples, match="1 and 2 repetitions, and permuting them needs 2 of each"):
        cdf_permutation([1, 2, 3], [0, 0, 1], list("abb"))
    with pytest.raises(TooFewSamples, match="1 blocks have a repetition of both groups"):
        cdf_permutation([1, 2, 3], [0, 0, 1], list("abb"), blocks=[0, 0, 1])
    with pytest.raises(AnalysisError, match="two groups can be compared, not 3"):
        cdf_permutation([1, 2, 3], [0, 0, 1], list("abc"))
    with pytest.raises(AnalysisError, match="no value"):
        cdf_permutation([1, np.nan, 3], [0, 0, 1], list("abb"))
    with pytest.raises(AnalysisError, match="differ in length"):
        cdf_permutation([1, 2, 3], [0, 0], list("abb"))
    with pytest.raises(AnalysisError, match="two repetitions of one group"):
        cdf_permutation([1, 2, 3, 4], [0, 1, 0, 1], list("aabb"), blocks=[0, 0, 0, 1])


# --- correlations


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


# --- false positives, and the mean over flows that would have them


@pytest.mark.ci
def test_no_difference_is_found_no_more_often_than_alpha_although_flows_are_clustered():
    random, n = np.random.default_rng(7), 250
    found = dict.fromkeys(["kruskal", "pairwise", "permuted", "swapped"], 0)
    for _ in range(n):
        values, repetition, group = two_groups(random, 6, 15, drift=0.5)
        table = by_repetition(values, repetition, group)
        found["kruskal"] += tests.kruskal(table, "value", "group").p <= 0.05
        found["pairwise"] += tests.pairwise(table, "value", "group")["different"].any()
        found["permuted"] += cdf_permutation(values, repetition, group).p <= 0.05
        found["swapped"] += cdf_permutation(values, repetition, group, blocks=repetition).p <= 0.05
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


@pytest.mark.ci
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


# --- corrections and plans


def test_holms_correction_is_that_of_the_paper_and_leaves_out_what_is_no_test():
    # Holm 1979: the smallest of four times four, the next times three, and never below one that comes before it.
    assert tests.holm([0.01, np.nan, 0.04, 0.03, 0.005]) == pytest.approx([0.03, np.nan, 0.06, 0.06, 0.02], nan_ok=True)
    assert np.isnan(tests.holm([np.nan])).all()


@pytest.mark.parametrize(("effect", "needed"), [(0.2, 199), (0.5, 34), (0.8, 15)])
def test_so_many_repetitions_are_needed_as_the_tables_say(effect, needed):
    # One-sample t test, two-sided 0.05, power 0.8: the sizes that G*Power gives for Cohen's small, medium and large.
    assert power.repetitions_needed(effect, 1) == needed
    assert power.repetitions_needed(-5 * effect, 5) == needed


def test_that_many_repetitions_find_the_difference_as_often_as_asked():
    needed, random = power.repetitions_needed(1.3, 1, power=0.9), np.random.default_rng(11)

    def found(repetitions):
        samples = random.normal(1.3, 1, (20_000, repetitions))
        return np.mean(stats.ttest_1samp(samples, 0, axis=1).pvalue <= 0.05)

    assert found(needed) >= 0.895
    assert found(needed - 1) < 0.895


def test_no_number_of_repetitions_shows_that_nothing_is_something_and_what_never_varies_needs_as_many_as_an_interval():
    assert power.repetitions_needed(0.0, 1.0) is None
    assert power.repetitions_needed(0.0001, 1.0) is None
    assert power.repetitions_needed(5.0, 0.0) == power.repetitions_needed(5.0, 1e-6) == 3
    assert power.repetitions_needed(np.nan, 1.0) is None
    with pytest.raises(AnalysisError, match="power is a share"):
        power.repetitions_needed(1.0, 1.0, power=80)
