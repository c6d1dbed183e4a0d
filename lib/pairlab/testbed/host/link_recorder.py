"""Samples the traffic that processes' links send, on a grid of times, in the kernel of these links."""

import contextlib
import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from pairlab.testbed.host.kernel_counters import sent_in
from pairlab.testbed.host.ticker import Ticker

#: Enough for thirty links; an endpoint has two, and a few more if the kernel has tunnels.
_TABLE_BYTES = 1 << 12
#: Open files reserved for the measurement itself.
_SPARE_FILES = 100


class Counted(Protocol):
    """A process in the network namespace of a counted link. pid 0: invisible from here."""

    pid: int
    ended: bool


class LinkCounter:
    """The traffic sent by a process's link, in that process's network namespace.

    The open file keeps the namespace: counting continues after the process's end, and must stop before the testbed's.
    """

    def __init__(self, process: Counted, interface: str):
        self._process = process
        self._interface = interface
        self._file: int | None = None
        self._bytes: int | None = None  # at the last call of sent_bps

    def open(self) -> None:
        """Starts counting. Without access to the process's files, the link stays invisible."""
        if self._process.pid and not self._process.ended:
            with contextlib.suppress(OSError):
                self._file = os.open(f"/proc/{self._process.pid}/net/dev", os.O_RDONLY | os.O_CLOEXEC)
            self._bytes = self.sent_bytes()

    def sent(self) -> tuple[int, int] | None:
        """Bytes and packets sent since the link's creation; None: invisible."""
        if self._file is None:
            return None
        try:
            return sent_in(os.pread(self._file, _TABLE_BYTES, 0).decode()).get(self._interface)
        except (OSError, ValueError):
            return None

    def sent_bytes(self) -> int | None:
        """Bytes sent since the link's creation; None: invisible."""
        sent = self.sent()
        return sent[0] if sent else None

    def sent_bps(self, passed_s: float) -> float | None:
        """Bits per second since the last call; None: invisible; 0 for a process that has ended, without a link."""
        before, now = self._bytes, self.sent_bytes()
        if before is None or now is None:
            return 0.0 if self._process.ended else None
        self._bytes = now
        return (now - before) * 8 / passed_s

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None


@dataclass
class LinkSamples:
    """Samples by moment, CLOCK_MONOTONIC in ns, and then by process.

    sent: bytes and packets; NaN: invisible.
    """

    moments_ns: list[int] = field(default_factory=list)
    sent: list[list[tuple[float, float]]] = field(default_factory=list)


class LinkRecorder(Ticker):
    """Samples the links of these processes while its block runs (a context manager).

    every_s: the interval. Enter the block when the processes are ready, and leave it before the testbed is removed;
    `samples` is complete then.
    """

    def __init__(self, processes: Sequence[Counted], interface: str, every_s: float):
        super().__init__(every_s, self.sample, "link-telemetry")
        self.samples = LinkSamples()
        self._counters = [LinkCounter(each, interface) for each in processes]

    def __enter__(self) -> Self:
        if may_open(len(self._counters)):
            for each in self._counters:
                each.open()
        return super().__enter__()

    def __exit__(self, kind: object, *raised: object) -> None:
        try:
            super().__exit__(kind, *raised)
        finally:
            for each in self._counters:
                each.close()

    def sample(self) -> None:
        self.samples.moments_ns.append(time.monotonic_ns())
        self.samples.sent.append([each.sent() or (float("nan"), float("nan")) for each in self._counters])


def may_open(files: int) -> bool:
    """Whether that many more open files leave enough for the measurement itself."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")) + files + _SPARE_FILES <= most
