"""Whole repetitions permuted: exact and drawn assignments, with blocks and without."""

import numpy as np
import pytest
from scipy import stats

from pairlab.errors import TooFewSamples
from tests.support.simulated import permuted, two_groups


def test_two_repetitions_against_two_can_be_assigned_in_six_ways():
    found = permuted([1, 2, 1, 3, 11, 12, 11, 13], [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    assert found.p == found.least_p == pytest.approx(2 / 6)
    assert (found.n, found.groups) == (4, 2)


def test_the_distance_is_the_root_mean_square_between_the_two_mean_cdfs():
    # The means of the CDFs at 1, 2, 3, 4, 5, 6: a is 1/4, 1/2, 1, 1, 1, 1 and b is 0, 0, 0, 1/2, 3/4, 1.
    found = permuted([1, 3, 2, 3, 4, 5, 4, 6], [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
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
    found = permuted(np.r_[a, b], np.arange(9), list("aaaabbbbb"))
    assert found.statistic == pytest.approx(told.statistic)
    assert found.p == pytest.approx(told.pvalue)
    assert found.least_p == pytest.approx(1 / 126)


def test_within_blocks_the_two_labels_are_swapped_and_blocks_that_one_group_lacks_are_not_used():
    values, repetition, group = two_groups(np.random.default_rng(2), 5, 30, shift=2.0, drift=5.0, between=0.1)
    alone = np.r_[values, 3.0], np.r_[repetition, 5], np.append(group, "a")
    found = permuted(*alone, swapped=True)
    assert found.p == found.least_p == pytest.approx(2 / 2**5)
    assert found.n == 10
    assert permuted(*alone).p > 0.3  # the drift drowns it


def test_the_exact_p_of_swaps_counts_the_swaps_that_set_the_groups_as_far_apart():
    # One value each: in three of the four blocks a is the smaller. Of 16 swaps 2 put all on one side, 8 three.
    labels = [0, 0, 1, 1, 2, 2, 3, 3]
    found = permuted([1, 5, 2, 3, 7, 4, 8, 9], labels, list("abababab"), swapped=True)
    # At a block's lower value only the smaller one's CDF is 1, at the upper both are.
    assert found.statistic == pytest.approx(np.sqrt(((3 - 1) / 4) ** 2 / 2))
    assert found.p == pytest.approx(10 / 16)
    assert found.least_p == 2 / 16


def test_drawn_permutations_never_give_a_p_of_zero_and_the_same_p_for_the_same_seed():
    values, repetition, group = two_groups(np.random.default_rng(4), 12, 20, shift=9.0)
    found = permuted(values, repetition, group, permutations=499)
    assert found.p == found.least_p == pytest.approx(1 / 500)
    values, repetition, group = two_groups(np.random.default_rng(4), 12, 20)
    first, again, other = (permuted(values, repetition, group, permutations=499, seed=seed).p for seed in (1, 1, 2))
    assert first == again != other
    blocks = permuted(values, repetition, group, permutations=499, swapped=True)
    every = permuted(values, repetition, group, permutations=5000, swapped=True)
    assert every.least_p == 2 / 2**12
    assert blocks.least_p == 1 / 500
    assert blocks.p == pytest.approx(every.p, abs=0.09)  # four standard errors of 499 draws


def test_a_repetition_counts_once_however_many_flows_it_has():
    once = permuted([1, 2, 3, 4, 2, 3, 4, 5], [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    more = permuted([1, 2] * 50 + [3, 4, 2, 3, 4, 5], [0] * 100 + [1, 1, 0, 0, 1, 1], ["a"] * 102 + list("bbbb"))
    assert more.p == once.p


def test_a_failed_flow_can_be_counted_as_one_that_never_ends():
    values = [1, 1, 1, 1, np.inf, 1, np.inf, 1]
    found = permuted(values, [0, 0, 1, 1, 0, 0, 1, 1], list("aaaabbbb"))
    assert found.p == found.least_p


def test_permutation_refuses_what_it_cannot_permute():
    with pytest.raises(TooFewSamples, match="1 and 2 repetitions, and permuting them needs 2 of each"):
        permuted([1, 2, 3], [0, 0, 1], list("abb"))
    with pytest.raises(TooFewSamples, match="1 blocks have a repetition of both groups"):
        permuted([1, 2, 3], [0, 0, 1], list("abb"), swapped=True)
