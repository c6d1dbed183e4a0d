"""What decides the claims of the ledger: pure functions from one row per run to an effect.

A sweep visits every cell once per repetition, so cells are compared within a repetition, where slow drift of the
machine cancels, and repetitions are averaged; percentiles, the median included, are of the flows of all repetitions
(statistics/quantiles.py). effect.py has the registry, cell_reader.py the choice of cells.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

import numpy as np
import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.cell_reader import (
    Cells,
    PairCount,
    core_ratio_steps,
    drivers_meant,
    of_driver,
    pair_counts,
    ratios_text,
)
from pairlab.analysis.claims.effect import ESTIMATORS, Effect, estimator, get
from pairlab.errors import NotMeasured
from pairlab.statistics import quantiles
from pairlab.statistics.intervals import PERCENT, REAL, SHARE, SIGNED

__all__ = ["ESTIMATORS", "get"]

Item = TypeVar("Item")
#: Just two of these.
Two = Annotated[list[Item], Field(min_length=2, max_length=2)]
#: What each repetition has one value of.
Summary = Literal["total_bps", "client_bps", "fct_mean_s", "fct_max_s"]
#: Medians are of the flows of all repetitions: the columns that their times are in.
MEDIANS = {"fct_median_s": "fcts_s", "mouse_median_s": "mouse_fcts_s", "elephant_median_s": "elephant_fcts_s"}
Median = Literal[*MEDIANS]
Role = Literal["mouse_median_s", "mouse_max_s", "elephant_median_s", "elephant_max_s"]


@estimator("%")
def pairs_change(runs: pd.DataFrame, *, driver: str, pairs: Two[PairCount], what: Summary = "total_bps") -> Effect:
    """Change of a summary from one number of pairs to another. driver "all": the largest over the papers' drivers."""
    drivers = drivers_meant(runs, driver)
    cells = Cells(runs)
    before, after = cells.choose(drivers, pairs)
    values = cells.ratio(cells.largest(what, drivers, pairs=after), cells.largest(what, drivers, pairs=before))
    return cells.effect(values, PERCENT, f"{before} → {after} pairs", of=what)


@estimator("%")
def pairs_trend(runs: pd.DataFrame, *, driver: str, pairs: Two[PairCount], what: Summary = "total_bps") -> Effect:
    """Change of a summary over a range of pairs, by a straight line through all its counts, both logarithmic."""
    drivers = drivers_meant(runs, driver)
    cells = Cells(runs)
    first, last = cells.choose(drivers, pairs)
    counts = [count for count in pair_counts(runs, drivers) if first <= count <= last]
    table = cells.beside({count: cells.largest(what, drivers, pairs=count) for count in counts})
    weights = _slope(np.log(counts)) * np.log(last / first)
    values, gain = _logs(cells.positive(table)) @ weights, float(np.linalg.norm(weights))
    return cells.effect(values, PERCENT, f"{', '.join(map(str, counts))} pairs", of=what, gain=gain)


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
    first, second = (cells.of(what, driver=driver, pairs=count) for driver in drivers)
    return cells.effect(cells.ratio(first, second), PERCENT, f"{count} pairs", of=what)


@estimator("share")
def share(runs: pd.DataFrame, *, driver: str, pairs: PairCount, what: Literal["least_over_most", "busy"]) -> Effect:
    """The mean of a share over repetitions."""
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    return cells.share(cells.known(cells.of(what, driver=driver, pairs=count), what), SHARE, f"{count} pairs")


@estimator("r")
def correlation(runs: pd.DataFrame, *, driver: str, pairs: PairCount) -> Effect:
    """Pearson's r of retransmits and throughput over the clients of a repetition: statistics/correlation.py."""
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    found = cells.known(cells.of("correlation_z", driver=driver, pairs=count), "correlation")
    return cells.effect(found, SIGNED, f"{count} pairs")


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
    drivers = drivers_meant(runs, driver)
    parts = [runs[runs["experiment"] == experiment] for experiment, _ in (of, over)]
    for (experiment, _), part in zip((of, over), parts, strict=True):
        if part.empty:
            raise NotMeasured(f"no runs of {experiment}")
    common = set(pair_counts(parts[0], drivers)) & set(pair_counts(parts[1], drivers))
    cells = Cells(runs)
    (count,) = cells.choose(drivers, [pairs], sorted(common))
    if {what for _, what in (of, over)} <= set(MEDIANS):
        if len(drivers) > 1:
            raise NotMeasured("a median over several drivers: name one driver")
        cell = {"driver": drivers[0], "pairs": count}
        sides = [({"experiment": experiment} | cell, what) for experiment, what in (of, over)]
        return _medians(cells, [1, -1], sides, f"{count} pairs")
    found = [cells.largest(what, drivers, experiment=experiment, pairs=count) for experiment, what in (of, over)]
    return cells.effect(cells.ratio(*found), PERCENT, f"{count} pairs")


@estimator("%")
def roles_gap(runs: pd.DataFrame, *, drivers: Two[str], pairs: PairCount, roles: Two[Role]) -> Effect:
    """How much larger the ratio of two drivers is for the first role than for the second.

    The drivers keep their order, as the larger of two noisy values would always make a gap.
    """
    cells = Cells(runs)
    (count,) = cells.choose(drivers, [pairs])
    if set(roles) <= set(MEDIANS):
        sides = [({"driver": driver, "pairs": count}, role) for role in roles for driver in drivers]
        return _medians(cells, [1, -1, -1, 1], sides, f"{count} pairs")
    gaps = [cells.ratio(*(cells.of(role, driver=driver, pairs=count) for driver in drivers)) for role in roles]
    return cells.effect(cells.difference(*gaps), PERCENT, f"{count} pairs")


@estimator("%")
def core_ratio_change(
    runs: pd.DataFrame, *, driver: str, what: Literal["client_bps", "fct_mean_s"], per_step: bool = False
) -> Effect:
    """Change of a summary from the least containers per core to the most; per_step: of one step of the ratio."""
    steps = core_ratio_steps(runs, [driver], what)
    cells = Cells(runs)
    least, most = (cells.of(what, driver=driver, **steps[at].cell) for at in (0, -1))
    over = len(steps) - 1 if per_step else 1
    gain = float(np.sqrt(2)) / over
    return cells.effect(cells.ratio(most, least) / over, PERCENT, ratios_text(steps), of=what, gain=gain)


@estimator("%")
def core_ratio_gap(runs: pd.DataFrame, *, drivers: Two[str], what: Literal["client_bps", "fct_mean_s"]) -> Effect:
    """How much larger the ratio of two drivers is at the most containers per core than at the least."""
    steps = core_ratio_steps(runs, drivers, what)
    cells = Cells(runs)
    gaps = [cells.ratio(*(cells.of(what, driver=driver, **steps[at].cell) for driver in drivers)) for at in (-1, 0)]
    return cells.effect(cells.difference(*gaps), PERCENT, ratios_text(steps), of=what, gain=2.0)


@estimator("ms")
def core_ratio_gap_ms(runs: pd.DataFrame, *, drivers: Two[str]) -> Effect:
    """How many ms more lie between two drivers' mean FCT at the most containers per core than at the least."""
    steps = core_ratio_steps(runs, drivers, "fct_mean_s")
    cells = Cells(runs)
    gaps = [
        cells.difference(*(cells.of("fct_mean_s", driver=driver, **steps[at].cell) for driver in drivers))
        for at in (-1, 0)
    ]
    return cells.effect(1e3 * cells.difference(*gaps), REAL, ratios_text(steps))


@estimator("%")
def pinning_change(runs: pd.DataFrame, *, driver: str, policy: str) -> Effect:
    """Change of the total throughput from no pinning to a policy, at the most pairs that have both."""
    mine = of_driver(runs, driver)
    counts = {name: set(mine.loc[mine["pinning"] == name, "pairs"]) for name in ("none", policy)}
    for name, found in counts.items():
        if not found:
            raise NotMeasured(f"no runs of {driver} with pinning {name}")
    both = counts["none"] & counts[policy]
    if not both:
        raise NotMeasured(f"no number of pairs of {driver} with pinning {policy} and without")
    count = max(both)
    cells = Cells(runs)
    after, before = (cells.of("total_bps", driver=driver, pairs=count, pinning=name) for name in (policy, "none"))
    return cells.effect(cells.ratio(after, before), PERCENT, f"{count} pairs", of="total_bps")


@estimator("%")
def message_size_trend(runs: pd.DataFrame, *, driver: str) -> Effect:
    """Change of the total throughput when messages double, by a straight line through all sizes, both logarithmic."""
    mine = of_driver(runs, driver)
    mine = mine[mine["message_bytes"] > 0]
    if mine.empty:
        raise NotMeasured(f"no runs of {driver} with a message size")
    count = max(mine.groupby("pairs")["message_bytes"].nunique().items(), key=lambda item: (item[1], item[0]))[0]
    sizes = sorted(mine.loc[mine["pairs"] == count, "message_bytes"].unique())
    if len(sizes) < 2:
        raise NotMeasured(f"one message size only of {driver} ({sizes[0]} B): a trend needs two")
    cells = Cells(runs)
    table = cells.beside(
        {size: cells.of("total_bps", driver=driver, pairs=count, message_bytes=size) for size in sizes}
    )
    weights = _slope(np.log2(sizes))
    values, gain = _logs(cells.positive(table)) @ weights, float(np.linalg.norm(weights))
    where = f"{sizes[0]} to {sizes[-1]} B in {len(sizes)} sizes, {count} pairs"
    return cells.effect(values, PERCENT, where, of="total_bps", gain=gain)


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


def _logs(table: pd.DataFrame) -> np.ndarray:
    return np.log(table.to_numpy(dtype=float))


def _slope(across: np.ndarray) -> np.ndarray:
    """The weights that make of values at these places the slope of their least-squares line."""
    centred = np.asarray(across, dtype=float) - np.mean(across)
    return centred / (centred @ centred)
