"""What pictures of single runs show, as arrays: values of flows, clients over time, retransmits by client."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis.output.formatting import with_bounds
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.summaries import Measure
from pairlab.model.time_steps import carried_bytes
from pairlab.statistics import correlation

#: From this many clients on, a rank correlation is shown.
LEAST_CLIENTS = 5
#: Of flows with an end, which may be shorter than an interval, throughput over time is shown in so many steps.
_STEPS = 50


class Quantity(NamedTuple):
    """What is shown of flows: the column, its name on an axis and in a sentence, and its units.

    units: from which value on (the largest that is shown), the factor, and the unit; the largest first.
    """

    column: str
    label: str
    in_words: str
    units: tuple[tuple[float, float, str], ...]

    def unit(self, values: Sequence[np.ndarray]) -> tuple[float, str]:
        """The factor and the unit that suit these values."""
        most = max((float(np.max(part)) for part in values if np.size(part)), default=0.0)
        return next((factor, unit) for least, factor, unit in self.units if most >= least)


FCT = Quantity("fct_s", "Flow completion time", "completion time", ((10.0, 1.0, "s"), (0.0, 1e3, "ms")))
THROUGHPUT = Quantity(
    "throughput_bps",
    "Throughput of a flow",
    "throughput",
    ((1e9, 1e-9, "Gbit/s"), (1e6, 1e-6, "Mbit/s"), (0.0, 1e-3, "kbit/s")),
)


#: By unit: how its values are shown, as Quantity.units.
_UNITS = {
    "s": ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs")),
    "bit/s": THROUGHPUT.units,
    "B": ((1e9, 1e-9, "GB"), (1e6, 1e-6, "MB"), (1e3, 1e-3, "kB"), (0.0, 1.0, "B")),
    "share": ((0.0, 100.0, "%"),),
}
LATENCY = Quantity("latency_s", "Latency of a transaction", "latency", _UNITS["s"])


def shown(name: str, measure: Measure) -> Quantity:
    """A measure of runs, or a workload's metric, as what is shown of runs."""
    label = measure.name if measure.name[1:2].isdigit() else measure.name[:1].upper() + measure.name[1:]
    return Quantity(name, label, measure.name, _UNITS.get(measure.unit, ((0.0, 1.0, measure.unit),)))


class OverTime(NamedTuple):
    """Throughput over time. edges_s: of the steps, since the release; clients_bps: a row per client, a value a step."""

    edges_s: np.ndarray
    clients_bps: np.ndarray

    @property
    def total_bps(self) -> np.ndarray:
        return self.clients_bps.sum(axis=0)

    @property
    def median_bps(self) -> np.ndarray:
        return np.median(self.clients_bps, axis=0)


def of_flows(run: Run, what: Quantity) -> np.ndarray:
    """The values of the flows that did not fail and have one, in base units."""
    return run.flows.loc[run.flows["status"] == "ok", what.column].dropna().to_numpy(float)


def of_transactions(run: Run) -> np.ndarray:
    """How long each answered transaction took, in s, rising: as many values as there were."""
    counts = latencies.merged(run.transactions)
    return np.repeat(counts.index.to_numpy(float), counts.to_numpy())


def over_time(run: Run) -> OverTime | None:
    """The mean throughput of each client in each step of the run; None where the tool reports no intervals.

    A step is an interval of the spec; of flows with an end, _STEPS of them are the whole. What a flow carried in an
    interval is taken to be spread evenly over it.
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
    """Until when intervals lie in the warm-up, in s since the release; 0: there is none."""
    warm = run.intervals.loc[run.intervals["warmup"], "end_s"]
    return float(warm.max()) if len(warm) else 0.0


def retransmits(run: Run) -> pd.DataFrame:
    """retransmits, throughput_bps and of_kernel, a row for each client of which both are known.

    The tool's count, and where it reports none the kernel's for the client's namespace: of_kernel.
    """
    by_pair = run.flows[run.flows["status"] == "ok"].groupby("pair")
    tool, kernel = by_pair["retransmits"].sum(min_count=1), by_pair["netns_retransmits"].max()
    found = pd.DataFrame(
        {
            "retransmits": tool.fillna(kernel),
            "throughput_bps": by_pair["throughput_bps"].sum(min_count=1),
            "of_kernel": tool.isna(),
        }
    )
    return found.dropna()


def rank_correlation(by_run: Sequence[pd.DataFrame]) -> str:
    """Spearman's ρ of retransmits and throughput over the clients of a run, with its interval over runs; or why not."""
    enough = [clients for clients in by_run if len(clients) >= LEAST_CLIENTS]
    if not enough:
        return f"fewer than {LEAST_CLIENTS} clients"
    varied = [clients for clients in enough if (clients[["retransmits", "throughput_bps"]].nunique() > 1).all()]
    if not varied:
        return "all alike"
    rows = pd.concat([clients.assign(run=number) for number, clients in enumerate(varied)])
    found = correlation.correlation(
        rows["retransmits"], rows["throughput_bps"], rows["run"], method="spearman"
    ).estimate()
    return f"ρ = {with_bounds(found.value, found.low, found.high, 2)}".replace("-", "−")
