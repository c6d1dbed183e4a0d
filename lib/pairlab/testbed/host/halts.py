"""Processes of the testbed that were halted: stopped by a signal, traced, or frozen with their control group.

By samples of their states (proc_pid_stat(5)) and of their groups' freezers (cgroups(7)). A launcher sees exactly for
how long its own child was stopped (Process.stopped_s); samples see what befalls the others, too: a tool's children, a
switch, a virtual machine, pairlab itself.
"""

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pairlab.testbed.host import cgroups, foreign_load
from pairlab.testbed.host.foreign_load import OwnProcesses
from pairlab.testbed.host.ticker import Ticker
from pairlab.testbed.requirements import read_file

#: Samples of one measurement; their least interval, and its least per process: reading a state takes about 20 µs.
SAMPLES, LEAST_S, LEAST_S_PER_PROCESS = 20, 0.1, 0.005
#: After so many samples the processes are looked for again: some begin with the traffic.
RENEWED_AFTER = 5
#: A sample that is later than so many intervals after the one before is late.
LATE_AFTER = 1.5
#: More than any of these files has.
_MOST_BYTES = 1 << 15
EXITING = 0x4  # PF_EXITING, in proc_pid_stat(5)'s flags


class _Sample(NamedTuple):
    at_s: float
    waited_s: float
    """For how long the sampling thread could have run since its begin, and had no CPU."""
    thread: int
    halted: Collection[int]
    regrouped: Collection[int]
    """In another control group than in its first sample."""


class HaltSampler(Ticker):
    """Samples which of the testbed's processes are halted, while its block runs (a context manager).

    lasts_s: about how long the block lasts; 0: unknown.
    """

    def __init__(self, own: OwnProcesses, lasts_s: float):
        self._own = own
        self._names = {os.getpid(): "pairlab"}
        self._pids: Collection[int] = ()
        self._groups: dict[int, str] = {}
        self._freezers: dict[str, list[Path]] = {}
        self._samples: list[_Sample] = []
        self._renew()
        every_s = max(lasts_s / SAMPLES, LEAST_S, LEAST_S_PER_PROCESS * len(self._pids))
        super().__init__(every_s, self._take, "halts")

    def _renew(self) -> None:
        there = foreign_load.names_of(self._own)
        self._names |= there
        self._pids = [*there]

    def _take(self) -> None:
        if len(self._samples) % RENEWED_AFTER == 1:
            self._renew()
        groups = {pid: found for pid in self._pids if (found := _read(pid, "cgroup"))}
        for each in {*groups.values()} - self._freezers.keys():
            self._freezers[each] = cgroups.freezers(each)
        frozen = {each: any(map(cgroups.is_frozen, self._freezers[each])) for each in {*groups.values()}}
        halted, regrouped = set(), set()
        for pid, found in groups.items():
            status = _read(pid, "stat").rpartition(")")[2].split()
            if not status or int(status[6]) & EXITING:  # one that ends is in no group of its own any more
                continue
            if self._groups.setdefault(pid, found) != found:
                regrouped.add(pid)
            if frozen[found] or _is_stopped(pid, *status[:2]):
                halted.add(pid)
        self._samples.append(_Sample(time.monotonic(), _waited_s(), threading.get_ident(), halted, regrouped))

    def shares(self, state: str, begin_s: float, end_s: float) -> list[tuple[str, int, float]]:
        """The processes that were in that state ("halted", "regrouped") between two moments (time.monotonic): name, id
        and share of that time, the most first.

        A sample stands for half of the time to its neighbours. pairlab itself was halted where its samples were late
        though it had a CPU.
        """
        spent_s: dict[int, float] = defaultdict(float)
        for begun_s, ended_s, sample in self._steps():
            for pid in getattr(sample, state):
                spent_s[pid] += max(0.0, min(ended_s, end_s) - max(begun_s, begin_s))
        if state == "halted":
            spent_s[os.getpid()] += self._late_s(begin_s, end_s)
        found = [(self._names[pid], pid, min(1.0, each_s / (end_s - begin_s))) for pid, each_s in spent_s.items()]
        return sorted((each for each in found if each[2] > 0), key=lambda each: -each[2])

    def _steps(self) -> Iterator[tuple[float, float, _Sample]]:
        """Each sample with the time that it stands for."""
        moments_s = [each.at_s for each in self._samples]
        middles_s = [(earlier_s + later_s) / 2 for earlier_s, later_s in pairwise(moments_s)]
        edges_s = [moments_s[0], *middles_s, moments_s[-1]]
        for (begun_s, ended_s), sample in zip(pairwise(edges_s), self._samples, strict=True):
            yield begun_s, ended_s, sample

    def _late_s(self, begin_s: float, end_s: float) -> float:
        """For how long, in that time, no sample was taken though the sampling thread did not wait for a CPU."""
        late_s = 0.0
        for before, after in pairwise(self._samples):
            if before.thread == after.thread:
                within_s = max(0.0, min(after.at_s, end_s) - max(before.at_s, begin_s))
                late_s += max(0.0, within_s - LATE_AFTER * self._interval_s - (after.waited_s - before.waited_s))
        return late_s


def _is_stopped(pid: int, state: str, parent: str) -> bool:
    """Whether a signal has stopped it, or a debugger; its launcher traces it until it is released."""
    return state == "T" or (state == "t" and f"TracerPid:\t{parent}\n" not in _read(pid, "status"))


def _read(pid: int, name: str) -> str:
    """That file of a process; empty if it has ended. Read by system calls alone: thousands are in a measurement."""
    return (read_file(f"/proc/{pid}/{name}", _MOST_BYTES) or b"").decode(errors="replace")


def _waited_s() -> float:
    """How long this thread has waited for a CPU so far (schedstat); 0 where the kernel does not count it."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    return 0.0
