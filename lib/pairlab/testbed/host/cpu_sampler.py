"""CPU use of each core, and the cores' frequency, over time."""

import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.errors import MeasurementFailed
from pairlab.model.tables import MACHINE
from pairlab.testbed.host import foreign_load
from pairlab.testbed.host.ticker import Ticker

STAT = Path("/proc/stat")
#: Our columns, and the fields of proc_stat(5), as psutil names them, that make up each.
PARTS: Mapping[str, tuple[str, ...]] = {
    "usr": ("user", "nice"),
    "sys": ("system",),
    "softirq": ("softirq",),
    "irq": ("irq",),
    "iowait": ("iowait",),
    "idle": ("idle",),
    "steal": ("steal",),
}


class CpuTimes(NamedTuple):
    """One CPU's time since boot by what it was spent on, in seconds, as proc_stat(5) names it."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float


def times_by_cpu(file: Path | None = None) -> dict[int, CpuTimes]:
    """The times of each CPU that is online, by its number: where CPU 1 is offline, the second line is CPU 2's."""
    lines = (line.split() for line in (file or STAT).read_text().splitlines())
    return {
        int(name[3:]): CpuTimes(*(int(ticks) / foreign_load.TICKS_PER_S for ticks in counts[: len(CpuTimes._fields)]))
        for name, *counts in lines
        if name.startswith("cpu") and name[3:].isdecimal()
    }


def shares_between(before: Any, after: Any) -> dict[str, float]:
    """What share of the time between two CpuTimes each of PARTS had; empty where no time was counted."""
    spent = _spent(before, after)
    total_s = sum(spent.values())
    return {name: each_s / total_s for name, each_s in spent.items()} if total_s > 0 else {}


def _spent(before: Any, after: Any) -> dict[str, float]:
    return {name: sum(getattr(after, f) - getattr(before, f) for f in parts) for name, parts in PARTS.items()}


class CpuTelemetry:
    """Samples every CPU's time at an interval, in a thread, while its block runs (a context manager).

    The kernel counts in ticks of 10 ms as a rule, so intervals below 0.1 s would be too coarse. Guest time is part of
    user time already (proc_stat(5)) and is not counted again.
    """

    def __init__(self, interval_s: float):
        self._interval_s = interval_s
        self._samples: list[tuple[int, dict[int, CpuTimes]]] = []
        self._clock_offsets_ns: list[int] = []
        self._frequencies: list[tuple[float, ...]] = []
        self._ticker = Ticker(interval_s, self._sample, "cpu-telemetry")

    def __enter__(self) -> "CpuTelemetry":
        self._ticker.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ticker.__exit__(*raised)
        if len({frozenset(cpus) for _, cpus in self._samples}) > 1 and raised[0] is None:
            raise MeasurementFailed("a CPU was switched on or off meanwhile: measure again")

    def rows(self, release_ns: int) -> list[dict]:
        """One row of the `cpu` table per CPU and interval, times from the release."""
        rows = []
        for (begun_ns, before), (ended_ns, after) in zip(self._samples, self._samples[1:], strict=False):
            for cpu, old in before.items():
                new = after[cpu]
                if shares := shares_between(old, new):
                    times = {"start_s": (begun_ns - release_ns) / 1e9, "end_s": (ended_ns - release_ns) / 1e9}
                    counted = sum(_spent(old, new).values()) * 1e9 / (ended_ns - begun_ns)
                    rows.append({"host": MACHINE, "cpu": cpu, **times, "counted": counted, **shares})
        return rows

    def missed_share(self) -> float:
        """The share of time in which samples were late: the part of each gap beyond one and a half intervals.

        A sampler without CPU time misses the moments that matter most.
        """
        moments = [moment for moment, _ in self._samples]
        gaps_s = [(later - earlier) / 1e9 for earlier, later in pairwise(moments)]
        late_s = sum(max(0.0, gap_s - 1.5 * self._interval_s) for gap_s in gaps_s)
        return late_s / sum(gaps_s) if gaps_s else 0.0

    def frequency_change(self) -> float | None:
        """Mean frequency of the cores in the later half over that in the earlier, less 1; None where it is unknown.

        The first sample is left out: it is of idle cores.
        """
        means = [sum(each) / len(each) for each in self._frequencies[1:] if each]
        if len(means) < 2:
            return None
        half = len(means) // 2
        earlier, later = means[:half], means[-half:]
        return (sum(later) / len(later)) / (sum(earlier) / len(earlier)) - 1

    def steal_share(self) -> float | None:
        """The share of all CPU time that the hypervisor gave to others."""
        first, last = self._samples[0][1], self._samples[-1][1]
        spent = [(last[cpu].steal - old.steal, sum(last[cpu]) - sum(old)) for cpu, old in first.items()]
        total_s = sum(total for _, total in spent)
        return sum(stolen for stolen, _ in spent) / total_s if total_s > 0 else None

    def clock_step_s(self) -> float:
        """By how much the wall clock was moved against the monotonic one at most, at any sample since the first.

        Steps that cancel each other by the end moved it all the same.
        """
        first_ns, *later_ns = self._clock_offsets_ns
        return max((each_ns - first_ns for each_ns in later_ns), key=abs, default=0) / 1e9

    def _sample(self) -> None:
        self._clock_offsets_ns.append(foreign_load.clock_offset_ns())
        self._samples.append((time.monotonic_ns(), times_by_cpu()))
        self._frequencies.append(foreign_load.frequencies_hz())
