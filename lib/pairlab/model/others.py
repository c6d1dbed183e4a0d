"""What others than the system under test took of a run's time, and how far that alone may move its numbers.

Of each function, run is a Run, whose module imports this one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pairlab.model import latencies

#: The name of these shares, by the runs' keys, among the attributes of a frame of flows.
SHARES = "others_shares"
#: The share of others' time from which a quantile's sensitivity to it is read.
LEAST_LOST = 0.01


class Shares(dict[str, float]):
    """What others took of the time of runs, by key, as an attribute of a frame, which pandas copies at each step."""

    def __deepcopy__(self, memo: object) -> "Shares":
        return self


def lost(run: Any) -> float:
    """The share of its time that others took: of the CPUs, and by halting a process.

    NaN where that is not known, as in runs from before others' CPU time was summed.
    """
    if (others := run.checks.get("others_cpu")) is None:
        return math.nan
    return float(others) + max(float(run.checks.get(name) or 0.0) for name in ("stopped", "halted"))


def taken(run: Any) -> float:
    """`lost` but for what pairlab's own process used, as it does in all runs."""
    return lost(run) - float(run.checks.get("pairlab_cpu") or 0.0)


def upper_bounds(run: Any) -> frozenset[str]:
    """The quantiles of latencies, by the names of latencies.SHARES, that may be the work of others alone.

    These had a larger share of the time than there are transactions beyond the quantile; that of the system is at most
    so long.
    """
    return frozenset(name for name, share in latencies.SHARES.items() if taken(run) > 1 - share)


def mean_lost(runs: Iterable[Any]) -> float:
    """The mean share of these runs' time that others took; NaN where it is not known of each."""
    return float(np.mean([lost(run) for run in runs]))


def mean_lost_in(rows: pd.DataFrame, flows: pd.DataFrame) -> float:
    """The same of the runs that these rows are of. flows: the frame with their shares, as of Runs.select."""
    shares = flows.attrs.get(SHARES, {})
    keys = rows["key"].unique() if shares and "key" in rows else []
    return float(np.mean([shares.get(key, np.nan) for key in keys])) if len(keys) else math.nan


def explained(sides: Iterable[Iterable[Any]], measure: str, weights: Sequence[float] = (-1.0, 1.0)) -> float:
    """How far a weighted sum of the sides' logarithms of that measure may be from nothing, as others took different
    shares of their time: for Student.no_narrower. sides: the runs of each.
    """
    runs = [[*side] for side in sides]
    sensitive = [float(np.mean([_sensitivity_of(run, measure) for run in side])) for side in runs]
    return of_losses([mean_lost(side) for side in runs], sensitive, weights)


def of_losses(losses: Sequence[float], sensitivities: Iterable[float], weights: Sequence[float]) -> float:
    """As `explained`, by the share that each side lost and how sensitive it is to that; 0 where a share is not known.

    sensitivities: by how much the logarithms can change for each share of the time.
    """
    if np.isnan(losses).any():
        return 0.0
    if max(losses) >= 1:
        return math.inf
    return max(sensitivities) * abs(float(np.dot(weights, np.log1p(-np.asarray(losses)))))


def sensitivity(quantile_of: Callable[[float], float], share: float, lost_share: float) -> float:
    """By how much the logarithm of a quantile can rise for each share of the CPUs' time that others take; at least 1,
    as where it is not known.

    A request needs its client's CPU and its server's, so that twice that share of the requests may be held up, in the
    worst case the slowest ones: the quantile p of the others is that of p (1 - 2 lost_share) of all. Below LEAST_LOST
    the slope is taken there, as fewer requests show none.
    """
    others_share = min(max(lost_share, LEAST_LOST), 0.49) if lost_share == lost_share else LEAST_LOST
    others, every = quantile_of(share * (1 - 2 * others_share)), quantile_of(share)
    return max(1.0, math.log(every / others) / others_share) if every >= others > 0 else 1.0


def _sensitivity_of(run: Any, measure: str) -> float:
    """`sensitivity` of a run's value of that measure: of quantiles of latencies, where they are known; else 1."""
    shares = {latencies.measure(name): share for name, share in latencies.SHARES.items()}
    if measure not in shares or not latencies.timed(run.transactions, run.flows):
        return 1.0
    kept = vars(run).setdefault("_sensitivities", {})  # as it is compared with many others
    if measure not in kept:
        quantile_of = latencies.quantile_of_flows(run.transactions, run.flows)
        kept[measure] = sensitivity(quantile_of, shares[measure], lost(run))
    return kept[measure]
