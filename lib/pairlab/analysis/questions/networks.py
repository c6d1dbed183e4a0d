"""Networks within one host and between hosts: what each carries, how long a request takes over it, and what it costs.

Totals are held against the least that there can be in between, service demands against no containers.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis import layers, published
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import causes as figures_causes
from pairlab.analysis.figures import estimates
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.output.provenance import conditions
from pairlab.analysis.question import Across, Answer, Change, Column, Frame, Mean, Question, Table
from pairlab.analysis.questions.throughput import TOTAL
from pairlab.analysis.repetitions import table, values
from pairlab.analysis.selection import CELL, SYSTEM, select
from pairlab.analysis.sentences import changes, extremes
from pairlab.model.latencies import SHARES, measure
from pairlab.model.records import Run

#: What sets cells apart besides CELL.
PLACE = ("hosts", "placement")
_KEYS = ("system", "driver", "hosts", "pairs")
#: Of a figure, in inches: a network's row, and titles, axis and note; a panel is at least as high as so many rows.
_ROW_IN, _AROUND_IN, _LEAST_ROWS = 0.2, 0.9, 5
#: The most panels in a row; and a rise, in percent, beyond which falls would be pressed together.
_IN_ROW, _MUCH = 3, 100


def place_text(hosts: int, placement: str) -> str:
    """Where the pairs are, in words: "one host", "2 hosts, across"."""
    return "one host" if hosts == 1 else f"{hosts} hosts, {placement}"


_PLACE_WORDS = {"place": (PLACE, place_text)}


def places(cells: pd.DataFrame) -> list[str]:
    """The places of cells in words, the fewest hosts first."""
    return list(cells.sort_values(list(PLACE))["place"].drop_duplicates())


def _in_order(name: str) -> Any:
    return lambda answer: {"place": places(answer[name])}


def by_network(answer: Answer, name: str, column: str, order: Sequence[str]) -> Figure | None:
    """Estimates of each network: a panel for each of these values of a column, and a row of panels for each system and
    number of pairs.
    """
    cells = answer.known(name)
    rows = [*SYSTEM, *["count"] * (cells["pairs"].nunique() > 1)]
    cells = cells.assign(count=cells["pairs"].map(estimates.pairs_text))
    panels = cells.groupby([*rows, column]).ngroups
    in_a_row = len(order) > 1 and panels <= _IN_ROW
    cells = cells.assign(among="" if in_a_row else cells[column])  # what is compared: the panels of a row, or a column
    networks = {among: ordered(part["driver"]) for among, part in cells.groupby("among")}
    most = max([_LEAST_ROWS, *map(len, networks.values())])
    layout: dict[str, Any] = {"rows": rows, "column": column, "order": order, "packed": in_a_row}
    layout |= {"across": panels if in_a_row else min(len(order), _IN_ROW)}
    layout |= {"share_x": True, "share_y": in_a_row, "height_in": _AROUND_IN + _ROW_IN * most}

    def draw(panel: pd.DataFrame, ax: Axes, **options: Any) -> Axes:
        return estimates.below_each_other(panel, ax, order=networks[panel["among"].iloc[0]], **options)

    ratios = answer.measure(name).change and cells["high"].max() > _MUCH
    return answer.facets(draw, name, layout, where=lambda _: cells, ratios=ratios)


def _by_place(answer: Answer, name: str) -> Figure | None:
    return by_network(answer, name, "place", places(answer[name]))


# --- throughput, and the latency of requests

#: What the others are held against: within a host a veth pair and nothing else, between hosts the uplinks alone.
LIMIT_WITHIN, LIMIT_BETWEEN = "p2p", "process"
LATENCIES = {measure(key): Quantity(f"Latency {key} (µs)", key, 2, 1e6, "µs") for key in SHARES}
_NAMES = {"place": "Place", "pairs": "Pairs", "driver": "Network"}

NETWORKS = Question(
    topic="networks",
    beside=["latency"],
    by=PLACE,
    quantities=("total_bps", *LATENCIES),
    words={**_PLACE_WORDS, "within": (("hosts",), lambda hosts: hosts == 1)},
    estimates={
        "total": Mean(TOTAL, "total_bps"),
        "change": Change(
            Quantity("Against the limit (%)", "change", 1, unit="%", change=True),
            *("total_bps", "driver", lambda part: LIMIT_WITHIN if part["hosts"].iloc[0] == 1 else LIMIT_BETWEEN),
            each=("within",),
        ),
        **{name: Mean(each, name, experiment="latency") for name, each in LATENCIES.items()},
    },
    tables={
        "networks": Table(_NAMES, ["total", "change"], _in_order("total"), remarks="total"),
        "network-latencies": Table(_NAMES, list(LATENCIES), _in_order("latency_p50_s"), remarks="latency_p50_s"),
    },
    figures={
        "networks": lambda answer: _by_place(answer, "total"),
        "network-latencies": lambda answer: _by_place(answer, "latency_p50_s"),
    },
    keys=_KEYS,
    answer=[
        changes("change", "Total throughput against the limit of the place", "place"),
        extremes("latency_p50_s", "median latency", ("place",)),
    ],
)


# --- what a transaction costs in CPU time, and how busy it keeps either end: Suo et al. 2018, table V

#: A host's own network, without containers, which Suo et al. 2018 hold the others against.
REFERENCE = "process"
#: Which of our networks has the name that Suo et al. 2018 use, where these differ. Their flannel had VXLAN.
STATED_AS = {"flannel-vxlan": "flannel"}
DEMAND = Quantity("CPU time (µs/transaction)", "demand", 2, 1e6, "µs")
_WHOLE = {
    "service_demand_s": DEMAND,
    "transactions_per_s": Quantity("Transactions (1/s)", "rate", 0, 1, "1/s"),
}
#: Of CPUs that either end had for itself: cpu_use.by_side.
_SIDES = {
    "client_share": Quantity("Client's CPU (%)", "client-cpu", 1, 100, "%"),
    "server_share": Quantity("Server's CPU (%)", "server-cpu", 1, 100, "%"),
    "client_demand_s": Quantity("Client's CPU (µs)", "client-demand", 2, 1e6, "µs"),
    "server_demand_s": Quantity("Server's CPU (µs)", "server-demand", 2, 1e6, "µs"),
}
#: Layers with a smaller part of the service demand everywhere have no column.
_LEAST = 0.01


def demand_by_layer(run: Run) -> Iterator[dict[str, object]]:
    """Of each layer (layers.names) demand_s: the service demand times its share in the samples of CPUs that were not
    idle.
    """
    demand_s = values(run, ["service_demand_s"])["service_demand_s"]
    for layer, share in layers.shares(zip(run.profile["stack"], run.profile["samples"], strict=True)).items():
        yield {"layer": layer, "demand_s": share * demand_s}


def _profiled(answer: Answer) -> Any:
    by_profile: dict[str, Any] = {"sweep": answer.origin.sweep, "which": lambda spec: spec.profile}
    return select(str(answer.used.root), experiment=answer.question.experiment, **by_profile).runs


def _by_layer(answer: Answer) -> pd.DataFrame:
    """Each layer's part of the service demand in s, of runs with a profile."""
    parts: dict[str, Any] = {"parts": demand_by_layer, "of_parts": ["layer"], "alike": False}
    return table(answer.once(_profiled), (*CELL, *PLACE), ["demand_s"], **parts)


def _shown(answer: Answer) -> list[str]:
    cells = answer["by layer"]
    parts = cells["value"] / cells.groupby([*CELL, *PLACE])["value"].transform("sum")
    most = parts.groupby(cells["layer"]).max()
    return [layer for layer in layers.names() if most.get(layer, 0.0) >= _LEAST]


def _layers_figure(answer: Answer) -> Figure | None:
    if answer.known("by layer").empty:
        return None
    return figures_causes.by_transaction(answer["by layer"], partial(conditions, answer.once(_profiled)))


def published_table() -> pd.DataFrame:
    """Suo et al. 2018, table V: CPU use and service demand of client and server by network, and its change."""
    rows = published.load("service_demands")
    return pd.DataFrame(
        {
            "Client's CPU (%)": rows["client_cpu_percent"],
            "Server's CPU (%)": rows["server_cpu_percent"],
            "Client (µs)": (1e6 * rows["client_demand_s"]).round(1),
            "Server (µs)": (1e6 * rows["server_demand_s"]).round(1),
            "Both, against process (%)": _stated(rows).map(lambda change: f"{change:+.0f}"),
        }
    ).set_axis(pd.Index(rows["driver"], name="Network"))


def stated_changes() -> dict[str, str]:
    """By network as ours are called, the change of client's and server's service demand together, in percent."""
    rows = published.load("service_demands")
    ours = {theirs: mine for mine, theirs in STATED_AS.items()}
    named = zip(rows["driver"], _stated(rows), strict=True)
    return {ours.get(driver, driver): f"{change:+.0f}" for driver, change in named if driver != REFERENCE}


def _stated(rows: pd.DataFrame) -> pd.Series:
    both = rows["client_demand_s"] + rows["server_demand_s"]
    return 100 * (both / float(both[rows["driver"] == REFERENCE].iloc[0]) - 1)


_COST_NAMES = {"place": "Place", "driver": "Network"}

COST = Question(
    topic="cost",
    experiment="cpu-overhead",
    by=PLACE,
    quantities=(*_WHOLE, *_SIDES),
    alike=False,
    words=_PLACE_WORDS,
    estimates={
        **{name: Mean(each, name) for name, each in _WHOLE.items()},
        **{name: Mean(each, name, partial(pd.DataFrame.dropna, subset=name)) for name, each in _SIDES.items()},
        "change": Change(
            Quantity("Against process (%)", "change", 1, unit="%", change=True),
            *("service_demand_s", "driver", REFERENCE),
        ),
        "between hosts": Frame(lambda answer: answer["service_demand_s"].query("hosts > 1")),
        "by layer": Mean(
            DEMAND,
            "demand_s",
            by=(*CELL, *PLACE, "layer"),
            rows=_by_layer,
            key=lambda row: f"{layers.key(row.layer)}-demand",
        ),
    },
    tables={
        "cpu-overhead": Table(
            _COST_NAMES,
            [
                *(*_WHOLE, *_SIDES, "change"),
                Column("Paper S (%)", "between hosts", lambda row: stated_changes().get(row.driver, MISSING)),
            ],
            _in_order("service_demand_s"),
            remarks="service_demand_s",
        ),
        "cpu-overhead-layers": Table(_COST_NAMES, [Across("by layer", "layer", _shown)], _in_order("by layer")),
    },
    figures={
        "cpu-overhead-demand": lambda answer: _by_place(answer, "service_demand_s"),
        "cpu-overhead-layers": _layers_figure,
    },
    keys=dict.fromkeys((*_WHOLE, *_SIDES, "change", "by layer"), _KEYS),
    answer=[
        changes("change", "CPU time of a transaction against process, over all places"),
        extremes("service_demand_s", "CPU time of a transaction", ("place",)),
    ],
)
