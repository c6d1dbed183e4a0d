"""Does watching change what is watched? The same cell with telemetry and without, in turn, in one store."""

import math
from collections.abc import Callable
from pathlib import Path

from pairlab import Spec, measure
from pairlab.model.records import Run
from pairlab.statistics.intervals import Estimate, mean_interval
from pairlab.testbed.contracts import silent

#: Telemetry as dense as it can be asked for, so that its cost is the most that it can be.
DENSE = {"interval_s": 0.1, "max_skew_s": 5.0, "max_foreign_cpu": 1.0, "workload": "flowgen"}
#: All flows of a run together, so that they take about as long whatever their number, and longer than an interval.
ALL_FLOWS_BYTES = 500_000_000


def completion_ratios(pairs: int, turns: int, root: Path, flows_bytes: int) -> list[float]:
    """The median completion time with telemetry over that without, in each turn."""
    spec = Spec(pairs=pairs, duration_s=30.0, flow_bytes=flows_bytes // pairs, **DENSE)
    return in_turn(turns, lambda turn, on: _median_fct_s(counted(spec.replace(telemetry=on, repetition=turn), root)))


def _median_fct_s(run: Run) -> float:
    return float(run.flows.loc[run.flows["status"] == "ok", "duration_s"].median())


def in_turn(turns: int, figure: Callable[[int, bool], float]) -> list[float]:
    """figure(turn, True) over figure(turn, False), in each turn; which of the two comes first alternates."""
    found = []
    for turn in range(turns):
        seen = {on: figure(turn, on) for on in ((True, False) if turn % 2 else (False, True))}
        found.append(seen[True] / seen[False])
    return found


def counted(spec: Spec, root: Path, **asked: object) -> Run:
    """A run that was measured anew; other load on the host falls on both of what is compared."""
    run = measure(spec, fresh=True, root=root, progress=silent, **asked)
    assert run.status in ("ok", "invalid"), run.reasons
    return run


def overall(found: list[float], confidence: float = 0.95) -> Estimate:
    """The ratios' geometric mean and its interval: Student's t over their logarithms, as a ratio is no difference."""
    logarithms = mean_interval([math.log(ratio) for ratio in found], confidence)
    return Estimate(*(math.exp(value) for value in logarithms[:3]), logarithms.n)
