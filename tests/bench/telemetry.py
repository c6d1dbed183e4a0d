"""Does watching change what is watched? The same cell with telemetry and without, in turn, in one store."""

import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pairlab import Spec, measure
from pairlab.model.records import Run
from pairlab.statistics.intervals import Estimate, mean_interval
from pairlab.testbed.contracts import silent

PAIRS = (1, 10, 50)
#: Telemetry as dense as it can be asked for, so that its cost is the most that it can be.
DENSE = {"interval_s": 0.1, "max_skew_s": 5.0, "max_foreign_cpu": 1.0, "workload": "flowgen"}


class Subject(NamedTuple):
    """What is compared: one figure of each run, and what a run with so many pairs is asked for."""

    name: str
    of: Callable[[Run], float]
    asked: Callable[[int], dict]


def _median_fct_s(run: Run) -> float:
    return float(run.flows.loc[run.flows["status"] == "ok", "duration_s"].median())


#: All flows of a run together, so that they take about as long whatever their number, and longer than an interval.
_ALL_FLOWS_BYTES = 500_000_000

SUBJECTS = (
    Subject("total throughput", lambda run: run.total_throughput_bps, lambda pairs: {"duration_s": 2.0}),
    Subject(
        "median completion time",
        _median_fct_s,
        lambda pairs: {"duration_s": 30.0, "flow_bytes": _ALL_FLOWS_BYTES // pairs},
    ),
)


def ratios(subject: Subject, pairs: int, turns: int, root: Path) -> list[float]:
    """With telemetry over without, in each turn; which of the two comes first alternates."""
    spec = Spec(pairs=pairs, **DENSE, **subject.asked(pairs))
    return in_turn(turns, lambda turn, on: subject.of(counted(spec.replace(telemetry=on, repetition=turn), root)))


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


def compared(turns: int, root: Path) -> Iterator[tuple[str, int, list[float], Estimate]]:
    """Each subject at each number of pairs: its name, the pairs, the ratios, and what they come to."""
    for subject in SUBJECTS:
        for pairs in PAIRS:
            found = ratios(subject, pairs, turns, root)
            assert statistics.median(found) > 0
            yield subject.name, pairs, found, overall(found)
