"""Permutation of whole repetitions: tests that hold for any correlation within them."""

from collections.abc import Hashable, Sequence
from itertools import combinations, product
from math import comb

import numpy as np
import pandas as pd

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import Test

#: Places at which cdf_permutation compares two CDFs.
GRID = 2048


def cdf_permutation(
    values: Sequence[float],
    repetition: Sequence[Hashable],
    group: Sequence[Hashable],
    *,
    permutations: int = 2000,
    seed: int = 0,
    blocks: Sequence[Hashable] | None = None,
) -> Test:
    """Whether two groups have the same distribution, when whole repetitions are what is independent.

    values: 1-D, a value per flow (count a failed flow as infinite, or leave it out by name); repetition, group:
    its labels, two groups; a repetition label names another repetition in the other group. Every repetition
    weighs the same, however many flows it has. The statistic is the root mean square difference of the groups'
    mean CDFs (0 to 1), over places spread evenly through the pooled values: Cramér's and von Mises's distance.

    p is the share of assignments of repetitions to groups whose distance is as large: exact where there are at
    most `permutations` assignments, else of that many drawn ones, (1 + as large) / (1 + drawn), never zero. With
    blocks (per value; mostly `repetition` again) the two repetitions of one block are swapped instead, and their
    CDFs compared at places spread through that block's values, so that drift from block to block hides nothing; a
    block that one group lacks is not used, and n counts what is. Holds alpha for any correlation within repetitions.
    Exact if the repetitions of both groups have as many flows; near it (see `make bench`) if they do not.
    Look at least_p: 3 repetitions against 3 cannot give less than 0.1, blocks of 5 not less than 0.0625.
    Raises TooFewSamples for fewer than two repetitions of a group or two blocks, AnalysisError for a NaN, another
    number of groups, labels of another length, or a block with two repetitions of one group.
    Source: Phipson and Smyth 2010 for p; Anderson 1962 for the distance between two samples.
    """
    return _test(_clusters(values, repetition, group, blocks), blocks is not None, permutations, seed)


def of_clusters(first: Clusters, second: Clusters, *, swapped: bool, permutations: int = 2000, seed: int = 0) -> Test:
    """As cdf_permutation, of two groups whose repetitions are apart already.

    swapped: the same label in both names a block; else they are permuted freely.
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


def _clusters(values, repetition, group, blocks) -> pd.DataFrame:
    """One row per repetition of a group: values (array), first (in the first group), block; ordered for _curves."""
    columns = {"value": np.asarray(values, dtype=float), "group": group, "repetition": repetition}
    if blocks is not None:
        columns["block"] = blocks
    columns = {name: np.asarray(column) for name, column in columns.items()}
    if len({column.shape for column in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise AnalysisError(f"values and their labels differ in length ({sizes}): give one label per value")
    if np.isnan(columns["value"]).any():
        raise AnalysisError("a flow has no value: count a failed flow as infinite, or leave it out by name")
    frame = pd.DataFrame(columns)
    names = sorted(frame["group"].unique())
    if len(names) != 2:
        raise AnalysisError(f"two groups can be compared, not {len(names)} ({', '.join(map(str, names))}): take two")
    rows = [
        {"first": label[0] == names[0], "block": label[-1], "values": each.to_numpy()}
        for label, each in frame.groupby([name for name in ("group", "repetition", "block") if name in frame])["value"]
    ]
    clusters = pd.DataFrame(rows)
    return clusters if blocks is None else _in_blocks(clusters)


def _in_blocks(clusters: pd.DataFrame) -> pd.DataFrame:
    """Those of whole blocks, in their order, the first group's before the second's."""
    if clusters.duplicated(["block", "first"]).any():
        raise AnalysisError(
            "a block has two repetitions of one group, and swapping needs one of each: give blocks that hold one"
            " repetition of either group"
        )
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
