"""Permutation of whole repetitions: tests that hold for any correlation within them."""

from itertools import combinations, product
from math import comb

import numpy as np
import pandas as pd

from pairlab.errors import TooFewSamples
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import Test

#: Places at which two CDFs are compared.
GRID = 2048


def of_clusters(first: Clusters, second: Clusters, *, swapped: bool, permutations: int = 2000, seed: int = 0) -> Test:
    """Whether two groups have the same distribution, when whole repetitions are what is independent.

    Every repetition weighs the same, however many flows it has. The statistic is the root mean square difference of
    the groups' mean CDFs (0 to 1), over places spread evenly through the pooled values: Cramér's and von Mises's
    distance.

    p is the share of assignments of repetitions to groups whose distance is as large: exact where there are at
    most `permutations` assignments, else of that many drawn ones, (1 + as large) / (1 + drawn), never zero. With
    swapped, a label in both groups names a block (else it names two repetitions): the two repetitions of a block are
    swapped instead, and their CDFs compared at places spread through that block's values, so that drift from block to
    block hides nothing; a block that one group lacks is not used, and n counts what is. Holds alpha for any correlation
    within repetitions. Exact if the repetitions of both groups have as many flows; near it (see `make bench`) if they
    do not. Look at least_p: 3 repetitions against 3 cannot give less than 0.1, blocks of 5 not less than 0.0625.
    Raises TooFewSamples for fewer than two repetitions of a group, or two blocks.
    Source: Phipson and Smyth 2010 for p; Anderson 1962 for the distance between two samples.
    """
    rows = [
        {"first": place == 0, "block": label, "values": part}
        for place, group in enumerate((first, second))
        for label, part in zip(group.labels, group.parts, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=["first", "block", "values"])
    return _test(_in_blocks(frame) if swapped else frame, swapped, permutations, seed)


def _test(clusters: pd.DataFrame, swapped: bool, permutations: int, seed: int) -> Test:
    n_first = int(clusters["first"].sum())
    if not swapped:
        counts = (n_first, len(clusters) - n_first)
        if min(counts) < 2:
            raise TooFewSamples(
                f"the groups have {counts[0]} and {counts[1]} repetitions, and permuting them needs 2 of each:"
                " measure more repetitions"
            )
        places = min(GRID, sum(map(len, clusters["values"])))
        curves, every = _curves(clusters["values"], places), comb(sum(counts), n_first)
        # The weights of an assignment add up to zero, so the mean curve can go: squares lose no digits to it.
        curves = curves - curves.mean(axis=0)
        weights = _assignments(clusters["first"].to_numpy(), every, permutations, seed)
        least = (1 + (counts[0] == counts[1])) / every
    else:
        # Sorted by block, with the first group's before the second's.
        pairs = [clusters["values"].iloc[place : place + 2] for place in range(0, len(clusters), 2)]
        places = min(GRID, max(sum(map(len, pair)) for pair in pairs))
        curves = np.stack([np.subtract(*_curves(pair, places)) for pair in pairs])
        every = 2**n_first
        weights = _swaps(n_first, every, permutations, seed)
        least = 2 / every
    squares = np.einsum("ik,kl,il->i", weights, curves @ curves.T / curves.shape[1], weights)
    # The first row is what was measured. Equal distances must count as equal whatever the order of summing.
    as_large = squares >= squares[0] * (1 - 1e-9) - 1e-15
    if every > permutations:
        least = 1 / len(squares)
    return Test(float(np.sqrt(max(squares[0], 0.0))), float(as_large.mean()), len(clusters), 2, least)


def _in_blocks(clusters: pd.DataFrame) -> pd.DataFrame:
    """Those of whole blocks, in their order, the first group's before the second's."""
    whole = clusters.groupby("block")["first"].transform("size") == 2
    if whole.sum() < 4:
        raise TooFewSamples(
            f"{int(whole.sum()) // 2} blocks have a repetition of both groups, and swapping needs 2: measure more"
        )
    return clusters[whole].sort_values(["block", "first"], ascending=[True, False], kind="stable")


def _curves(clusters: pd.Series, places: int) -> np.ndarray:
    """The CDF of each cluster at so many of all their values, whichever their groups: clusters x places."""
    pooled = np.sort(np.concatenate(list(clusters)))
    at = pooled[np.rint(np.linspace(0, pooled.size - 1, places)).astype(int)]
    return np.stack([np.searchsorted(np.sort(each), at, "right") / each.size for each in clusters])


def _assignments(first: np.ndarray, every: int, permutations: int, seed: int) -> np.ndarray:
    """Weights that make the difference of the two groups' means, one row per assignment, the measured one first."""
    if every <= permutations:
        chosen = np.zeros((every, first.size), dtype=bool)
        for row, members in enumerate(combinations(range(first.size), int(first.sum()))):
            chosen[row, members] = True
        chosen = chosen[np.argsort(~(chosen == first).all(axis=1), kind="stable")]
    else:
        drawn = np.random.default_rng(seed).permuted(np.tile(first, (permutations, 1)), axis=1)
        chosen = np.vstack([first, drawn])
    return np.where(chosen, 1 / first.sum(), -1 / (~first).sum())


def _swaps(count: int, every: int, permutations: int, seed: int) -> np.ndarray:
    """A sign per block over their number, one row per assignment, the measured one (all plus) first."""
    if every <= permutations:
        signs = np.array(list(product([1.0, -1.0], repeat=count)))
    else:
        drawn = np.random.default_rng(seed).choice([1.0, -1.0], size=(permutations, count))
        signs = np.vstack([np.ones(count), drawn])
    return signs / count
