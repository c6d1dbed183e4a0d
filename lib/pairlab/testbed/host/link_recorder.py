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

#: A step is quiet if the link sent no more packets than this: a window probe, or a retransmitted segment; or no more
#: than this share of the busiest earlier step: a stalled receiver may find room for a few segments now and then, as its
#: kernel compacts unread data.
QUIET_PACKETS, QUIET_SHARE = 1, 0.1
#: Enough for thirty links; an endpoint has two, and a few more if the kernel has tunnels.
_TABLE_BYTES = 1 << 12
#: Enough for net/snmp.
_COUNTS_BYTES = 1 << 14
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
        self._counts: int | None = None
        self._bytes: int | None = None  # at the last call of sent_bps

    def open(self, with_retransmitted: bool = False) -> None:
        """Starts counting. Without access to the process's files, the link stays invisible."""
        if self._process.pid and not self._process.ended:
            with contextlib.suppress(OSError):
                self._file = os.open(f"/proc/{self._process.pid}/net/dev", os.O_RDONLY | os.O_CLOEXEC)
                if with_retransmitted:
                    self._counts = os.open(f"/proc/{self._process.pid}/net/snmp", os.O_RDONLY | os.O_CLOEXEC)
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

    def retransmitted(self) -> float:
        """Retransmitted segments of its namespace so far (RetransSegs, proc_pid_net(5)); 0 if invisible."""
        return self.counted("Tcp:", "RetransSegs") or 0.0

    def counted(self, protocol: str, name: str) -> float | None:
        """The namespace's counter of that name (proc_pid_net(5)); None: invisible."""
        if self._counts is None:
            return None
        try:
            lines = os.pread(self._counts, _COUNTS_BYTES, 0).decode().splitlines()
            names, values = (line.split() for line in lines if line.startswith(protocol))
            return float(values[names.index(name)])
        except (OSError, ValueError):
            return None

    def sent_bps(self, passed_s: float) -> float | None:
        """Bits per second since the last call; None: invisible; 0 for a process that has ended, without a link."""
        before, now = self._bytes, self.sent_bytes()
        if before is None or now is None:
            return 0.0 if self._process.ended else None
        self._bytes = now
        return (now - before) * 8 / passed_s

    def close(self) -> None:
        for file in (self._file, self._counts):
            if file is not None:
                os.close(file)
        self._file = self._counts = None


class DatagramCounter(LinkCounter):
    """The datagrams that programs in a process's network namespace have read from their sockets."""

    def sent(self) -> tuple[int, int] | None:
        """The number of datagrams twice, in place of a link's bytes and packets; None: invisible."""
        datagrams = self.counted("Udp:", "InDatagrams")
        return None if datagrams is None else (int(datagrams), int(datagrams))


@dataclass
class LinkSamples:
    """Samples by moment, CLOCK_MONOTONIC in ns, and then by process.

    sent: bytes and packets; NaN: invisible. again: the namespace's retransmitted segments by the end of a quiet step
    (QUIET_PACKETS); NaN for other steps.
    """

    moments_ns: list[int] = field(default_factory=list)
    sent: list[list[tuple[float, float]]] = field(default_factory=list)
    again: list[list[float]] = field(default_factory=list)


class LinkRecorder(Ticker):
    """Samples the links of these processes while its block runs (a context manager).

    every_s: the interval. counter: of other values than links' traffic. Enter the block when the processes are ready,
    and leave it before the testbed is removed; `samples` is complete then.
    """

    def __init__(
        self, processes: Sequence[Counted], interface: str, every_s: float, counter: type[LinkCounter] = LinkCounter
    ):
        super().__init__(every_s, self.sample, "link-telemetry")
        self.samples = LinkSamples()
        self._counters = [counter(each, interface) for each in processes]
        self._most = [0.0] * len(processes)  # packets of the busiest step so far

    def __enter__(self) -> Self:
        if may_open(2 * len(self._counters)):
            for each in self._counters:
                each.open(with_retransmitted=True)
        return super().__enter__()

    def __exit__(self, kind: object, *raised: object) -> None:
        try:
            super().__exit__(kind, *raised)
        finally:
            for each in self._counters:
                each.close()

    def sample(self) -> None:
        self.samples.moments_ns.append(time.monotonic_ns())
        sent = [each.sent() or (float("nan"), float("nan")) for each in self._counters]
        previous = self.samples.sent[-1] if self.samples.sent else sent
        steps = [now[1] - earlier[1] for now, earlier in zip(sent, previous, strict=True)]
        self.samples.sent.append(sent)
        self.samples.again.append(
            [
                each.retransmitted() if packets <= max(QUIET_PACKETS, QUIET_SHARE * most) else float("nan")
                for each, packets, most in zip(self._counters, steps, self._most, strict=True)
            ]
        )
        self._most = list(map(max, self._most, steps))


def may_open(files: int) -> bool:
    """Whether that many more open files leave enough for the measurement itself."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")) + files + _SPARE_FILES <= most
