"""What one pair gets on each allocation of Mentz et al. 2020, alone, beside busy loops and beside a background pair.

Throughput, latency and the CPUs' time, by driver: how far they lie from those of the host's own network, and how far
what runs beside the pair moves them from what it gets alone. The pairs of Suo et al. 2018, beside loops by the servers,
stand with them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis import allocations, published
from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import grid
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Column, Estimates, Mean, Question, Table, p_values
from pairlab.analysis.questions.networks import by_network
from pairlab.analysis.repetitions import FACTORS, Factor
from pairlab.analysis.selection import CELL
from pairlab.analysis.sentences import changes
from pairlab.model.spec import Spec

#: What a pair has beside it where it has nothing.
ALONE = "alone"
#: What is said besides of runs in which idle CPUs did not sleep.
AWAKE = "CPUs awake"
THROUGHPUT = Quantity("Throughput (Gbit/s)", "throughput", 2, 1e-9, "Gbit/s")
LATENCY = Quantity("Mean latency (µs)", "latency", 2, 1e6, "µs")
AGAINST_ALONE = Quantity("Against alone (%)", "against-alone", 1, unit="%", change=True)
AGAINST_HOST = Quantity("Against host (%)", "against-host", 1, unit="%", change=True)
#: The parts of the CPUs' time as in Mentz et al. 2020, figure 6; rest is all that is neither these nor idle.
_CPU = {"usr": "User (%)", "sys": "System (%)", "softirq": "Softirq (%)", "rest": "Rest (%)"}


def beside(spec: Spec) -> str:
    """What runs beside the pairs, in words: "alone", "2 busy loops", "20 loops at 10 %", "1 background pair"; "alone,
    CPUs awake" where idle CPUs were kept from sleeping.

    Busy loops are on the clients' hosts, and the background is flowgen's, where nothing else is said.
    """
    found = []
    if spec.interference_workers:
        loops = "busy loop" if spec.interference_load == 1 else "loop"
        loops = loops if spec.interference_tool == "flowgen" else f"{spec.interference_tool} stressor"
        share = "" if spec.interference_load == 1 else f" at {spec.interference_load * 100:g} %"
        where = {"client": "", "server": " by the servers", "both": " on both sides"}[spec.interference_where]
        found.append(f"{spec.interference_workers} {loops}{'s' * (spec.interference_workers > 1)}{share}{where}")
    if spec.background_pairs:
        tool = "" if spec.background_workload == "flowgen" else f" of {spec.background_workload}"
        network = " over the hosts' own network" * bool(spec.background_driver)
        found.append(f"{spec.background_pairs} background pair{'s' * (spec.background_pairs > 1)}{tool}{network}")
    return ", ".join([*(found or [ALONE]), *[AWAKE] * spec.cpus_awake])


def with_loops_by_clients(spec: Spec) -> bool:
    """Whether a run is of the kind of Mentz et al. 2020: of interference, only beside loops on the clients' hosts."""
    return spec.experiment != "interference" or bool(spec.interference_workers and spec.interference_where == "client")


def with_loops_by_servers(spec: Spec) -> bool:
    """Whether a run is of the kind of Suo et al. 2018: of interference, alone or beside loops on the servers' hosts."""
    return spec.experiment == "interference" and (not spec.interference_workers or spec.interference_where == "server")


def host_of(part: pd.DataFrame) -> str | None:
    """The driver that is the host's own network: `host`, or what stands in for it (allocations.py); None: neither."""
    hosts = sorted(part.loc[part["known_as"] == "host", "driver"].unique())
    return hosts[0] if hosts else None  # `host` before `process`


# --- estimates


def _bulk(repetitions: pd.DataFrame) -> pd.DataFrame:
    return repetitions[~repetitions["transacts"].astype(bool)]


def _requests(repetitions: pd.DataFrame) -> pd.DataFrame:
    return repetitions[repetitions["transacts"].astype(bool)]


_PLACE = (*CELL[:2], "pairs", "allocation", "beside")


def _to_host(column: str, where: Callable[[pd.DataFrame], pd.DataFrame]) -> Change:
    return Change(AGAINST_HOST, column, "driver", host_of, where, _PLACE, each=_PLACE)


def _to_alone(column: str, where: Callable[[pd.DataFrame], pd.DataFrame]) -> Change:
    return Change(AGAINST_ALONE, column, "beside", ALONE, where, (*CELL, "allocation"))


_BESIDE_HOST: dict[str, Estimates] = {
    "throughput": Mean(THROUGHPUT, "total_bps", _bulk, (*CELL, "allocation", "beside")),
    "latency": Mean(LATENCY, "latency_mean_s", _requests, (*CELL, "allocation", "beside")),
    "throughput to host": _to_host("total_bps", _bulk),
    "latency to host": _to_host("latency_mean_s", _requests),
    **{
        part: Mean(Quantity(title, part, 1, 100, "%"), part, _bulk, (*CELL, "allocation", "beside"))
        for part, title in _CPU.items()
    },
}
_BESIDE_ALONE: dict[str, Estimates] = {
    "throughput to alone": _to_alone("total_bps", _bulk),
    "latency to alone": _to_alone("latency_mean_s", _requests),
}


# --- tables


def _stated(what: str, row: Any) -> str:
    """The change against alone that Mentz et al. 2020 state."""
    if "by the servers" in row.beside:  # as Suo et al. 2018 have them
        return MISSING
    experiment = "congestion" if "background" in row.beside else "interference"
    rows = published.load("placement_changes")
    mine = rows[
        (rows["what"] == what)
        & (rows["against"] == "placement")
        & (rows["experiment"] == experiment)
        & (rows["allocation"] == row.allocation)
        & rows["driver"].isin([allocations.STANDS_FOR.get(row.driver, row.driver), "all"])
    ]
    if mine.empty or allocations.STANDS_FOR.get(row.driver, row.driver) not in ("host", "bridge", "macvlan", "overlay"):
        return MISSING
    low, high = mine[["low_percent", "high_percent"]].iloc[0]
    return f"{low:+g}" if low == high else f"{low:+g} to {high:+g}"


_HEADS = {"place": "Allocation", "beside": "Beside", "driver": "Driver"}
_DULL = {"beside": ALONE}


def _order(answer: Answer) -> dict[str, list[str]]:
    return {"place": list(ALLOCATIONS.values())}


def _table(name: str, alone: bool = False) -> Table:
    columns: list[Any] = [name, f"{name} to host"]
    if not alone:
        columns += [f"{name} to alone", p_values(f"{name} to alone")]
        columns.append(Column("Paper M (%)", f"{name} to alone", partial(_stated, name)))
    return Table(_HEADS, columns, _order, _DULL, remarks=name)


def _tables(topic: str, alone: bool = False) -> dict[str, Table]:
    found = {f"{topic}-{name}": _table(name, alone) for name in ("throughput", "latency")}
    return found | {f"{topic}-cpu": Table(_HEADS, list(_CPU), _order, _DULL)}


# --- figures: the forms of Mentz et al. 2020, figures 3 to 5: a row for each allocation, as one can carry fifty times
# what another does, and in it a panel for each system


def _repetitions(answer: Answer, name: str) -> Figure | None:
    """A measure by driver, a point for each repetition: filled what a pair has alone, open what it has otherwise."""
    known = answer.known(name)
    others = sorted(each for each in {*known["beside"]} - {ALONE} if not each.endswith(AWAKE))

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        if answer.question.beside:  # what kept CPUs awake is in the figures of the pair alone
            frame = frame[~frame["beside"].str.endswith(AWAKE)]
        return frame.assign(system=frame["backend"] + ", " + frame["workload"])

    layout = {"rows": ["place"], "column": "system", "title": "{row}:\n{each}", "height_in": 2.0}
    layout |= {"handles": grid.filled_and_open(ALONE, ", ".join(others)) if others else []}
    return answer.dots(name, layout, where=shown, order=ordered(known["driver"]), beside="beside", filled=ALONE)


# --- the questions

_PLACED: dict[str, Any] = {
    "by": [
        Factor("allocation", lambda run: allocations.of(run.spec) or None),
        Factor("beside", lambda run: beside(run.spec)),
        FACTORS["known_as"],
    ],
    "quantities": ("total_bps", "latency_mean_s", "usr", "sys", "softirq", "rest"),
    "alike": False,
    "words": {"place": (("allocation",), ALLOCATIONS.get)},
    "keys": ("system", "driver", "allocation", "beside"),
    "main": ("throughput", "latency"),
}

PLACEMENT = Question(
    topic="placement",
    estimates=_BESIDE_HOST,
    tables=_tables("placement", alone=True),
    figures={
        "placement-throughput": lambda answer: _repetitions(answer, "throughput"),
        "placement-latency": lambda answer: _repetitions(answer, "latency"),
    },
    answer=[
        changes("throughput to host", "Throughput against the host's own network"),
        changes("latency to host", "Latency"),
    ],
    **_PLACED,
)


def _disturbed(topic: str, **options: Any) -> Question:
    return Question(
        topic=topic,
        beside=["placement"],
        pooled=True,
        estimates=_BESIDE_HOST | _BESIDE_ALONE,
        tables=_tables(topic),
        figures={
            f"{topic}-throughput": lambda answer: _repetitions(answer, "throughput"),
            f"{topic}-latency": lambda answer: _repetitions(answer, "latency"),
        },
        answer=[
            changes("throughput to alone", "Throughput against what the pair has alone", "beside"),
            changes("latency to alone", "Latency", "beside"),
        ],
        **_PLACED | options,
    )


INTERFERENCE = _disturbed("interference", only=with_loops_by_clients)
CONGESTION = _disturbed("congestion")


def _by_beside(answer: Answer) -> Figure | None:
    return by_network(answer, "throughput to alone", "beside", sorted(answer["throughput to alone"]["beside"].unique()))


BY_NETWORK = Question(
    topic="by-network",
    experiment="interference",
    only=with_loops_by_servers,
    estimates={name: each for name, each in (_BESIDE_HOST | _BESIDE_ALONE).items() if name.startswith("throughput")},
    tables={"interference-by-network": _table("throughput")},
    figures={"interference-by-network-change": _by_beside},
    answer=[changes("throughput to alone", "Throughput against what the pair has alone", "beside")],
    **_PLACED | {"main": ("throughput",)},
)
