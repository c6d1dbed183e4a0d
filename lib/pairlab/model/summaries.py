"""The summary of a run for comparisons: total throughput, completion times, or latencies."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pairlab.base import units
from pairlab.model import cpu_use, fct, latencies, launches
from pairlab.model.records import Run


class Measure(NamedTuple):
    """A summary's unit, its name in words, and whether less of it is better.

    of: which runs have it: all without an end (""), those of flows with an end ("fct"), of transactions, of launches,
    or those of the workload that declares it ("workload").
    """

    unit: str
    name: str
    less_is_better: bool = False
    of: str = ""


MEASURES = {
    "total_bps": Measure("bit/s", "total throughput"),
    "fct_median_s": Measure("s", "median FCT", less_is_better=True, of="fct"),
    "fct_mean_s": Measure("s", "mean FCT", less_is_better=True, of="fct"),
    "fct_p99_s": Measure("s", "p99 FCT", less_is_better=True, of="fct"),
    "fct_max_s": Measure("s", "longest FCT", less_is_better=True, of="fct"),
    **{name: Measure("s", words, less_is_better=True, of="launches") for name, words in launches.MEASURES.items()},
    "transactions_per_s": Measure("transactions/s", "transactions per second", of="transactions"),
    **{
        latencies.measure(name): Measure("s", words, less_is_better=True, of="transactions")
        for name, words in {
            **{name: f"{name} latency" for name in latencies.SHARES},
            "p50": "median latency",
            "max": "longest latency",
        }.items()
    },
    "service_demand_s": Measure("s", "CPU time per transaction", less_is_better=True, of="transactions"),
}

#: What a bound on a measure may be named by, and the MEASURES that it is then on: the first of these that runs have.
SHORT_NAMES = {
    **{share: (latencies.measure(share), f"fct_{share}_s") for share in latencies.SHARES},
    "p50": (latencies.measure("p50"), "fct_median_s"),
    "throughput": ("total_bps",),
    "mean": ("fct_mean_s",),
    "cpu": ("service_demand_s",),
}
#: The step of CPU times in Linux (USER_HZ, proc(5)).
_TICK_S = 0.01
#: The percentiles among them: where several runs are summarised, of all flows of all runs.
QUANTILES = {"fct_median_s": 0.5, "fct_p99_s": 0.99}


def measures_of(runs: Iterable[Run]) -> dict[str, Measure]:
    """MEASURES, and the metrics that the workloads of these runs declare."""
    own = {each.name: each for run in runs for each in run.metrics}
    return MEASURES | {
        name: Measure(each.unit, each.meaning, each.less_is_better, of="workload") for name, each in own.items()
    }


def summaries(run: Run) -> dict[str, float]:
    """The value of each of MEASURES, and of its workload's metrics, that a run has.

    Of a workload that sends nothing, its metrics alone. A failed flow adds zero to the total, and took longer than any.
    NaN is what depends on how long failed flows would have taken (fct.py). Percentiles are linear between the flows of
    this one run, so that of few flows p99 is nearly the longest. They are made once for a run: it can have millions of
    flows, and be compared with many others.
    """
    attributes = vars(run)
    if "_summaries" not in attributes:
        attributes["_summaries"] = _made(run)
    return dict(attributes["_summaries"])


def _made(run: Run) -> dict[str, float]:
    if run.spec.launches:
        return launches.summaries(run.launches)
    own = run.metric_values if run.metrics and len(run.flows) else {}
    if run.sends_nothing:
        return own
    if not run.spec.flows_end:
        return {"total_bps": run.total_throughput_bps} | _of_transactions(run) | own
    times_s = fct.of_run(run)
    if times_s.empty:
        return {}
    return own | {
        "fct_median_s": fct.median(times_s),
        "fct_mean_s": fct.mean(times_s),
        "fct_p99_s": fct.quantile(times_s, 0.99),
        "fct_max_s": fct.longest(times_s),
    }


def resolution(run: Run, name: str) -> float:
    """The step in which a run's value of that measure is known, in its unit: no interval is narrower. 0: as it is.

    Of metrics as declared; of latencies and completion times by their values, and histograms keep them within 0.05 %;
    of CPU time a tick of /proc/stat.
    """
    declared = {each.name: each.resolution for each in run.metrics}
    if name in declared:
        return declared[name]
    if name.startswith("latency_"):
        value = summaries(run).get(name, np.nan)
        return max(latencies.step_s(run.transactions["latency_s"]), 0.001 * value) if value == value else 0.0
    if name == "service_demand_s":
        return _TICK_S / float(run.flows["transactions"].sum() or np.inf)
    if name.startswith("fct_"):
        times_s = fct.of_run(run).to_numpy()
        return latencies.step_s(times_s[np.isfinite(times_s)])
    return 0.0


def default_measure(runs: Iterable[Run]) -> str:
    """The one of MEASURES that runs are compared by, where no other is given."""
    runs = list(runs)
    if runs and all(run.sends_nothing for run in runs):
        return runs[0].metrics[0].name
    if runs and all(run.spec.launches for run in runs):
        return "launch_p50_s"
    if all(run.spec.flows_end for run in runs):
        return "fct_median_s"
    if all(latencies.timed(run.transactions, run.flows) for run in runs):
        return "latency_p50_s"
    return "transactions_per_s" if all(latencies.measured(run.flows) for run in runs) else "total_bps"


class MainValue(NamedTuple):
    """The value that stands for a run where there is room for one: of which measure; NaN: not known."""

    name: str
    measure: Measure
    value: float

    def text(self, value: float | None = None) -> str:
        """In words, or another value of the same measure: "median FCT 27.3 ms"; a throughput needs no name."""
        shown = units.describe(self.value if value is None else value, self.measure.unit)
        return shown if self.name == "total_bps" else f"{self.measure.name} {shown}"


def main_value(run: Run) -> MainValue:
    name = default_measure([run])
    return MainValue(name, measures_of([run])[name], summaries(run).get(name, np.nan))


def _of_transactions(run: Run) -> dict[str, float]:
    """NaN is what depends on transactions that were lost, or on flows that failed."""
    if not latencies.measured(run.columns("flows", ["transactions"])):
        return {}
    of_latencies = {latencies.measure(name): value for name, value in run.latency_quantiles_s.items()}
    demand_s = cpu_use.service_demand_s(run)
    cost = {} if np.isnan(demand_s) else {"service_demand_s": demand_s}
    return {"transactions_per_s": latencies.rate_per_s(run.flows)} | of_latencies | cost
