"""What one run is summarised to where runs are compared: its total throughput, or completion times."""

from typing import NamedTuple

import pandas as pd

from pairlab.model import fct
from pairlab.model.records import Run


class Measure(NamedTuple):
    """A summary's unit, its name in words, and whether less of it is better."""

    unit: str
    name: str
    less_is_better: bool = False


#: Flows without an end have the first, flows with an end the others.
MEASURES = {
    "total_bps": Measure("bit/s", "total throughput"),
    "fct_median_s": Measure("s", "median FCT", less_is_better=True),
    "fct_mean_s": Measure("s", "mean FCT", less_is_better=True),
    "fct_p99_s": Measure("s", "p99 FCT", less_is_better=True),
    "fct_max_s": Measure("s", "longest FCT", less_is_better=True),
}


#: The percentiles among them: where several runs are summarised, of all flows of all runs.
QUANTILES = {"fct_median_s": 0.5, "fct_p99_s": 0.99}


def carried_bps(flows: pd.DataFrame) -> pd.Series:
    """The throughput of each flow, in bit/s; one that failed carried nothing."""
    return flows["throughput_bps"].astype(float).where(flows["status"] == "ok").fillna(0.0)


def client_bps(flows: pd.DataFrame) -> pd.Series:
    """The same of each client of one run: the sum of its flows, by pair."""
    return carried_bps(flows).groupby(flows["pair"]).sum()


def summaries(run: Run) -> dict[str, float]:
    """The value of each of MEASURES that a run has; a failed flow adds zero to the total, and took longer than any.

    NaN is what hangs on how long failed flows would have taken (completion_times.py). Percentiles are linear between
    the flows of this one run, so that of few flows p99 is nearly the longest.
    """
    if not run.spec.flow_bytes:
        return {"total_bps": run.total_throughput_bps}
    if run.flows.empty:
        return {}
    times_s = fct.of(run.flows)
    return {
        "fct_median_s": fct.median(times_s),
        "fct_mean_s": fct.mean(times_s),
        "fct_p99_s": fct.quantile(times_s, 0.99),
        "fct_max_s": fct.longest(times_s),
    }
