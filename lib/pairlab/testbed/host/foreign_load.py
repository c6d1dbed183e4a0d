"""Disturbances while traffic flowed: CPU time of others, throttled cores, CPU quotas; and what clocks say.

Two samples, just before the release and just after the last end; nothing runs in between. The kernel says how long all
CPUs were busy (proc_stat(5)). Of that, the testbed, pairlab itself, kernel threads and the other processes have their
parts; what is left over was used by what cannot be seen: processes of other PID namespaces, and those that ended and
whose parent waited for none (sigaction(2), SA_NOCLDWAIT).
"""

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pairlab.testbed.host.cgroup_tree import Throttling, hierarchy, throttled_share, throttlings

PROC, CPUS = Path("/proc"), Path("/sys/devices/system/cpu")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in proc_pid_stat(5)'s flags
#: Kernel threads that process packets: while traffic flows, their work is its.
_OF_PACKETS = ("ksoftirqd/", "napi/")
#: The least share of the CPU time for which a process is named: what texts show as 0.1 %.
_NAMED_FROM = 0.0005
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class _Entry(NamedTuple):
    """One line of proc_pid_stat(5). cpu_s: user and system time; children_s: that of the children it has reaped."""

    name: str
    parent: int
    kernel: bool
    cpu_s: float
    children_s: float


@dataclass(frozen=True)
class OwnProcesses:
    """How to tell the testbed's processes from others.

    roots: processes that are its, with all that descend from them. marks: words in the command lines of others that
    are, too. reported_s: of launchers, the CPU time of the process that each has launched, where that has ended; it is
    more precise than the kernel's ticks.
    """

    roots: Collection[int] = ()
    marks: Collection[str] = ()
    reported_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CpuUse:
    """CPU time in seconds up to one moment, of each part of the machine's processes.

    busy_s: of all CPUs. testbed_s, pairlab_s: the testbed's, and this process's. packets_s: kernel threads that process
    packets; kernel_s: the other kernel threads. others_s: all other processes; None where they are hidden.
    """

    busy_s: float
    testbed_s: float
    pairlab_s: float
    packets_s: float
    kernel_s: float
    others_s: float | None


class Used(NamedTuple):
    """CPU time in seconds of a process, with that of its children that have ended and that it has waited for."""

    name: str
    used_s: float
    parent: int


@dataclass(frozen=True)
class HostSample:
    """The host at one moment.

    throttled: throttlings since boot; None: unknown. quotas: how often those of our own control groups were enforced.
    processes: by the check that their time counts to, what each process has used, by its id.
    """

    at_s: float
    cpu: CpuUse
    throttled: int | None
    quotas: Mapping[str, Throttling]
    processes: Mapping[str, Mapping[int, Used]] = field(default_factory=dict)


def take_sample(
    testbed: OwnProcesses | None = None,
    proc: Path = PROC,
    cpus: Path = CPUS,
    clock_s: Callable[[int], float | None] | None = None,
) -> HostSample:
    """Samples now. clock_s: the CPU time of a process by its id, where that is known better than by ticks."""
    use, processes = _cpu_use(testbed or OwnProcesses(), proc, clock_s or cpu_clock_s)
    return HostSample(time.monotonic(), use, _throttled(cpus), throttlings(hierarchy()), processes)


def clock_offset_ns() -> int:
    """The wall clock less the monotonic one, read between two readings of that one."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - (before_ns + time.monotonic_ns()) // 2


def compare(before: HostSample, after: HostSample) -> dict[str, float | None]:
    """What happened between two samples, by the names of verdict.CHECKS; of CPU time, shares of that of all CPUs.

    The time of a process that ended in between is its parent's, once that has reaped it: so the sums are right. (One
    that ends at the very moment of a sample is missed in it, and counts with all its time: hence the bounds.)
    """
    capacity_s = (after.at_s - before.at_s) * cpus_online()
    old, new = before.cpu, after.cpu

    def share(spent_s: float) -> float:
        return min(1.0, max(0.0, spent_s) / capacity_s)

    known_s = [new.testbed_s - old.testbed_s, new.pairlab_s - old.pairlab_s, new.packets_s - old.packets_s]
    kernel_s = new.kernel_s - old.kernel_s
    others_s = None if old.others_s is None or new.others_s is None else new.others_s - old.others_s
    hidden_s = new.busy_s - old.busy_s - sum(known_s) - kernel_s - (others_s or 0.0) - _error_s(capacity_s)
    throttled = None
    if before.throttled is not None and after.throttled is not None:
        throttled = after.throttled - before.throttled
    return {
        "foreign_cpu": None if others_s is None else share(others_s),
        "hidden_cpu": share(hidden_s),
        "kernel_cpu": share(kernel_s),
        "throttled": throttled,
        "quota_throttled": throttled_share(before.quotas, after.quotas),
    }


def others_share(before: HostSample, after: HostSample, but: Collection[int] = ()) -> float:
    """The share of all CPU time that other processes used, those `but` left out: for what an engine does for us."""
    capacity_s = (after.at_s - before.at_s) * cpus_online()
    earlier_s, now_s = (
        sum(each.used_s for pid, each in sample.processes["foreign_cpu"].items() if pid not in but)
        for sample in (before, after)
    )
    return min(1.0, max(0.0, now_s - earlier_s) / capacity_s)


def largest(before: HostSample, after: HostSample, check: str, most: int = 3) -> list[tuple[str, int, float]]:
    """Whose time between two samples counts most to foreign_cpu or kernel_cpu: names, process ids, shares as there.

    The time of processes that ended in between is their parent's, where that has waited for them; but for what they had
    used before.
    """
    capacity_s = (after.at_s - before.at_s) * cpus_online()
    known, now = before.processes.get(check, {}), after.processes.get(check, {})
    earlier_s: dict[int, float] = defaultdict(float)
    for pid, each in known.items():
        heir = pid
        while heir in known and heir not in now:
            heir = known[heir].parent
        earlier_s[heir] += each.used_s
    spent = [(_printable(each.name), pid, (each.used_s - earlier_s[pid]) / capacity_s) for pid, each in now.items()]
    found = sorted((each for each in spent if each[2] >= _NAMED_FROM), key=lambda each: each[2], reverse=True)
    return found[:most]


def _printable(name: str) -> str:
    """A process may have given itself any name (prctl(2), PR_SET_NAME)."""
    return "".join(char if char.isprintable() else "?" for char in name)


def cpus_online() -> int:
    """How many CPUs are online. (os.cpu_count is what PYTHON_CPU_COUNT says, from Python 3.13 on.)"""
    return os.sysconf("SC_NPROCESSORS_ONLN")


def frequencies_hz(cpus: Path = CPUS) -> tuple[float, ...]:
    """Each core's present frequency, by cpufreq; empty where unknown, as in most virtual machines."""
    found = []
    for file in sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")):
        try:
            found.append(float(file.read_text()) * 1e3)
        except (OSError, ValueError):
            return ()
    return tuple(found)


def _cpu_use(
    testbed: OwnProcesses, proc: Path, clock_s: Callable[[int], float | None]
) -> tuple[CpuUse, dict[str, dict[int, Used]]]:
    entries = dict(_entries(proc))
    ours = _descendants(entries, testbed, proc)
    me = os.getpid()
    testbed_s = packets_s = 0.0
    others: dict[int, Used] = {}
    kernel: dict[int, Used] = {}
    for pid, entry in entries.items():
        if pid in ours:
            spent_s = clock_s(pid)
            testbed_s += entry.cpu_s if spent_s is None else spent_s
            testbed_s += testbed.reported_s.get(pid, entry.children_s)
        elif entry.kernel and entry.name.startswith(_OF_PACKETS):
            packets_s += entry.cpu_s
        elif entry.kernel:
            kernel[pid] = Used(entry.name, entry.cpu_s, entry.parent)
        else:  # of this process, its children count: the testbed's have not ended
            used_s = entry.children_s + (entry.cpu_s if pid != me else 0.0)
            others[pid] = Used(entry.name, used_s, entry.parent)
    visible = proc.joinpath("1/stat").exists()  # hidepid= hides other users' processes (proc(5))
    pairlab_s = clock_s(me) or 0.0
    others_s, kernel_s = (sum(used.used_s for used in each.values()) for each in (others, kernel))
    use = CpuUse(_busy_s(proc), testbed_s, pairlab_s, packets_s, kernel_s, others_s if visible else None)
    return use, {"foreign_cpu": others, "kernel_cpu": kernel}


def cpu_clock_s(pid: int) -> float | None:
    """The CPU time of a process, with all its threads, by its clock (clock_getcpuclockid(3)); None: it has none."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # what the kernel makes of a process's id
    except OSError:
        return None


def _busy_s(proc: Path) -> float:
    """CPU time that all CPUs have spent on anything but waiting and other machines (proc_stat(5)).

    A kernel that times interrupts keeps them out of the processes' times, so they are left out here, too; one that
    does not has never counted a hardware interrupt.
    """
    words = proc.joinpath("stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = (int(word) / TICKS_PER_S for word in words[:7])
    return user + nice + system + (0.0 if irq else softirq)


def _error_s(capacity_s: float) -> float:
    """Two standard errors, at most, of CPU time that the kernel counts by ticks: whole ones, of who runs just then."""
    return math.sqrt(max(0.0, capacity_s) / TICKS_PER_S)


def _entries(proc: Path) -> Iterable[tuple[int, _Entry]]:
    for name in os.listdir(proc):
        if name.isdecimal():
            try:
                text = (proc / name / "stat").read_text(errors="replace")  # a name can be any bytes
            except OSError:
                continue  # it ended meanwhile
            begin, end = text.index("("), text.rindex(")")
            fields = text[end + 2 :].split()
            own_s, children_s = (sum(map(int, fields[place : place + 2])) / TICKS_PER_S for place in (11, 13))
            kernel = bool(int(fields[6]) & KERNEL_THREAD)
            yield int(name), _Entry(text[begin + 1 : end], int(fields[1]), kernel, own_s, children_s)


def _descendants(entries: Mapping[int, _Entry], testbed: OwnProcesses, proc: Path) -> set[int]:
    """The roots of a testbed, those with a mark, and all that descend from them."""
    marks = testbed.marks
    roots = {*testbed.roots, *(pid for pid in entries if marks and _is_marked(pid, entries[pid], marks, proc))}
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


def _throttled(cpus: Path) -> int | None:
    files = list(cpus.glob("cpu[0-9]*/thermal_throttle/core_throttle_count"))
    try:
        return sum(int(file.read_text()) for file in files) if files else None
    except (OSError, ValueError):
        return None
