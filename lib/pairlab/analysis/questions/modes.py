"""What one pair gets over each network, by what is measured and the size of messages (Suo et al. 2018).

All are held against `process`, the pair without containers, in the same place and with messages of the same size. A
container on its host's own network (driver `host`) has everything of a container but the network.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis import published, selection
from pairlab.analysis.figures import estimates
from pairlab.analysis.output.formatting import MISSING, size_text
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Column, Estimates, Mean, Question, Table, p_values
from pairlab.analysis.questions.message_size import ticks
from pairlab.analysis.questions.networks import by_network
from pairlab.analysis.repetitions import FACTORS, Factor, transacts
from pairlab.analysis.selection import SYSTEM
from pairlab.analysis.sentences import changes
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import summaries
from pairlab.store.dataset import Runs

#: What all is held against, and the mode that carries nothing, which its runs show.
BARE, ISOLATED = "process", "none"
#: What is measured, in the order of Suo et al. 2018, figure 3; bulk transfers have the messages of their tool.
BULK = ("upload", "download", "both ways")
MESSAGES = ("TCP", "UDP")
LATENCY = "latency"
#: What is added where idle CPUs were kept from sleeping.
AWAKE = " with CPUs awake"
#: The size of the messages of Suo et al. 2018, figure 3b.
MESSAGE_BYTES = 1024
#: The networks that Suo et al. 2018 call overlays, of which they state means.
OVERLAYS = ("overlay", "weave", "flannel-vxlan", "flannel-udp", "ipip")
TOTAL = Quantity("Throughput (Gbit/s)", "throughput", 2, 1e-9, "Gbit/s")
MEAN_LATENCY = Quantity("Mean latency (µs)", "latency", 2, 1e6, "µs")
CHANGE = Quantity("Against process (%)", "against-process", 1, unit="%", change=True)

_BULK = {"up": BULK[0], "down": BULK[1], "both": BULK[2]}
_WHATS_NAME = "What is measured"


# --- what a run measures


def part_of(spec: Spec, transacts: bool) -> tuple[str, int] | None:
    """What a run measures, and the size of its messages or requests, in bytes, 0 of bulk transfers; None: nothing that
    these questions ask for. transacts: whether its flows are transactions.
    """
    if spec.driver == ISOLATED:
        return None
    if transacts:
        alike = spec.request_bytes == spec.response_bytes and not (spec.requests_per_s or spec.udp_share)
        return (LATENCY, max(spec.request_bytes, 1)) if alike else None
    if not spec.message_bytes:
        return None if spec.udp_share else (_BULK[spec.direction], 0)
    if spec.direction != "up" or spec.udp_share not in (0, 1):
        return None
    return MESSAGES[int(spec.udp_share)], spec.message_bytes


def _measured(run: Run) -> Iterator[dict[str, object]]:
    if part := part_of(run.spec, transacts(run)):
        yield {"what": part[0] + AWAKE * run.spec.cpus_awake, "size": part[1]}


def _carries(repetitions: pd.DataFrame) -> pd.DataFrame:
    return repetitions[~repetitions["what"].str.startswith(LATENCY)]


def _answers(repetitions: pd.DataFrame) -> pd.DataFrame:
    return repetitions[repetitions["what"].str.startswith(LATENCY)]


def isolation(runs: Iterable[Run]) -> pd.DataFrame:
    """What runs of the mode that carries nothing show: system, tried and reached (connections), links, and errors: the
    kernel's, of those that came to nothing.
    """
    rows = []
    for run in runs:
        if run.spec.driver == ISOLATED and run.status == "ok":
            failed = run.flows["status"] == "failed"
            rows.append(
                {
                    "system": f"{run.spec.backend}-{run.spec.workload}",
                    "tried": len(run.flows),
                    "reached": int((~failed).sum()),
                    "links": ", ".join(sorted({each for links in run.facts["links"].values() for each in links})),
                    "errors": "; ".join(sorted(set(run.flows.loc[failed, "error"]))),
                }
            )
    return pd.DataFrame(rows, columns=["system", "tried", "reached", "links", "errors"])


def isolated(runs: Runs) -> str:
    """The same as a sentence for each system and what its kernel reported."""
    sentences = [
        f"{system}, none: {int(part['tried'].sum())} connections tried, {int(part['reached'].sum())} reached their"
        f" server; links: {links}; {errors}"
        for (system, links, errors), part in isolation(runs).groupby(["system", "links", "errors"])
    ]
    return "\n".join(sentences) or "the mode none was not measured"


# --- what Suo et al. 2018 state


def _stated(experiment: str) -> dict[tuple[str, str, int], str]:
    """What Suo et al. 2018 state of an experiment, by mode, what is measured, and message size; 0: of bulk, or all."""
    rows = published.load("network_changes").fillna({"note": ""})
    found: dict[tuple[str, str, int], str] = {}
    for row in rows[rows["experiment"] == experiment].itertuples():
        both_ways = BULK[:2] if "download too" in row.note else (row.what,)
        protocols = MESSAGES if "of UDP too" in row.note else MESSAGES[:1]
        meant = {"throughput": MESSAGES[:1], "tcp": protocols, "udp": MESSAGES[1:], "upload": both_ways}
        for driver in OVERLAYS if row.driver == "overlays" else (row.driver,):
            for what in meant.get(row.what, (row.what,)):
                size = int(np.nan_to_num(row.message_bytes))
                found.setdefault((driver, what, size), _bounds(row.low_percent, row.high_percent))
    return found


def _bounds(low: float, high: float) -> str:
    if low == high:
        return "about 0" if low == 0 else f"{low:+g}"
    return f"below {high:+g}" if np.isnan(low) else f"above {low:+g}"


def _stated_of(experiment: str, row: Any) -> str:
    stated = _stated(experiment)
    return stated.get((row.driver, row.what, row.size)) or stated.get((row.driver, row.what, 0), MISSING)


# --- tables and figures


def _sized(size: int) -> str:
    return size_text(size) if size else MISSING


_BY_MESSAGE: dict[str, Any] = {
    "by": ["udp_share"],
    "parts": _measured,
    "of_parts": ["what", "size"],
    "quantities": ("total_bps", "latency_mean_s"),
    "alike": False,
    "words": {
        "sized": (("size",), _sized),
        "setting": (("what", "size"), lambda what, size: ", ".join(filter(None, (what, size and size_text(size))))),
    },
}
_ESTIMATES: dict[str, Estimates] = {
    "throughput": Mean(TOTAL, "total_bps", _carries),
    "throughput change": Change(CHANGE, "total_bps", "driver", BARE, _carries),
    "latency": Mean(MEAN_LATENCY, "latency_mean_s", _answers),
    "latency change": Change(CHANGE, "latency_mean_s", "driver", BARE, _answers),
}
_HEADS = {"what": "What", "sized": "Size", "driver": "Mode"}
_KEYS = ("system", "driver", "what", "size")


def _order(name: str, *more: tuple[str, list[str]]) -> Any:
    def order(answer: Answer) -> dict[str, list[str]]:
        sizes = [_sized(size) for size in sorted(answer[name]["size"].unique())]
        return {"what": [*BULK, *MESSAGES, LATENCY, LATENCY + AWAKE], "sized": sizes, **dict(more)}

    return order


def _table(experiment: str, name: str) -> Table:
    """One measure by what is measured, size and mode; its changes, and those that Suo et al. 2018 state."""
    stated = Column("Paper S (%)", name, partial(_stated_of, experiment))
    return Table(_HEADS, [name, f"{name} change", p_values(f"{name} change"), stated], _order(name), remarks=name)


def _bars(answer: Answer) -> Figure | None:
    """What the figures 3a and 3b of Suo et al. 2018 have bars of: bulk transfers, and messages of 1024 B. A row of
    panels for each of them, as they lie far apart.
    """

    def bulk_and_messages(cells: pd.DataFrame) -> pd.DataFrame:
        bulk = cells["what"].isin(BULK)
        mine = cells.assign(kind=np.where(bulk, "bulk transfers", f"messages of {MESSAGE_BYTES} B"))
        return mine[bulk | (cells["what"].isin(MESSAGES) & (cells["size"] == MESSAGE_BYTES))]

    def draw(panel: pd.DataFrame, ax: Axes, measure: Quantity) -> Axes:
        return _by_what(panel.assign(word=panel["what"] + "\n" + panel["workload"]), ax, measure, (*BULK, *MESSAGES))

    rows = {"rows": ["kind"], "column": "backend", "title": "{each}, {row}"}
    return answer.facets(draw, "throughput", rows, where=bulk_and_messages)


def _by_what(panel: pd.DataFrame, ax: Axes, measure: Quantity, whats: Iterable[str], label: str = "") -> Axes:
    """Estimates by what is measured, in the order of `whats`, and by tool; word: the column that names both."""
    named = panel.assign(rank=panel["what"].map([*whats].index)).sort_values(["rank", "workload"])
    shown: dict[str, Any] = {"category": "word", "order": [*dict.fromkeys(named["word"])], "name": _WHATS_NAME}
    return estimates.by_category(named, ax, measure=measure, label=label, **shown)


def _several(what: str, cells: pd.DataFrame) -> pd.DataFrame:
    """Those of what is measured, of systems that have several sizes."""
    mine = cells[cells["what"] == what]
    return mine[mine.groupby(list(SYSTEM))["size"].transform("nunique") > 1]


def _by_size(answer: Answer, name: str, what: str) -> Figure | None:
    """An estimate by size, a line for each mode: figures 3c and 3d."""
    several = partial(_several, what)
    sizes: dict[str, Any] = {"number": "size", "name": "Message size", "log_y": True}
    return answer.panels(estimates.by_number, name, where=several, ticks=ticks(several(answer[name])["size"]), **sizes)


def _latencies(answer: Answer) -> Figure | None:
    """Latencies by size, modes beside each other as they differ little: figure 5."""
    several = partial(_several, LATENCY)
    order = [_sized(size) for size in sorted(several(answer["latency"])["size"].unique())]
    sizes: dict[str, Any] = {"category": "sized", "order": order, "name": "Request and response size"}
    return answer.panels(estimates.by_category, "latency", where=several, **sizes)


def _by_message(answer: Answer, name: str) -> Figure | None:
    """That of each network, with a panel for what is measured, by the size of messages: figures 4 and 7."""
    order = answer[name].drop_duplicates("setting").sort_values(["what", "size"])["setting"]
    return by_network(answer, name, "setting", list(order))


def _isolated_values(answer: Answer, found: Values) -> None:
    """isolated/tried, isolated/reached: connections of the mode none."""
    of_none = isolation(answer.found)
    for name in ("tried", "reached") if len(of_none) else ():
        found.number(f"isolated/{name}", int(of_none[name].sum()), 0)


def _of_messages(topic: str, **options: Any) -> Question:
    return Question(
        topic=topic,
        estimates=_ESTIMATES,
        tables={f"{topic}-{name}": _table(topic, name) for name in ("throughput", "latency")},
        keys=_KEYS,
        main=("throughput", "latency"),
        answer=[changes("throughput change", "Throughput against process"), changes("latency change", "Latency")],
        **_BY_MESSAGE,
        **options,
    )


SINGLE_HOST_MODES = _of_messages(
    selection.MODES,
    figures={
        "single-host-modes-throughput": _bars,
        "single-host-modes-tcp-sizes": lambda answer: _by_size(answer, "throughput", "TCP"),
        "single-host-modes-udp-sizes": lambda answer: _by_size(answer, "throughput", "UDP"),
        "single-host-modes-latency-sizes": _latencies,
    },
    values=_isolated_values,
)

MULTI_HOST = _of_messages(
    "multi-host",
    figures={
        "multi-host-throughput": lambda answer: _by_message(answer, "throughput"),
        "multi-host-latency": lambda answer: _by_message(answer, "latency"),
    },
)


# --- is one CPU overloaded while the others idle? The work that packets make is done on the CPUs that their interrupts
# and queues are bound to, so that one stream can fill one CPU. Hosts that share a kernel share its CPUs.


def _messages(repetitions: pd.DataFrame) -> pd.DataFrame:
    return repetitions[repetitions["what"].isin(MESSAGES)]


_CORES = {
    "busiest_share": Mean(Quantity("Busiest CPU (%)", "busiest", 1, 100, "%"), "busiest_share", _messages),
    "others_share": Mean(Quantity("Other CPUs (%)", "others", 1, 100, "%"), "others_share", _messages),
    "softirq_share": Mean(Quantity("Softirq, busiest (%)", "busiest-softirq", 1, 100, "%"), "softirq_share", _messages),
}

PACKET_SIZE = Question(
    topic="packet-size",
    estimates={name: _ESTIMATES[name] for name in ("throughput", "throughput change")} | _CORES,
    tables={
        "packet-size-throughput": _table("packet-size", "throughput"),
        "packet-size-cpu": Table(_HEADS | {"driver": "Network"}, list(_CORES), _order("busiest_share")),
    },
    figures={
        "packet-size-tcp": lambda answer: _by_size(answer, "throughput", "TCP"),
        "packet-size-udp": lambda answer: _by_size(answer, "throughput", "UDP"),
    },
    keys=_KEYS,
    main=("throughput",),
    answer=[changes("throughput change", "Throughput against process, over all sizes")],
    **_BY_MESSAGE | {"quantities": ("total_bps", *_CORES)},
)


# --- hosts of several kinds

#: The kinds, in the order of tables, and what these call them.
KINDS = {"namespace": "namespaces", "uml": "user-mode Linux", "machine": "machines", "": "not recorded"}
AGAINST_NAMESPACES = Quantity("Against process between namespaces (%)", "against-namespaces", 1, unit="%", change=True)


def _kind_text(kind: str) -> str:
    """What tables call a kind: that of a backend from elsewhere by its own name."""
    return KINDS.get(kind, kind)


def _of_kinds(repetitions: pd.DataFrame) -> pd.DataFrame:
    return _carries(repetitions).assign(network=repetitions["driver"] + ", " + repetitions["kind"])


def _of_one_kind(runs: Runs) -> str:
    kinds = {_kind_text(str(FACTORS["host_kinds"].of(run))) for run in runs if run.status == "ok"}
    return (
        ""
        if len(kinds) > 1
        else f"not comparable: all hosts are of one kind ({', '.join(kinds) or 'no run counts'}): measure others beside"
        " them, with backend uml or ssh"
    )


VIRTUALIZATION = Question(
    topic="virtualization",
    estimates={
        "throughput": Mean(Quantity("Throughput (Mbit/s)", "throughput", 1, 1e-6, "Mbit/s"), "total_bps", _carries),
        "throughput change": _ESTIMATES["throughput change"],
        "change": Change(
            *(AGAINST_NAMESPACES, "total_bps", "network", f"{BARE}, {KINDS['namespace']}", _of_kinds),
            by=("workload", "pairs", "what", "size"),
            keep=("backend", "driver", "host_kinds"),
        ),
    },
    tables={
        "virtualization": Table(
            {"what": "What", "sized": "Size", "kind": "Hosts", "driver": "Network"},
            ["throughput", "throughput change", "change", p_values("change")],
            _order("throughput", ("kind", list(KINDS.values()))),
            split=False,
        )
    },
    keys=_KEYS,
    unfit=_of_one_kind,
    answer=[
        changes("throughput change", "Throughput against process between hosts of the same kind", "kind"),
        changes("change", "Against process between namespaces", "network"),
    ],
    **_BY_MESSAGE
    | {
        "by": [FACTORS["host_kinds"], "udp_share"],
        "words": _BY_MESSAGE["words"] | {"kind": (("host_kinds",), _kind_text)},
    },
)


# --- what containers cost, and what only their network does: CPU, memory, and TCP and UDP throughput

#: What is measured, in the order of Suo et al. 2018, figure 1.
WHATS: dict[str, Quantity] = {
    "CPU": Quantity("CPU time (s)", "cpu", 2, 1, "s"),
    "memory read": Quantity("Memory read (Gbit/s)", "memory-read", 1, 1e-9, "Gbit/s"),
    "memory write": Quantity("Memory written (Gbit/s)", "memory-write", 1, 1e-9, "Gbit/s"),
    "TCP": Quantity("TCP (Gbit/s)", "tcp", 2, 1e-9, "Gbit/s"),
    "UDP": Quantity("UDP (Gbit/s)", "udp", 2, 1e-9, "Gbit/s"),
}
_OF_METRICS = {"calculation_s": "CPU", "memory_read_bps": "memory read", "memory_write_bps": "memory write"}
#: Where both ends are, by the number of hosts: "(s)" and "(m)" in Suo et al. 2018.
PLACES = {1: "one host", 2: "two hosts"}
_CONTAINED_HEADS = {"place": "Place", "title": "What", "driver": "Network"}


def _each_measured(run: Run) -> Iterator[dict[str, object]]:
    """Of each thing that a run measures, measured: in the unit of WHATS; and speed: the same, and of a time its
    inverse, so that more is always better.
    """
    found = summaries(run)
    if run.sends_nothing:
        known = {what: found[name] for name, what in _OF_METRICS.items() if name in found}
    else:
        known = {MESSAGES[bool(run.spec.udp_share)]: found.get("total_bps", float("nan"))}
    for what, value in known.items():
        yield {"what": what, "measured": value, "speed": 1 / value if WHATS[what].unit == "s" and value else value}


class _Measured(Mean):
    """What is measured, each with a unit of its own."""

    def put(self, found: Values, frame: pd.DataFrame, *names: str) -> None:
        for what, measure in WHATS.items():
            measure.put(found, frame[frame["what"] == what], *names)


def _value(row: Any) -> str:
    measure, frame = WHATS[row.what], pd.DataFrame([row._asdict()])
    return next(iter(measure.texts(frame, "driver").values()))


def _against_bare(answer: Answer) -> Figure | None:
    """The change of what is measured, by network: a row per backend, a panel per place. Throughput of several tools has
    a place for each.
    """

    def draw(panel: pd.DataFrame, ax: Axes, measure: Quantity) -> Axes:
        sends = ~panel["workload"].str.startswith("stress-ng")
        words = panel["what"].str.replace(" ", "\n").where(~sends, panel["what"] + "\n" + panel["workload"])
        return _by_what(panel.assign(word=words), ax, measure, WHATS, "Performance against\nprocess (%)")

    places = [place for place in PLACES.values() if (answer.known("change")["place"] == place).any()]
    rows = {"rows": ["backend"], "column": "place", "order": places, "title": "{row}, {each}"}
    return answer.facets(draw, "change", rows)


CONTAINERIZATION = Question(
    topic="containerization",
    by=[
        Factor("place", lambda run: PLACES.get(run.spec.hosts) if run.spec.udp_share in (0, 1) else None),
        "work_version",
    ],
    of_parts=["what"],
    parts=_each_measured,
    quantities=("measured", "speed"),
    alike=False,
    words={"title": (("what",), lambda what: WHATS[what].title)},
    estimates={
        "value": _Measured(Quantity("Value", "value", 2), "measured"),
        "change": Change(CHANGE, "speed", "driver", BARE),
    },
    tables={
        "containerization": Table(
            _CONTAINED_HEADS,
            [Column("Value", "value", _value), "change", p_values("change")],
            lambda answer: {"place": list(PLACES.values()), "title": [each.title for each in WHATS.values()]},
            remarks="value",
        )
    },
    figures={"containerization": _against_bare},
    keys=("system", "driver", "place", "what"),
    answer=[changes("change", "Performance against no containers, CPU and memory, TCP and UDP")],
)
