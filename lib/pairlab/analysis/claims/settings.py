"""The factors that the papers' cells share beside those an effect names, and the texts of such cells.

Boeira et al. 2021 and Boeira and Ferreto vary the pairs. Mentz et al. 2020 and Suo et al. 2018 compare one pair with
another, in the same place: the load beside it, and whether it was between hosts, is fixed for all cells of an
experiment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis import selection
from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.claims.cells import rows
from pairlab.analysis.claims.effect import Cell, Effect
from pairlab.analysis.repetitions import COMPUTED
from pairlab.errors import NotMeasured

#: The load beside the pairs of Mentz et al. 2020 (section III-A).
PAPERS_TOOL = "stress-ng"
_OF_TRANSACTIONS = ("latency_", "transactions_per_s", "service_demand_s", "client_demand_s", "server_demand_s")


@dataclass(frozen=True, eq=False)
class Setting:
    """fixed: the cells' factors beside those an effect names. text: the text of an effect's cells, the first and the
    second. absent: the message for a cell without runs, with its factors and that text. choose: selects the runs.
    pairs_vary: whether cells differ in their number of pairs, or messages name it.
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
        """Raises NotMeasured if a cell, or one of its several drivers, has no runs."""
        drivers = cell["driver"] if isinstance(cell["driver"], list) else [cell["driver"]]
        for each in ({**cell, "driver": driver} for driver in drivers):
            if not rows(runs, each).any():
                place = ALLOCATIONS.get(cell.get("allocation", 0), "")
                raise NotMeasured(self.absent.format_map({**each, "text": text, "place": place}))


def of(effect: Effect) -> Setting:
    if "allocation" in effect.of:
        return _PLACED
    return _BY_EXPERIMENT.get(effect.of["experiment"], PAIRS)


def with_quantity(runs: pd.DataFrame, effect: Effect, setting: Setting) -> pd.DataFrame:
    """The runs that can have the effect's quantity, in its setting.

    An experiment may hold flows that end, flows that do not, and transactions; only one kind has the quantity.
    """
    ends = any("fct" in name or name.startswith(("mouse", "elephant")) for name in effect.columns)
    chosen = runs["ends"].to_numpy() == ends
    if not chosen.any() and setting.pairs_vary:
        raise NotMeasured(f"no runs of flows {'with' if ends else 'without'} an end")
    chosen &= runs["transacts"].to_numpy() == effect.quantity.startswith(_OF_TRANSACTIONS)
    if effect.quantity in ("total_bps", *COMPUTED):  # some compute, and send nothing
        chosen &= runs[effect.quantity].notna().to_numpy()
    return setting.choose(runs[chosen])


def _pairs_text(first: Cell, second: Cell) -> str:
    if first["pairs"] != second["pairs"]:
        return f"{second['pairs']} → {first['pairs']} pairs"
    shared = [name for name in ("message_bytes", "pinning") if name in first and first[name] == second[name]]
    return "".join(f"{name.split('_')[0]} {first[name]}, " for name in shared) + f"{first['pairs']} pairs"


def _pair_text(first: Cell, second: Cell) -> str:
    """One sending pair: the size of its messages, else its hosts, else its direction."""
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
    """The runs of one pair on an allocation, with the drivers' names in Mentz et al. 2020.

    Load beside the pair is one background pair on the same network, or busy loops on the client's host, as near as
    possible to one for each CPU: of stress-ng, like the paper's, if there are any.
    """
    column = lambda name: runs[name].to_numpy()  # noqa: E731 - a few of very many
    experiment, loops = column("experiment"), column("interference_workers")
    beside = {
        "congestion": (column("background_pairs") == 1) & (column("background_driver") == ""),
        "interference": loops > 0,
        "placement": (column("background_pairs") == 0) & (loops == 0),
    }
    chosen = (column("pairs") == 1) & (column("allocation") > 0)
    chosen &= (column("interference_load") == 1) & (column("interference_where") == "client")
    for name, met in beside.items():
        chosen &= (experiment != name) | met
    disturbed, tools = experiment == "interference", column("interference_tool")
    tool = PAPERS_TOOL if PAPERS_TOOL in set(tools[chosen & disturbed]) else "flowgen"
    chosen &= ~disturbed | (tools == tool)
    per_cpu = column("loops_per_cpu")
    some = per_cpu[chosen & (per_cpu > 0)]
    nearest = some[np.abs(some - 1).argmin()] if len(some) else 0.0
    return _as_in_paper(runs[chosen & ((per_cpu == 0) | (per_cpu == nearest))])


def _as_in_paper(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with the paper's driver names, and without stand-ins for a driver that was itself measured."""
    place = [runs[name] for name in ("experiment", "allocation", "known_as")]
    itself = runs["driver"] == runs["known_as"]
    chosen = runs[itself | ~itself.groupby(place).transform("any").astype(bool)]
    return chosen.assign(measured_as=chosen["driver"], driver=chosen["known_as"])


PAIRS = Setting(_pairs_text, pairs_vary=True)
_TRAFFIC = Setting(
    lambda first, _: f"{ALLOCATIONS[4]}, {first['offered_load_bps'] / 1e9:g} Gbit/s",
    fixed={"allocation": 4},
    choose=_as_in_paper,
    pairs_vary=True,
)
#: Idle CPUs sleep, as in Mentz et al. 2020.
_PLACED = Setting(
    _place_text,
    "no runs of {experiment} of {driver} with {place} that measure this",
    {"cpus_awake": False},
    choose=_placed,
)
#: One pair on a host whose idle CPUs sleep, as in the paper.
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
    lambda runs: runs[(runs["launches"] > 0).to_numpy()],
)
ALL_TO_ALL = Setting(_containers_text, fixed={"ranks": 0})
_BY_EXPERIMENT = {
    **dict.fromkeys((selection.MODES, selection.CONTAINERS, *selection.BETWEEN), _SENDING),
    **dict.fromkeys(("cpu-overhead", "interference"), _BETWEEN),
    selection.TRAFFIC: _TRAFFIC,
    "launch-time": _LAUNCHES,
    "all-to-all": ALL_TO_ALL,
}
