"""What a measurement looks like while it runs: what each client's link sends, and what the CPUs do.

The kernel's own counters are read from outside: /proc/PID/net/dev of each client's launcher, which lives in the
client's network namespace. Nothing runs in there, and nothing is sent. What cannot be seen is None, never an error.
"""

import contextlib
import os
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from pairlab.testbed.contracts import Site
from pairlab.testbed.host.cpu_sampler import shares_between
from pairlab.testbed.host.link_counters import sent_in
from pairlab.testbed.launch.conductor import Process

#: How far apart samples are.
EVERY_S = 0.5
#: Enough for thirty links; an endpoint has two, and a few more where the kernel has tunnels.
_TABLE_BYTES = 1 << 12
#: Files that are left to the measurement itself.
_SPARE_FILES = 100


@dataclass(frozen=True)
class Sample:
    """How it goes at one moment; rates and shares are since the sample before, or the release.

    elapsed_s: since the release. total_s: how long clients send (Spec.total_s). client_bps: bits per second that each
    client's link sent, by pair, link-layer headers included; None: it cannot be seen, as where all share a loopback.
    total_bps: of all clients together, or of that loopback where nobody else uses it. usr, sys, softirq: shares of the
    time of all CPUs.
    """

    elapsed_s: float
    total_s: float
    client_bps: tuple[float | None, ...]
    total_bps: float | None
    usr: float
    sys: float
    softirq: float


#: Told each sample.
Watch = Callable[[Sample], None]


class Sampler:
    """Samples these clients, which are ready and not yet released, for `watch`. A context manager."""

    def __init__(self, clients: Sequence[Process], site: Site, isolated: bool, total_s: float, watch: Watch):
        self._total_s = total_s
        self._watch = watch
        self._isolated = isolated
        self._pairs = len(clients)
        running = [each for each in clients if not each.over]
        shared = running[:1] if site.loopback_is_own else []
        self._counters = [LinkCounter(each, site.interface) for each in (clients if isolated else shared)]
        self._last_s = 0.0
        self._told = False
        self._shares = dict.fromkeys(("usr", "sys", "softirq"), 0.0)

    def __enter__(self) -> "Sampler":
        self._cpu = psutil.cpu_times()
        if _may_open(len(self._counters)):
            for each in self._counters:
                each.open()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._counters:
            each.close()

    def look(self, elapsed_s: float, last: bool = False) -> None:
        """Tells a sample, at that time since the release, if enough has passed since the one before to say something.

        last: nothing comes after this, so that a measurement that is shorter than an interval has a sample, too.
        """
        passed_s = elapsed_s - self._last_s
        if passed_s <= 0 or (passed_s < EVERY_S / 2 and not (last and not self._told)):
            return
        self._last_s, self._told = elapsed_s, True
        self._watch(Sample(elapsed_s, self._total_s, *self._rates(passed_s), **self._shares_since()))

    def _rates(self, passed_s: float) -> tuple[tuple[float | None, ...], float | None]:
        """Each client's, and that of all."""
        rates = tuple(each.sent_bps(passed_s) for each in self._counters)
        total = None if None in rates or not rates else sum(rates)
        return (rates if self._isolated else (None,) * self._pairs), total

    def _shares_since(self) -> dict[str, float]:
        before, self._cpu = self._cpu, psutil.cpu_times()
        found = shares_between(before, self._cpu)
        self._shares = {name: found.get(name, share) for name, share in self._shares.items()}
        return self._shares


class LinkCounter:
    """What a process's link has sent, in whatever network namespace that process lives.

    The open file keeps the namespace, so counting goes on when the process has ended, and must end before the testbed.
    """

    def __init__(self, process: Process, interface: str):
        self._process = process
        self._interface = interface
        self._file: int | None = None
        self._bytes: int | None = None

    def open(self) -> None:
        """From now on it counts. A process that cannot be seen, or that is not ours to look at, stays unseen."""
        if self._process.pid and not self._process.over:
            with contextlib.suppress(OSError):
                self._file = os.open(f"/proc/{self._process.pid}/net/dev", os.O_RDONLY | os.O_CLOEXEC)
            self._bytes = self._read()

    def sent_bps(self, passed_s: float) -> float | None:
        """Bits per second since the last call; None: not to be seen. Of one that is over, and has no link: 0."""
        before, now = self._bytes, self._read()
        if before is None or now is None:
            return 0.0 if self._process.over else None
        self._bytes = now
        return (now - before) * 8 / passed_s

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> int | None:
        if self._file is None:
            return None
        try:
            sent = sent_in(os.pread(self._file, _TABLE_BYTES, 0).decode()).get(self._interface)
        except (OSError, ValueError):
            return None
        return sent[0] if sent else None


def next_s(passed_s: float) -> float:
    """The next moment of the grid of samples, which does not drift with what each of them takes."""
    return (passed_s // EVERY_S + 1) * EVERY_S


def _may_open(files: int) -> bool:
    """Whether so many more open files leave the measurement enough for its own."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")) + files + _SPARE_FILES <= most
