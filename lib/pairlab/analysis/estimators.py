"""What decides the claims of the ledger: pure functions from one row per run to an effect.

A sweep visits every cell once per repetition, so cells are compared within a repetition, where slow drift of the
machine cancels; what repetitions tell is averaged. effects.py has the registry, cells.py the choice of cells.
"""

from typing import Annotated, Literal, TypeVar

import numpy as np
import pandas as pd
from pydantic import Field

from pairlab import completion_times
from pairlab.analysis.cells import (
    Cells,
    PairCount,
    core_ratio_steps,
    drivers_meant,
    of_driver,
    pair_counts,
    ratios_told,
)
from pairlab.analysis.effects import (
    CORRELATION,
    ESTIMATORS,
    PERCENT,
    PLAIN,
    Effect,
    FlowsFailed,
    TooFewFlows,
    estimator,
    get,
)
from pairlab.errors import NotMeasured

__all__ = ["ESTIMATORS", "get"]

Item = TypeVar("Item")
#: Just two of these.
Two = Annotated[list[Item], Field(min_length=2, max_length=2)]
Summary = Literal["total_bps", "client_bps", "fct_median_s", "fct_mean_s", "fct_max_s"]
Role = Literal["mouse_median_s", "mouse_max_s", "elephant_median_s", "elephant_max_s"]

#: By how much percentile_change widens its interval, see there.
PERCENTILE_WIDENING = 1.4
_RESAMPLES = 400


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
    runs: pd.DataFrame, *, drivers: Two[str], pairs: PairCount, what: Summary | Role = "total_bps"
) -> Effect:
    """How much larger a summary is with the first driver than with the second."""
    cells = Cells(runs)
    (count,) = cells.choose(drivers, [pairs])
    first, second = (cells.of(what, driver=driver, pairs=count) for driver in drivers)
    return cells.effect(cells.ratio(first, second), PERCENT, f"{count} pairs", of=what)


@estimator("share")
def share(runs: pd.DataFrame, *, driver: str, pairs: PairCount, what: Literal["least_over_most", "busy"]) -> Effect:
    """The mean of a share over repetitions."""
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    return cells.effect(cells.known(cells.of(what, driver=driver, pairs=count), what), PLAIN, f"{count} pairs")


@estimator("r")
def correlation(runs: pd.DataFrame, *, driver: str, pairs: PairCount) -> Effect:
    """Pearson's r of retransmits and throughput over the clients of a repetition, averaged as Fisher's z."""
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs])
    found = cells.known(cells.of("correlation", driver=driver, pairs=count), "correlation")
    return cells.effect(np.arctanh(found.clip(-0.9999, 0.9999)), CORRELATION, f"{count} pairs")


@estimator("%")
def percentile_change(
    runs: pd.DataFrame, *, driver: str, pairs: Two[PairCount], q: Annotated[float, Field(gt=0, lt=1)]
) -> Effect:
    """Change of a percentile of the FCT from one number of pairs to another, over the flows of all repetitions.

    One repetition of few pairs has too few flows for a high percentile, so percentiles are of all flows together, and
    the spread is that of a bootstrap of whole repetitions; the one cell may have more of them than the other. Close to
    the largest flow the bootstrap is too narrow: simulated repetitions without a difference were called different
    twice to three times as often as they should, so the spread is widened by PERCENTILE_WIDENING. Where the percentile
    of some draws hangs on flows that failed, there is no spread. Raises TooFewFlows where a cell has less than 1/(1-q)
    flows, FlowsFailed where its percentile hangs on those that failed.
    Source: Hyndman and Fan 1996 (the median-unbiased quantile, as the cells differ in size).
    """
    cells = Cells(runs)
    counts = cells.choose([driver], pairs)
    fcts = [cells.of("fcts_s", driver=driver, pairs=count).dropna() for count in counts]
    needed = int(np.ceil(1 / (1 - q) - 1e-9))

    def percentile(times_s: np.ndarray) -> float:
        return completion_times.quantile(times_s, q, "median_unbiased")

    for count, cell in zip(counts, fcts, strict=True):
        if sum(map(len, cell)) < needed:
            raise TooFewFlows(
                f"percentile {100 * q:g} needs {needed} flows, and {driver} with {count} pairs has"
                f" {sum(map(len, cell))}",
                repetitions_needed=-(-needed // count),
            )
        times_s = np.concatenate(cell.to_list())
        if np.isnan(percentile(times_s)):
            told = completion_times.unknown(int(np.isinf(times_s).sum()), len(times_s), q)
            raise FlowsFailed(f"{driver} with {count} pairs: {told}")

    def change(*which: np.ndarray) -> float:
        before, after = (
            percentile(np.concatenate(cell.iloc[drawn].to_list())) for cell, drawn in zip(fcts, which, strict=True)
        )
        return float(np.log(after / before))

    def draw() -> tuple[np.ndarray, ...]:
        if fcts[0].index.equals(fcts[1].index):  # the same repetitions are drawn of both: what drifts slowly cancels
            return (random.integers(0, n, n),) * 2
        return tuple(random.integers(0, len(cell), len(cell)) for cell in fcts)

    n = min(map(len, fcts))
    whole = change(*(np.arange(len(cell)) for cell in fcts))
    random = np.random.default_rng(0)
    drawn = [change(*draw()) for _ in range(_RESAMPLES if n > 1 else 0)]
    # The draws spread as the estimate does, and as if n were n - 1; one repetition's part in it is √n times that.
    spread = float(np.std(drawn, ddof=1)) * n / np.sqrt(n - 1) * PERCENTILE_WIDENING if n > 1 else np.nan
    told = cells.told({0.5: "fct_median_s", 0.99: "fct_p99_s"}.get(q, ""))
    if n > 1 and np.isnan(spread):
        told["notes"] += ("no interval: drawn anew, repetitions can hold too many failed flows",)
    return Effect(whole, spread, n, PERCENT, f"{counts[0]} → {counts[1]} pairs", **told)


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
    found = [cells.largest(what, drivers, experiment=experiment, pairs=count) for experiment, what in (of, over)]
    return cells.effect(cells.ratio(*found), PERCENT, f"{count} pairs")


@estimator("%")
def roles_gap(runs: pd.DataFrame, *, drivers: Two[str], pairs: PairCount, roles: Two[Role]) -> Effect:
    """How much larger the ratio of two drivers is for the first role than for the second.

    The drivers keep their order, as the larger of two noisy values would always make a gap.
    """
    cells = Cells(runs)
    (count,) = cells.choose(drivers, [pairs])
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
    return cells.effect(cells.ratio(most, least) / over, PERCENT, ratios_told(steps), of=what, gain=gain)


@estimator("%")
def core_ratio_gap(runs: pd.DataFrame, *, drivers: Two[str], what: Literal["client_bps", "fct_mean_s"]) -> Effect:
    """How much larger the ratio of two drivers is at the most containers per core than at the least."""
    steps = core_ratio_steps(runs, drivers, what)
    cells = Cells(runs)
    gaps = [cells.ratio(*(cells.of(what, driver=driver, **steps[at].cell) for driver in drivers)) for at in (-1, 0)]
    return cells.effect(cells.difference(*gaps), PERCENT, ratios_told(steps), of=what, gain=2.0)


@estimator("ms")
def core_ratio_gap_ms(runs: pd.DataFrame, *, drivers: Two[str]) -> Effect:
    """How many ms more lie between two drivers' mean FCT at the most containers per core than at the least."""
    steps = core_ratio_steps(runs, drivers, "fct_mean_s")
    cells = Cells(runs)
    gaps = [
        cells.difference(*(cells.of("fct_mean_s", driver=driver, **steps[at].cell) for driver in drivers))
        for at in (-1, 0)
    ]
    return cells.effect(1e3 * cells.difference(*gaps), PLAIN, ratios_told(steps))


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
    told = f"{sizes[0]} to {sizes[-1]} B in {len(sizes)} sizes, {count} pairs"
    return cells.effect(values, PERCENT, told, of="total_bps", gain=gain)


def _logs(table: pd.DataFrame) -> np.ndarray:
    return np.log(table.to_numpy(dtype=float))


def _slope(across: np.ndarray) -> np.ndarray:
    """The weights that make of values at these places the slope of their least-squares line."""
    centred = np.asarray(across, dtype=float) - np.mean(across)
    return centred / (centred @ centred)
