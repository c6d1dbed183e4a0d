"""How long transactions took, from the table `transactions`: merged exactly over clients, and quantiles of all of them.

A transaction that was lost took longer than any that was answered: a quantile that falls among the lost is not known,
as completion_times of flows that failed are not (fct.py). To leave them out would make the slower side the faster one.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
import pandas as pd

from pairlab.base import units

#: The quantiles of a run's latencies that are shown: by name, the share of the transactions that took no longer.
SHARES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999, "max": 1.0}


def measure(name: str) -> str:
    """What the quantile of that name is called where runs are compared: p99.9 is latency_p99_9_s."""
    return f"latency_{name.replace('.', '_')}_s"


def merged(transactions: pd.DataFrame, column: str = "latency_s") -> pd.Series:
    """How many transactions of all clients took how long: the count by latency_s, rising. Nothing is lost by it."""
    return transactions.groupby(column, sort=True)["count"].sum()


def quantile(transactions: pd.DataFrame, share: float, lost: int = 0, column: str = "latency_s") -> float:
    """The shortest latency, in s, that at least this share of the transactions did not exceed; 1: the longest.

    transactions: rows with latency_s and count, of one client or of many, in any order; lost: transactions without a
    latency. column: of another quantity than the latency. Within the 0.05 % of the buckets. NaN where there are fewer
    transactions than one beyond the quantile (1/(1 − share)), and where it falls among the lost.
    Source: the inverse of the empirical distribution function (Hyndman and Fan 1996, definition 1), which needs no
    values between buckets.
    """
    if not 0 < share <= 1:
        raise ValueError(f"a quantile is given as a share above 0, and at most 1, not {share!r}")
    return _quantile(merged(transactions, column), share, lost)


def _quantile(counts: pd.Series, share: float, lost: int) -> float:
    """As `quantile`, of what `merged` returns."""
    answered = int(counts.sum())
    every = answered + lost
    if not every or (share < 1 and every * (1 - share) < 1 - 1e-9):
        return math.nan
    rank = max(1, math.ceil(share * every - 1e-9 * every))
    if rank > answered:
        return math.nan
    return float(counts.index[int(np.searchsorted(counts.to_numpy().cumsum(), rank))])


def step_s(times_s: Iterable[float] | np.ndarray) -> float:
    """The step in which a tool printed these times: 1 ms or 1 µs where all are whole ones; else 0.

    pairlab's own tools print ns, of which some thousands are never all whole µs.
    """
    times_ns = np.asarray(times_s, dtype=float) * 1e9
    whole = np.rint(times_ns)
    if not (np.isfinite(times_ns).all() and whole.any() and (abs(times_ns - whole) < 1e-3).all()):
        return 0.0
    return next((step_ns / 1e9 for step_ns in (10**6, 10**3) if not (whole % step_ns).any()), 0.0)


def measured(flows: pd.DataFrame) -> bool:
    """Whether any of a run's flows were transactions."""
    return bool(flows["transactions"].notna().any())


def timed(transactions: pd.DataFrame, flows: pd.DataFrame) -> bool:
    """Whether it is known how long a run's transactions took: a tool may count them only. True where all were lost."""
    return measured(flows) and (len(transactions) > 0 or not flows["transactions"].sum())


def lost(flows: pd.DataFrame) -> int | None:
    """How many transactions of all flows have no latency; None where a flow failed, as it is not known of how many."""
    if (flows["status"] != "ok").any():
        return None
    return int(flows["transactions_lost"].sum() + flows["transactions_failed"].sum())


def rate_per_s(flows: pd.DataFrame) -> float:
    """Transactions per second of all flows together; a failed flow adds zero."""
    counted = flows[flows["status"] == "ok"]
    return float((counted["transactions"] / counted["duration_s"]).sum())


def of_flows(transactions: pd.DataFrame, flows: pd.DataFrame) -> dict[str, float]:
    """`quantile` of a run's tables for each of SHARES, in s; all are NaN where a flow failed."""
    quantile_of = quantile_of_flows(transactions, flows)
    return {name: quantile_of(share) for name, share in SHARES.items()}


def quantile_of_flows(transactions: pd.DataFrame, flows: pd.DataFrame) -> Callable[[float], float]:
    """`quantile` of a run's tables by its share; NaN where a flow failed."""
    counts, without = merged(transactions), lost(flows)
    return lambda share: math.nan if without is None else _quantile(counts, share, without)


def mean_of_flows(transactions: pd.DataFrame, flows: pd.DataFrame) -> float:
    """The mean latency of a run's tables, in s; NaN without transactions, and where one was lost or a flow failed, as
    it is not known how long these would have taken.
    """
    if not len(transactions) or lost(flows) != 0:
        return math.nan
    counts = merged(transactions)
    return float((counts.index.to_numpy() * counts.to_numpy()).sum() / counts.sum())


def describe(transactions: pd.DataFrame, flows: pd.DataFrame, upper_bounds: Collection[str] = ()) -> str:
    """The rate, the median and the 99th percentile: "41,200 transactions/s, latency p50 23.1 µs, p99 61 µs".

    upper_bounds: the quantiles that are such (others.upper_bounds): "p99 at most 61 µs".
    """
    if not timed(transactions, flows):
        return f"{rate_per_s(flows):,.0f} transactions/s"
    quantiles_s = of_flows(transactions, flows)
    parts = [
        f"{name} {'at most ' * (name in upper_bounds)}{units.describe(quantiles_s[name], 's')}"
        for name in ("p50", "p99")
    ]
    return f"{rate_per_s(flows):,.0f} transactions/s, latency {', '.join(parts)}"
