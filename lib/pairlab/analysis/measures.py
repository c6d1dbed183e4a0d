"""What one run is summarised to where runs are compared: its total throughput, or completion times."""

from typing import NamedTuple

from pairlab import completion_times
from pairlab.records import Run


class Measure(NamedTuple):
    """A summary's unit, its name in words, and whether less of it is better."""

    unit: str
    told: str
    less_is_better: bool = False


#: Flows without an end have the first, flows with an end the others.
MEASURES = {
    "total_bps": Measure("bit/s", "total throughput"),
    "fct_median_s": Measure("s", "median FCT", less_is_better=True),
    "fct_mean_s": Measure("s", "mean FCT", less_is_better=True),
    "fct_p99_s": Measure("s", "p99 FCT", less_is_better=True),
    "fct_max_s": Measure("s", "longest FCT", less_is_better=True),
}


def summaries(run: Run) -> dict[str, float]:
    """The value of each of MEASURES that a run has; a failed flow adds zero to the total, and took longer than any.

    NaN is what hangs on how long failed flows would have taken (completion_times.py). Percentiles are linear between
    the flows of this one run, so that of few flows p99 is nearly the longest.
    """
    if not run.spec.flow_bytes:
        return {"total_bps": run.total_throughput_bps}
    if run.flows.empty:
        return {}
    times_s = completion_times.of(run.flows)
    return {
        "fct_median_s": completion_times.median(times_s),
        "fct_mean_s": completion_times.mean(times_s),
        "fct_p99_s": completion_times.quantile(times_s, 0.99),
        "fct_max_s": completion_times.longest(times_s),
    }
