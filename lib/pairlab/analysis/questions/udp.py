"""UDP beside TCP: what the clients of each get, and how many datagrams are lost or reordered."""

import numpy as np
import pandas as pd

from pairlab.analysis import cell_estimates, selection
from pairlab.analysis.output.formatting import systems, with_bounds
from pairlab.analysis.output.latex import Values
from pairlab.analysis.output.measures import Measure, tabulate
from pairlab.model.summaries import carried_bps

ALSO = ("udp_share", "udp_rate_bps")
BY = (*selection.CELL, *ALSO, "protocol")
MEASURES = {
    "client_bps": Measure("Mean per client (Gbit/s)", "client", 3, 1e-9, "Gbit/s"),
    "lost_share": Measure("Lost (%)", "lost", 2, 100, "%"),
    "reordered_share": Measure("Reordered (%)", "reordered", 3, 100, "%"),
}
CHANGE = Measure("Change (%)", "client-change", 1, unit="%", change=True)


def repetitions(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition, cell and protocol: BY, repetition, client_bps, lost_share, reordered_share, counts.

    flows: as Runs.flows of the experiment udp. client_bps is the mean goodput of a client of that protocol; a failed
    flow adds zero. lost_share is of the datagrams sent, reordered_share of those received (RFC 4737, section 3); both
    are missing for TCP, where the kernel repairs them. Raises AnalysisError where runs do not belong together.
    """
    selection.check_comparable(flows, ALSO)
    names = ("datagrams_sent", "datagrams_received", "datagrams_lost", "datagrams_reordered")
    counted = flows.assign(
        throughput_bps=carried_bps(flows),
        protocol=flows["protocol"].where(flows["protocol"] != "", "unknown"),
        failed=flows["status"] != "ok",
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
    """The mean of each of MEASURES over repetitions, as cell_estimates.means, by its name; loss for UDP only."""
    udp = repetitions[repetitions["protocol"] == "udp"]
    frames = {name: repetitions if name == "client_bps" else udp for name in MEASURES}
    return {name: placed(cell_estimates.means(frame, BY, name, confidence)) for name, frame in frames.items()}


def changes(repetitions: pd.DataFrame, confidence: float) -> pd.DataFrame:
    """The change in percent of what a TCP client gets, against runs without UDP, paired by repetition.

    As cell_estimates.changes, with the column load: the share and the rate of UDP as text.
    """
    tcp = repetitions[repetitions["protocol"] == "tcp"]
    tcp = _with_load(tcp)
    return cell_estimates.changes(
        tcp, selection.CELL, "client_bps", setting="load", against=load_text(0, 0), confidence=confidence
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
    """The frame with `place`: protocol, share and rate of UDP, as an axis shows it."""
    names = []
    for row in frame.itertuples():
        share = f"{row.udp_share * 100:g} % UDP"
        rate = f"\n{row.udp_rate_bps / 1e6:g} Mbit/s" if row.udp_rate_bps else ""
        names.append(f"{row.protocol.upper()}\nat {share}{rate}")
    return frame.assign(place=pd.Series(names, index=frame.index, dtype=object))


def places(cells: pd.DataFrame) -> list[str]:
    """All places, by the share and rate of UDP, TCP before UDP."""
    return list(cells.sort_values([*ALSO, "protocol"])["place"].drop_duplicates())


def table(cells: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """What a client gets by protocol, driver and load, and what of UDP was lost or reordered."""
    names = {"system": "System", "driver": "Driver", "pairs": "Pairs", "load": "Load", "protocol": "Protocol"}
    loads = _with_load(cells["client_bps"]).sort_values(list(ALSO))["load"].drop_duplicates()
    columns = {measure.title: measure.texts(_with_load(cells[name]), *names) for name, measure in MEASURES.items()}
    return tabulate(names, columns, {"load": list(loads)})


def put_cells(found: Values, cells: dict[str, pd.DataFrame], changes: pd.DataFrame, gap: str) -> None:
    r"""The keyed numbers of UDP beside TCP, below udp/:

    - missing: why there are none; systems (a list under udp/systems);
    - <system>/<driver>/<pairs>/<percent>-<Mbit/s>/<protocol>/client, lost, reordered, with -interval, where percent is
      the share of UDP and 0 Mbit/s means as fast as it can; .../tcp/client-change: against no UDP, in percent.
    """
    if gap:
        found.text("udp/missing", gap)
    found.names("udp/systems", list(systems(cells["client_bps"])))
    names = ("question", "system", "driver", "pairs", "setting", "protocol")
    settings: dict[str, str] = {}
    for name, frame in cells.items():
        frame = _with_load(frame).assign(
            question="udp",
            setting=[f"{row.udp_share * 100:g}-{row.udp_rate_bps / 1e6:g}" for row in frame.itertuples()],
        )
        settings |= dict(zip(frame["load"], frame["setting"], strict=True))
        MEASURES[name].put(found, frame, *names)
    setting = changes["load"].map(settings)
    CHANGE.put(found, changes.assign(question="udp", protocol="tcp", setting=setting), *names)


def _with_load(frame: pd.DataFrame) -> pd.DataFrame:
    loads = [load_text(row.udp_share, row.udp_rate_bps) for row in frame.itertuples()]
    return frame.assign(load=pd.Series(loads, index=frame.index, dtype=object))
