"""How experiment E3 is laid out: retransmitted segments of each client against its throughput."""

import numpy as np
import pandas as pd

from pairlab.analysis import contrasts, stats
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import head, put, rows_by_driver, systems, with_bounds
from pairlab.collection import Runs
from pairlab.errors import AnalysisError

METHODS = ("pearson", "spearman", "kendall")
#: Who counts: the traffic tool, the kernel for the client's namespace, the kernel for its open sockets.
COUNTS = {"retransmits": "Tool", "netns_retransmits": "Namespace", "diag_retransmits": "Sockets"}
_KEYS = {"retransmits": "tool", "netns_retransmits": "namespace", "diag_retransmits": "sockets"}


def clients(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per client of each repetition: stats.CELL, repetition, pair, throughput_bps, the three COUNTS, failed.

    The tool's count is the sum over the client's flows, missing where one of them has none; the kernel's counts are
    the client's already. failed: one of its flows failed. Raises AnalysisError where runs do not belong together.
    """
    stats.check_comparable(flows)
    numbers = {name: flows[name].astype(float) for name in ("throughput_bps", *COUNTS)}
    each = flows.assign(failed=flows["status"] != "ok", **numbers).groupby(
        [*stats.CELL, "repetition", "pair"], sort=True
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
    """The clients that did not fail and of which the tool told a count, of systems in which any count is above 0."""
    known = clients[~clients["failed"].astype(bool) & clients["retransmits"].notna()]
    any_above = known.groupby(list(stats.SYSTEM))["retransmits"].transform("max") > 0
    return known[any_above]


def correlations(clients: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """How retransmissions and throughput of the clients of a repetition go together, by cell and method.

    clients: as clients(); failed ones, and those whose tool told no count, are left out. Returns stats.CELL, method,
    value, low, high, n (repetitions that have a coefficient), confidence, clients, left_out, retransmits (the sum),
    and gap: why there is no coefficient. That nothing was retransmitted is such a reason: the claim then cannot be
    tested on this machine. Source: papers C, figure 4, and E, figure 5, which show it and give no coefficient.
    """
    rows = []
    for names, cell in clients.groupby(list(stats.CELL), sort=True):
        used = cell[~cell["failed"] & cell["retransmits"].notna()]
        total = used["retransmits"].sum()
        for method in METHODS:
            estimate, gap = (np.nan, np.nan, np.nan, 0), _gap(cell, used)
            if not gap:
                try:
                    estimate = contrasts.correlation(
                        used["throughput_bps"],
                        used["retransmits"],
                        used["repetition"],
                        method=method,
                        confidence=confidence,
                    )
                except AnalysisError as error:
                    gap = str(error)
            rows.append([*names, method, *estimate, confidence, len(used), len(cell) - len(used), total, gap])
    columns = ["method", "value", "low", "high", "n", "confidence", "clients", "left_out", "retransmits", "gap"]
    return pd.DataFrame(rows, columns=[*stats.CELL, *columns])


def agreement(clients: pd.DataFrame) -> pd.DataFrame:
    """What the tool and the kernel counted, by cell: sums over the clients, and differences where both told.

    Returns stats.CELL, n (repetitions), flows (clients), failed_flows; of each of COUNTS the sum under its own name
    (missing where nobody told it); and of the kernel's two <name>_less_tool: the sum of its excess over the tool's
    over the clients of which both are known, and <name>_equal, <name>_compared: in how many of them they agree.
    The namespace's count begins at the release and ends after the tool's, so it may well be larger.
    """
    rows = []
    for names, cell in clients.groupby(list(stats.CELL), sort=True):
        row = dict(zip(stats.CELL, names, strict=True))
        row |= {"n": cell["repetition"].nunique(), "flows": len(cell), "failed_flows": int(cell["failed"].sum())}
        row |= {name: cell[name].sum(min_count=1) for name in COUNTS}
        for name in list(COUNTS)[1:]:
            both = cell.dropna(subset=["retransmits", name])
            excess = both[name] - both["retransmits"]
            row |= {f"{name}_less_tool": excess.sum(min_count=1)}
            row |= {f"{name}_equal": int((excess == 0).sum()), f"{name}_compared": len(both)}
        rows.append(row)
    differences = [f"{name}_{what}" for name in list(COUNTS)[1:] for what in ("less_tool", "equal", "compared")]
    return pd.DataFrame(rows, columns=[*stats.CELL, "n", "flows", "failed_flows", *COUNTS, *differences])


def table(correlations: pd.DataFrame) -> pd.DataFrame:
    """The three coefficients by driver with their intervals, as text; of one system."""
    cells = correlations.drop_duplicates(["driver", "pairs"])
    keyed = {(row.driver, row.pairs, row.method): row for row in correlations.itertuples()}

    def tell(method: str):
        def text(cell) -> str:
            row = keyed[cell.driver, cell.pairs, method]
            return with_bounds(row.value, row.low, row.high, 2)

        return text

    return rows_by_driver(
        cells,
        ("driver", "pairs"),
        {"Clients": lambda cell: str(cell.clients), "Retransmitted": lambda cell: _whole(cell.retransmits)}
        | {method.capitalize(): tell(method) for method in METHODS},
        heads=("Driver", "Pairs"),
    )


def table_of_agreement(agreement: pd.DataFrame) -> pd.DataFrame:
    """Segments retransmitted as the tool and the kernel count them, as text; of one system."""

    def against_tool(name: str):
        def text(cell) -> str:
            compared = getattr(cell, f"{name}_compared")
            if not compared:
                return MISSING
            return f"{getattr(cell, f'{name}_less_tool'):+.0f}; {getattr(cell, f'{name}_equal')} of {compared} equal"

        return text

    columns = {head: (lambda cell, name=name: _whole(getattr(cell, name))) for name, head in COUNTS.items()}
    columns |= {f"{COUNTS[name]} less tool": against_tool(name) for name in list(COUNTS)[1:]}
    return rows_by_driver(agreement, ("driver", "pairs"), columns, heads=("Driver", "Pairs"))


def gaps(correlations: pd.DataFrame) -> list[str]:
    """Each reason for a missing coefficient once, with the cells it holds for."""
    found = []
    for (*system, gap), cells in correlations[correlations["gap"] != ""].groupby([*stats.SYSTEM, "gap"], sort=True):
        of = ", ".join(dict.fromkeys(f"{row.driver} at {row.pairs} pairs" for row in cells.itertuples()))
        found.append(f"{'-'.join(system)}, {of}: {gap}")
    return found


def values(runs: Runs, correlations: pd.DataFrame, agreement: pd.DataFrame, gap: str) -> Values:
    r"""The keyed numbers of E3, all below `retransmissions/`: those of layout.head, and for each cell (<cell> is
    <system>/<driver>/<pairs>)

    - <cell>/pearson, spearman, kendall, each with -interval; <cell>/gap: why they are missing;
    - <cell>/tool, namespace, sockets: the segments retransmitted by each count; namespace-excess, sockets-excess:
      the kernel's less the tool's over the clients of which both are known;
    - not-correlated: all gaps as one text, if any.
    """
    found = head("retransmissions", runs, agreement, gap)
    shares = correlations["confidence"].unique()
    if len(shares):
        found.text("confidence", f"{shares[0] * 100:g} %")
    for row in correlations.itertuples():
        key = f"{row.backend}-{row.workload}/{row.driver}/{row.pairs}"
        put(found, f"{key}/{row.method}", row, 2)
        if row.gap:
            found.text(f"{key}/gap", row.gap)
    for system, part in systems(agreement).items():
        for row in part.itertuples():
            key = f"{system}/{row.driver}/{row.pairs}"
            for name, short in _KEYS.items():
                if getattr(row, name) == getattr(row, name):
                    found.number(f"{key}/{short}", getattr(row, name), 0)
                if name != "retransmits" and getattr(row, f"{name}_compared"):
                    found.text(f"{key}/{short}-excess", f"{getattr(row, f'{name}_less_tool'):+.0f}")
    if lines := gaps(correlations):
        found.text("not-correlated", "; ".join(lines))
    return found


def _gap(cell: pd.DataFrame, used: pd.DataFrame) -> str:
    if cell["retransmits"].isna().all():
        return "the tool tells no retransmissions"
    if not used["retransmits"].sum():
        return (
            f"nothing was retransmitted by any of {len(used)} clients in {cell['repetition'].nunique()} repetitions:"
            " there is nothing to correlate, and the claim cannot be tested here"
        )
    return ""


def _whole(count: float) -> str:
    return f"{count:.0f}" if count == count else MISSING
