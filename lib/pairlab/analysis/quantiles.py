"""Percentiles of flows, how they change, and CDFs: pure functions over arrays and DataFrames.

The flows of one repetition share its CPUs and queues, so they are not independent: what is drawn again in the
bootstrap is whole repetitions. A drawn set of repetitions has as its CDF the weighted sum of theirs, so each
repetition is sorted once and no row is ever copied, however many flows there are.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.analysis.stats import Estimate
from pairlab.errors import AnalysisError, TooFewSamples

#: The percentiles of flow completion times that papers C and E give.
PERCENTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
#: The quantiles that a reduced CDF keeps, and by how much it may move them.
SHOWN = (0.001, 0.999)
TOLERANCE = 1e-3


def percentile(
    values: Sequence[float],
    repetition: Sequence,
    q: float,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """The q-th quantile of all flows, in the unit of `values`, with an interval over repetitions.

    values: 1-D, one per flow that has one. repetition: the label of each value's repetition; each counts by its
    flows. Returns Estimate(value, low, high, n), n the repetitions; from one repetition the bounds are NaN.

    The value is numpy's (linear between order statistics). The interval is value · exp(± t · s): s is the standard
    deviation of the logarithm of the quantile over `resamples` draws of whole repetitions, times √(n/(n−1)), and t
    Student's quantile for n − 1 degrees of freedom; on the plain scale where a repetition's own quantile is not
    positive. The draws' own percentiles make intervals far too short at 3 to 10 repetitions, and a repetition's own
    p99 is biased when it has few flows. On clustered log-normal data with 3 to 10 repetitions the 95 % interval
    holds the quantile in 90 to 97 % of cases; less (some 80 %) where one flow or two lie above it in all, or where
    repetitions differ as much as flows do and it lies in the tail.

    Raises TooFewSamples below 1/(1−q) flows in all (1/q for q < ½), AnalysisError for a value that is not finite.
    Source: Davison and Hinkley 1997, sections 2.4 and 3.8; Cameron, Gelbach and Miller 2008 (t for few clusters).
    """
    clusters = _clusters(values, repetition)
    if short := too_few(len(clusters.pooled), q):
        raise TooFewSamples(short)
    return _estimate(clusters, q, float(np.quantile(clusters.pooled, q)), confidence, resamples, seed)


def percentiles(
    frame: pd.DataFrame,
    by: Sequence[str],
    value: str,
    qs: Sequence[float] = PERCENTILES,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> pd.DataFrame:
    """One row per group and quantile, with interval and what it rests on, as `percentile`.

    frame: a row per flow with the columns of `by`, repetition, `value`, and status where flows can have failed (as
    Runs.flows, or Runs.select). Returns the columns of `by`, q, value, low, high (NaN where there is a gap, or one
    repetition), repetitions, flows, failed_flows, confidence and gap: why there is no number, in words, else empty.

    A failed flow has no value; the percentiles are of the flows that ended, and failed_flows says how many did not.
    Where more than 1 − q of them failed, the quantile of all is not known, and there is a gap. Raises AnalysisError
    where several runs claim one repetition of a group: name what sets them apart in `by`.
    """
    rows = []
    for names, group in _groups(frame, by, value):
        gaps = [group.gap(q, value) for q in qs]
        known = [q for q, gap in zip(qs, gaps, strict=True) if not gap]
        points = dict(zip(known, np.quantile(group.clusters.pooled, known), strict=True)) if known else {}
        for q, gap in zip(qs, gaps, strict=True):
            found = Estimate(np.nan, np.nan, np.nan, group.repetitions)
            if not gap:
                found = _estimate(group.clusters, q, float(points[q]), confidence, resamples, seed)
            rows.append([*names, q, *found, group.flows, group.failed_flows, confidence, gap])
    columns = ["q", "value", "low", "high", "repetitions", "flows", "failed_flows", "confidence", "gap"]
    return pd.DataFrame(rows, columns=[*by, *columns])


def percent_change(
    before: Sequence[float],
    before_repetition: Sequence,
    after: Sequence[float],
    after_repetition: Sequence,
    *,
    q: float = 0.99,
    paired: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """By how much the q-th quantile changes from `before` to `after`, in percent of the former, with an interval.

    before, after: 1-D, one value per flow, with the label of each one's repetition. paired: the same label means
    the same visit of a sweep, whose drift both share; labels that only one has are left out. Returns
    Estimate(value, low, high, n) in percent; n is the repetitions of the side that has fewer.

    The interval is that of `percentile`, of the logarithm of the ratio: paired, both sides draw the same
    repetitions; else their variances add, with Welch's degrees of freedom. Where a repetition's quantile is not
    positive, the ratio is taken as linear. Raises TooFewSamples as `percentile` and where nothing is paired,
    AnalysisError where the quantile before is not positive, of which there is no percentage.
    Source: the percent changes of paper C, section III-B; Welch 1947.
    """
    sides = [_clusters(before, before_repetition), _clusters(after, after_repetition)]
    if paired:
        common = np.intersect1d(sides[0].labels, sides[1].labels)
        if not len(common):
            raise TooFewSamples("no repetition has both sides: nothing is paired; measure both in the same repetitions")
        sides = [side.only(common) for side in sides]
    for side, name in zip(sides, ("before", "after"), strict=True):
        if short := too_few(len(side.pooled), q):
            raise TooFewSamples(f"{name}: {short}")
    first, second = (float(np.quantile(side.pooled, q)) for side in sides)
    if first <= 0:
        raise AnalysisError(f"the quantile before is {first:g}: a change has no percentage of what is not positive")
    ratio, n = second / first, min(len(side.labels) for side in sides)
    if n < 2:
        return Estimate(100 * (ratio - 1), np.nan, np.nan, n)
    drawn = [side.drawn(q, resamples, seed + (0 if paired else place)) for place, side in enumerate(sides)]
    logarithmic = all(draws.min() > 0 for draws in drawn) and second > 0
    # Each side's part in the change of the ratio, or of its logarithm.
    parts = [-np.log(drawn[0]), np.log(drawn[1])] if logarithmic else [-ratio * drawn[0] / first, drawn[1] / first]
    if paired:
        half = _half_width(parts[0] + parts[1], n, confidence)
    else:
        half = _welch(
            [_variance(part, len(side.labels)) for part, side in zip(parts, sides, strict=True)], sides, confidence
        )
    low, high = (ratio * math.exp(-half), ratio * math.exp(half)) if logarithmic else (ratio - half, ratio + half)
    return Estimate(*(100 * (bound - 1) for bound in (ratio, low, high)), n)


def cdf(values: Sequence[float], *, points: int = 2000) -> pd.DataFrame:
    """The empirical CDF as a line of few points: value (its unit kept) and share (0 to 1), both ascending.

    Join the points by straight lines: read off at a share, the line gives numpy's quantile of `values`. Up to
    `points` values are all kept. Of more, those are left out without which no quantile from 0.001 to 0.999 moves
    by more than 0.1 %; the least and the largest stay. Ten million flows leave some hundred points; values that lie
    far apart can need more than `points`, and get them. Raises TooFewSamples when empty, AnalysisError for a value
    that is not finite.
    """
    values = np.sort(_finite(values))
    if not len(values):
        raise TooFewSamples("a CDF needs at least one value, and there is none")
    if len(values) == 1:
        return pd.DataFrame({"value": values.repeat(2), "share": [0.0, 1.0]})
    kept = np.arange(len(values)) if len(values) <= points else _thinned(values)
    return pd.DataFrame({"value": values[kept], "share": kept / (len(values) - 1)})


def cdf_by(frame: pd.DataFrame, by: Sequence[str], value: str, *, points: int = 2000) -> pd.DataFrame:
    """The CDF of each group, as `cdf`: `by`, value, share, and on each row repetitions, flows, failed_flows.

    frame: as for `percentiles`. The share is of the flows that ended; failed_flows says how many did not. A group
    in which none has a value has no rows: `percentiles` names it.
    """
    parts = []
    for names, group in _groups(frame, by, value):
        if len(group.clusters.pooled):
            part = cdf(group.clusters.pooled, points=points)
            told = dict(zip(by, names, strict=True))
            counts = {name: getattr(group, name) for name in ("repetitions", "flows", "failed_flows")}
            parts.append(part.assign(**told, **counts)[[*by, "value", "share", *counts]])
    if not parts:
        raise TooFewSamples(f"no flow has a {value}: measure with a tool that tells it")
    return pd.concat(parts, ignore_index=True)


def too_few(flows: int, q: float) -> str:
    """Why so many flows have no q-th quantile, in words; empty where they have: it needs one flow beyond it."""
    if not 0 < q < 1:
        raise AnalysisError(f"a quantile is asked for as a share between 0 and 1, such as 0.99, not {q!r}")
    needed = math.ceil(1 / min(q, 1 - q) - 1e-9)
    if flows >= needed:
        return ""
    return f"p{100 * q:g} needs at least {needed} flows, and there are {flows}: measure more repetitions or pairs"


@dataclass(frozen=True)
class _Clusters:
    """The values of each repetition, sorted; labels in their order."""

    labels: np.ndarray
    parts: tuple[np.ndarray, ...]

    @cached_property
    def pooled(self) -> np.ndarray:
        return np.concatenate(self.parts) if self.parts else np.empty(0)

    def only(self, labels: np.ndarray) -> "_Clusters":
        chosen = np.isin(self.labels, labels)
        return _Clusters(self.labels[chosen], tuple(part for part, use in zip(self.parts, chosen, strict=True) if use))

    def drawn(self, q: float, resamples: int, seed: int) -> np.ndarray:
        """The quantile of each of `resamples` draws of as many repetitions, with replacement.

        It is searched for among candidates: order statistics of the repetitions. None lies outside their own
        quantiles, as the CDF of a mixture lies between those that it mixes.
        """
        sizes = np.array([len(part) for part in self.parts])
        own = [part[max(math.ceil(q * len(part) - 1e-9), 1) - 1] for part in self.parts]
        spans = [
            (np.searchsorted(part, min(own), "left"), np.searchsorted(part, max(own), "right")) for part in self.parts
        ]
        step = max(1, sum(end - begin for begin, end in spans) // _CANDIDATES)
        near = [part[begin:end:step] for part, (begin, end) in zip(self.parts, spans, strict=True)]
        candidates = np.unique(np.concatenate([*near, own]))
        below = np.stack([np.searchsorted(part, candidates, "right") for part in self.parts])
        count = len(self.parts)
        weights = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
        wanted = q * (weights @ sizes)
        # The first candidate that enough lie below: a search by halves, in all draws at once.
        low, high = np.zeros(resamples, dtype=int), np.full(resamples, len(candidates) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            enough = np.einsum("br,rb->b", weights, below[:, middle]) >= wanted - 1e-9 * sizes.sum()
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return candidates[low]


@dataclass(frozen=True)
class _Group:
    clusters: _Clusters
    repetitions: int
    flows: int
    failed_flows: int
    untold: int

    def gap(self, q: float, value: str) -> str:
        if self.untold:
            return f"{self.untold} of {self.flows} flows are ok and have no {value}: their tool does not tell it"
        if self.failed_flows > (1 - q) * self.flows + 1e-9:
            return (
                f"{self.failed_flows} of {self.flows} flows failed, more than the {100 * (1 - q):.3g} % that lie"
                f" beyond p{100 * q:g}: it is not known"
            )
        return too_few(len(self.clusters.pooled), q)


#: Enough for a grid far finer than the interval, few enough that the search costs nothing.
_CANDIDATES = 1024


def _finite(values: Sequence[float]) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if not np.isfinite(values).all():
        raise AnalysisError("a flow has no finite value: leave failed flows out by name (`percentiles` counts them)")
    return values


def _clusters(values: Sequence[float], repetition: Sequence) -> _Clusters:
    values = _finite(values)
    codes, labels = pd.factorize(np.asarray(repetition), sort=True)
    if len(codes) != len(values):
        raise AnalysisError(f"{len(values)} values have {len(codes)} labels of repetitions: give one for each")
    order = np.argsort(codes.astype(np.min_scalar_type(len(labels))), kind="stable")
    parts = np.split(values[order], np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1])
    return _Clusters(np.asarray(labels), tuple(np.sort(part) for part in parts) if len(labels) else ())


def _groups(frame: pd.DataFrame, by: Sequence[str], value: str) -> Iterable[tuple[tuple, _Group]]:
    by = list(by)
    needed = [*by, "repetition", value]
    if missing := [name for name in needed if name not in frame]:
        raise AnalysisError(f"there is no column {', '.join(missing)}; there are: {', '.join(map(str, frame))}")
    extra = [name for name in ("status", "key") if name in frame and name not in needed]
    for names, group in frame[[*needed, *extra]].groupby(by, sort=True, observed=True):
        if "key" in group:
            _one_run_each(names, group)
        told = group[value].to_numpy(dtype=float, na_value=np.nan)
        ok = (group["status"] == "ok").to_numpy() if "status" in group else ~np.isnan(told)
        usable = ok & ~np.isnan(told)
        repetition = group["repetition"].to_numpy()
        clusters = _clusters(told[usable], repetition[usable])
        failed = int((~ok).sum())
        yield names, _Group(clusters, len(clusters.labels), len(group), failed, int((ok & ~usable).sum()))


def _one_run_each(names: tuple, group: pd.DataFrame) -> None:
    pairs = group[["repetition", "key"]].drop_duplicates()
    if len(several := pairs["repetition"][pairs["repetition"].duplicated()]):
        raise AnalysisError(
            f"several runs claim to be repetition {several.iloc[0]} of {', '.join(map(str, names))}: they were measured"
            " under different specs. Name what sets them apart in `by`, or name one sweep"
        )


def _estimate(clusters: _Clusters, q: float, value: float, confidence: float, resamples: int, seed: int) -> Estimate:
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence is a share between 0 and 1, such as 0.95, not {confidence!r}")
    n = len(clusters.labels)
    if n < 2:
        return Estimate(value, np.nan, np.nan, n)
    drawn = clusters.drawn(q, resamples, seed)
    if drawn.min() > 0:
        factor = math.exp(_half_width(np.log(drawn), n, confidence))
        return Estimate(value, value / factor, value * factor, n)
    half = _half_width(drawn, n, confidence)
    return Estimate(value, value - half, value + half, n)


def _variance(drawn: np.ndarray, n: int) -> float:
    """The variance of an estimate from its bootstrap draws, which spread as if n were n − 1."""
    return float(drawn.var(ddof=1)) * n / (n - 1)


def _half_width(drawn: np.ndarray, n: int, confidence: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(_variance(drawn, n))


def _welch(variances: list[float], sides: list[_Clusters], confidence: float) -> float:
    total = sum(variances)
    if not total:
        return 0.0
    parts = (variance**2 / (len(side.labels) - 1) for variance, side in zip(variances, sides, strict=True))
    return float(stats.t.ppf((1 + confidence) / 2, total**2 / sum(parts))) * math.sqrt(total)


def _thinned(values: np.ndarray) -> np.ndarray:
    """Which of the sorted values to keep so that straight lines between them stay within TOLERANCE.

    First to candidates by value: between two neighbours, all values lie within a fifth of the tolerance. Then from
    few points to more: where a line is off by more than the rest of it, the worst candidate becomes a point too.
    """
    last = len(values) - 1
    candidates = _by_value(values, TOLERANCE / 5)
    inner = (candidates >= math.floor(SHOWN[0] * last)) & (candidates <= math.ceil(SHOWN[1] * last))
    # Beyond the quantiles that are kept, a line may be off by as much as is not seen: a hundredth.
    allowed = np.where(inner, 0.75 * TOLERANCE, 1e-2) * np.abs(values[candidates])
    kept = np.unique(np.searchsorted(candidates, [0, math.floor(SHOWN[0] * last), math.ceil(SHOWN[1] * last), last]))
    while True:
        line = np.interp(candidates, candidates[kept], values[candidates[kept]])
        off = np.abs(line - values[candidates]) - allowed
        worst = np.maximum.reduceat(off, kept)
        segment = np.searchsorted(kept, np.arange(len(candidates)), "right") - 1
        more = np.flatnonzero((off > 0) & (off == worst[segment]))
        if not len(more):
            return candidates[kept]
        kept = np.union1d(kept, more)


def _by_value(values: np.ndarray, step: float) -> np.ndarray:
    """Ranks of sorted values so that two neighbouring ranks are next to each other or differ by less than `step`."""
    if len(values) <= _DENSE:
        return np.arange(len(values))
    ranks = [0, len(values) - 1]
    for sign in (1, -1):
        part = sign * values[sign * values > 0]
        if len(part):
            low, high = math.log(part.min()), math.log(part.max())
            edges = sign * np.exp(np.arange(low, high + step, step))
            first = np.searchsorted(values, edges, "left" if sign > 0 else "right")
            ranks += [first - 1, first]
    return np.unique(np.clip(np.concatenate([np.atleast_1d(rank) for rank in ranks]), 0, len(values) - 1))


#: So many values are searched for a CDF's points one and all.
_DENSE = 20_000
