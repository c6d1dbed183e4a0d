"""What can befall a measurement while it runs, planted by hand: load, stalls, kills, other settings, and what came.

`measured_under` measures a spec while one of DISTURBANCES is at work, and reads meanwhile, by itself, what the kernel
counted on the servers' links.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psutil

from pairlab import Run, Spec, measure
from pairlab.base.threads import run_before_flows
from pairlab.measurement import measure as measurement
from pairlab.measurement.checks import crosschecks
from pairlab.testbed import registry
from pairlab.testbed.contracts import Site
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.host import cgroups, foreign_load
from pairlab.testbed.process_launcher import Process
from tests.support.punctual import PUNCTUAL

#: As many processes as there are CPUs, busy until their input ends.
BUSY = """
import os, sys, threading
print("busy", flush=True)
for _ in range(os.cpu_count() - 1):
    if not os.fork():
        break
threading.Thread(target=sys.stdin.read, daemon=True).start()
while len(threading.enumerate()) > 1:
    pass
"""
#: Short processes, one after the other, whose time the kernel adds to nobody's as their parent waits for none.
UNNOTICED = """
import os, select, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("busy", flush=True)
while not select.select([sys.stdin], [], [], 0.02)[0]:
    for _ in range(os.cpu_count()):
        if not os.fork():
            while time.process_time() < 0.02:
                pass
            os._exit(0)
"""
#: Turns segmentation offloads of eth0 on or off (the ETHTOOL_STSO and ETHTOOL_SGSO of linux/ethtool.h).
OFFLOADS = """
import fcntl, ctypes, socket, struct, sys
for command in (0x1f, 0x24):
    value = ctypes.create_string_buffer(struct.pack("II", command, int(sys.argv[1])))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8946, struct.pack("16sP8x", b"eth0", ctypes.addressof(value)))
"""


@contextlib.contextmanager
def load(script: str) -> Iterator[None]:
    """The script's processes run in this block."""
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "busy\n"
            yield
        finally:
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@dataclass
class Testbed:
    """What disturbances take hold of: the running processes of a measurement."""

    __test__ = False

    clients: list[Process]
    servers: list[Process]
    chance: random.Random
    beside: list[Process] = field(default_factory=list)
    """Of the background, and of the interference."""

    def some(self, processes: Sequence[Process]) -> list[Process]:
        """One of them, or all."""
        return list(processes) if self.chance.random() < 0.5 else [self.chance.choice(processes)]


#: Is at work in its block.
Disturbance = Callable[[Testbed], contextlib.AbstractContextManager[None]]


def tools(processes: Sequence[Process]) -> list[psutil.Process]:
    """What these launchers have launched."""
    found = []
    for each in processes:
        with contextlib.suppress(psutil.Error):
            found += psutil.Process(each.pid).children(recursive=True)
    return found


def inside(process: Process | psutil.Process, *argv: str) -> str:
    """What a command prints in the network namespace of that process, at once; one that fails is left at that."""
    user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    command = ["nsenter", *user, "--net", "--target", str(process.pid), *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, **PUNCTUAL).stdout


def signalled(processes: Sequence[psutil.Process], number: int) -> None:
    for each in processes:
        with contextlib.suppress(psutil.Error):
            each.send_signal(number)


@contextlib.contextmanager
def nothing(bed: Testbed) -> Iterator[None]:
    yield


@contextlib.contextmanager
def busy(bed: Testbed) -> Iterator[None]:
    with load(bed.chance.choice([BUSY, UNNOTICED])):
        yield


@contextlib.contextmanager
def stall(bed: Testbed) -> Iterator[None]:
    """Some tools do not get on."""
    stopped = tools(bed.some(bed.chance.choice([bed.clients, bed.servers])))
    signalled(stopped, signal.SIGSTOP)
    try:
        yield
    finally:
        signalled(stopped, signal.SIGCONT)


def stopped(chosen: Callable[[Testbed], Sequence[Process]]) -> Disturbance:
    """These do not get on."""

    @contextlib.contextmanager
    def stop(bed: Testbed) -> Iterator[None]:
        which = tools(chosen(bed))
        assert which
        signalled(which, signal.SIGSTOP)
        try:
            yield
        finally:
            signalled(which, signal.SIGCONT)

    return stop


@contextlib.contextmanager
def in_turns(
    halt: Callable[[], None], go_on: Callable[[], None], halted_s: float | None, running_s: float
) -> Iterator[None]:
    """Halts for moments, again and again; None: once, until the end of the block."""
    over = threading.Event()

    def turns() -> None:
        while not over.wait(running_s):
            halt()
            over.wait(halted_s)
            go_on()

    thread = threading.Thread(target=turns)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def stopped_in_turns(who: Callable[[Testbed], Sequence[Process]], stopped_s: float, running_s: float) -> Disturbance:
    """Stops them for moments, again and again."""

    def disturbance(bed: Testbed) -> contextlib.AbstractContextManager[None]:
        found = tools(who(bed))
        return in_turns(
            lambda: signalled(found, signal.SIGSTOP), lambda: signalled(found, signal.SIGCONT), stopped_s, running_s
        )

    return disturbance


@contextlib.contextmanager
def stall_beside(bed: Testbed) -> Iterator[None]:
    """Some of the background, or of the interference, do not get on; where there is neither, some tools."""
    with stopped(lambda its: its.some(its.beside))(bed) if bed.beside else stall(bed):
        yield


@contextlib.contextmanager
def kill(bed: Testbed) -> Iterator[None]:
    which = bed.some(bed.chance.choice([bed.clients, bed.servers]))
    signalled(tools(which), bed.chance.choice([signal.SIGKILL, signal.SIGTERM]))
    yield


@contextlib.contextmanager
def offload(bed: Testbed) -> Iterator[None]:
    """Segmentation offloads of some clients' links are off; now and then for good."""
    which, for_good = bed.some(bed.clients), bed.chance.random() < 0.5
    for each in which:
        inside(each, sys.executable, "-c", OFFLOADS, "0")
    yield
    for each in [] if for_good else which:
        inside(each, sys.executable, "-c", OFFLOADS, "1")


@contextlib.contextmanager
def unreachable(bed: Testbed) -> Iterator[None]:
    """Some clients have no way to their servers."""
    which, addresses = bed.some(bed.clients), [each.endpoint.address for each in bed.servers]
    for each in which:
        for address in addresses:
            inside(each, "ip", "route", "add", "unreachable", address)
    yield
    for each in which:
        for address in addresses:
            inside(each, "ip", "route", "del", "unreachable", address)


@contextlib.contextmanager
def shaped(bed: Testbed) -> Iterator[None]:
    """Some clients' links are slow; now and then for good."""
    which, for_good = bed.some(bed.clients), bed.chance.random() < 0.3
    for each in which:
        bucket = ["rate", "200mbit", "burst", "64kb", "latency", "20ms"]
        inside(each, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *bucket)
    yield
    for each in [] if for_good else which:
        inside(each, "tc", "qdisc", "del", "dev", "eth0", "root")


@contextlib.contextmanager
def quota(bed: Testbed) -> Iterator[None]:
    """Some tools may use a fifth of a CPU only."""
    if cgroups.missing():
        yield
        return
    which = tools(bed.some(bed.chance.choice([bed.clients, bed.servers])))
    home = Path(cgroups.hierarchy().base())
    with cgroups.groups(f"disturbed_{os.getpid()}", {"tools": Limits(cpu_quota=0.2)}) as made:
        for group in (made["tools"], home):
            for each in which:
                with contextlib.suppress(OSError):
                    (group / "cgroup.procs").write_text(str(each.pid))
            if group is not home:
                yield


@contextlib.contextmanager
def clock(bed: Testbed) -> Iterator[None]:
    """The wall clock is moved, and moved back; so it is told, as no other process of this host may notice."""
    real = foreign_load.clock_offset_ns
    with mock.patch.object(foreign_load, "clock_offset_ns", side_effect=lambda: real() + 500_000_000):
        yield


DISTURBANCES: dict[str, Disturbance] = {
    each.__name__: each
    for each in (nothing, busy, stall, kill, offload, unreachable, shaped, quota, clock, stall_beside)
}


class Counted:
    """What the kernel counted of the receivers' links, by the moment, in seconds from the release; and of each process
    beside them, the CPU time that what it launched has had (proc_pid_stat(5))."""

    def __init__(self, pids: Sequence[int], site: Site):
        names = ("dev", "snmp")
        self.beside: list[psutil.Process] = []
        self.cpu_s: list[tuple[float, ...]] = []
        self._files = [[os.open(f"/proc/{pid}/net/{name}", os.O_RDONLY) for name in names] for pid in pids]
        self._link = f"{site.interface}:"
        self.rows: list[tuple[float, int, int, int]] = []
        """Moment, bytes and packets received by the links, and datagrams that programs took."""

    def look(self, at_s: float) -> None:
        rx_bytes = rx_packets = datagrams = 0
        for file, counts in self._files:
            for line in os.pread(file, 4096, 0).decode().splitlines():
                if line.strip().startswith(self._link):
                    received = line.partition(":")[2].split()
                    rx_bytes, rx_packets = rx_bytes + int(received[0]), rx_packets + int(received[1])
            _, udp = (line for line in os.pread(counts, 16384, 0).decode().splitlines() if line.startswith("Udp:"))
            datagrams += int(udp.split()[1])
        self.rows.append((at_s, rx_bytes, rx_packets, datagrams))
        if self.beside:
            self.cpu_s.append((at_s, *map(_cpu_s, self.beside)))

    def stood_still_s(self, begin_s: float, end_s: float) -> float:
        """The longest time from begin_s to end_s in which one of those beside used no CPU time."""
        rows = np.array(self.cpu_s, float)
        rows = rows[(rows[:, 0] >= begin_s) & (rows[:, 0] <= end_s)]
        longest_s = 0.0
        for used_s in rows[:, 1:].T:
            on = rows[np.flatnonzero(np.diff(used_s, prepend=-1.0) > 0), 0]  # it has just got on
            longest_s = max(longest_s, *np.diff([*on, rows[-1, 0]]), 0.0)
        return float(longest_s)

    def close(self) -> None:
        for file in (each for pair in self._files for each in pair):
            os.close(file)

    def tcp_bps(self, header_bytes: int, begin_s: float, end_s: float) -> float:
        """Payload that the links received in that time."""
        at_s, rx_bytes, rx_packets, _ = np.array(self.rows, float).T
        first, last = np.interp([begin_s, end_s], at_s, rx_bytes - header_bytes * rx_packets)
        return float((last - first) * 8 / (end_s - begin_s))

    def udp_bps(self, payload_bytes: int, begin_s: float, end_s: float) -> float:
        """Payload of the datagrams that programs took from their sockets in that time (Udp InDatagrams)."""
        at_s, _, _, datagrams = np.array(self.rows, float).T
        first, last = np.interp([begin_s, end_s], at_s, datagrams)
        return float((last - first) * payload_bytes * 8 / (end_s - begin_s))


def _cpu_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.Error):
        user_s, system_s, *_ = process.cpu_times()
        return float(user_s + system_s)
    return float("inf")  # it has ended: that is another matter


def measured_under(
    spec: Spec,
    disturbance: Disturbance,
    *,
    begins_s: float,
    lasts_s: float,
    seed: int = 0,
    root: Path | None = None,
    prepare: Callable[[Testbed], None] = lambda bed: None,
) -> tuple[Run, Counted]:
    """Measures `spec` while something disturbs it; and what the kernel counted. Times are from the release.

    prepare: is called when all are ready, before the release.
    """
    real_ready, real_watch = measurement.get_ready, measurement._watch
    ready: dict[str, Any] = {}

    def get_ready(bed, *others):
        servers, clients, gate = real_ready(bed, *others)
        receivers = clients if bed.plan.workload.one_client else servers
        counted = Counted([each.pid for each in (receivers if bed.plan.driver.isolated else receivers[:1])], bed.site)
        counted.look(0.0)  # nothing was sent yet
        prepare(Testbed(clients, servers, random.Random(seed)))
        ready.update(servers=servers, counted=counted)
        return servers, clients, gate

    def watch(bed, clients, release_ns, *others):
        known = {id(each) for each in (*clients, *ready["servers"])}
        running = [each for each in bed.launcher._processes.values() if not each.ended]
        beside = [each for each in running if id(each) not in known]
        testbed = Testbed(list(clients), ready["servers"], random.Random(seed), beside)
        ready["counted"].beside = tools(beside)
        over = threading.Event()
        with ThreadPoolExecutor(2, initializer=run_before_flows) as pool:  # so that it comes when it is to come
            at_work = [
                pool.submit(_count, ready["counted"], over, release_ns),
                pool.submit(_disturb, disturbance, testbed, over, release_ns, begins_s, lasts_s),
            ]
            try:
                real_watch(bed, clients, release_ns, *others)
            finally:
                over.set()
        for each in at_work:
            each.result()  # a disturbance that failed was none

    with mock.patch.multiple(measurement, get_ready=get_ready, _watch=watch):
        return measure(spec, fresh=True, root=root, progress=lambda *_: None), ready["counted"]


def _disturb(
    disturbance: Disturbance, bed: Testbed, over: threading.Event, release_ns: int, begins_s: float, lasts_s: float
) -> None:
    over.wait(begins_s - (time.monotonic_ns() - release_ns) / 1e9)
    with disturbance(bed):
        over.wait(lasts_s)


def _count(counted: Counted, over: threading.Event, release_ns: int) -> None:
    """Every 25 ms, and once more at the end."""
    done = False
    while not done:
        done = over.wait(0.025)
        counted.look((time.monotonic_ns() - release_ns) / 1e9)
    counted.close()


def reported_and_true_bps(run: Run, counted: Counted) -> tuple[float, float]:
    """The total that a run tells, and what the kernel counted while all its flows sent, after the warm-up.

    Of a tool that does not tell when it began, its run knows that it was after the release, and at the latest as long
    before its end as it sent. Of the times from the one and from the other, that counts of which the kernel's count is
    the nearer one.
    """
    reported_bps, header_bytes = run.total_throughput_bps, crosschecks.header_bytes(run.facts["network"])
    if run.spec.flow_sizes:  # all of it, at its client
        _, link_bytes, packets, _ = np.subtract(counted.rows[-1], counted.rows[0])
        return float(run.flows["flow_bytes"].sum()), float(link_bytes - header_bytes * packets)
    if run.spec.request_bytes and registry.drivers.get(run.spec.driver).isolated:  # no responses come to the servers
        reported_bps /= 2
    begun_s = run.flows["connected_s"]
    latest_s = begun_s.fillna(run.flows["pair"].map(run.intervals.groupby("pair")["start_s"].min())).fillna(0.0)
    found = []
    for begins_s in (begun_s.fillna(0.0), latest_s):
        begin_s = float(begins_s.max()) + run.spec.warmup_s + run.checks["warmup_s"]
        end_s = float(begins_s.min()) + run.spec.total_s
        if run.spec.udp_share:
            found.append(counted.udp_bps(run.spec.message_bytes, begin_s, end_s))
        else:
            found.append(counted.tcp_bps(header_bytes, begin_s, end_s))
    return reported_bps, min(found, key=lambda true_bps: abs(reported_bps - true_bps))


def stood_still(run: Run, counted: Counted) -> bool:
    """Whether one of the background or of the interference stood still for most of a second while the pairs sent.

    A worker that is to work for a part of the time, or with others on its CPU, waits for some of it.
    """
    if not counted.beside:
        return False
    begin_s, end_s = 0.1, float(run.flows["start_s"].min()) + run.spec.total_s - 0.1
    return counted.stood_still_s(begin_s, end_s) > 0.8


#: What is measured, in turn.
KINDS = ("bulk", "requests", "on hosts", "traffic", "beside a background", "beside interference")


def random_case(seed: int) -> tuple[Spec, str, float, float]:
    """A spec, the name of a disturbance, and when it begins and how long it lasts."""
    chance = random.Random(seed)
    name = list(DISTURBANCES)[seed % len(DISTURBANCES)]
    backend = registry.backends.get("netns")()
    there = [
        each
        for each in ("flowgen", "iperf", "iperf3")
        if not backend.missing_programs(registry.workloads.get(each).programs)
    ]
    udp = chance.random() < 0.15
    workload = "flowgen" if udp else chance.choice(there)
    spec = Spec(
        workload=workload,
        driver=chance.choice(["bridge", "bridge", "macvlan", "host"]),
        pairs=chance.randint(1, 4),
        duration_s=chance.choice([1.0, 2.0, 3.0] if workload == "iperf3" else [1.0, 1.5, 2.0, 3.0]),
        interval_s=0.1,
        max_skew_s=0.2,
        max_foreign_cpu=random.Random(f"load {seed}").choice([0.1, 1.0]),  # numbers must be right beside any load
        **({"udp_share": 1.0, "udp_rate_bps": 5e7, "message_bytes": 1000} if udp else {}),
    )
    kind = KINDS[seed // len(DISTURBANCES) % len(KINDS)]
    spec = _of_kind(kind, spec, random.Random(f"kind {seed}"))
    return spec, name, chance.uniform(0.0, 0.8) * spec.total_s, chance.uniform(0.05, 1.0) * spec.total_s


def _of_kind(kind: str, spec: Spec, chance: random.Random) -> Spec:
    tcp = {"udp_share": 0.0, "udp_rate_bps": 0.0, "message_bytes": 0}
    if kind == "requests":
        size = chance.choice([100, 2000])
        return spec.replace(workload="rr", request_bytes=size, response_bytes=size, **tcp)
    if kind == "on hosts":
        return spec.replace(driver=chance.choice(["nat", "overlay", "macvlan"]), hosts=2, placement="across")
    if kind == "traffic":
        load = {"flow_sizes": "uniform", "offered_load_bps": 5e8, "duration_s": max(spec.duration_s, 2.0)}
        return spec.replace(workload="traffic", driver=chance.choice(["bridge", "macvlan"]), **tcp | load)
    if kind == "beside a background":
        return spec.replace(background_pairs=chance.randint(1, 2), background_workload="flowgen", **_isolated(spec))
    if kind == "beside interference":
        workers = {"interference_workers": chance.randint(1, 2), "interference_load": chance.choice([0.3, 1.0])}
        return spec.replace(**workers)
    return spec


def _isolated(spec: Spec) -> dict[str, str]:
    return {"driver": "bridge"} if spec.driver == "host" else {}
