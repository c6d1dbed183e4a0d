"""What else the papers' cells have in common than what an effect names, and how such cells are told.

Papers C and E vary the pairs. Of papers M and S one pair is compared with another, in the same place: what ran there
besides, and whether it was between hosts, is fixed for all cells of an experiment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis import selection
from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.claims import run_table
from pairlab.analysis.claims.cells import rows
from pairlab.analysis.claims.effect import Cell, Effect
from pairlab.errors import NotMeasured

#: What ran beside paper M's pairs (section III-A).
PAPERS_TOOL = "stress-ng"
_OF_TRANSACTIONS = ("latency_mean_s", "service_demand_s")


@dataclass(frozen=True, eq=False)
class Setting:
    """fixed: what the cells have beside what an effect names. text: what the cells of an effect are called, by the
    first and the second. absent: what is missing where a cell has no runs, by its factors and that text. choose: of
    which runs. pairs_vary: whether cells differ in their number of pairs, or what is missing is told by them.
    """

    text: Callable[[Cell, Cell], str]
    absent: str = "no runs of {driver}"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    choose: Callable[[pd.DataFrame], pd.DataFrame] = lambda runs: runs
    pairs_vary: bool = False

    def cells(self, effect: Effect) -> tuple[Cell, Cell]:
        """The two cells, the second without `quantity`."""
        first = {**self.fixed, **effect.of}
        return first, {**first, **{name: value for name, value in effect.over.items() if name != "quantity"}}

    def check_there(self, runs: pd.DataFrame, cell: Cell, text: str) -> None:
        """Raises NotMeasured where no runs are of that cell."""
        if not rows(runs, cell).any():
            place = ALLOCATIONS.get(cell.get("allocation", 0), "")
            raise NotMeasured(self.absent.format_map({**cell, "text": text, "place": place}))


def of(effect: Effect) -> Setting:
    if "allocation" in effect.of:
        return _PLACED
    return _BY_EXPERIMENT.get(effect.of["experiment"], PAIRS)


def with_quantity(runs: pd.DataFrame, effect: Effect, setting: Setting) -> pd.DataFrame:
    """The runs that can have what the effect is of, in its setting.

    An experiment may hold flows that end and flows that do not, or transactions; only one of them has it.
    """
    ends = any("fct" in name or name.startswith(("mouse", "elephant")) for name in effect.columns)
    kept = runs["ends"].to_numpy() == ends
    if not kept.any() and setting.pairs_vary:
        raise NotMeasured(f"no runs of flows {'with' if ends else 'without'} an end")
    kept &= runs["transacts"].to_numpy() == (effect.quantity in _OF_TRANSACTIONS)
    if effect.quantity in ("total_bps", *run_table.COMPUTED):  # some compute, and send nothing
        kept &= runs[effect.quantity].notna().to_numpy()
    return setting.choose(runs[kept])


def _pairs_text(first: Cell, second: Cell) -> str:
    if first["pairs"] != second["pairs"]:
        return f"{second['pairs']} → {first['pairs']} pairs"
    alike = [name for name in ("message_bytes", "pinning") if name in first and first[name] == second[name]]
    return "".join(f"{name.split('_')[0]} {first[name]}, " for name in alike) + f"{first['pairs']} pairs"


def _pair_text(first: Cell, second: Cell) -> str:
    """Of one pair that sends: the size of its messages, else its hosts, else its direction."""
    sizes = [cell.get("message_bytes", 0) for cell in (second, first)]
    if sizes[0] != sizes[1]:
        return " → ".join(f"{size} B" for size in sizes)
    if sizes[0]:
        return f"messages of {sizes[0]} B"
    if "hosts" in first:
        return f"{first['hosts']} host{'s' * (first['hosts'] > 1)}"
    return {"up": "upload", "down": "download"}[first["direction"]]


def _place_text(first: Cell, second: Cell) -> str:
    return " → ".join(dict.fromkeys(ALLOCATIONS[cell["allocation"]] for cell in (second, first)))


def _containers_text(first: Cell, last: Cell) -> str:
    return f"{' to '.join(dict.fromkeys(str(2 * cell['pairs']) for cell in (last, first)))} containers"


def _placed(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs of one pair on an allocation, with drivers as paper M knows them.

    Of what runs beside them, one background pair on the same network, and on the client's host the busy loops that are
    nearest to one for each CPU: those of stress-ng, as the paper's, where there are any. Idle CPUs sleep, as its did.
    """
    column = {name: runs[name].to_numpy() for name in runs}
    experiment, loops = column["experiment"], column["interference_workers"]
    beside = {
        "congestion": (column["background_pairs"] == 1) & (column["background_driver"] == ""),
        "interference": loops > 0,
        "placement": (column["background_pairs"] == 0) & (loops == 0),
    }
    kept = ~column["cpus_awake"].astype(bool) & (column["pairs"] == 1) & (column["allocation"] > 0)
    kept &= (column["interference_load"] == 1) & (column["interference_where"] == "client")
    for name, met in beside.items():
        kept &= (experiment != name) | met
    disturbed, tools = experiment == "interference", column["interference_tool"]
    tool = PAPERS_TOOL if PAPERS_TOOL in set(tools[kept & disturbed]) else "flowgen"
    kept &= ~disturbed | (tools == tool)
    per_cpu = column["loops_per_cpu"]
    some = per_cpu[kept & (per_cpu > 0)]
    nearest = some[np.abs(some - 1).argmin()] if len(some) else 0.0
    return _as_in_paper(runs[kept & ((per_cpu == 0) | (per_cpu == nearest))])


def _as_in_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with drivers as the paper knows them, and without what stands in for one that was itself measured."""
    place = [runs[name] for name in ("experiment", "allocation", "known_as")]
    itself = runs["driver"] == runs["known_as"]
    kept = runs[itself | ~itself.groupby(place).transform("any").astype(bool)]
    return kept.assign(measured_as=kept["driver"], driver=kept["known_as"])


def _alone(runs: pd.DataFrame) -> pd.DataFrame:
    return runs[(runs["launches"] > 0).to_numpy()]


PAIRS = Setting(_pairs_text, pairs_vary=True)
_TRAFFIC = Setting(
    lambda first, _: f"{ALLOCATIONS[4]}, {first['offered_load_bps'] / 1e9:g} Gbit/s",
    fixed={"allocation": 4},
    choose=_as_in_paper,
    pairs_vary=True,
)
_PLACED = Setting(_place_text, "no runs of {experiment} of {driver} with {place} that measure this", choose=_placed)
#: One pair whose idle CPUs sleep, as the paper's did.
_ONE_PAIR = {"pairs": 1, "cpus_awake": False}
_SENDING = Setting(
    _pair_text, "no runs of {driver} that measure {text}", {**_ONE_PAIR, "direction": "up", "pinning": "none"}
)
_BETWEEN = Setting(
    lambda *cells: "two hosts",
    "no runs of {driver} between two hosts that measure this",
    {**_ONE_PAIR, "hosts": 2, "placement": "across", "uplink_rate_bps": 0.0},
)
_LAUNCHES = Setting(
    lambda *cells: "launch time",
    "no launches over {driver}, one at a time and beside no idle pairs",
    {"pairs": 1, "idle_pairs": 0},
    _alone,
)
ALL_TO_ALL = Setting(_containers_text, fixed={"ranks": 0})
_BY_EXPERIMENT = {
    **dict.fromkeys((selection.MODES, selection.CONTAINERS, *selection.BETWEEN), _SENDING),
    **dict.fromkeys(("cpu-overhead", "interference"), _BETWEEN),
    selection.TRAFFIC: _TRAFFIC,
    "launch-time": _LAUNCHES,
    "all-to-all": ALL_TO_ALL,
}
