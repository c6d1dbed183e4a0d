"""Percentiles of flows, how they change, and CDFs: pure functions over arrays and DataFrames.

The flows of one repetition share its CPUs and queues, so they are not independent: what is drawn again in the
bootstrap is whole repetitions. A drawn set of repetitions has as its CDF the weighted sum of theirs, so each
repetition is sorted once and no row is ever copied, however many flows there are.
"""

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

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
    return _estimate(clusters, q, confidence, resamples, seed)


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
    asked = _Asked(value, tuple(qs), confidence, resamples, seed)
    return _table(by, _each_group(frame, by, value, asked.rows))


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
    first, second = (side.quantile(q) for side in sides)
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
    low, high = (ratio / _exp(half), ratio * _exp(half)) if logarithmic else (ratio - half, ratio + half)
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
    return _line(values, points)


def cdf_by(frame: pd.DataFrame, by: Sequence[str], value: str, *, points: int = 2000) -> pd.DataFrame:
    """The CDF of each group, as `cdf`: `by`, value, share, and on each row repetitions, flows, failed_flows.

    frame: as for `percentiles`. The share is of the flows that ended; failed_flows says how many did not. A group
    in which none has a value has no rows: `percentiles` names it.
    """
    return _lines(value, _each_group(frame, by, value, lambda names, group: _points(by, names, group, points)))


def percentiles_and_cdf(
    frame: pd.DataFrame,
    by: Sequence[str],
    value: str,
    qs: Sequence[float] = PERCENTILES,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    points: int = 2000,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What `percentiles` and `cdf_by` give, in one pass: of many millions of flows it takes little more than one."""
    asked = _Asked(value, tuple(qs), confidence, resamples, seed)

    def both(names: tuple, group: _Group) -> tuple:
        return asked.rows(names, group), _points(by, names, group, points)

    made = _each_group(frame, by, value, both)
    return _table(by, [rows for rows, _ in made]), _lines(value, [line for _, line in made])


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
        """All values, sorted."""
        return np.sort(np.concatenate(self.parts)) if self.parts else np.empty(0)

    def quantile(self, q: float) -> float:
        """numpy's, of what is sorted already."""
        below, part = divmod(q * (len(self.pooled) - 1), 1)
        near = self.pooled[int(below) : int(below) + 2]
        return float(np.quantile(near, part)) if len(near) > 1 else float(near[0])

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
        spans = [np.searchsorted(part, [min(own), np.nextafter(max(own), np.inf)]) for part in self.parts]
        step = max(1, int(np.diff(spans).sum()) // _CANDIDATES)
        near = [part[begin:end:step] for part, (begin, end) in zip(self.parts, spans, strict=True)]
        candidates = np.unique(np.concatenate([*near, own]))
        below = np.stack([np.searchsorted(part, candidates, "right") for part in self.parts])
        weights = _weights(len(self.parts), resamples, seed)
        wanted = q * (weights @ sizes) - 1e-9 * sizes.sum()
        # The first candidate that enough lie below: a search by halves, in all draws at once.
        low, high = np.zeros(resamples, dtype=int), np.full(resamples, len(candidates) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            enough = np.einsum("br,rb->b", weights, below[:, middle]) >= wanted
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return candidates[low]


@lru_cache(maxsize=8)
def _weights(count: int, resamples: int, seed: int) -> np.ndarray:
    """How often each of `count` repetitions is in each draw of as many."""
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    drawn.flags.writeable = False
    return drawn


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


@dataclass(frozen=True)
class _Asked:
    """What is asked of each group in `percentiles`."""

    value: str
    qs: tuple[float, ...]
    confidence: float
    resamples: int
    seed: int

    def rows(self, names: tuple, group: _Group) -> list[list]:
        made = []
        for q in self.qs:
            gap = group.gap(q, self.value)
            found = Estimate(np.nan, np.nan, np.nan, group.repetitions)
            if not gap:
                found = _estimate(group.clusters, q, self.confidence, self.resamples, self.seed)
            made.append([*names, q, *found, group.flows, group.failed_flows, self.confidence, gap])
        return made


def _table(by: Sequence[str], made: list[list[list]]) -> pd.DataFrame:
    columns = ["q", "value", "low", "high", "repetitions", "flows", "failed_flows", "confidence", "gap"]
    return pd.DataFrame([row for rows in made for row in rows], columns=[*by, *columns])


def _points(by: Sequence[str], names: tuple, group: _Group, points: int) -> pd.DataFrame | None:
    if not len(group.clusters.pooled):
        return None
    counts = {name: getattr(group, name) for name in ("repetitions", "flows", "failed_flows")}
    line = _line(group.clusters.pooled, points).assign(**dict(zip(by, names, strict=True)), **counts)
    return line[[*by, "value", "share", *counts]]


def _lines(value: str, made: list[pd.DataFrame | None]) -> pd.DataFrame:
    made = [line for line in made if line is not None]
    if not made:
        raise TooFewSamples(f"no flow has a {value}: measure with a tool that tells it")
    return pd.concat(made, ignore_index=True)


#: A frame of more stretches of equal rows than this is sorted first.
_SCATTERED = 20_000
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


def _each_group(frame: pd.DataFrame, by: Sequence[str], value: str, work: Callable[[tuple, _Group], Any]) -> list:
    """What `work` makes of each group, in their order; as many at once as there are CPUs."""
    by = list(by)
    needed = [*by, "repetition", value]
    if missing := [name for name in needed if name not in frame]:
        raise AnalysisError(f"there is no column {', '.join(missing)}; there are: {', '.join(map(str, frame))}")
    apart = [*by, "repetition", *({"key"} & set(frame))]
    frame = frame[list(dict.fromkeys([*apart, value, *({"status"} & set(frame))]))]
    if len(begins := _begins(frame[apart])) > _SCATTERED:
        order = np.argsort(frame.groupby(apart, observed=True).ngroup().to_numpy(), kind="stable")
        frame = frame.take(order)
        begins = _begins(frame[apart])
    stretches = frame[apart].take(begins).assign(begin=begins, end=np.append(begins[1:], len(frame)))
    told = frame[value].to_numpy(dtype=float, na_value=np.nan)
    ok = (frame["status"] == "ok").to_numpy() if "status" in frame else None

    def one(names_and_stretches: tuple[tuple, pd.DataFrame]) -> Any:
        names, mine = names_and_stretches
        if "key" in mine:
            _one_run_each(names, mine)
        return work(names, _group(mine, told, ok))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(one, stretches.groupby(by, sort=True, observed=True)))


def _begins(frame: pd.DataFrame) -> np.ndarray:
    """Where a stretch of equal rows begins."""
    changes = np.zeros(len(frame), dtype=bool)
    changes[:1] = True
    for name in frame:
        column = frame[name]
        codes = column.cat.codes if column.dtype == "category" else column
        codes = codes.to_numpy() if pd.api.types.is_numeric_dtype(codes) else pd.factorize(codes)[0]
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)


def _group(stretches: pd.DataFrame, told: np.ndarray, ok: np.ndarray | None) -> _Group:
    """stretches: begin and end of rows, each of one repetition; told, ok: of all rows."""
    labels, parts, flows, failed, untold = [], [], 0, 0, 0
    for label, mine in stretches.groupby("repetition", sort=True, observed=True):
        spans = list(zip(mine["begin"], mine["end"], strict=True))
        values = np.concatenate([told[begin:end] for begin, end in spans])  # a copy, to be sorted in its place
        good = None if ok is None else np.concatenate([ok[begin:end] for begin, end in spans])
        lost = 0 if good is None else len(good) - int(np.count_nonzero(good))
        if lost:
            values[~good] = np.nan
        values.sort()  # what is missing comes last
        known = int(np.searchsorted(values, np.nan))
        flows += len(values)
        failed += len(values) - known if ok is None else lost
        untold += 0 if ok is None else len(values) - known - lost
        if known:
            _finite(values[[0, known - 1]])
            labels.append(label)
            parts.append(values[:known])
    return _Group(_Clusters(np.asarray(labels), tuple(parts)), len(parts), flows, failed, untold)


def _one_run_each(names: tuple, group: pd.DataFrame) -> None:
    pairs = group[["repetition", "key"]].drop_duplicates()
    if len(several := pairs["repetition"][pairs["repetition"].duplicated()]):
        raise AnalysisError(
            f"several runs claim to be repetition {several.iloc[0]} of {', '.join(map(str, names))}: they were measured"
            " under different specs. Name what sets them apart in `by`, or name one sweep"
        )


def _estimate(clusters: _Clusters, q: float, confidence: float, resamples: int, seed: int) -> Estimate:
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence is a share between 0 and 1, such as 0.95, not {confidence!r}")
    n, value = len(clusters.labels), clusters.quantile(q)
    if n < 2:
        return Estimate(value, np.nan, np.nan, n)
    drawn = clusters.drawn(q, resamples, seed)
    if drawn.min() > 0:
        factor = _exp(_half_width(np.log(drawn), n, confidence))
        return Estimate(value, value / factor, value * factor, n)
    half = _half_width(drawn, n, confidence)
    return Estimate(value, value - half, value + half, n)


def _variance(drawn: np.ndarray, n: int) -> float:
    """The variance of an estimate from its bootstrap draws, which spread as if n were n − 1."""
    return float((drawn - drawn[0]).var(ddof=1)) * n / (n - 1)  # equal draws have none at all


def _half_width(drawn: np.ndarray, n: int, confidence: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, n - 1)) * math.sqrt(_variance(drawn, n))


def _exp(half: float) -> float:
    return math.exp(half) if half < 700 else math.inf


def _welch(variances: list[float], sides: list[_Clusters], confidence: float) -> float:
    total = sum(variances)
    if not total:
        return 0.0
    parts = (variance**2 / (len(side.labels) - 1) for variance, side in zip(variances, sides, strict=True))
    return float(stats.t.ppf((1 + confidence) / 2, total**2 / sum(parts))) * math.sqrt(total)


def _line(values: np.ndarray, points: int) -> pd.DataFrame:
    """As `cdf`, of sorted values."""
    if len(values) == 1:
        return pd.DataFrame({"value": values.repeat(2), "share": [0.0, 1.0]})
    kept = np.arange(len(values)) if len(values) <= points else _thinned(values)
    return pd.DataFrame({"value": values[kept], "share": kept / (len(values) - 1)})


def _thinned(values: np.ndarray) -> np.ndarray:
    """Which of the sorted values to keep so that straight lines between them stay within TOLERANCE.

    First to candidates by value: between two neighbours, all values lie within a third of the tolerance. Then from
    few points to more: where a line is off by more than the rest of it, the worst candidate becomes a point too.
    """
    last = len(values) - 1
    candidates = _by_value(values, 0.3 * TOLERANCE)
    ends = math.floor(SHOWN[0] * last), math.ceil(SHOWN[1] * last)
    # Beyond the quantiles that are kept, a line may be off by as much as is not seen: a hundredth.
    inner = (candidates >= ends[0]) & (candidates <= ends[1])
    exact = values[candidates]
    allowed = np.where(inner, 0.65 * TOLERANCE, 1e-2) * np.abs(exact)
    kept = np.unique(np.searchsorted(candidates, [0, *ends, last]))
    while True:
        off = np.abs(np.interp(candidates, candidates[kept], exact[kept]) - exact) - allowed
        worst = np.repeat(np.maximum.reduceat(off, kept), np.diff(kept, append=len(candidates)))
        more = np.flatnonzero((off > 0) & (off == worst))
        if not len(more):
            return candidates[kept]
        kept = np.union1d(kept, more)


def _by_value(values: np.ndarray, step: float) -> np.ndarray:
    """Ranks of sorted values so that two neighbouring ranks are next to each other or differ by less than `step`."""
    last = len(values) - 1
    below, above = np.searchsorted(values, [0, np.nextafter(0, 1)])
    ends = [0, below - 1, below, above - 1, above, math.floor(SHOWN[0] * last), math.ceil(SHOWN[1] * last), last]
    ranks = [np.array(ends)]
    for part, sign in ((values[above:], 1), (values[:below], -1)):
        if len(part):
            low, high = sorted(math.log(abs(end)) for end in (part[0], part[-1]))
            if high - low > len(part) * step:
                return np.arange(len(values))
            first = np.searchsorted(values, sign * np.exp(np.arange(low, high + step, step)))
            ranks += [first - 1, first]
    return np.unique(np.clip(np.concatenate(ranks), 0, last))
