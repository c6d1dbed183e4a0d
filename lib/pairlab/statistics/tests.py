"""Tests for differences between groups, and effect sizes, with repetitions as samples.

The flows of one repetition share CPUs and queues, so they are not independent, and a test over flows finds false
differences. These functions take one value per repetition; permutation.py moves whole repetitions.
"""

from collections.abc import Hashable, Sequence
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.intervals import ALPHA, LEAST, Estimate, Test, check_share

#: From this many repetitions of each group the chi-squared approximation of kruskal serves.
MANY = 6


def kruskal(frame: pd.DataFrame, value: str, group: str) -> Test:
    """Tests whether any of several groups tends to larger values than another: Kruskal and Wallis's H.

    frame: one row per repetition of each group, with the columns `value` and `group`; one system only. Ties are
    corrected for, and values that are all equal give p = 1. p is from the chi-squared approximation if every group has
    MANY repetitions; with fewer that finds hardly anything, and p is the share of 9999 permutations with as large a
    statistic (the measured one included, so never zero). Raises TooFewSamples for fewer than two groups or two
    repetitions of one, AnalysisError if a value is not finite or a group has a repetition twice.
    Source: Kruskal and Wallis 1952; Phipson and Smyth 2010 for p of permutations.
    """
    groups = list(_by_group(frame, value, group).values())
    pooled = np.concatenate(groups)
    if np.ptp(pooled) == 0:
        return Test(0.0, 1.0, pooled.size, len(groups))
    statistic, p = map(float, stats.kruskal(*groups))
    sizes = [each.size for each in groups]
    if min(sizes) < MANY:
        ranks = np.tile(stats.rankdata(pooled), (10_000, 1))
        ranks[1:] = np.random.default_rng(0).permuted(ranks[1:], axis=1)
        # Given the ranks, Kruskal and Wallis's H grows with this sum only.
        sums = np.add.reduceat(ranks, np.cumsum([0, *sizes[:-1]]), axis=1)
        squares = (sums**2 / sizes).sum(axis=1)
        p = float((squares >= squares[0] * (1 - 1e-12)).mean())
    return Test(statistic, p, pooled.size, len(groups))


def pairwise(frame: pd.DataFrame, value: str, group: str, *, alpha: float = ALPHA) -> pd.DataFrame:
    """Every pair of groups by Mann and Whitney's test, with Holm's correction over the pairs and an effect size.

    frame: as for kruskal. Returns one row per pair: first, second, difference (median of first less median of
    second, in the unit of `value`), delta (Cliff's, above zero where first tends to be larger) with delta_low
    and delta_high at confidence 1 - alpha, p, p_holm, least_p (the smallest p that n_first and n_second can give,
    before the correction), different (p_holm <= alpha), n_first, n_second. p is exact without ties and for up to
    8 repetitions of one of the two, else from the normal approximation. Raises as kruskal.
    Source: Mann and Whitney 1947; Holm 1979; Cliff 1993.
    """
    check_share(alpha, "alpha")
    rows = []
    for (first, a), (second, b) in combinations(_by_group(frame, value, group).items(), 2):
        same = np.ptp(np.concatenate([a, b])) == 0
        delta = cliffs_delta_interval(a, b, 1 - alpha)
        rows.append(
            {
                "first": first,
                "second": second,
                "difference": float(np.median(a) - np.median(b)),
                "delta": delta.value,
                "delta_low": delta.low,
                "delta_high": delta.high,
                "p": 1.0 if same else float(stats.mannwhitneyu(a, b).pvalue),
                "least_p": _least_p(a.size, b.size),
                "n_first": a.size,
                "n_second": b.size,
            }
        )
    table = pd.DataFrame(rows)
    table.insert(table.columns.get_loc("p") + 1, "p_holm", holm(table["p"]))
    table.insert(table.columns.get_loc("least_p") + 1, "different", table["p_holm"] <= alpha)
    return table


def cliffs_delta_interval(
    a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray, confidence: float = 1 - ALPHA
) -> Estimate:
    """Cliff's delta with its asymmetric interval; n counts the values of both.

    Delta is how much more often a value of `a` exceeds one of `b` than the reverse: 1 always, 0 as often, -1 never.
    a, b: 1-D, one value per repetition. The interval needs LEAST of each (else its bounds are NaN), stays within
    [-1, 1], and is wide for few: from 5 of each, all of `a` above all of `b`, it is [0.13, 1]. With Student's quantile
    in place of the normal one it keeps its confidence from 4 of each. Raises TooFewSamples when one is empty,
    AnalysisError for a NaN.
    Source: Cliff 1993; Feng and Cliff 2004 for Student's quantile and for the interval at 1 or -1.
    """
    check_share(confidence, "confidence")
    rows, columns, ties = _dominance(a, b)
    n, m, delta = rows.size, columns.size, float(rows.mean())
    if min(n, m) < LEAST:
        return Estimate(delta, np.nan, np.nan, n + m)
    if abs(delta) == 1:
        square = float(stats.norm.ppf((1 + confidence) / 2)) ** 2
        least = (min(n, m) - square) / (min(n, m) + square)
        low, high = sorted([delta, delta * least])
        return Estimate(delta, low, high, n + m)
    square = float(stats.t.ppf((1 + confidence) / 2, n + m - 2)) ** 2
    within = n * m - ties - n * m * delta**2
    unbiased = (m**2 * ((rows - delta) ** 2).sum() + n**2 * ((columns - delta) ** 2).sum() - within) / (
        n * m * (n - 1) * (m - 1)
    )
    variance = max(unbiased, (1 - delta**2) / (n * m - 1))  # the unbiased one may come out negative
    centre, scale = delta - delta**3, 1 - delta**2 + square * variance
    half = np.sqrt(square * variance * ((1 - delta**2) ** 2 + square * variance))
    return Estimate(delta, max(-1.0, (centre - half) / scale), min(1.0, (centre + half) / scale), n + m)


def holm(p: Sequence[float]) -> np.ndarray:
    """p-values corrected for their number; one that is NaN is no test, and stays. Source: Holm 1979."""
    p = np.asarray(p, dtype=float)
    known = ~np.isnan(p)
    all_corrected = np.full(p.shape, np.nan)
    if known.any():
        order = np.argsort(p[known], kind="stable")
        corrected = np.maximum.accumulate(p[known][order] * np.arange(known.sum(), 0, -1))
        all_corrected[np.flatnonzero(known)[order]] = np.minimum(corrected, 1)
    return all_corrected


def holm_within(table: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """`holm` of the column p of a table, within each group of its rows by these columns."""
    corrected = pd.Series(np.nan, index=table.index)
    for _, part in table.groupby(list(by)):
        corrected[part.index] = holm(part["p"])
    return corrected


@cache
def _least_p(n: int, m: int) -> float:
    return float(stats.mannwhitneyu(np.arange(n), n + np.arange(m)).pvalue)


def _by_group(frame: pd.DataFrame, value: str, group: str) -> dict[Hashable, np.ndarray]:
    if "repetition" in frame and frame.duplicated([group, "repetition"]).any():
        raise AnalysisError(
            f"one {group} has a repetition in more than one row, and rows of one repetition are not independent: reduce"
            " each repetition to one value first, and give one system at a time"
        )
    groups = {
        name: rows.to_numpy(dtype=float)
        for name, rows in frame.groupby(group, sort=True, observed=True, dropna=False)[value]
    }
    if len(groups) < 2:
        raise TooFewSamples(f"a comparison needs at least 2 of {group}, and there are {len(groups)}: measure another")
    for name, values in groups.items():
        if values.size < 2:
            raise TooFewSamples(
                f"{group} {name} has {values.size} repetition, and a comparison needs at least 2: measure more"
            )
        if not np.isfinite(values).all():
            raise AnalysisError(
                f"a repetition of {group} {name} has no finite {value}: count a failed flow as zero, or leave the"
                " run out by name"
            )
    return groups


def _dominance(a: Sequence[float] | np.ndarray, b: Sequence[float] | np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The mean of sign(a - b) for each of a, over b, and for each of b, over a; and the number of ties."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if not (a.size and b.size):
        raise TooFewSamples(f"there are {a.size} and {b.size} values, and a comparison needs 1 of each: measure more")
    if np.isnan(a).any() or np.isnan(b).any():
        raise AnalysisError("a repetition has no value: leave it out by name")
    ordered = np.sort(b)
    below, not_above = np.searchsorted(ordered, a, "left"), np.searchsorted(ordered, a, "right")
    across = np.sort(a)
    columns = 1 - (np.searchsorted(across, b, "left") + np.searchsorted(across, b, "right")) / a.size
    return (below + not_above) / b.size - 1, columns, int((not_above - below).sum())


def shares_differ(first: tuple[int, int], second: tuple[int, int]) -> float:
    """p of Fisher's exact test, two-sided, that two shares are the same; each is (so many, of so many)."""
    if not first[0] and not second[0]:
        return 1.0
    table = [[many, of - many] for many, of in (first, second)]
    return float(stats.fisher_exact(table).pvalue)
