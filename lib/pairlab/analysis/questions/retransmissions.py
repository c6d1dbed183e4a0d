"""Retransmitted segments of each client against its throughput (E3)."""

import numpy as np
import pandas as pd

from pairlab.analysis import selection
from pairlab.analysis.output.formatting import MISSING
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, across, common_values, key_of, tabulate, texts
from pairlab.errors import AnalysisError
from pairlab.statistics.correlation import correlation
from pairlab.store.dataset import Runs

METHODS = ("pearson", "spearman", "kendall")
COEFFICIENT = Measure("Correlation", "", 2, short=True)
#: Who counts: the traffic tool, the kernel for the client's namespace, the kernel for its open sockets; and their keys.
COUNTS = {
    "retransmits": ("Tool", "tool"),
    "netns_retransmits": ("Namespace", "namespace"),
    "diag_retransmits": ("Sockets", "sockets"),
}
_CELL = ("system", "driver", "pairs")
_HEADS = {"system": "System", "driver": "Driver", "pairs": "Pairs"}


def clients(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per client of each repetition: CELL, repetition, pair, throughput_bps, the three COUNTS, failed.

    The tool's count is the sum over the client's flows, missing where one of them has none; the kernel's counts are
    the client's already. failed: one of its flows failed. Raises AnalysisError where runs do not belong together.
    """
    selection.check_comparable(flows)
    numbers = {name: flows[name].astype(float) for name in ("throughput_bps", *COUNTS)}
    each = flows.assign(failed=flows["status"] != "ok", **numbers).groupby(
        [*selection.CELL, "repetition", "pair"], sort=True
    )
    found = each.agg(
        throughput_bps=("throughput_bps", "sum"),
        retransmits=("retransmits", lambda counts: counts.sum(skipna=False)),
        netns_retransmits=("netns_retransmits", "max"),
        diag_retransmits=("diag_retransmits", "max"),
        failed=("failed", "any"),
    )
    return found.reset_index()


def that_retransmit(clients: pd.DataFrame) -> pd.DataFrame:
    """The clients that did not fail and whose tool reported a count, of systems in which any count is above 0."""
    known = clients[~clients["failed"].astype(bool) & clients["retransmits"].notna()]
    any_above = known.groupby(list(selection.SYSTEM))["retransmits"].transform("max") > 0
    return known[any_above]


def correlations(clients: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How retransmissions and throughput of the clients of a repetition go together, by cell and method.

    clients: as clients(); failed ones, and those whose tool reported none, are left out. Returns CELL, method,
    value, low, high, n (repetitions that have a coefficient), confidence, clients, left_out, retransmits (the sum),
    and gap: why there is no coefficient. That nothing was retransmitted is such a reason: the claim then cannot be
    tested on this machine. Source: papers C, figure 4, and E, figure 5, which show it and give no coefficient.
    """
    rows = []
    for names, cell in clients.groupby(list(selection.CELL), sort=True):
        used = cell[~cell["failed"] & cell["retransmits"].notna()]
        total = used["retransmits"].sum()
        for method in METHODS:
            estimate, gap = (np.nan, np.nan, np.nan, 0), _gap(cell, used)
            if not gap:
                try:
                    estimate = correlation(
                        used["throughput_bps"], used["retransmits"], used["repetition"], method=method
                    ).estimate(confidence)
                except AnalysisError as error:
                    gap = str(error)
            rows.append([*names, method, *estimate, confidence, len(used), len(cell) - len(used), total, gap])
    columns = ["method", "value", "low", "high", "n", "confidence", "clients", "left_out", "retransmits", "gap"]
    return pd.DataFrame(rows, columns=[*selection.CELL, *columns])


def agreement(clients: pd.DataFrame) -> pd.DataFrame:
    """What the tool and the kernel counted, by cell: sums over the clients, and differences where both are known.

    Returns CELL, n (repetitions), flows (clients), failed_flows; of each of COUNTS the sum under its own name
    (missing where it is not known); and of the kernel's two <name>_less_tool: the sum of its excess over the tool's
    over the clients of which both are known, and <name>_equal, <name>_compared: in how many of them they agree.
    The namespace's count begins at the release and ends after the tool's, so it may well be larger.
    """
    rows = []
    for names, cell in clients.groupby(list(selection.CELL), sort=True):
        row = dict(zip(selection.CELL, names, strict=True))
        row |= {"n": cell["repetition"].nunique(), "flows": len(cell), "failed_flows": int(cell["failed"].sum())}
        row |= {name: cell[name].sum(min_count=1) for name in COUNTS}
        for name in list(COUNTS)[1:]:
            both = cell.dropna(subset=["retransmits", name])
            excess = both[name] - both["retransmits"]
            row |= {f"{name}_less_tool": excess.sum(min_count=1)}
            row |= {f"{name}_equal": int((excess == 0).sum()), f"{name}_compared": len(both)}
        rows.append(row)
    differences = [f"{name}_{what}" for name in list(COUNTS)[1:] for what in ("less_tool", "equal", "compared")]
    return pd.DataFrame(rows, columns=[*selection.CELL, "n", "flows", "failed_flows", *COUNTS, *differences])


def table(correlations: pd.DataFrame) -> pd.DataFrame:
    """The three coefficients by driver with their intervals."""
    columns = {
        "Clients": texts(correlations, _CELL, lambda cell: str(cell.clients)),
        "Retransmitted": texts(correlations, _CELL, lambda cell: _whole(cell.retransmits)),
    }
    coefficients = COEFFICIENT.texts(
        correlations.assign(method=correlations["method"].str.capitalize()), *_CELL, "method"
    )
    return tabulate(_HEADS, columns | across(coefficients, order=[method.capitalize() for method in METHODS]))


def table_of_agreement(agreement: pd.DataFrame) -> pd.DataFrame:
    """Segments retransmitted as the tool and the kernel count them."""

    def against_tool(cell, name: str) -> str:
        compared = getattr(cell, f"{name}_compared")
        excess, equal = getattr(cell, f"{name}_less_tool"), getattr(cell, f"{name}_equal")
        return f"{excess:+.0f}; {equal} of {compared} equal" if compared else MISSING

    columns = {
        head: texts(agreement, _CELL, lambda cell, name=name: _whole(getattr(cell, name)))
        for name, (head, _) in COUNTS.items()
    }
    columns |= {
        f"{COUNTS[name][0]} less tool": texts(agreement, _CELL, lambda cell, name=name: against_tool(cell, name))
        for name in list(COUNTS)[1:]
    }
    return tabulate(_HEADS, columns)


def gaps(correlations: pd.DataFrame) -> list[str]:
    """Each reason for a missing coefficient once, with the cells it holds for."""
    found = []
    for (*system, gap), cells in correlations[correlations["gap"] != ""].groupby([*selection.SYSTEM, "gap"], sort=True):
        of = ", ".join(dict.fromkeys(f"{row.driver} at {row.pairs} pairs" for row in cells.itertuples()))
        found.append(f"{'-'.join(system)}, {of}: {gap}")
    return found


def values(runs: Runs, correlations: pd.DataFrame, agreement: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E3, all below `retransmissions/`: those of measures.common_values, and for each cell
    (<cell> is <system>/<driver>/<pairs>)

    - <cell>/pearson, spearman, kendall, each with -interval; <cell>/gap: why they are missing;
    - <cell>/tool, namespace, sockets: the segments retransmitted by each count; namespace-excess, sockets-excess:
      the kernel's less the tool's over the clients of which both are known;
    - not-correlated: all gaps as one text, if any.
    """
    found = common_values("retransmissions", runs, agreement, gap)
    shares = correlations["confidence"].unique()
    if len(shares):
        found.text("confidence", f"{shares[0] * 100:g} %")
    for method in METHODS:
        COEFFICIENT.put(found, correlations[correlations["method"] == method], *_CELL, key=method)
    for row in correlations[correlations["gap"] != ""].itertuples():
        found.text(f"{key_of(row, *_CELL)}/gap", row.gap)
    for row in agreement.itertuples():
        for name, (_, key) in COUNTS.items():
            if getattr(row, name) == getattr(row, name):
                found.number(f"{key_of(row, *_CELL)}/{key}", getattr(row, name), 0)
            if name != "retransmits" and getattr(row, f"{name}_compared"):
                found.text(f"{key_of(row, *_CELL)}/{key}-excess", f"{getattr(row, f'{name}_less_tool'):+.0f}")
    if lines := gaps(correlations):
        found.text("not-correlated", "; ".join(lines))
    return found


def _gap(cell: pd.DataFrame, used: pd.DataFrame) -> str:
    if cell["retransmits"].isna().all():
        return "the tool reports no retransmissions"
    if not used["retransmits"].sum():
        return (
            f"nothing was retransmitted by any of {len(used)} clients in {cell['repetition'].nunique()} repetitions:"
            " there is nothing to correlate, and the claim cannot be tested here"
        )
    return ""


def _whole(count: float) -> str:
    return f"{count:.0f}" if count == count else MISSING
