"""UDP beside TCP: what the clients of each get, and how many datagrams are lost or reordered."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis import cell_estimates
from pairlab.analysis.figures import estimates
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.question import Answer, Change, Mean, Question, Table
from pairlab.analysis.questions.throughput import CLIENT
from pairlab.analysis.selection import CELL
from pairlab.analysis.sentences import changes, extremes
from pairlab.model.rates import carried_bps
from pairlab.model.records import Run

LOST = Quantity("Lost (%)", "lost", 2, 100, "%")
_COUNTS = ("datagrams_sent", "datagrams_received", "datagrams_lost", "datagrams_reordered")


def by_protocol(run: Run) -> Iterator[dict[str, object]]:
    """Of each protocol client_bps, the mean goodput of a client of it, where a failed flow adds zero; lost_share, of
    the datagrams sent, and reordered_share, of those received (RFC 4737, section 3): both are missing for TCP, where
    the kernel repairs them.
    """
    flows = run.flows.assign(
        carried_bps=carried_bps(run.flows), protocol=run.flows["protocol"].where(run.flows["protocol"] != "", "unknown")
    )
    for protocol, part in flows.groupby("protocol", sort=True):
        sent, received, lost, reordered = (part[name].astype(float).sum(min_count=1) for name in _COUNTS)
        yield {
            "protocol": protocol,
            "client_bps": float(part["carried_bps"].sum()) / part["pair"].nunique(),
            "lost_share": lost / sent if sent else np.nan,
            "reordered_share": reordered / received if received else np.nan,
            "flows": len(part),
            "failed_flows": int((part["status"] != "ok").sum()),
        }


def load_text(share: float, rate_bps: float) -> str:
    """How many clients send UDP and how fast, as text."""
    if not share:
        return "TCP only"
    return f"{share * 100:g} % UDP at {rate_bps / 1e6:g} Mbit/s" if rate_bps else f"{share * 100:g} % UDP at full rate"


def _place(protocol: str, share: float, rate_bps: float) -> str:
    """Protocol, its share of the clients and the rate of UDP, as an axis shows it."""
    mine = {"udp": share, "tcp": 1 - share}.get(protocol, 1)
    lines = [protocol.upper(), f"{mine * 100:g} % of clients" * (mine < 1)]
    return "\n".join(filter(None, [*lines, f"UDP at {rate_bps / 1e6:g} Mbit/s" * (rate_bps > 0)]))


def _of(protocol: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda repetitions: repetitions[repetitions["protocol"] == protocol]


def _beside_tcp(answer: Answer) -> Figure | None:
    """Goodput by protocol and share of UDP, and below it the share of datagrams lost; a column per system."""
    if not len(answer["client"]):
        return None
    goodput, lost = (cell_estimates.at_pairs(answer[name]) for name in ("client", "lost"))
    order = list(goodput.sort_values(["udp_share", "udp_rate_bps", "protocol"])["place"].drop_duplicates())
    # Both rows have the places of the first, so that a loss stands below its goodput; TCP repairs its own.
    names: dict[str, Any] = {"category": "place", "order": order, "name": "Protocol"}
    by_place: Callable[..., Axes] = partial(estimates.by_category, **names)

    def draw_lost(part: pd.DataFrame, ax: Axes) -> Axes:
        by_place(part, ax, measure=LOST)
        ax.set_ylim(0, 100)
        return ax

    rows = [(goodput, partial(by_place, measure=CLIENT, log_y=True))]
    return estimates.above_each_other(
        [*rows, (lost, draw_lost)] if lost["value"].notna().any() else rows, conditions=answer.conditions
    )


def _loads(answer: Answer) -> dict[str, list[str]]:
    return {"load": list(answer["client"].sort_values(["udp_share", "udp_rate_bps"])["load"].drop_duplicates())}


UDP = Question(
    topic="udp",
    which=lambda spec: True,
    by=["udp_share", "udp_rate_bps"],
    parts=by_protocol,
    of_parts=["protocol"],
    quantities=("client_bps", "lost_share", "reordered_share"),
    words={
        "load": (("udp_share", "udp_rate_bps"), load_text),
        "setting": (("udp_share", "udp_rate_bps"), lambda share, bps: f"{share * 100:g}-{bps / 1e6:g}"),
        "place": (("protocol", "udp_share", "udp_rate_bps"), _place),
    },
    estimates={
        "client": Mean(CLIENT, "client_bps"),
        "lost": Mean(LOST, "lost_share", _of("udp")),
        "reordered": Mean(Quantity("Reordered (%)", "reordered", 3, 100, "%"), "reordered_share", _of("udp")),
        "change": Change(
            Quantity("Change (%)", "client-change", 1, unit="%", change=True),
            *("client_bps", "load", load_text(0, 0), _of("tcp"), CELL),
            keep=("udp_share", "udp_rate_bps", "protocol"),
        ),
    },
    tables={
        "beyond-udp": Table(
            {"driver": "Driver", "pairs": "Pairs", "load": "Load", "protocol": "Protocol"},
            ["client", "lost", "reordered"],
            _loads,
        )
    },
    figures={"beyond-udp": _beside_tcp},
    keys=("system", "driver", "pairs", "setting", "protocol"),
    answer=[
        changes("change", "A TCP client beside UDP against TCP alone", "load"),
        extremes("client", "goodput of a client", ("load", "protocol")),
    ],
)
