"""Effects of the number of pairs, and of drivers at one number of pairs, on throughput and completion times."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.cell_reader import Cells, PairCount, pair_counts
from pairlab.analysis.claims.effect import Each, Effect, estimator
from pairlab.analysis.claims.estimators.settings import Two, change, ratio_effect, trend
from pairlab.errors import NotMeasured
from pairlab.statistics import quantiles
from pairlab.statistics.intervals import SHARE, SIGNED, Student

#: What each repetition has one value of.
Summary = Literal["total_bps", "client_bps", "fct_mean_s", "fct_max_s", "host_s_per_gb"]
Median = Literal["fct_median_s", "mouse_median_s", "elephant_median_s"]
#: Medians are of the flows of all repetitions: the columns that their times are in.
MEDIANS = {"fct_median_s": "fcts_s", "mouse_median_s": "mouse_fcts_s", "elephant_median_s": "elephant_fcts_s"}
Role = Literal["mouse_median_s", "mouse_max_s", "elephant_median_s", "elephant_max_s"]
Count = Annotated[int, Field(ge=1)]


@estimator("%")
def pairs_change(runs: pd.DataFrame, *, driver: str, pairs: Two[PairCount], what: Summary = "total_bps") -> Effect:
    """Change of a summary from one number of pairs to another."""
    cells = Cells(runs)
    before, after = cells.choose([driver], pairs)
    return _pairs_change(cells, driver, before, after, what)


@estimator("%")
def pairs_against(
    runs: pd.DataFrame, *, driver: str, base: Count, among: Two[Count], what: Summary = "total_bps"
) -> Each:
    """Change of a summary from one number of pairs to each that was measured from the first of `among` to the last."""
    (start,) = Cells(runs).choose([driver], [base])
    counts = [count for count in pair_counts(runs, [driver]) if among[0] <= count <= among[1] and count != base]
    if not counts:
        raise NotMeasured(f"no {among[0]} to {among[1]} pairs of {driver} beside {base}")
    parts = {f"{count} pairs": _pairs_change(Cells(runs), driver, start, count, what) for count in counts}
    return Each(parts, points=1 + len(counts))


@estimator("%")
def pairs_steps(runs: pd.DataFrame, *, driver: str, among: Two[Count], what: Summary = "total_bps") -> Each:
    """Change of a summary from each number of pairs, of those from the first of `among` to the last, to the next."""
    every = pair_counts(runs, [driver])
    counts = [count for count in every if among[0] <= count <= among[1]]
    if len(counts) < 2:
        there = ", ".join(map(str, every))
        raise NotMeasured(f"no two of {among[0]} to {among[1]} pairs (there are, for {driver}: {there})")
    steps = {
        f"{first} → {last} pairs": _pairs_change(Cells(runs), driver, first, last, what)
        for first, last in pairwise(counts)
    }
    return Each(steps, points=len(counts))


@estimator("%")
def pairs_trend(runs: pd.DataFrame, *, driver: str, pairs: Two[PairCount], what: Summary = "total_bps") -> Effect:
    """Change of a summary over a range of pairs, by a straight line through all its counts, both logarithmic."""
    cells = Cells(runs)
    first, last = cells.choose([driver], pairs)
    counts = [count for count in pair_counts(runs, [driver]) if first <= count <= last]
    columns = {count: cells.of(what, driver=driver, pairs=count) for count in counts}
    where = f"{', '.join(map(str, counts))} pairs"
    return trend(cells, columns, np.log(counts), where, of=what, over=float(np.log(last / first)))


@estimator("%")
def drivers_change(
    runs: pd.DataFrame, *, drivers: Two[str], pairs: PairCount, what: Summary | Median | Role = "total_bps"
) -> Effect:
    """How much larger a summary is with the first driver than with the second."""
    cells = Cells(runs)
    (count,) = cells.choose(drivers, [pairs])
    if what in MEDIANS:
        sides = [({"driver": driver, "pairs": count}, what) for driver in drivers]
        return _medians(cells, [1, -1], sides, f"{count} pairs")
    first, second = ({"driver": driver, "pairs": count} for driver in drivers)
    return change(cells, first, second, what, f"{count} pairs")


@estimator("times")
def drivers_spread(
    runs: pd.DataFrame,
    *,
    drivers: Annotated[list[str], Field(min_length=2)],
    pairs: PairCount,
    of: Two[str],
    over: Two[str],
) -> Effect:
    """How many times as far the drivers lie apart in one median as in another: (experiment, median) of both.

    Apart is the largest median of a driver over the least, whichever these are: quantiles.spread_ratio.
    """
    for experiment, what in (of, over):
        if what not in MEDIANS:
            raise NotMeasured(f"no median {what}; there are: {', '.join(MEDIANS)}")
        if not (runs["experiment"] == experiment).any():
            raise NotMeasured(f"no runs of {experiment}")
    cells = Cells(runs)
    counts = [set(pair_counts(runs[runs["experiment"] == experiment], drivers)) for experiment, _ in (of, over)]
    (count,) = cells.choose(drivers, [pairs], sorted(set.intersection(*counts)))
    sides = cells.together(
        {
            (side, driver): cells.flows(MEDIANS[what], 0.5, driver=driver, pairs=count, experiment=experiment)
            for side, (experiment, what) in enumerate((of, over))
            for driver in drivers
        }
    )
    first, second = ([sides[side, driver] for driver in drivers] for side in (0, 1))
    apart = [quantiles.most_over_least(side, 0.5).estimate().value for side in (first, second)]
    remarks = cells.remarks()
    remarks["notes"] += (f"largest over least driver {apart[0]:.2f} against {apart[1]:.2f}",)
    return Effect(quantiles.spread_ratio(first, second, 0.5), f"{count} pairs", **remarks)


@estimator("share")
def share(
    runs: pd.DataFrame,
    *,
    driver: str,
    pairs: PairCount,
    what: Literal["least_over_most", "busy", "fct_least_over_most"],
) -> Effect:
    """The mean of a share over repetitions."""
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    found = cells.share(cells.known(cells.of(what, driver=driver, pairs=count), what), SHARE, f"{count} pairs")
    if what != "least_over_most":
        return found
    inner = cells.of("inner_least_over_most", driver=driver, pairs=count).mean()
    beside = () if np.isnan(inner) else (f"without the client with the least and the one with the most: {inner:.2f}",)
    return replace(found, notes=found.notes + beside)


@estimator("r")
def correlation(runs: pd.DataFrame, *, driver: str, pairs: PairCount) -> Effect:
    """Spearman's rank correlation of retransmits and throughput over the clients of a repetition.

    Ranks, as a single client can make Pearson's r: that is told beside it, with the most that leaving one client out
    changes it (statistics/correlation.py).
    """
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    found, pearson, leverage = (
        cells.of(what, driver=driver, pairs=count) for what in ("spearman_z", "pearson_z", "leverage")
    )
    effect = cells.effect(cells.known(found, "correlation"), SIGNED, f"{count} pairs")
    value, low, high, _ = Student.of(pearson.dropna(), SIGNED).estimate()
    beside = f"Pearson's r {value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low == low else "")
    if leverage.notna().any():
        beside += f", in which one client changes a repetition's by up to {leverage.max():.2f}"
    return replace(effect, notes=(*effect.notes, beside))


@estimator("%")
def percentile_change(
    runs: pd.DataFrame, *, driver: str, pairs: Two[PairCount], q: Annotated[float, Field(gt=0, lt=1)]
) -> Effect:
    """Change of a percentile of the FCT from one number of pairs to another: quantiles.percent_change.

    Raises TooFewFlows where a cell has less than 1/(1-q) flows, FlowsFailed where its percentile depends on those that
    failed.
    """
    cells = Cells(runs)
    counts = cells.choose([driver], pairs)
    sides = [({"driver": driver, "pairs": count}, "fcts_s") for count in counts]
    of = {0.5: "fct_median_s", 0.99: "fct_p99_s"}.get(q, "")
    return _percentiles(cells, [-1, 1], sides, q, f"{counts[0]} → {counts[1]} pairs", of)


@estimator("%")
def experiments_change(runs: pd.DataFrame, *, driver: str, pairs: PairCount, of: Two[str], over: Two[str]) -> Effect:
    """How much larger a summary is in one experiment than another is in another: (experiment, summary) of both."""
    parts = [runs[runs["experiment"] == experiment] for experiment, _ in (of, over)]
    for (experiment, _), part in zip((of, over), parts, strict=True):
        if part.empty:
            raise NotMeasured(f"no runs of {experiment}")
    common = set.intersection(*(set(pair_counts(part, [driver])) for part in parts))
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs], sorted(common))
    cell = {"driver": driver, "pairs": count}
    if {what for _, what in (of, over)} <= set(MEDIANS):
        sides = [({"experiment": experiment} | cell, what) for experiment, what in (of, over)]
        return _medians(cells, [1, -1], sides, f"{count} pairs")
    first, second = (cells.of(what, experiment=experiment, **cell) for experiment, what in (of, over))
    return ratio_effect(cells, first, second, f"{count} pairs")


def _pairs_change(cells: Cells, driver: str, before: int, after: int, what: str) -> Effect:
    later, earlier = ({"driver": driver, "pairs": count} for count in (after, before))
    return change(cells, later, earlier, what, f"{before} → {after} pairs")


def _medians(cells: Cells, weights: Sequence[float], sides: Sequence[tuple[dict, str]], where: str) -> Effect:
    """The contrast of medians: sides are cells, and which of MEDIANS is taken of each."""
    of = "fct_median_s" if len(sides) == 2 and {what for _, what in sides} == {"fct_median_s"} else ""
    return _percentiles(cells, weights, [(cell, MEDIANS[what]) for cell, what in sides], 0.5, where, of)


def _percentiles(
    cells: Cells, weights: Sequence[float], sides: Sequence[tuple[dict, str]], q: float, where: str, of: str
) -> Effect:
    flows = [cells.flows(times, q, **cell) for cell, times in sides]
    found = quantiles.contrast(list(zip(weights, flows, strict=True)), q)
    remarks = cells.remarks(of)
    if np.isinf(found.error):
        remarks["notes"] += ("no interval: drawn anew, repetitions can hold too many failed flows",)
    return Effect(found, where, **remarks)
