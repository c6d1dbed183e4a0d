"""Retransmitted segments of each client against its throughput.

Source: Boeira et al. 2021, figure 4; Boeira and Ferreto, figure 5. They show it and give no coefficient.
"""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pairlab.analysis.figures import estimates
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Quantity, key_of
from pairlab.analysis.question import Across, Answer, Column, Frame, Question, Table
from pairlab.analysis.questions import throughput
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.analysis.sentences import per_system
from pairlab.errors import AnalysisError
from pairlab.statistics.correlation import correlation

METHODS = ("pearson", "spearman", "kendall")
#: Who counts: the traffic tool, the kernel for the client's namespace, the kernel for its open sockets; and their keys.
COUNTS = {
    "retransmits": ("Tool", "tool"),
    "netns_retransmits": ("Namespace", "namespace"),
    "diag_retransmits": ("Sockets", "sockets"),
}
_KERNEL = tuple(COUNTS)[1:]
_NAMES = ("system", "driver", "pairs")


def clients(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per client of each repetition: CELL, repetition, pair, throughput_bps, the three COUNTS, failed.

    The tool's count is the sum over the client's flows, missing where one of them has none; the kernel's counts are
    the client's already. failed: one of its flows failed.
    """
    return throughput.clients(
        flows.astype(dict.fromkeys(COUNTS, float)),
        retransmits=("retransmits", lambda counts: counts.sum(skipna=False)),
        **{name: (name, "max") for name in _KERNEL},
    )


def correlations(clients: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How retransmissions and throughput of the clients of a repetition go together, by cell and method.

    clients: as clients(); failed ones, and those whose tool reported none, are left out. Returns CELL, method, value,
    low, high, n (repetitions that have a coefficient), confidence, clients, left_out, retransmits (the sum), and gap:
    why there is no coefficient. That nothing was retransmitted is such a reason: the claim then cannot be tested on
    this machine.
    """
    rows = []
    for names, cell in clients.groupby(list(CELL), sort=True):
        used = cell[~cell["failed"] & cell["retransmits"].notna()]
        sides = [used[name] for name in ("throughput_bps", "retransmits", "repetition")]
        for method in METHODS:
            estimate, gap = (np.nan, np.nan, np.nan, 0), _gap(cell, used)
            if not gap:
                try:
                    estimate = correlation(*sides, method=method).estimate(confidence)
                except AnalysisError as error:
                    gap = str(error)
            counts = [len(used), len(cell) - len(used), used["retransmits"].sum()]
            rows.append([*names, method, *estimate, confidence, *counts, gap])
    columns = ["method", "value", "low", "high", "n", "confidence", "clients", "left_out", "retransmits", "gap"]
    return pd.DataFrame(rows, columns=[*CELL, *columns])


def _gap(cell: pd.DataFrame, used: pd.DataFrame) -> str:
    if cell["retransmits"].isna().all():
        return "the tool reports no retransmissions"
    if not used["retransmits"].sum():
        return (
            f"nothing was retransmitted by any of {len(used)} clients in {cell['repetition'].nunique()} repetitions:"
            " there is nothing to correlate, and the claim cannot be tested here"
        )
    return ""


def agreement(clients: pd.DataFrame) -> pd.DataFrame:
    """What the tool and the kernel counted, by cell: sums over the clients, and differences where both are known.

    Returns CELL, n (repetitions), flows (clients), failed_flows; of each of COUNTS the sum under its own name
    (missing where it is not known); and of the kernel's two <name>_less_tool: the sum of its excess over the tool's
    over the clients of which both are known, and <name>_equal, <name>_compared: in how many of them they agree.
    The namespace's count begins at the release and ends after the tool's, so it may well be larger.
    """
    rows = []
    for names, cell in clients.groupby(list(CELL), sort=True):
        row = dict(zip(CELL, names, strict=True))
        row |= {"n": cell["repetition"].nunique(), "flows": len(cell), "failed_flows": int(cell["failed"].sum())}
        row |= {name: cell[name].sum(min_count=1) for name in COUNTS}
        for name in _KERNEL:
            both = cell.dropna(subset=["retransmits", name])
            excess = both[name] - both["retransmits"]
            row |= {f"{name}_less_tool": excess.sum(min_count=1)}
            row |= {f"{name}_equal": int((excess == 0).sum()), f"{name}_compared": len(both)}
        rows.append(row)
    differences = [f"{name}_{what}" for name in _KERNEL for what in ("less_tool", "equal", "compared")]
    return pd.DataFrame(rows, columns=[*CELL, "n", "flows", "failed_flows", *COUNTS, *differences])


def _count(name: str, cell: Any) -> str:
    return _whole(getattr(cell, name))


def _against_tool(name: str, cell: Any) -> str:
    compared = getattr(cell, f"{name}_compared")
    excess, equal = getattr(cell, f"{name}_less_tool"), getattr(cell, f"{name}_equal")
    return f"{excess:+.0f}; {equal} of {compared} equal" if compared else MISSING


def _whole(count: float) -> str:
    return f"{count:.0f}" if count == count else MISSING


def gaps(correlations: pd.DataFrame) -> list[str]:
    """Each reason for a missing coefficient once, with the cells it holds for."""
    found = []
    for (*system, gap), cells in correlations[correlations["gap"] != ""].groupby([*SYSTEM, "gap"], sort=True):
        of = ", ".join(dict.fromkeys(f"{row.driver} at {row.pairs} pairs" for row in cells.itertuples()))
        found.append(f"{'-'.join(system)}, {of}: {gap}")
    return found


def _points(answer: Answer) -> Figure | None:
    """The clients that did not fail and whose tool reported a count, of systems in which any count is above 0."""
    every = answer["clients"]
    known = every[~every["failed"].astype(bool) & every["retransmits"].notna()]
    shown = known[known.groupby(list(SYSTEM))["retransmits"].transform("max") > 0]
    if not len(shown):
        return None
    axes: dict[str, Any] = {"x": "throughput_bps", "x_label": "Throughput of a client (Gbit/s)", "x_scale": 1e-9}
    axes |= {"y": "retransmits", "y_label": "Retransmitted segments"}
    note = throughput.of_clients(shown, "each has its shade, and its number amid its clients")
    note += "; the x axis begins at the slowest client"
    return estimates.by_system(shown, estimates.scatter, note=note, conditions=answer.conditions, **axes)


def _values(answer: Answer, found: Values) -> None:
    r"""confidence; <cell>/gap: why its coefficients are missing; <cell>/tool, namespace, sockets: the segments
    retransmitted by each count; namespace-excess, sockets-excess: the kernel's less the tool's over the clients of
    which both are known; not-correlated: all gaps as one text, if any.
    """
    known = answer["correlation"]
    if len(known):
        found.text("confidence", f"{answer.confidence * 100:g} %")
    for row in known[known["gap"] != ""].itertuples():
        found.text(f"{key_of(row, *_NAMES)}/gap", row.gap)
    for row in answer["agreement"].itertuples():
        for name, (_, key) in COUNTS.items():
            if getattr(row, name) == getattr(row, name):
                found.number(f"{key_of(row, *_NAMES)}/{key}", getattr(row, name), 0)
            if name in _KERNEL and getattr(row, f"{name}_compared"):
                found.text(f"{key_of(row, *_NAMES)}/{key}-excess", f"{getattr(row, f'{name}_less_tool'):+.0f}")
    if lines := gaps(known):
        found.text("not-correlated", "; ".join(lines))


def _correlated(part: pd.DataFrame) -> str:
    """Of Spearman's coefficients how many are surely above and below zero."""
    known = part[(part["method"] == "spearman") & part["low"].notna()]
    if known.empty:
        return ""
    above, below = int((known["low"] > 0).sum()), int((known["high"] < 0).sum())
    return f"of {len(known)} cells retransmissions rise with throughput in {above} and fall in {below}"


RETRANSMISSIONS = Question(
    topic="retransmissions",
    which=lambda spec: True,
    estimates={
        "correlation": Frame(
            lambda answer: correlations(answer["clients"], answer.confidence),
            Quantity("Correlation", "", 2),
            key=lambda row: row.method,
        ),
        "agreement": Frame(lambda answer: agreement(answer["clients"])),
        "clients": Frame(lambda answer: clients(answer.flows)),
    },
    words={"coefficient": (("method",), str.capitalize)},
    tables={
        "retransmissions": Table(
            {"driver": "Driver", "pairs": "Pairs"},
            [
                Column("Clients", "correlation", lambda cell: str(cell.clients)),
                Column("Retransmitted", "correlation", lambda cell: _whole(cell.retransmits)),
                Across("correlation", "coefficient", lambda answer: [method.capitalize() for method in METHODS]),
            ],
        ),
        "retransmissions-counts": Table(
            {"driver": "Driver", "pairs": "Pairs"},
            [
                *(Column(head, "agreement", partial(_count, name)) for name, (head, _) in COUNTS.items()),
                *(
                    Column(f"{COUNTS[name][0]} less tool", "agreement", partial(_against_tool, name))
                    for name in _KERNEL
                ),
            ],
            remarks="agreement",
        ),
    },
    figures={"retransmissions": _points},
    keys={"correlation": _NAMES},
    main=("agreement",),
    values=_values,
    answer=[
        per_system("correlation", _correlated),
        lambda answer: " ".join(f"{gap}." for gap in gaps(answer["correlation"])[:1]),
    ],
)
