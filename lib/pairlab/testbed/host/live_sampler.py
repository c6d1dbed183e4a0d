"""Live samples of a running measurement: the rate of each client's link, transaction latencies, and CPU use.

Rates come from the kernel's counters, read from outside: /proc/PID/net/dev of each client's launcher, which is in the
client's network namespace. Nothing runs in there, and nothing is sent. Invisible values are None, never an error.
Latencies come from the histograms of flowgen's clients: each is a file in memory that is read without the client's
involvement or any system call of its own (lib/flowgen/src/histogram.h).
"""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pairlab.testbed.contracts import Site
from pairlab.testbed.host.cpu_sampler import STAT, shares_between, times_by_cpu, times_of_all
from pairlab.testbed.host.link_recorder import LinkCounter, may_open
from pairlab.testbed.process_launcher import Process

#: The interval of samples.
EVERY_S = 0.5

#: HISTOGRAM_FILE, HISTOGRAM_BITS and HISTOGRAM_MOST_BITS of histogram.h, and the resulting number of buckets.
_LINK, _BITS, _MOST_BITS = "/memfd:flowgen-latencies", 10, 40
BUCKETS = (_MOST_BITS - _BITS + 1) << _BITS
_BYTES = 8 * BUCKETS
#: The largest number of a client's connections that are read.
_MOST_CONNECTIONS = 16


@dataclass(frozen=True)
class Sample:
    """The measurement's state at one moment; rates and shares are since the previous sample, or the release.

    elapsed_s: since the release. total_s: the clients' sending time (Spec.traffic_s). client_bps: each pair's sending
    rate, by its client's link, its server's or both (Spec.direction), link-layer headers included; None: invisible,
    for example on a shared loopback. total_bps: of all clients together, or of that loopback if only they use it. usr,
    sys, softirq: shares of all CPUs' time. latency_*_s, transactions_per_s: of all clients' counted transactions;
    None: none, or not shown by their tool. hosts_busy: for each host with a kernel of its own, by name, the busy share
    of its CPU.
    """

    elapsed_s: float
    total_s: float
    client_bps: tuple[float | None, ...]
    total_bps: float | None
    usr: float
    sys: float
    softirq: float
    transactions_per_s: float | None = None
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    hosts_busy: Mapping[str, float] = field(default_factory=dict)


#: Called with each sample.
Watch = Callable[[Sample], None]


class Sampler:
    """Samples these processes, which send when they are released, for `watch`. A context manager.

    clients: the senders of all pairs; with two per pair, all pairs' first senders come first. pairs: their number;
    0: as many as senders. alone: whether no other pairs of the testbed send. timing: the processes with histograms of
    latencies.
    """

    def __init__(
        self,
        clients: Sequence[Process],
        site: Site,
        isolated: bool,
        total_s: float,
        watch: Watch,
        alone: bool = True,
        pairs: int = 0,
        timing: Sequence[Process] = (),
    ):
        self._total_s = total_s
        self._watch = watch
        self._isolated = isolated
        self._pairs = pairs or len(clients)
        running = [each for each in clients if not each.ended]
        by_host = {site.hosts.get(each.endpoint.name, 0): each for each in running}
        shared = list(by_host.values()) if site.interface_is_own and alone else []
        self._latencies = LiveLatencies(timing)
        kernels = site.facts().get("kernels", ())
        self._cpu_of_host = {each["name"]: int(each["cpu"]) for each in kernels if "cpu" in each}
        self._each_cpu = times_by_cpu() if self._cpu_of_host else {}
        self._counters = [LinkCounter(each, site.interface) for each in (clients if isolated else shared)]
        self._last_s = 0.0
        self._has_sampled = False
        self._shares = dict.fromkeys(("usr", "sys", "softirq"), 0.0)

    def __enter__(self) -> "Sampler":
        self._cpu = times_of_all(STAT.read_text())
        if may_open(len(self._counters)):
            for each in self._counters:
                each.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._latencies.close()
        for each in self._counters:
            each.close()

    def look(self, elapsed_s: float, last: bool = False) -> None:
        """Reports a sample at that time since the release, unless the previous one is too recent.

        last: no other follows, so that a measurement shorter than an interval has a sample, too.
        """
        passed_s = elapsed_s - self._last_s
        if passed_s <= 0 or (passed_s < EVERY_S / 2 and not (last and not self._has_sampled)):
            return
        self._last_s, self._has_sampled = elapsed_s, True
        client_bps, total_bps = self._rates(passed_s)
        latencies = self._latencies.since(passed_s)
        values = self._shares_since() | (latencies._asdict() if latencies else {})
        busy = self._hosts_busy()
        self._watch(Sample(elapsed_s, self._total_s, client_bps, total_bps, hosts_busy=busy, **values))

    def _rates(self, passed_s: float) -> tuple[tuple[float | None, ...], float | None]:
        """Each pair's rate, and the total."""
        rates = [each.sent_bps(passed_s) for each in self._counters]
        if not self._isolated:
            return (None,) * self._pairs, _sum(rates)
        return tuple(_sum(rates[pair :: self._pairs]) for pair in range(self._pairs)), _sum(rates)

    def _shares_since(self) -> dict[str, float]:
        before, self._cpu = self._cpu, times_of_all(STAT.read_text())
        shares = shares_between(before, self._cpu)
        self._shares = {name: shares.get(name, share) for name, share in self._shares.items()}
        return self._shares

    def _hosts_busy(self) -> dict[str, float]:
        if not self._cpu_of_host:
            return {}
        before, self._each_cpu = self._each_cpu, times_by_cpu()
        since = {host: shares_between(before[cpu], self._each_cpu[cpu]) for host, cpu in self._cpu_of_host.items()}
        return {host: 1 - shares.get("idle", 0.0) - shares.get("iowait", 0.0) for host, shares in since.items()}


def _sum(rates: Sequence[float | None]) -> float | None:
    visible = [rate for rate in rates if rate is not None]
    return sum(visible) if visible and len(visible) == len(rates) else None


def next_s(passed_s: float) -> float:
    """The next moment of the samples' grid, which does not drift."""
    return (passed_s // EVERY_S + 1) * EVERY_S


class Latencies(NamedTuple):
    """Transactions since the previous sample: their rate, and the quantiles of their latencies."""

    transactions_per_s: float
    latency_p50_s: float
    latency_p99_s: float


@functools.cache
def buckets_s() -> np.ndarray:
    """Each bucket's latency in s: histogram_value of histogram.h."""
    number = np.arange(BUCKETS, dtype=np.int64)
    shift = np.maximum((number >> _BITS) - 1, 0)
    middle = ((number - (shift << _BITS)) << shift) + (1 << np.maximum(shift - 1, 0))
    return np.where(number < 2 << _BITS, number, middle) / 1e9


class LiveLatencies:
    """Reads the histograms of these launchers' clients, until it is closed."""

    def __init__(self, launchers: Sequence[Process]):
        self._launchers = list(launchers)
        self._files: list[int] = []
        self._before = np.zeros(BUCKETS, np.uint64)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []

    def since(self, passed_s: float) -> Latencies | None:
        """Transactions since the last call, passed_s ago; None: there were none, or none are visible."""
        for each in self._launchers[:]:
            if files := _histograms(each.pid):
                self._files += files
                self._launchers.remove(each)
        counts = sum(map(_counts, self._files), np.zeros(BUCKETS, np.uint64))
        new, self._before = counts - self._before, counts
        if not (total := int(new.sum())):
            return None
        p50_s, p99_s = buckets_s()[np.searchsorted(np.cumsum(new), [0.5 * total, 0.99 * total])]
        return Latencies(total / passed_s, float(p50_s), float(p99_s))


def _histograms(launcher: int) -> list[int]:
    """Open descriptors of the histograms of a launcher's children; empty if they do not exist yet, or are invisible."""
    files: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
            for link in Path(f"/proc/{child}/fd").iterdir():
                if os.readlink(link).startswith(_LINK):
                    files.append(os.open(link, os.O_RDONLY | os.O_CLOEXEC))
    return files


def _counts(file: int) -> np.ndarray:
    """The sum of the connections' histograms. Read, not mapped: the file is a container's, which may truncate it."""
    read = os.pread(file, _MOST_CONNECTIONS * _BYTES, 0)
    whole = len(read) // _BYTES
    return np.frombuffer(read, np.uint64, whole * BUCKETS).reshape(whole, BUCKETS).sum(axis=0, dtype=np.uint64)
