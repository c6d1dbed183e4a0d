"""Effects of settings: cores per container, pinning, message sizes, UDP, several flows per pair."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.cell_reader import Cells, PairCount, Step, core_ratio_steps, of_driver, step_text
from pairlab.analysis.claims.effect import Each, Effect, estimator
from pairlab.errors import NotMeasured
from pairlab.statistics.intervals import PERCENT, REAL

Item = TypeVar("Item")
#: Just two of these.
Two = Annotated[list[Item], Field(min_length=2, max_length=2)]
Several = Annotated[list[str], Field(min_length=2)]


@estimator("%")
def drivers_order(
    runs: pd.DataFrame,
    *,
    drivers: Two[str],
    at: Literal["pairs", "message_bytes", "pinning"],
    among: list[int | str] | None = None,
) -> Each:
    """How much more the first driver carries in total than the second, at each setting that both were measured with.

    among: these settings and no others. Where what varies is not the pairs, they are those with the most settings, or
    the most of these.
    """
    found = [_settings(runs, driver, at) for driver in drivers]
    by_pairs = {
        pairs: sorted(value for value in found[0][pairs] & found[1][pairs] if not among or value in among)
        for pairs in sorted(set(found[0]) & set(found[1]))
    }
    pairs, values = max(by_pairs.items(), key=lambda item: (len(item[1]), item[0]), default=(0, []))
    if not values or set(among or ()) - set(values):
        wanted = f" {', '.join(map(str, among))}" if among else ""
        raise NotMeasured(f"no {at.replace('_', ' ')}{wanted} that {' and '.join(drivers)} have in common")
    parts = {}
    for value in values:
        cell = {at: value} | ({"pairs": pairs} if at != "pairs" else {})
        where = f"{value} pairs" if at == "pairs" else f"{at.split('_')[0]} {value}, {pairs} pairs"
        first, second = ({"driver": driver, **cell} for driver in drivers)
        parts[str(value)] = change(Cells(runs), first, second, "total_bps", where)
    return Each(parts, points=len(parts))


@estimator("%")
def core_ratio_change(runs: pd.DataFrame, *, driver: str, what: Literal["client_bps", "fct_mean_s"]) -> Each:
    """Change of a summary at each step to more containers per core."""

    def of_step(cells: Cells, before: Step, after: Step) -> Effect:
        later, earlier = ({"driver": driver, **step.cell} for step in (after, before))
        return change(cells, later, earlier, what, step_text(before, after))

    return _each_step(runs, core_ratio_steps(runs, [driver], what), of_step)


@estimator("%")
def core_ratio_gap(runs: pd.DataFrame, *, drivers: Several, what: Literal["client_bps", "fct_mean_s"]) -> Each:
    """Change of the gap between the drivers at each step to more containers per core.

    The gap is the largest over the least of a repetition, whichever drivers these are: as in notebook 06.
    """

    def of_step(cells: Cells, before: Step, after: Step) -> Effect:
        gaps = []
        for step in (after, before):
            table = cells.positive(_beside(cells, drivers, what, step))
            gaps.append(np.log(table.max(axis=1) / table.min(axis=1)))
        return cells.effect(cells.difference(*gaps), PERCENT, step_text(before, after), of=what, gain=2.0)

    return _each_step(runs, core_ratio_steps(runs, drivers, what), of_step)


@estimator("ms")
def core_ratio_gap_ms(runs: pd.DataFrame, *, drivers: Several) -> Each:
    """Change of the gap between the drivers' mean FCTs in ms, at each step to more containers per core.

    The gap is the largest less the least of a repetition, whichever drivers these are.
    """

    def of_step(cells: Cells, before: Step, after: Step) -> Effect:
        tables = (_beside(cells, drivers, "fct_mean_s", step) for step in (after, before))
        gaps = [table.max(axis=1) - table.min(axis=1) for table in tables]
        return cells.effect(1e3 * cells.difference(*gaps), REAL, step_text(before, after))

    return _each_step(runs, core_ratio_steps(runs, drivers, "fct_mean_s"), of_step)


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
    after, before = ({"driver": driver, "pairs": count, "pinning": name} for name in (policy, "none"))
    return change(Cells(runs), after, before, "total_bps", f"{count} pairs")


@estimator("%")
def message_size_trend(runs: pd.DataFrame, *, driver: str) -> Effect:
    """Change of the total throughput when messages double, by a straight line through all sizes, both logarithmic."""
    by_pairs = _settings(runs, driver, "message_bytes")
    count, sizes = max(by_pairs.items(), key=lambda item: (len(item[1]), item[0]), default=(0, set()))
    if not sizes:
        raise NotMeasured(f"no runs of {driver} with a message size")
    if len(sizes) < 2:
        raise NotMeasured(f"one message size only of {driver} ({min(sizes)} B): a trend needs two")
    sizes, cells = sorted(sizes), Cells(runs)
    columns = {size: cells.of("total_bps", driver=driver, pairs=count, message_bytes=size) for size in sizes}
    where = f"{sizes[0]} to {sizes[-1]} B in {len(sizes)} sizes, {count} pairs"
    return trend(cells, columns, np.log2(sizes), where, of="total_bps")


@estimator("%", varies=("udp_share",))
def udp_change(runs: pd.DataFrame, *, driver: str, pairs: PairCount) -> Effect:
    """Change of the total throughput from all clients sending TCP to all of them sending UDP, as fast as they can."""
    mine = of_driver(runs, driver)
    counts = [set(mine.loc[mine["udp_share"] == share, "pairs"]) for share in (1.0, 0.0)]
    if not all(counts):
        raise NotMeasured(f"no runs of {driver} with {'TCP' if counts[0] else 'UDP'} only")
    cells = Cells(runs)
    (count,) = cells.choose([driver], [pairs], sorted(map(int, set.intersection(*counts))))
    after, before = ({"driver": driver, "pairs": count, "udp_share": share} for share in (1.0, 0.0))
    return change(cells, after, before, "total_bps", f"{count} pairs", of="")


@estimator("%", varies=("flows_per_pair",))
def flows_like_containers(runs: pd.DataFrame, *, driver: str) -> Each:
    """How much more pairs with several flows each carry in total than so many times the pairs with one flow each."""
    mine = of_driver(runs, driver)
    there = set(zip(mine["pairs"], mine["flows_per_pair"], strict=True))
    cells = [(pairs, flows) for pairs, flows in sorted(there) if flows > 1 and (pairs * flows, 1) in there]
    if not cells:
        raise NotMeasured(f"no runs of {driver} with several flows per pair, and with so many times the pairs")
    parts = {}
    for pairs, flows in cells:
        several = {"driver": driver, "pairs": pairs, "flows_per_pair": flows}
        single = {"driver": driver, "pairs": pairs * flows, "flows_per_pair": 1}
        where = f"{pairs} pairs of {flows} flows against {pairs * flows} pairs"
        parts[f"{pairs} × {flows}"] = change(Cells(runs), several, single, "total_bps", where, of="")
    return Each(parts, points=len(parts))


def change(
    cells: Cells, after: Mapping[str, Any], before: Mapping[str, Any], what: str, where: str, *, of: str | None = None
) -> Effect:
    """By how much a summary is larger in one cell than in another. of: as of Cells.effect, by default `what`."""
    return ratio_effect(cells, cells.of(what, **after), cells.of(what, **before), where, of=what if of is None else of)


def ratio_effect(cells: Cells, first: pd.Series, second: pd.Series, where: str, *, of: str = "") -> Effect:
    """The first over the second, by repetition, in percent."""
    return cells.effect(cells.ratio(first, second), PERCENT, where, of=of)


def trend(
    cells: Cells, columns: Mapping[Any, pd.Series], across: np.ndarray, where: str, *, of: str, over: float = 1.0
) -> Effect:
    """Change of a summary over so much of what it lies across, by a least-squares line through its logarithms."""
    centred = np.asarray(across, dtype=float) - np.mean(across)
    weights = over * centred / (centred @ centred)
    values = np.log(cells.positive(cells.beside(columns)).to_numpy(dtype=float)) @ weights
    return cells.effect(values, PERCENT, where, of=of, gain=float(np.linalg.norm(weights)), points=len(columns))


def _each_step(runs: pd.DataFrame, steps: Sequence[Step], of_step: Callable[[Cells, Step, Step], Effect]) -> Each:
    parts = {
        f"{before.ratio:g} → {after.ratio:g}": of_step(Cells(runs), before, after) for before, after in pairwise(steps)
    }
    return Each(parts, points=len(steps))


def _beside(cells: Cells, drivers: Sequence[str], what: str, step: Step) -> pd.DataFrame:
    return cells.beside({driver: cells.of(what, driver=driver, **step.cell) for driver in drivers})


def _settings(runs: pd.DataFrame, driver: str, name: str) -> dict[int, set]:
    """The settings of that name that a driver was measured with, by the number of pairs; no message size is none."""
    mine = of_driver(runs, driver)
    mine = mine[~mine["ends"].astype(bool)]
    if name == "pairs":
        return {0: set(map(int, mine["pairs"]))}
    mine = mine[mine[name] != 0]
    return {int(pairs): set(part[name]) for pairs, part in mine.groupby("pairs")}
