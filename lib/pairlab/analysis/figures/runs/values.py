"""The data of pictures of single runs, as arrays: values of flows, throughput over time, retransmits by client."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis.output.formatting import with_interval
from pairlab.base import units
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.summaries import Measure
from pairlab.model.tables import carried_bytes
from pairlab.statistics import correlation

#: From this many clients on, a rank correlation is shown.
LEAST_CLIENTS = 5
#: Steps of throughput over time for finite flows, which may be shorter than an interval.
_STEPS = 50


class Plotted(NamedTuple):
    """A plotted quantity of flows: its column, its name on an axis and in a sentence, and its base unit.

    items: what has it, in the plural.
    """

    column: str
    label: str
    in_words: str
    unit: str
    items: str = "flows"

    def scaled(self, values: Sequence[np.ndarray]) -> tuple[float, str]:
        """The factor and the unit that suit these values."""
        if self.unit == "share":
            return 100.0, "%"
        if len(units.UNITS.get(self.unit, ())) < 2:
            return 1.0, self.unit
        most = max((float(np.max(part)) for part in values if np.size(part)), default=0.0)
        factor, unit = units.prefix(most, self.unit)
        return 1 / factor, unit


FCT = Plotted("fct_s", "Flow completion time", "completion time", "s")
THROUGHPUT = Plotted("throughput_bps", "Throughput of a flow", "throughput", "bit/s")
LATENCY = Plotted("latency_s", "Latency of a transaction", "latency", "s", "transactions")
LAUNCH = Plotted("ready_s", "Launch time", "launch time", "s", "launches")


def shown(name: str, measure: Measure) -> Plotted:
    """A measure of runs, or a workload's metric, as a plotted quantity."""
    label = measure.name if measure.name[1:2].isdigit() else measure.name[:1].upper() + measure.name[1:]
    return Plotted(name, label, measure.name, measure.unit)


class OverTime(NamedTuple):
    """Throughput over time. edges_s: of the steps, since the release; clients_bps: a row a client, a column a step."""

    edges_s: np.ndarray
    clients_bps: np.ndarray

    @property
    def middles_s(self) -> np.ndarray:
        return (self.edges_s[:-1] + self.edges_s[1:]) / 2

    @property
    def total_bps(self) -> np.ndarray:
        return self.clients_bps.sum(axis=0)

    @property
    def median_bps(self) -> np.ndarray:
        return np.median(self.clients_bps, axis=0)


def of_flows(run: Run, quantity: Plotted) -> np.ndarray:
    """The quantity of each successful flow, or launch, that has a value, in base units."""
    rows = run.launches if quantity == LAUNCH else run.flows
    return rows.loc[rows["status"] == "ok", quantity.column].dropna().to_numpy(float)


def of_transactions(run: Run) -> np.ndarray:
    """The latency of each answered transaction in s, ascending."""
    counts = latencies.merged(run.transactions)
    return np.repeat(counts.index.to_numpy(float), counts.to_numpy())


def over_time(run: Run) -> OverTime | None:
    """The mean throughput of each client in each step of the run; None where the tool reports no intervals.

    A step is an interval of the spec; finite flows have _STEPS steps in all. The bytes of an interval are assumed to be
    spread evenly over it.
    """
    rows = run.intervals
    if rows.empty:
        return None
    last_s = float(rows["end_s"].max())
    if run.spec.flows_end:
        edges_s = np.linspace(0, last_s, _STEPS + 1)
    else:
        steps = int(min(last_s, run.spec.traffic_s) / run.spec.interval_s + 0.1)
        edges_s = run.spec.interval_s * np.arange(max(1, steps) + 1)
    by_client: dict[int, np.ndarray] = {}
    for (pair, _), flow in rows.groupby(["pair", "flow"], sort=True):
        carried = carried_bytes(edges_s, flow["start_s"], flow["end_s"], flow["interval_bytes"].fillna(0.0))
        by_client[pair] = by_client.get(pair, 0.0) + carried * 8 / np.diff(edges_s)
    return OverTime(edges_s, np.array(list(by_client.values())))


def warmup_end_s(run: Run) -> float:
    """The end of the last interval of the warm-up, in s since the release; 0 without a warm-up."""
    warm = run.intervals.loc[run.intervals["warmup"], "end_s"]
    return float(warm.max()) if len(warm) else 0.0


def retransmits(run: Run) -> pd.DataFrame:
    """Columns retransmits, throughput_bps and of_kernel, a row per client that has both numbers.

    The count is the tool's, or else the kernel's for the client's namespace: of_kernel.
    """
    by_pair = run.flows[run.flows["status"] == "ok"].groupby("pair")
    tool, kernel = by_pair["retransmits"].sum(min_count=1), by_pair["netns_retransmits"].max()
    rates = by_pair["throughput_bps"].sum(min_count=1)
    columns = {"retransmits": tool.fillna(kernel), "throughput_bps": rates, "of_kernel": tool.isna()}
    return pd.DataFrame(columns).dropna()


def rank_correlation(by_run: Sequence[pd.DataFrame]) -> str:
    """Spearman's ρ of retransmits and throughput over the clients of a run, with its interval over runs; or why there
    is none.
    """
    enough = [clients for clients in by_run if len(clients) >= LEAST_CLIENTS]
    if not enough:
        return f"fewer than {LEAST_CLIENTS} clients"
    varied = [clients for clients in enough if (clients[["retransmits", "throughput_bps"]].nunique() > 1).all()]
    if not varied:
        return "all alike"
    rows = pd.concat([clients.assign(run=number) for number, clients in enumerate(varied)])
    columns = (rows[name] for name in ("retransmits", "throughput_bps", "run"))
    rho = correlation.correlation(*columns, method="spearman").estimate()
    return f"ρ = {with_interval(rho.value, rho.low, rho.high, 2)}".replace("-", "−")
