"""A run's value of each metric that its workload declares."""

import math

import pandas as pd

from pairlab.model import latencies
from pairlab.model.metrics.declared import Metric


def of_run(metric: Metric, flows: pd.DataFrame, transactions: pd.DataFrame) -> float:
    """The value over all of a run's rows, as metric.of_run says; NaN where it is not known.

    A failed flow counts as zero where more is better. Where less is, nothing is known of a run with a failed flow, and
    a transaction that was lost took more than any other. Nor is the value known where a flow that succeeded has none.
    """
    failed = flows["status"] != "ok"
    if metric.less_is_better and failed.any():
        return math.nan
    lost = 0
    if metric.table == "flows":
        rows = pd.DataFrame({"value": flows[metric.name].mask(failed, 0.0), "count": 1})
    else:
        rows = transactions[[metric.name, "count"]].rename(columns={metric.name: "value"})
        lost = (latencies.lost(flows) or 0) if metric.less_is_better else 0
    values, counts = rows["value"], rows["count"]
    if rows.empty or values.isna().any():
        return math.nan
    if metric.of_run in ("sum", "mean"):
        total = float((values * counts).sum())
        return math.nan if lost else total if metric.of_run == "sum" else total / float(counts.sum())
    if metric.of_run == "min":
        return float(values.min())
    share = {"median": 0.5, "p99": 0.99, "max": 1.0}[metric.of_run]
    return latencies.quantile(rows, share, lost, column="value")
