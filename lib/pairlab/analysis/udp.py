"""How UDP beside TCP is laid out: what the clients of each get, and what of UDP is lost or overtaken."""

import numpy as np
import pandas as pd

from pairlab.analysis import estimates, stats
from pairlab.analysis.latex import MISSING, Values
from pairlab.analysis.layout import put, rows_by_driver, shown, systems, with_bounds

ALSO = ("udp_share", "udp_rate_bps")
BY = (*stats.CELL, *ALSO, "protocol")
#: What is estimated, how tables call it, its scale there, digits and unit.
MEASURES = {
    "client_bps": ("Mean per client (Gbit/s)", 1e-9, 3, "Gbit/s"),
    "lost_share": ("Lost (%)", 100, 2, "%"),
    "reordered_share": ("Reordered (%)", 100, 3, "%"),
}
_KEYS = {"client_bps": "client", "lost_share": "lost", "reordered_share": "reordered"}


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, cell and protocol: BY, repetition, client_bps, lost_share, reordered_share, counts.

    flows: as Runs.flows of the experiment udp. client_bps is the mean goodput of a client of that protocol; a failed
    flow adds zero. lost_share is of the datagrams sent, reordered_share of those received (RFC 4737, section 3); both
    are missing for TCP, where the kernel repairs them unseen. Raises AnalysisError where runs do not belong together.
    """
    stats.check_comparable(flows, ALSO)
    ok = flows["status"] == "ok"
    names = ("datagrams_sent", "datagrams_received", "datagrams_lost", "datagrams_reordered")
    counted = flows.assign(
        throughput_bps=flows["throughput_bps"].where(ok, 0.0).fillna(0.0).astype(float),
        protocol=flows["protocol"].where(flows["protocol"] != "", "unknown"),
        failed=~ok,
        **{name: flows[name].astype(float) for name in names},
    )
    rows = []
    for key, group in counted.groupby([*BY, "repetition"], sort=True):
        sent, received, lost, reordered = (group[name].sum(min_count=1) for name in names)
        mean = float(group["throughput_bps"].sum()) / group["pair"].nunique()
        shares = [lost / sent if sent else np.nan, reordered / received if received else np.nan]
        rows.append([*key, mean, *shares, len(group), int(group["failed"].sum())])
    columns = ["client_bps", "lost_share", "reordered_share", "flows", "failed_flows"]
    return pd.DataFrame(rows, columns=[*BY, "repetition", *columns])


def cells(repetitions: pd.DataFrame, confidence: float) -> dict[str, pd.DataFrame]:
    """The mean of each of MEASURES over repetitions, as estimates.means, by its name; loss for UDP only."""
    udp = repetitions[repetitions["protocol"] == "udp"]
    frames = {name: repetitions if name == "client_bps" else udp for name in MEASURES}
    return {name: placed(estimates.means(frame, BY, name, confidence)) for name, frame in frames.items()}


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change in percent of what a TCP client gets, against runs without UDP, paired by repetition.

    As estimates.changes, with the column load: the share and the rate of UDP as text.
    """
    tcp = repetitions[repetitions["protocol"] == "tcp"]
    loads = [load_text(row.udp_share, row.udp_rate_bps) for row in tcp.itertuples()]
    tcp = tcp.assign(load=pd.Series(loads, index=tcp.index, dtype=object))
    return estimates.changes(
        tcp, stats.CELL, "client_bps", setting="load", against=load_text(0, 0), confidence=confidence
    )


def beside(changes: pd.DataFrame) -> list[str]:
    """In words what a TCP client gets beside UDP, against runs without it; of the cells that have both."""
    return [
        f"{row.backend}-{row.workload}, {row.driver}, {row.pairs} pairs, {row.load}: a TCP client's throughput"
        f" changes by {with_bounds(row.value, row.low, row.high, 1)} %"
        for row in changes[changes["value"].notna()].itertuples()
    ]


def load_text(share: float, rate_bps: float) -> str:
    """How many clients send UDP and how fast, as text."""
    if not share:
        return "TCP only"
    return f"{share * 100:g} % UDP at {rate_bps / 1e6:g} Mbit/s" if rate_bps else f"{share * 100:g} % UDP at full rate"


def placed(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with `place`: protocol, share and rate of UDP, as an axis tells it."""
    told = []
    for row in frame.itertuples():
        share = f"{row.udp_share * 100:g} % UDP"
        rate = f"\n{row.udp_rate_bps / 1e6:g} Mbit/s" if row.udp_rate_bps else ""
        told.append(f"{row.protocol.upper()}\nat {share}{rate}")
    return frame.assign(place=pd.Series(told, index=frame.index, dtype=object))


def places(cells: pd.DataFrame) -> list[str]:
    """All places, by the share and rate of UDP, TCP before UDP."""
    return list(cells.sort_values([*ALSO, "protocol"])["place"].drop_duplicates())


def tables(cells: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """table() of each system, by its name."""
    return {
        system: table({name: systems(frame).get(system, frame.iloc[:0]) for name, frame in cells.items()})
        for system in systems(cells["client_bps"])
    }


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """What a client gets by protocol, driver and load, and what of UDP was lost or reordered; of one system."""
    keyed = {
        name: {(row.driver, row.pairs, row.place): row for row in frame.itertuples()} for name, frame in cells.items()
    }
    first = cells["client_bps"].assign(
        load=[load_text(row.udp_share, row.udp_rate_bps) for row in cells["client_bps"].itertuples()]
    )
    loads = list(first.sort_values(list(ALSO))["load"].drop_duplicates())

    def tell(name: str):
        _, scale, digits, _ = MEASURES[name]

        def text(cell) -> str:
            row = keyed[name].get((cell.driver, cell.pairs, cell.place))
            return MISSING if row is None else shown(row, digits, scale=scale)

        return text

    return rows_by_driver(
        first,
        ("driver", "pairs", "load", "protocol"),
        {title: tell(name) for name, (title, *_) in MEASURES.items()},
        heads=("Driver", "Pairs", "Load", "Protocol"),
        order={"load": loads},
    )


def put_cells(found: Values, cells: dict[str, pd.DataFrame], changes: pd.DataFrame, gap: str) -> None:
    r"""The keyed numbers of UDP beside TCP, below udp/:

    - missing: why there are none; systems (a list under udp/systems);
    - <system>/<driver>/<pairs>/<percent>-<Mbit/s>/<protocol>/client, lost, reordered, with -interval, where percent is
      the share of UDP and 0 Mbit/s means as fast as it can; .../tcp/client-change: against no UDP, in percent.
    """
    if gap:
        found.text("udp/missing", gap)
    found.names("udp/systems", list(systems(cells["client_bps"])))
    for name, frame in cells.items():
        _, scale, digits, unit = MEASURES[name]
        for row in frame.itertuples():
            load = f"{row.udp_share * 100:g}-{row.udp_rate_bps / 1e6:g}"
            key = f"udp/{row.backend}-{row.workload}/{row.driver}/{row.pairs}/{load}/{row.protocol}"
            put(found, f"{key}/{_KEYS[name]}", row, digits, unit, scale=scale)
    loads = {
        load_text(row.udp_share, row.udp_rate_bps): f"{row.udp_share * 100:g}-{row.udp_rate_bps / 1e6:g}"
        for row in cells["client_bps"].itertuples()
    }
    for row in changes.itertuples():
        key = f"udp/{row.backend}-{row.workload}/{row.driver}/{row.pairs}/{loads[row.load]}/tcp/client-change"
        put(found, key, row, 1, "%", signed=True)
