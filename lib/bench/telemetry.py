"""What telemetry costs: runs with it and without, in turn; and slots of one run in which it samples, and rests.

Neighbouring slots of one run have the same flows on the same cores, and differ far less than two runs do.
"""

import contextlib
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pandas as pd

from pairlab import Spec, measure
from pairlab.model.records import Run
from pairlab.model.tables import carried_bytes
from pairlab.statistics.intervals import Estimate, mean_interval
from pairlab.testbed.contracts import no_progress
from pairlab.testbed.host.cpu_sampler import CpuTelemetry
from pairlab.testbed.host.link_recorder import LinkRecorder
from pairlab.testbed.host.link_telemetry import LinkTelemetry

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
    run = measure(spec, fresh=True, root=root, progress=no_progress, **asked)
    assert run.status in ("ok", "invalid"), run.reasons
    return run


def overall(found: list[float], confidence: float = 0.95) -> Estimate:
    """The ratios' geometric mean and its interval: Student's t over their logarithms, as a ratio is no difference."""
    logarithms = mean_interval([math.log(ratio) for ratio in found], confidence)
    return Estimate(*(math.exp(value) for value in logarithms[:3]), logarithms.n)


# --- slots of one run

#: The first slots, in which flows speed up, do not count; nor does what is after the last whole pair of slots.
SLOT_S, LEFT_OUT = 0.5, 2
DURATION_S = 20.0
#: How many runs, by pairs, make the interval of the mean ± 1.5 % on a quiet machine of two cores.
RUNS = {1: 40, 10: 16, 50: 10}


class Slot(NamedTuple):
    """A part of a run, in seconds from its release, and whether telemetry sampled in it."""

    begin_s: float
    end_s: float
    sampled: bool


def ratios(pairs: int, runs: int, root: Path, duration_s: float = DURATION_S) -> list[float]:
    """Total throughput with sampling over without, of every two neighbouring slots of so many runs."""
    spec = Spec(pairs=pairs, duration_s=duration_s, **DENSE)
    found = []
    for repetition in range(runs):
        drawn = random.Random(repetition)
        sampled = [each for _ in range(int(duration_s)) for each in drawn.choice([(True, False), (False, True)])]
        with _sampling_in(sampled) as begun_s:
            run = counted(spec.replace(repetition=repetition), root)
        offset_s = run.cpu["start_s"].min()  # of the first sample, which begins the first slot
        assert len(begun_s) == 1
        edges_s = offset_s + SLOT_S * np.arange(len(sampled) + 1) - DENSE["interval_s"] / 2
        slots = [Slot(*each) for each in zip(edges_s[:-1], edges_s[1:], sampled, strict=True)]
        found += of_slots([each for each in slots[LEFT_OUT:] if each.end_s <= duration_s], run.intervals)
    return found


@contextlib.contextmanager
def _sampling_in(sampled: Sequence[bool]) -> Iterator[list[float]]:
    """In the block, telemetry samples in these slots only, the first of which begins half an interval before it does.

    Links are sampled as often as in a run of 2 s, and never more often. Returns the moment of the first sample.
    """
    begun_s: list[float] = []
    cpu, links, made = CpuTelemetry.sample, LinkRecorder.sample, LinkTelemetry.__init__

    def due() -> bool:
        if not begun_s:
            begun_s.append(time.monotonic())
        slot = int((time.monotonic() - begun_s[0] + DENSE["interval_s"] / 2) / SLOT_S)
        return not LEFT_OUT <= slot < len(sampled) or sampled[slot]

    with (
        mock.patch.object(CpuTelemetry, "sample", lambda self: cpu(self) if due() else None),
        mock.patch.object(LinkRecorder, "sample", lambda self: links(self) if due() else None),
        mock.patch.object(LinkTelemetry, "__init__", lambda self, clients, site, _: made(self, clients, site, 2.0)),
    ):
        yield begun_s


def of_slots(slots: Sequence[Slot], intervals: pd.DataFrame) -> list[float]:
    """The throughput where telemetry sampled over that where it rested, of every two neighbouring slots, in order.

    intervals: those of all flows, with start_s and end_s from the release.
    """
    edges_s = np.array([*(each.begin_s for each in slots), slots[-1].end_s])
    flows = intervals.groupby(["pair", "flow"])[["start_s", "end_s", "interval_bytes"]]
    carried = sum(carried_bytes(edges_s, *rows.to_numpy().T) for _, rows in flows)
    found = []
    for place in range(0, len(slots) - 1, 2):
        assert slots[place].sampled != slots[place + 1].sampled
        ratio = float(carried[place] / carried[place + 1])
        found.append(ratio if slots[place].sampled else 1 / ratio)
    return found
