"""How long launches took, from the table `launches`: the one place where a run's launches become numbers.

An endpoint that was never ready took longer than any that was: a quantile that falls among these is not known (NaN), as
of completion times of flows that failed (fct.py).
"""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from pairlab.base import units
from pairlab.model import fct

#: The measures of a run's launches, with their names in words.
MEASURES: Mapping[str, str] = {
    "launch_p50_s": "median launch time",
    "launch_mean_s": "mean launch time",
    "launch_max_s": "longest launch time",
    "launch_running_s": "median time until an endpoint runs",
    "launch_reach_s": "median time from running to the first answered ping",
}
#: The parts of a launch that follow each other, by the column with which each ends; a column may be missing.
PHASES: Mapping[str, str] = {
    "created_s": "create",
    "attached_s": "attach",
    "running_s": "start",
    "link_up_s": "link up",
    "ready_s": "first answered ping",
}


def ready_s(launches: pd.DataFrame) -> pd.Series:
    """The launch time of each, in s; infinite where it failed, as fct.of has it."""
    return fct.of(launches, "ready_s")


def summaries(launches: pd.DataFrame) -> dict[str, float]:
    """The value of each of MEASURES; empty without launches."""
    if launches.empty:
        return {}
    ready, running = ready_s(launches), fct.of(launches, "running_s")
    reach = (ready - running).where(ready < math.inf, math.inf)
    return {
        "launch_p50_s": fct.median(ready),
        "launch_mean_s": fct.mean(ready),
        "launch_max_s": fct.longest(ready),
        "launch_running_s": fct.median(running),
        "launch_reach_s": fct.median(reach),
    }


def phases(launches: pd.DataFrame) -> dict[str, float]:
    """By the names of PHASES, how much of the mean launch each takes, in s, in the order in which they ended.

    A phase ends with its event, or where that was before the end of another one counts nothing. Their sum is the mean
    launch time. Failed launches are left out; without any that was ready, it is empty.
    """
    good = launches[launches["status"] == "ok"]
    if good.empty:
        return {}
    known = [column for column in PHASES if good[column].notna().all()]
    known.sort(key=lambda column: good[column].mean())
    ends = np.maximum.accumulate(good[known].clip(upper=good["ready_s"], axis=0).to_numpy(dtype=float), axis=1)
    spent = np.diff(ends, axis=1, prepend=0.0).mean(axis=0)
    return {PHASES[column]: float(value) for column, value in zip(known, spent, strict=True)}


def describe(launches: pd.DataFrame) -> str:
    """ "launch p50 43.1 ms, of 10", and how many failed."""
    failed = int((launches["status"] != "ok").sum())
    p50_s = fct.median(ready_s(launches))
    return f"launch p50 {units.describe(p50_s, 's')}, of {len(launches):,}" + (
        f", {failed:,} of which failed" if failed else ""
    )
