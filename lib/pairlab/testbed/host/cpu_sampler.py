"""CPU use and frequency of each core over time."""

import contextlib
import errno
import re
import socket
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

from pairlab.errors import MeasurementFailed
from pairlab.model.tables import MACHINE
from pairlab.testbed.host import foreign_load
from pairlab.testbed.host.ticker import Ticker

STAT = Path("/proc/stat")
_KOBJECT_UEVENT = 15  # of linux/netlink.h
#: The columns of CPU use, each with its fields of CpuTimes.
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
    """One CPU's times since boot in seconds, by the modes of proc_stat(5)."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float


def times_by_cpu() -> dict[int, CpuTimes]:
    """The times of each online CPU, by its number: if CPU 1 is offline, the second line is CPU 2's."""
    times = _times(STAT.read_text())
    return {int(name[3:]): each for name, each in times.items() if name != "cpu"}


def times_of_all(text: str) -> CpuTimes:
    """The total times of all CPUs, from the text of /proc/stat."""
    return _times(text)["cpu"]


def _times(text: str) -> dict[str, CpuTimes]:
    return {
        name: CpuTimes(*(int(ticks) / foreign_load.TICKS_PER_S for ticks in counts[: len(CpuTimes._fields)]))
        for name, *counts in (line.split() for line in text.splitlines())
        if re.fullmatch("cpu[0-9]*", name)
    }


def shares_between(before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    """The share of each of PARTS in the time between two CpuTimes; empty if no time was counted."""
    spent = spent_s(before, after)
    total_s = sum(spent.values())
    return {name: each_s / total_s for name, each_s in spent.items()} if total_s > 0 else {}


def spent_s(before: CpuTimes, after: CpuTimes) -> dict[str, float]:
    """The seconds of each of PARTS between two CpuTimes."""
    return {name: sum(getattr(after, f) - getattr(before, f) for f in parts) for name, parts in PARTS.items()}


def _kernel_events() -> socket.socket | None:
    """Receives what the kernel says of its devices from now on (NETLINK_KOBJECT_UEVENT, netlink(7)); None: refused."""
    with contextlib.suppress(OSError):
        events = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, _KOBJECT_UEVENT)
        try:
            events.bind((0, 1))
        except OSError:
            events.close()
            raise
        return events
    return None


def _received(events: socket.socket | None) -> Iterator[bytes]:
    """All that came; closes the socket. Where more came than there was room for, the rest."""
    with events or contextlib.nullcontext():
        while events:
            try:
                yield events.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    return


def _is_hot_plug(event: bytes) -> bool:
    lines = event.split(b"\0")
    return b"SUBSYSTEM=cpu" in lines and not {b"ACTION=online", b"ACTION=offline"}.isdisjoint(lines)


class CpuTelemetry(Ticker):
    """Samples every CPU's time at an interval, while its block runs (a context manager).

    The kernel usually counts in ticks of 10 ms, too coarse for intervals below 0.1 s. Guest time is part of
    user time already (proc_stat(5)) and is not counted again. CPUs that are switched on or off, also between two
    samples, make it raise MeasurementFailed in the end.
    """

    def __init__(self, interval_s: float):
        super().__init__(interval_s, self.sample, "cpu-telemetry")
        self._samples: list[tuple[int, dict[int, CpuTimes]]] = []
        self._clock_offsets_ns: list[int] = []
        self._frequencies: list[tuple[float, ...]] = []

    def __enter__(self) -> Self:
        self._events = _kernel_events()
        return super().__enter__()

    def __exit__(self, kind: object, *raised: object) -> None:
        switched = [event for event in _received(self._events) if _is_hot_plug(event)]
        super().__exit__(kind, *raised)
        if (switched or len({frozenset(cpus) for _, cpus in self._samples}) > 1) and kind is None:
            raise MeasurementFailed("a CPU was switched on or off meanwhile: measure again")

    def rows(self, release_ns: int) -> list[dict]:
        """One row of the `cpu` table per CPU and interval, times from the release."""
        rows = []
        for (begun_ns, before), (ended_ns, after) in zip(self._samples, self._samples[1:], strict=False):
            for cpu, old in before.items():
                new = after[cpu]
                if shares := shares_between(old, new):
                    times = {"start_s": (begun_ns - release_ns) / 1e9, "end_s": (ended_ns - release_ns) / 1e9}
                    counted = sum(spent_s(old, new).values()) * 1e9 / (ended_ns - begun_ns)
                    rows.append({"host": MACHINE, "cpu": cpu, **times, "counted": counted, **shares})
        return rows

    def missed_share(self) -> float:
        """The share of time without samples: the part of each gap beyond one and a half intervals.

        A sampler that gets no CPU time misses the moments that matter most.
        """
        moments = [moment for moment, _ in self._samples]
        gaps_s = [(later - earlier) / 1e9 for earlier, later in pairwise(moments)]
        late_s = sum(max(0.0, gap_s - 1.5 * self._interval_s) for gap_s in gaps_s)
        return late_s / sum(gaps_s) if gaps_s else 0.0

    def frequency_change(self) -> float | None:
        """The cores' mean frequency in the later half over that in the earlier half, less 1; None: unknown.

        The first sample is left out: the cores are idle then.
        """
        means = [sum(each) / len(each) for each in self._frequencies[1:] if each]
        if len(means) < 2:
            return None
        half = len(means) // 2
        earlier, later = means[:half], means[-half:]
        return (sum(later) / len(later)) / (sum(earlier) / len(earlier)) - 1

    def steal_share(self) -> float | None:
        """The share of all CPU time that the hypervisor gave to other virtual machines."""
        first, last = self._samples[0][1], self._samples[-1][1]
        spent = [(last[cpu].steal - old.steal, sum(last[cpu]) - sum(old)) for cpu, old in first.items()]
        total_s = sum(total for _, total in spent)
        return sum(stolen for stolen, _ in spent) / total_s if total_s > 0 else None

    def clock_step_s(self) -> float:
        """The largest step of the wall clock against the monotonic clock, at any sample since the first.

        Steps that cancel out by the end count, too.
        """
        first_ns, *later_ns = self._clock_offsets_ns
        return max((each_ns - first_ns for each_ns in later_ns), key=abs, default=0) / 1e9

    def sample(self) -> None:
        self._clock_offsets_ns.append(foreign_load.clock_offset_ns())
        self._samples.append((time.monotonic_ns(), times_by_cpu()))
        self._frequencies.append(foreign_load.frequencies_hz())
