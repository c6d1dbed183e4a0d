"""Disturbances during traffic: CPU time of other programs, throttled cores, CPU quotas; and clocks' readings.

Two samples, just before the release and just after the last end; no sampling in between. The busy time of all CPUs
(proc_stat(5)) is divided among the testbed, pairlab itself, kernel threads and the other processes; the remainder was
used by invisible processes: those of other PID namespaces, and those that ended and whose parent waited for none
(sigaction(2), SA_NOCLDWAIT).
"""

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pairlab.testbed.cleanup.process_table import children, descendants, read_processes
from pairlab.testbed.host.cgroups import Throttling, hierarchy, throttled_share, throttlings

PROC, CPUS = Path("/proc"), Path("/sys/devices/system/cpu")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, in proc_pid_stat(5)'s flags
#: Scheduling policies whose processes run before all others (sched(7)): FIFO, round robin, deadline.
REALTIME = ("1", "2", "6")
#: Kernel threads that process packets: their CPU time counts to the traffic.
_OF_PACKETS = ("ksoftirqd/", "napi/")
#: The least share of CPU time for naming a process: rounded to 0.1 % in texts.
_NAMED_FROM = 0.0005
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class _Entry(NamedTuple):
    """One line of proc_pid_stat(5). cpu_s: user and system time; children_s: that of reaped children. realtime: of one
    of the policies REALTIME."""

    name: str
    parent: int
    kernel: bool
    cpu_s: float
    children_s: float
    realtime: bool


@dataclass(frozen=True)
class OwnProcesses:
    """Identifies the testbed's processes.

    roots: the testbed's processes, by id; their descendants belong to it, too. marks: words in the command lines of
    further roots. reported_s: by launcher, the CPU time of its process if that has ended; more precise than ticks.
    """

    roots: Collection[int] = ()
    marks: Collection[str] = ()
    reported_s: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CpuUse:
    """CPU time in seconds up to one moment, by group of processes.

    busy_s: of all CPUs. testbed_s, pairlab_s: the testbed's, and this process's. packets_s: kernel threads that process
    packets; kernel_s: the other kernel threads. others_s: all other processes; None: hidden.
    """

    busy_s: float
    testbed_s: float
    pairlab_s: float
    packets_s: float
    kernel_s: float
    others_s: float | None


class Used(NamedTuple):
    """CPU time in seconds of a process, including its reaped children. realtime: whether it is of one of the policies
    REALTIME.
    """

    name: str
    used_s: float
    parent: int
    realtime: bool = False


@dataclass(frozen=True)
class HostSample:
    """The host at one moment.

    throttled: throttlings since boot; None: unknown. quotas: throttling of our own control groups.
    processes: each process's use by its id, grouped by the check that it counts to.
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
    """Samples the host now. clock_s: a process's CPU time by its id, if known more precisely than in ticks."""
    use, processes = _cpu_use(testbed or OwnProcesses(), proc, clock_s or cpu_clock_s)
    return HostSample(time.monotonic(), use, _throttled(cpus), throttlings(hierarchy()), processes)


def clock_offset_ns() -> int:
    """The wall clock less the monotonic clock, which is read before and after."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - (before_ns + time.monotonic_ns()) // 2


def compare(before: HostSample, after: HostSample) -> dict[str, float | None]:
    """Disturbances between two samples, by the names of checks.CHECKS; CPU times as shares of all CPUs' time.

    A process's time passes to the parent that reaps it, so the sums are right. (A process that ends during a sample is
    missing from it, and then counts with all its time: hence the bounds.)
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
        "realtime_cpu": None if others_s is None else share(_realtime_s(before, after)),
        "hidden_cpu": share(hidden_s),
        "kernel_cpu": share(kernel_s),
        "throttled": throttled,
        "quota_throttled": throttled_share(before.quotas, after.quotas),
    }


def _realtime_s(before: HostSample, after: HostSample) -> float:
    """What those that are of real-time class in the end have used since; in which class they did so is not known."""
    old, new = (sample.processes.get("foreign_cpu", {}) for sample in (before, after))
    return sum(each.used_s - (old[pid].used_s if pid in old else 0.0) for pid, each in new.items() if each.realtime)


def worst(machines: Sequence[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Of what `compare` returns of several machines the largest of each; None: not known of any."""
    return {
        name: max((value for each in machines if (value := each.get(name)) is not None), default=None)
        for name in machines[0]
    }


def others_share(before: HostSample, after: HostSample, but: Collection[int] = ()) -> float:
    """The share of all CPU time that other processes used. but: the ids of excluded ones, such as an engine's."""
    capacity_s = (after.at_s - before.at_s) * cpus_online()
    earlier_s, now_s = (
        sum(each.used_s for pid, each in sample.processes["foreign_cpu"].items() if pid not in but)
        for sample in (before, after)
    )
    return min(1.0, max(0.0, now_s - earlier_s) / capacity_s)


def names_of(testbed: OwnProcesses) -> dict[int, str]:
    """The names of the testbed's processes, by their ids."""
    entries = dict(_entries(PROC))
    return {pid: _printable(entries[pid].name) for pid in _descendants(entries, testbed, PROC)}


def largest(before: HostSample, after: HostSample, check: str, most: int = 3) -> list[tuple[str, int, float]]:
    """The processes with the most time between two samples in foreign_cpu or kernel_cpu: name, id and share.

    A parent's time includes its reaped children's, except their time before the first sample.
    """
    capacity_s = (after.at_s - before.at_s) * cpus_online()
    old, new = before.processes.get(check, {}), after.processes.get(check, {})
    earlier_s: dict[int, float] = defaultdict(float)
    for pid, each in old.items():
        heir = pid
        while heir in old and heir not in new:
            heir = old[heir].parent
        earlier_s[heir] += each.used_s
    shares = [(_printable(each.name), pid, (each.used_s - earlier_s[pid]) / capacity_s) for pid, each in new.items()]
    large = sorted((each for each in shares if each[2] >= _NAMED_FROM), key=lambda each: each[2], reverse=True)
    return large[:most]


def _printable(name: str) -> str:
    """The name with unprintable characters replaced: a process may give itself any name (prctl(2), PR_SET_NAME)."""
    return "".join(char if char.isprintable() else "?" for char in name)


def cpus_online() -> int:
    """The number of online CPUs. (From Python 3.13 on, PYTHON_CPU_COUNT overrides os.cpu_count.)"""
    return os.sysconf("SC_NPROCESSORS_ONLN")


def frequencies_hz(cpus: Path = CPUS) -> tuple[float, ...]:
    """Each core's present frequency, by cpufreq; empty if unknown, as in most virtual machines."""
    hertz = []
    for file in sorted(cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq")):
        try:
            hertz.append(float(file.read_text()) * 1e3)
        except (OSError, ValueError):
            return ()
    return tuple(hertz)


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
        else:  # of this process, only its reaped children count: none of them is the testbed's
            used_s = entry.children_s + (entry.cpu_s if pid != me else 0.0)
            others[pid] = Used(entry.name, used_s, entry.parent, entry.realtime and pid != me)
    visible = proc.joinpath("1/stat").exists()  # hidepid= hides other users' processes (proc(5))
    pairlab_s = clock_s(me) or 0.0
    others_s, kernel_s = (sum(used.used_s for used in each.values()) for each in (others, kernel))
    use = CpuUse(_busy_s(proc), testbed_s, pairlab_s, packets_s, kernel_s, others_s if visible else None)
    return use, {"foreign_cpu": others, "kernel_cpu": kernel}


def cpu_clock_s(pid: int) -> float | None:
    """The CPU time of a process, with all its threads, by its clock (clock_getcpuclockid(3)); None: no clock."""
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the kernel's clock id of a process
    except OSError:
        return None


def used_by_s(launchers: Iterable[int | None]) -> list[float]:
    """The CPU time of what each of these has started: of its processes that have started no others."""
    parents = {pid: each.parent for pid, each in read_processes().items()}
    below, last = children(parents), parents.keys() - parents.values()
    at_work = [descendants(below, below.get(each, ()) if each else ()) & last for each in launchers]
    return [sum(cpu_clock_s(pid) or 0.0 for pid in pids) for pids in at_work]


def _busy_s(proc: Path) -> float:
    """The busy time of all CPUs: without idle, iowait and steal (proc_stat(5)).

    A kernel that accounts interrupts' time excludes it from processes' times, so it is excluded here, too; without such
    accounting, the time of hardware interrupts is 0.
    """
    words = proc.joinpath("stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = (int(word) / TICKS_PER_S for word in words[:7])
    return user + nice + system + (0.0 if irq else softirq)


def _error_s(capacity_s: float) -> float:
    """Two standard errors, at most, of CPU time counted in ticks, each charged to the task that runs just then."""
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
            own_s, children_s = (sum(map(int, fields[index : index + 2])) / TICKS_PER_S for index in (11, 13))
            kernel = bool(int(fields[6]) & KERNEL_THREAD)
            realtime = fields[38] in REALTIME
            yield int(name), _Entry(text[begin + 1 : end], int(fields[1]), kernel, own_s, children_s, realtime)


def _descendants(entries: Mapping[int, _Entry], testbed: OwnProcesses, proc: Path) -> set[int]:
    """A testbed's roots, marked processes, and all descendants."""
    marks = testbed.marks
    marked = [pid for pid in entries if marks and _is_marked(pid, entries[pid], marks, proc)]
    below = children({pid: each.parent for pid, each in entries.items()})
    return descendants(below, [*testbed.roots, *marked]) & entries.keys()


def _is_marked(pid: int, entry: _Entry, marks: Collection[str], proc: Path) -> bool:
    if not entry.name.startswith("containerd-shim"):  # thousands of others would each be a file to read
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
