"""Effects on paper M's allocations: of a driver, of what runs beside the pair, of the allocation, and on its traffic.

A driver is meant by the name that the paper has for it; between hosts, another one stands in for it (allocations.py).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

import pandas as pd
from pydantic import Field

from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.claims.cell_reader import Cells
from pairlab.analysis.claims.effect import Each, Effect, estimator
from pairlab.analysis.claims.estimators.settings import Several, Two, change, ratio_effect
from pairlab.errors import NotMeasured
from pairlab.statistics import quantiles

Allocation = Literal[1, 2, 3]
Part = Literal["usr", "sys", "softirq"]
#: What ran beside paper M's pairs (section III-A).
PAPERS_TOOL = "stress-ng"
#: What a repetition has one value of: throughput of flows without an end, latency of transactions, and shares of the
#: CPUs' time beside the former.
What = Literal["total_bps", "latency_mean_s", "busy", "usr", "sys", "softirq"]


@estimator("%")
def allocation_drivers(
    runs: pd.DataFrame, *, experiment: str, allocation: Allocation, drivers: Several, what: What
) -> Each:
    """How much more of something the first driver has than each of the others."""
    placed, (first, *others) = _placed(runs, what), drivers
    mine = _cell(placed, experiment, allocation, first)
    parts = {}
    for other in others:
        cell = _cell(placed, experiment, allocation, other)
        parts[f"{first} against {other}"] = _change(placed, mine, cell, what, ALLOCATIONS[allocation])
    return Each(parts)


@estimator("%")
def allocation_experiments(
    runs: pd.DataFrame, *, driver: str, allocation: Allocation, experiments: Two[str], what: What
) -> Effect:
    """How much more of something a driver has in the first experiment than in the second."""
    placed = _placed(runs, what)
    first, second = (_cell(placed, experiment, allocation, driver) for experiment in experiments)
    return _change(placed, first, second, what, ALLOCATIONS[allocation])


@estimator("%")
def allocations_change(
    runs: pd.DataFrame, *, experiment: str, driver: str, allocations: Two[Allocation], what: What
) -> Effect:
    """How much more of something a driver has on the second allocation than on the first."""
    placed = _placed(runs, what)
    before, after = (_cell(placed, experiment, allocation, driver) for allocation in allocations)
    return _change(placed, after, before, what, " → ".join(ALLOCATIONS[each] for each in allocations))


@estimator("%")
def allocation_cpu_parts(
    runs: pd.DataFrame,
    *,
    experiment: str,
    allocation: Allocation,
    driver: str,
    part: Part,
    over: Annotated[list[Part], Field(min_length=1)],
) -> Each:
    """How much more of the CPUs' time goes to one part than to each of the others."""
    placed = _placed(runs, part)
    cell = _cell(placed, experiment, allocation, driver)
    parts = {}
    for other in over:
        cells = Cells(placed)
        found = ratio_effect(cells, cells.of(part, **cell), cells.of(other, **cell), ALLOCATIONS[allocation])
        parts[f"{part} against {other}"] = _noted(found, placed, [cell])
    return Each(parts)


@estimator("%", varies=("flows_per_pair",))
def traffic_drivers(
    runs: pd.DataFrame,
    *,
    drivers: Several,
    offered_load_bps: Annotated[float, Field(ge=0)],
    what: Literal["fct_all_s", "smallest_fcts_s"],
) -> Each:
    """How much longer traffic at this load takes over the first driver than over each of the others: all of it, or in
    the median its smallest flows (run_table.SMALLEST).
    """
    mine = _as_in_paper(runs[(runs["allocation"] == 4) & (runs["offered_load_bps"] == offered_load_bps)])
    first, *others = drivers
    where = f"{ALLOCATIONS[4]}, {offered_load_bps / 1e9:g} Gbit/s"
    parts = {}
    for other in others:
        cells = Cells(mine)
        (count,) = cells.choose([first, other], ["most"])
        over, than = ({"driver": driver, "pairs": count} for driver in (first, other))
        if what == "fct_all_s":
            found = change(cells, over, than, what, where, of="")
        else:
            flows = [(1, cells.flows(what, 0.5, driver=first, pairs=count))]
            flows.append((-1, cells.flows(what, 0.5, driver=other, pairs=count)))
            found = Effect(quantiles.contrast(flows, 0.5), where, **cells.remarks())
        parts[f"{first} against {other}"] = _noted(found, mine, [over, than])
    return Each(parts)


def _placed(runs: pd.DataFrame, what: What) -> pd.DataFrame:
    """The runs of one pair on an allocation that have this quantity, with drivers as the paper knows them.

    Of what runs beside them, one background pair on the same network, and on the client's host the busy loops that are
    nearest to one for each CPU: those of stress-ng, as the paper's, where there are any. Idle CPUs sleep, as its did.
    """
    alone = ("background_pairs", "interference_workers")
    runs = runs[~runs["cpus_awake"].astype(bool) & (runs["pairs"] == 1)]
    runs = runs[(runs["allocation"] > 0) & (runs["transacts"] == (what == "latency_mean_s"))]
    beside = {
        "congestion": (runs["background_pairs"] == 1) & (runs["background_driver"] == ""),
        "interference": runs["interference_workers"] > 0,
    }
    other = pd.Series(True, index=runs.index)
    for experiment, met in beside.items():
        other &= (runs["experiment"] != experiment) | met
    for name in alone:
        other &= (runs["experiment"] != "placement") | (runs[name] == 0)
    runs = runs[other & (runs["interference_load"] == 1) & (runs["interference_where"] == "client")]
    tools = runs.loc[runs["experiment"] == "interference", "interference_tool"]
    tool = PAPERS_TOOL if PAPERS_TOOL in set(tools) else "flowgen"
    runs = runs[(runs["experiment"] != "interference") | (runs["interference_tool"] == tool)]
    return _as_in_paper(runs[_nearest(runs["loops_per_cpu"])])


def _as_in_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with drivers as the paper knows them, and without what stands in for one that was itself measured."""
    place = [runs[name] for name in ("experiment", "allocation", "known_as")]
    itself = runs["driver"] == runs["known_as"]
    kept = runs[itself | ~itself.groupby(place).transform("any").astype(bool)]
    return kept.assign(measured_as=kept["driver"], driver=kept["known_as"])


def _nearest(loops_per_cpu: pd.Series) -> pd.Series:
    """Where no busy loops ran, or as many for each CPU as are nearest to one."""
    some = loops_per_cpu[loops_per_cpu > 0]
    nearest = some.iloc[(some - 1).abs().argmin()] if len(some) else 0.0
    return (loops_per_cpu == 0) | (loops_per_cpu == nearest)


def _cell(placed: pd.DataFrame, experiment: str, allocation: int, driver: str) -> dict[str, Any]:
    cell = {"experiment": experiment, "allocation": allocation, "driver": driver}
    if _of(placed, cell).empty:
        raise NotMeasured(f"no runs of {experiment} of {driver} with {ALLOCATIONS[allocation]} that measure this")
    return cell


def _of(placed: pd.DataFrame, cell: dict[str, Any]) -> pd.DataFrame:
    return placed[(placed[list(cell)] == pd.Series(cell)).all(axis=1)]


def _change(placed: pd.DataFrame, first: dict[str, Any], second: dict[str, Any], what: str, where: str) -> Effect:
    return _noted(change(Cells(placed), first, second, what, where, of=""), placed, [first, second])


def _noted(effect: Effect, placed: pd.DataFrame, cells: Iterable[dict[str, Any]]) -> Effect:
    """With a note on each driver that stands in for the paper's."""
    pairs = {tuple(pair) for cell in cells for pair in _of(placed, cell)[["measured_as", "driver"]].to_numpy()}
    notes = [f"{own} stands in for {meant}" for own, meant in sorted(pairs) if own != meant]
    return replace(effect, notes=(*effect.notes, *notes))
