"""Permutation of whole repetitions: tests that hold for any correlation within a repetition."""

from collections.abc import Sequence
from itertools import combinations, product
from math import comb

import numpy as np

from pairlab.errors import TooFewSamples
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import Test

#: The number of places at which two CDFs are compared.
GRID = 2048


def of_clusters(first: Clusters, second: Clusters, *, swapped: bool, permutations: int = 2000, seed: int = 0) -> Test:
    """Tests whether two groups have the same distribution, with whole repetitions as the independent samples.

    Every repetition weighs the same, however many flows it has. The statistic is the root mean square difference of
    the groups' mean CDFs (0 to 1), over places spread evenly through the pooled values: Cramér's and von Mises's
    distance.

    p is the share of assignments of repetitions to groups with a distance as large: exact for at most `permutations`
    assignments, else of that many drawn ones, (1 + as large) / (1 + drawn), never zero. swapped: a label in both groups
    names a block (else it names two repetitions), whose two repetitions are swapped, and their CDFs compared at places
    spread through that block's values, so that drift from block to block hides nothing; a block that one group lacks is
    not used, and n counts the used ones. Holds alpha for any correlation within repetitions: exactly if the repetitions
    of both groups have as many flows, else nearly (see `make bench`). Check least_p: 3 repetitions against 3 cannot
    give less than 0.1, blocks of 5 not less than 0.0625.
    Raises TooFewSamples for fewer than two repetitions of a group, or two blocks.
    Source: Phipson and Smyth 2010 for p; Anderson 1962 for the distance between two samples.
    """
    if not swapped:
        counts = len(first.parts), len(second.parts)
        if min(counts) < 2:
            raise TooFewSamples(
                f"the groups have {counts[0]} and {counts[1]} repetitions, and permuting them needs 2 of each:"
                " measure more repetitions"
            )
        parts, n = (*first.parts, *second.parts), sum(counts)
        curves, total = _curves(parts, min(GRID, sum(map(len, parts)))), comb(n, counts[0])
        # The weights of an assignment add up to zero, so the mean curve can be subtracted: squares keep their digits.
        curves = curves - curves.mean(axis=0)
        weights = _assignments(np.arange(n) < counts[0], total, permutations, seed)
        least = (1 + (counts[0] == counts[1])) / total
    else:
        groups = [dict(zip(group.labels, group.parts, strict=True)) for group in (first, second)]
        pairs = [[group[label] for group in groups] for label in sorted(groups[0].keys() & groups[1].keys())]
        if len(pairs) < 2:
            raise TooFewSamples(
                f"{len(pairs)} blocks have a repetition of both groups, and swapping needs 2: measure more"
            )
        places, n = min(GRID, max(sum(map(len, pair)) for pair in pairs)), 2 * len(pairs)
        curves = np.stack([np.subtract(*_curves(pair, places)) for pair in pairs])
        total = 2 ** len(pairs)
        weights = _swaps(len(pairs), total, permutations, seed)
        least = 2 / total
    squares = np.einsum("ik,kl,il->i", weights, curves @ curves.T / curves.shape[1], weights)
    # The first row is the measured assignment. Equal distances must count as equal whatever the order of summing.
    as_large = squares >= squares[0] * (1 - 1e-9) - 1e-15
    if total > permutations:
        least = 1 / len(squares)
    return Test(float(np.sqrt(max(squares[0], 0.0))), float(as_large.mean()), n, 2, least)


def _curves(clusters: Sequence[np.ndarray], places: int) -> np.ndarray:
    """The CDF of each cluster at that many places among the values of all clusters: clusters x places."""
    pooled = np.sort(np.concatenate(clusters))
    at = pooled[np.rint(np.linspace(0, pooled.size - 1, places)).astype(int)]
    return np.stack([np.searchsorted(np.sort(each), at, "right") / each.size for each in clusters])


def _assignments(first: np.ndarray, total: int, permutations: int, seed: int) -> np.ndarray:
    """Weights for the difference of the two groups' means, one row per assignment, the measured one first."""
    if total <= permutations:
        chosen = np.zeros((total, first.size), dtype=bool)
        for row, members in enumerate(combinations(range(first.size), int(first.sum()))):
            chosen[row, members] = True
        chosen = chosen[np.argsort(~(chosen == first).all(axis=1), kind="stable")]
    else:
        drawn = np.random.default_rng(seed).permuted(np.tile(first, (permutations, 1)), axis=1)
        chosen = np.vstack([first, drawn])
    return np.where(chosen, 1 / first.sum(), -1 / (~first).sum())


def _swaps(count: int, total: int, permutations: int, seed: int) -> np.ndarray:
    """A sign per block, divided by their number, one row per assignment, the measured one (all plus) first."""
    if total <= permutations:
        signs = np.array(list(product([1.0, -1.0], repeat=count)))
    else:
        drawn = np.random.default_rng(seed).choice([1.0, -1.0], size=(permutations, count))
        signs = np.vstack([np.ones(count), drawn])
    return signs / count
