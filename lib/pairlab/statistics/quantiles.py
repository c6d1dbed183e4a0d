"""Percentiles of flows and their changes, with intervals over repetitions: pure functions over arrays.

A percentile is of all flows of all repetitions together, and a failed flow took longer than any other: with few pairs,
one repetition has too few flows for a high percentile, and the CDF of a figure is of all flows, too. This is the one
definition for notebooks, claims and comparisons, the median included; the error comes from draws of whole repetitions
(clusters.py), as the flows of one repetition are not independent.
"""

import math
from collections.abc import Sequence

import numpy as np

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.model import fct, others
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import FROM_ONE, PERCENT, POSITIVE, REAL, Student

#: The number of bootstrap draws behind an error.
RESAMPLES = 2000


def percentile(clusters: Clusters, q: float, *, resamples: int = RESAMPLES) -> Student:
    """The q-th quantile of all flows, in the unit of the values.

    The value is numpy's "median_unbiased", as cells that differ in size are compared. Its interval is value · exp(± t
    · s): s is the standard deviation of the logarithm of the quantile over `resamples` draws of whole repetitions,
    times √(n/(n−1)), wider where few flows lie beyond the quantile (_widening), and t Student's quantile for n − 1
    degrees of freedom; on the plain scale where it or a repetition's own is not positive. The draws' own percentiles
    make intervals far too short at 3 to 10 repetitions, and a repetition's own p99 is biased when it has few flows.
    On clustered log-normal data with 3 to 10 repetitions the 95 % interval holds the quantile in 90 to 98 % of cases;
    less (some 80 %) where one flow or two lie above it in all, or where repetitions differ as much as flows do and it
    lies in the tail (`make bench` shows it). The error is infinite where a draw of repetitions holds so many failed
    flows that its quantile is not known: there is no interval then.

    Raises TooFewSamples below 1/(1−q) flows in all (1/q for q < ½), and where it depends on flows that failed.
    Source: Davison and Hinkley 1997, sections 2.4 and 3.8; Cameron, Gelbach and Miller 2008 (t for few clusters).
    """
    check(clusters, q)
    value, n = clusters.quantile(q), len(clusters.labels)
    drawn = clusters.drawn(q, resamples) if n > 1 else np.array([np.nan])
    wider = _widening(clusters, q)
    if value > 0 and drawn.min() > 0:
        return Student(math.log(value), wider * _error(np.log(drawn), n), n - 1, n, POSITIVE)
    return Student(value, wider * _error(drawn, n), n - 1, n, REAL)


def percent_change(
    before: Clusters, after: Clusters, q: float, *, paired: bool = True, resamples: int = RESAMPLES
) -> Student:
    """By how much the q-th quantile of all flows changes from `before` to `after`, in percent of the former.

    paired: the same label means the same block, whose drift both share: where both have the same labels, both sides
    draw the same repetitions; else their variances add, with Welch's degrees of freedom, and n is the repetitions of
    the side that has fewer. Raises TooFewSamples as `percentile`, AnalysisError where a quantile is not positive, of
    which there is no percentage. Source: the percent changes of Boeira et al. 2021, section III-B; Welch 1947.
    """
    for side, name in ((before, "before"), (after, "after")):
        check(side, q, f"{name}: ")
    return contrast([(-1.0, before), (1.0, after)], q, paired=paired, resamples=resamples)


def contrast(
    sides: Sequence[tuple[float, Clusters]], q: float, *, paired: bool = True, resamples: int = RESAMPLES
) -> Student:
    """The weighted sum of the logarithms of several sets' quantiles, in percent: a change of a quantile or a ratio.

    Its interval is no narrower than what others took more of one side's time (Clusters.lost).
    """
    sides = sorted(sides, key=lambda side: side[0])  # so that draws do not depend on the caller's order
    for _, side in sides:
        check(side, q)
        if side.quantile(q) <= 0:
            raise AnalysisError(
                f"the quantile is {side.quantile(q):g}: a change has no percentage of what is not positive"
            )
    losses, weights = [side.lost for _, side in sides], [weight for weight, _ in sides]
    sensitive = [others.sensitivity(side.quantile, q, side.lost) for _, side in sides]
    return _contrast(sides, q, paired, resamples).no_narrower(others.of_losses(losses, sensitive, weights))


def _contrast(sides: Sequence[tuple[float, Clusters]], q: float, paired: bool, resamples: int) -> Student:
    if paired and _alike([side for _, side in sides]):
        n = len(sides[0][1].labels)
        with np.errstate(invalid="ignore"):  # draws that depend on failed flows are infinite, and so is the error then
            drawn = sum(weight * _logs(side.drawn(q, resamples)) for weight, side in sides) if n > 1 else [np.nan]
        centre = sum(weight * math.log(side.quantile(q)) for weight, side in sides)
        wider = max(_widening(side, q) for _, side in sides)
        return Student(centre, wider * _error(np.asarray(drawn), n), n - 1, n, PERCENT)
    total = Student(0.0, 0.0, math.inf, len(sides[0][1].labels))
    for place, (weight, side) in enumerate(sides):
        n = len(side.labels)
        drawn = _logs(side.drawn(q, resamples, seed=place)) if n > 1 else np.array([np.nan])
        each = Student(
            -weight * math.log(side.quantile(q)), abs(weight) * _widening(side, q) * _error(drawn, n), n - 1, n
        )
        total = total.minus(each, PERCENT)
    return total


def most_over_least(sides: Sequence[Clusters], q: float, *, resamples: int = RESAMPLES) -> Student:
    """The largest of several sets' quantiles over the least; one or more, and by noise alone above one.

    Sides of the same blocks share their draws; others draw their own. Raises TooFewSamples as `percentile`.
    """
    value, drawn, n = _spread(sides, q, resamples)
    times, error = math.exp(value), _error(drawn, n)
    if not times > 1:
        return Student(times, 0.0 if not error else math.nan, n - 1, n)
    return Student(FROM_ONE.to_scale(times), error * times * FROM_ONE.slope(times), n - 1, n, FROM_ONE)


def spread_ratio(first: Sequence[Clusters], second: Sequence[Clusters], q: float) -> Student:
    """The spread (`most_over_least`) of the first over that of the second, with draws as there."""
    one, drawn, n = _spread(first, q)
    other, drawn_of_other, _ = _spread(second, q, seed=0 if _alike([*first, *second]) else len(first))
    return Student(one - other, _error(drawn - drawn_of_other, n), n - 1, n, POSITIVE)


def too_few(flows: int, q: float) -> str:
    """Why so many flows have no q-th quantile, in words; empty if they have: it needs one flow beyond it."""
    if not 0 < q < 1:
        raise AnalysisError(f"a quantile is asked for as a share between 0 and 1, such as 0.99, not {q!r}")
    needed = flows_needed(q)
    if flows >= needed:
        return ""
    return f"p{100 * q:g} needs at least {needed} flows, and there are {flows}: measure more repetitions or pairs"


def flows_needed(q: float) -> int:
    return math.ceil(1 / min(q, 1 - q) - 1e-9)


def check(clusters: Clusters, q: float, where: str = "") -> None:
    """Raises TooFewSamples if flows have no q-th quantile, or it depends on failed flows."""
    if short := too_few(len(clusters.pooled), q):
        raise TooFewSamples(f"{where}{short}")
    if np.isnan(clusters.quantile(q)):
        raise TooFewSamples(f"{where}{fct.unknown(clusters.failed, len(clusters.pooled), q)}")


def _spread(
    sides: Sequence[Clusters], q: float, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, np.ndarray, int]:
    """The logarithm of the largest over the smallest quantile, the same of each draw, and the repetitions."""
    for side in sides:
        check(side, q)
    n = min(len(side.labels) for side in sides)
    logs = [math.log(side.quantile(q)) for side in sides]
    if n < 2:
        return max(logs) - min(logs), np.array([np.nan]), n
    seeds = [seed + (0 if _alike(sides) else place) for place in range(len(sides))]
    drawn = [_logs(side.drawn(q, resamples, at)) for side, at in zip(sides, seeds, strict=True)]
    return max(logs) - min(logs), np.ptp(drawn, axis=0), n


def _alike(sides: Sequence[Clusters]) -> bool:
    """Whether all sides have the same blocks."""
    return all(np.array_equal(side.labels, sides[0].labels) for side in sides)


def _widening(clusters: Clusters, q: float) -> float:
    """The factor for an error from draws, too small if few flows lie beyond the quantile, as no draw exceeds them.

    Root of 1 + 1/m for m flows beyond: 1.4 for one, near 1 for many. Without it, p99 of 100 equal flows was called
    different two to four times as often as the level (`make bench` shows the rate with it).
    """
    return math.sqrt(1 + 1 / (len(clusters.pooled) * min(q, 1 - q)))


def _error(drawn: np.ndarray, n: int) -> float:
    """The standard error of an estimate from its bootstrap draws, which spread as if n were n − 1."""
    if n < 2:
        return math.nan
    if not np.isfinite(drawn).all():
        return math.inf
    spread = drawn - drawn[0]  # equal draws have none at all
    return math.sqrt(float(spread.var(ddof=1)) * n / (n - 1))


def _logs(drawn: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(drawn)
