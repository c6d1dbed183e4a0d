"""Disturbances while traffic flowed: CPU time of other processes, throttled cores, CPU quotas; and what clocks say.

Two samples, just before the release and just after the last end; nothing runs in between.
"""

import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pairlab.testbed.host.cgroup_tree import Throttling, hierarchy, throttled_share, throttlings

PROC, CPUS = Path("/proc"), Path("/sys/devices/system/cpu")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in proc_pid_stat(5)'s flags
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class _Entry(NamedTuple):
    """One line of proc_pid_stat(5). cpu_s: user and system time of it and of the children it has reaped."""

    name: str
    parent: int
    kernel: bool
    cpu_s: float


@dataclass(frozen=True)
class HostSample:
    """The host at one moment. foreign_cpu_s: CPU time of all processes that are not ours; None: unknown.

    throttled: throttlings since boot; None: unknown. quotas: how often those of our own control groups were enforced.
    """

    at_s: float
    foreign_cpu_s: float | None
    throttled: int | None
    quotas: Mapping[str, Throttling]


def take_sample(marks: Collection[str] = (), proc: Path = PROC, cpus: Path = CPUS) -> HostSample:
    """Samples now. marks: words in the command lines of processes that hold endpoints but are no children of ours."""
    entries = dict(_entries(proc))
    visible = proc.joinpath("1/stat").exists()  # hidepid= hides other users' processes (proc(5))
    foreign_s = _foreign_s(entries, _ours(entries, marks, proc)) if visible else None
    return HostSample(time.monotonic(), foreign_s, _throttled(cpus), throttlings(hierarchy()))


def clock_offset_ns() -> int:
    """The wall clock less the monotonic one, read between two readings of that one."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - (before_ns + time.monotonic_ns()) // 2


def compare(before: HostSample, after: HostSample) -> dict[str, float | None]:
    """What happened between two samples, by the names of verdict.CHECKS.

    The time of a process that ended in between is its parent's, once that has reaped it: so the sum is right. (One
    that ends at the very moment of a sample is missed in it, and counts with all its time: hence the 1.)
    """
    lasted_s = after.at_s - before.at_s
    foreign = None
    if before.foreign_cpu_s is not None and after.foreign_cpu_s is not None:
        spent_s = max(0.0, after.foreign_cpu_s - before.foreign_cpu_s)
        foreign = min(1.0, spent_s / (lasted_s * (os.cpu_count() or 1)))
    throttled = None
    if before.throttled is not None and after.throttled is not None:
        throttled = after.throttled - before.throttled
    return {
        "foreign_cpu": foreign,
        "throttled": throttled,
        "quota_throttled": throttled_share(before.quotas, after.quotas),
    }


def frequencies_hz(cpus: Path = CPUS) -> tuple[float, ...]:
    """Each core's present frequency, by cpufreq; empty where unknown, as in most virtual machines."""
    found = []
    for file in sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")):
        try:
            found.append(float(file.read_text()) * 1e3)
        except (OSError, ValueError):
            return ()
    return tuple(found)


def _entries(proc: Path) -> Iterable[tuple[int, _Entry]]:
    for name in os.listdir(proc):
        if name.isdecimal():
            try:
                text = (proc / name / "stat").read_text(errors="replace")  # a name can be any bytes
            except OSError:
                continue  # it ended meanwhile
            begin, end = text.index("("), text.rindex(")")
            fields = text[end + 2 :].split()
            spent = sum(map(int, fields[11:15])) / _TICKS_PER_S
            yield int(name), _Entry(text[begin + 1 : end], int(fields[1]), bool(int(fields[6]) & KERNEL_THREAD), spent)


def _ours(entries: Mapping[int, _Entry], marks: Collection[str], proc: Path) -> set[int]:
    """This process, those with a mark, and all that descend from them."""
    roots = {os.getpid()} | {pid for pid in entries if marks and _is_marked(pid, entries[pid], marks, proc)}
    known: dict[int, bool] = {}

    def belongs(pid: int) -> bool:
        path = []
        while pid in entries and pid not in known and pid not in roots:
            path.append(pid)
            known[pid] = False  # ends a circle of parents
            pid = entries[pid].parent
        answer = pid in roots or known.get(pid, False)
        known.update(dict.fromkeys(path, answer))
        return answer

    return {pid for pid in entries if belongs(pid)}


def _is_marked(pid: int, entry: _Entry, marks: Collection[str], proc: Path) -> bool:
    if not entry.name.startswith("containerd-shim"):  # there are thousands of others, and each is a file to read
        return False
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return any(mark in words for mark in marks)


def _foreign_s(entries: Mapping[int, _Entry], ours: Collection[int]) -> float:
    """Without kernel threads: most of their work while traffic flows is its packets."""
    return sum(entry.cpu_s for pid, entry in entries.items() if pid not in ours and not entry.kernel)


def _throttled(cpus: Path) -> int | None:
    files = list(cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    try:
        return sum(int(file.read_text()) for file in files) if files else None
    except (OSError, ValueError):
        return None
