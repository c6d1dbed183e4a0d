"""How long flows with an end took where some of them failed: statistics of all flows, not of those that are left.

A flow that failed, for whatever reason, took longer than any that was complete: its time is infinite. So it stands
beyond every percentile that the others reach, and what depends on how long it would have taken is not known: NaN. To
leave failed flows out would make the slower side the faster one.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from pairlab.model.spec import Spec

#: The columns of flows that `of_run`, `carried_bps` and `over_time` need.
TIMES = ("fct_s", "intended_fct_s", "status")
CARRIED = ("pair", "status", "flow_bytes", "intended_start_s", "completed_s")
COURSE = (*TIMES, "intended_start_s", "start_s", "completed_s")


def of(flows: pd.DataFrame, column: str = "fct_s") -> pd.Series:
    """The completion time of each of these flows, which all were to end, in s: infinite where it never was complete."""
    times_s = flows[column].to_numpy(dtype=float)
    complete = (flows["status"] == "ok").to_numpy() & ~np.isnan(times_s)
    return pd.Series(np.where(complete, times_s, np.inf), index=flows.index, name=column)


def column(spec: Spec) -> str:
    """The column with how long the flows of such a run took.

    Of flows that are due at an offered load (an open loop), from when each was due: a client that is late does not make
    them shorter (coordinated omission). Of others, from when each was started, as in the papers.
    """
    return "intended_fct_s" if spec.offered_load_bps else "fct_s"


def of_run(run: Any) -> pd.Series:
    """`of` all flows of a run, by `column`. run: a Run, whose module imports this one."""
    return of(run.columns("flows", TIMES), column(run.spec))


def carried_bps(flows: pd.DataFrame) -> pd.Series:
    """What flows of a run that follow each other carried, by pair, in bit/s: over the time from when the first was due
    until the last was complete. One that failed carried nothing.
    """
    lasted_s = flows["completed_s"].max() - flows["intended_start_s"].min()
    carried_bytes = flows["flow_bytes"].astype(float).where(flows["status"] == "ok").groupby(flows["pair"]).sum()
    return carried_bytes * 8 / lasted_s if lasted_s > 0 else carried_bytes * 0.0


def all_s(flows: pd.DataFrame) -> float:
    """How long all these flows of a run took together, in s: from when the first was due, or began, until the last was
    complete. NaN of no flows, and where one failed.
    """
    if flows.empty or (flows["status"] != "ok").any():
        return np.nan
    begun_s = flows["intended_start_s"].astype(float).fillna(flows["start_s"].astype(float))
    return float(flows["completed_s"].max() - begun_s.min())


def over_time(run: Any, steps: int) -> pd.DataFrame:
    """How a run's flows arrived and how long they took, in so many steps of equal length, from when the first one was
    due, or began, until the last one was complete.

    Returns a row per step: start_s and end_s, from the release; arrivals_per_s; active_flows, the mean number under
    way, to which a flow that failed does not count, as its end is not known; median_s and longest_s, of the completion
    times of the flows that arrived in it, NaN where there were none, or as `median` and `longest`. Without rows where
    no flow was complete.
    """
    flows = run.columns("flows", COURSE)
    from_due = column(run.spec) == "intended_fct_s"
    begun_s = flows["intended_start_s" if from_due else "start_s"].to_numpy(dtype=float)
    times_s = of_run(run).to_numpy()
    ended_s = begun_s + times_s
    complete, known = np.isfinite(ended_s), ~np.isnan(begun_s)
    if not complete.any() or ended_s[complete].max() <= begun_s[known].min():
        steps = 0
    edges_s = np.linspace(begun_s[known].min(), ended_s[complete].max(), steps + 1) if steps else np.zeros(1)
    width_s = np.diff(edges_s)
    arrived = np.digitize(begun_s, edges_s[1:-1]) if steps else begun_s
    of_step = [times_s[known & (arrived == step)] for step in range(steps)]
    begun_s, ended_s = begun_s[complete], ended_s[complete]
    # A flow is under way until an edge for min(edge, end) - min(edge, begin), which grows by what lies in each step.
    until_s = [(np.minimum(edge_s, ended_s) - np.minimum(edge_s, begun_s)).sum() for edge_s in edges_s]
    return pd.DataFrame(
        {
            "start_s": edges_s[:-1],
            "end_s": edges_s[1:],
            "arrivals_per_s": np.array([len(each) for each in of_step]) / width_s,
            "active_flows": np.diff(until_s) / width_s,
            "median_s": [median(each) if len(each) else np.nan for each in of_step],
            "longest_s": [longest(each) if len(each) else np.nan for each in of_step],
        }
    )


def smallest(flows: pd.DataFrame, share: float) -> pd.DataFrame:
    """The flows whose size is at most that of this share of them."""
    sizes = flows["size_bytes"].astype(float)
    return flows[sizes <= sizes.quantile(share)]


def quantile(
    times_s: Sequence[float] | np.ndarray, q: float, method: Literal["linear", "median_unbiased"] = "linear"
) -> float:
    """The q-th quantile, as numpy's `method` has it; NaN of no times, and where it depends on flows that failed."""
    return _known(times_s, lambda times: np.quantile(times, q, method=method))


def median(times_s: Sequence[float]) -> float:
    """The median; NaN of no times, and where half of the flows failed."""
    return _known(times_s, np.median)


def mean(times_s: Sequence[float]) -> float:
    """The mean; NaN of no times, and where a flow failed."""
    return _known(times_s, np.mean)


def longest(times_s: Sequence[float]) -> float:
    """The longest; NaN of no times, and where a flow failed."""
    return _known(times_s, np.max)


def unknown(failed: int, flows: int, q: float) -> str:
    """Why a quantile is NaN, in words."""
    return f"{failed} of {flows} flows failed: p{100 * q:g} hangs on how long they would have taken, and is not known"


def _known(times_s: Sequence[float] | np.ndarray, statistic: Callable[[np.ndarray], float]) -> float:
    """The statistic of the times, if it does not depend on how long the failed flows would have taken; else NaN."""
    times_s = np.asarray(times_s, dtype=float)
    failed = np.isinf(times_s)
    if failed.all():
        return np.nan
    if not failed.any():
        return float(statistic(times_s))
    most = times_s[~failed].max()
    least, more = (float(statistic(np.where(failed, took, times_s))) for took in (most, most + abs(most) + 1))
    return least if least == more else np.nan
