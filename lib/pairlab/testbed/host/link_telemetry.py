"""What each client's link has sent, over time: the kernel's own account of who sent when, whatever tools report."""

import contextlib
import os
import resource
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pairlab.testbed.host.link_counters import sent_in
from pairlab.testbed.host.ticker import Ticker
from pairlab.testbed.launch.conductor import Process

#: Samples of one measurement, the least time between two, and of each of them per link: reading one takes about 60 µs.
SAMPLES, LEAST_S, LEAST_S_PER_LINK = 20, 0.1, 0.01
#: A client has begun when its link has sent this share of all that it sends: a handshake is less.
BEGUN_SHARE = 0.01
#: A step in which a link sent no more packets than this is quiet: a window's probe, or a segment that is sent again. So
#: is one with no more than this share of the busiest step before: a receiver that stands still may find room for a few
#: segments now and then, as its kernel packs what lies unread.
QUIET_PACKETS, QUIET_SHARE = 1, 0.1
#: Enough for thirty links; an endpoint has two, and a few more where the kernel has tunnels.
_TABLE_BYTES = 1 << 12
#: Enough for net/snmp.
_COUNTS_BYTES = 1 << 14
#: Files that are left to the measurement itself.
_SPARE_FILES = 100


class LinkCounter:
    """What a process's link has sent, in whatever network namespace that process lives.

    The open file keeps the namespace, so counting goes on when the process has ended, and must end before the testbed.
    """

    def __init__(self, process: Process, interface: str):
        self._process = process
        self._interface = interface
        self._file: int | None = None
        self._counts: int | None = None
        self._bytes: int | None = None  # at the last call of sent_bps

    def open(self, with_retransmitted: bool = False) -> None:
        """From now on it counts. A process that cannot be seen, or that is not ours to look at, stays unseen."""
        if self._process.pid and not self._process.over:
            with contextlib.suppress(OSError):
                self._file = os.open(f"/proc/{self._process.pid}/net/dev", os.O_RDONLY | os.O_CLOEXEC)
                if with_retransmitted:
                    self._counts = os.open(f"/proc/{self._process.pid}/net/snmp", os.O_RDONLY | os.O_CLOEXEC)
            self._bytes = self.sent_bytes()

    def sent(self) -> tuple[int, int] | None:
        """Bytes and packets, since it was made; None: not to be seen."""
        if self._file is None:
            return None
        try:
            return sent_in(os.pread(self._file, _TABLE_BYTES, 0).decode()).get(self._interface)
        except (OSError, ValueError):
            return None

    def sent_bytes(self) -> int | None:
        """Since it was made; None: not to be seen."""
        sent = self.sent()
        return sent[0] if sent else None

    def retransmitted(self) -> float:
        """Segments that its namespace sent again, so far (RetransSegs, proc_pid_net(5)); 0 where it cannot be seen."""
        return self.counted("Tcp:", "RetransSegs") or 0.0

    def counted(self, protocol: str, name: str) -> float | None:
        """What its namespace counts by that name so far (proc_pid_net(5)); None where it cannot be seen."""
        if self._counts is None:
            return None
        try:
            lines = os.pread(self._counts, _COUNTS_BYTES, 0).decode().splitlines()
            names, values = (line.split() for line in lines if line.startswith(protocol))
            return float(values[names.index(name)])
        except (OSError, ValueError):
            return None

    def sent_bps(self, passed_s: float) -> float | None:
        """Bits per second since the last call; None: not to be seen. Of one that is over, and has no link: 0."""
        before, now = self._bytes, self.sent_bytes()
        if before is None or now is None:
            return 0.0 if self._process.over else None
        self._bytes = now
        return (now - before) * 8 / passed_s

    def close(self) -> None:
        for file in (self._file, self._counts):
            if file is not None:
                os.close(file)
        self._file = self._counts = None


class DatagramCounter(LinkCounter):
    """The datagrams that programs in a process's network namespace have taken from their sockets."""

    def sent(self) -> tuple[int, int] | None:
        """The same number twice, as the packets of a link are told beside its bytes; None: not to be seen."""
        taken = self.counted("Udp:", "InDatagrams")
        return None if taken is None else (int(taken), int(taken))


class Steps(NamedTuple):
    """What a link did from each sample to the next: how long that was, the packets that it sent, and for quiet ones
    (QUIET_PACKETS), how many segments its namespace had sent again by their end; NaN for the others."""

    took_s: np.ndarray
    packets: np.ndarray
    again: np.ndarray


class LinkTelemetry:
    """Samples the links of these clients, each in a namespace of its own, while its block runs (a context manager).

    lasts_s: how long they send; 0: not known. counter: of what, if not of their links. Enter the block when they are
    ready, and leave it before the testbed goes.
    """

    def __init__(
        self,
        clients: Sequence[Process],
        interface: str,
        lasts_s: float,
        counter: type[LinkCounter] = LinkCounter,
    ):
        self._counters = [counter(each, interface) for each in clients]
        self._moments_ns: list[int] = []
        self._sent: list[list[tuple[float, float]]] = []
        self._again: list[list[float]] = []
        self._most = [0.0] * len(clients)  # packets in a step, so far
        every_s = max(lasts_s / SAMPLES, LEAST_S, LEAST_S_PER_LINK * len(clients))
        self._ticker = Ticker(every_s, self._sample, "link-telemetry")

    def __enter__(self) -> "LinkTelemetry":
        if may_open(2 * len(self._counters)):
            for each in self._counters:
                each.open(with_retransmitted=True)
        self._ticker.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._ticker.__exit__(*raised)
        finally:
            for each in self._counters:
                each.close()

    def silent_until_s(self, release_ns: int) -> list[float | None]:
        """Until when each client certainly had not begun to send, from the release; None: it cannot be seen."""
        moments_s, sent_bytes, _ = self._series(release_ns)
        found: list[float | None] = []
        for client in range(len(self._counters)):
            sent = sent_bytes[:, client] - sent_bytes[0, client]
            if np.isnan(sent).any() or not sent[-1]:
                found.append(None)
            else:
                silent = np.flatnonzero(sent < BEGUN_SHARE * sent[-1])
                found.append(max(0.0, float(moments_s[silent[-1]])))
        return found

    def total_bps(self, release_ns: int, begin_s: float, end_s: float) -> list[float]:
        """Bits per second that all links sent, with headers, between each two samples from begin_s to end_s.

        Empty where a client cannot be seen.
        """
        moments_s, sent_bytes, _ = self._series(release_ns)
        if np.isnan(sent_bytes).any():
            return []
        totals = sent_bytes.sum(axis=1)
        within = np.flatnonzero((moments_s >= begin_s) & (moments_s <= end_s))
        return [
            float(8 * (totals[later] - totals[earlier]) / (moments_s[later] - moments_s[earlier]))
            for earlier, later in pairwise(within)
        ]

    def total_steps(self, release_ns: int, begin_s: float, end_s: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Of the time between each two samples from begin_s to end_s: how long it was, and how many packets all links
        sent; None where a client cannot be seen."""
        moments_s, _, packets = self._series(release_ns)
        if np.isnan(packets).any():
            return None
        within = (moments_s >= begin_s) & (moments_s <= end_s)
        return np.diff(moments_s[within]), np.diff(packets.sum(axis=1)[within])

    def steps(self, release_ns: int, client: int, begin_s: float, end_s: float) -> Steps | None:
        """What that client's link sent between each two samples from begin_s to end_s; None: it cannot be seen."""
        moments_s, _, packets = self._series(release_ns)
        if np.isnan(packets[:, client]).any():
            return None
        within = (moments_s >= begin_s) & (moments_s <= end_s)
        again = np.array(self._again, float).reshape(packets.shape)[within, client]
        return Steps(np.diff(moments_s[within]), np.diff(packets[within, client]), again[1:])

    def _series(self, release_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The moments, in seconds from the release, and by moment and client bytes and packets; NaN: it is not seen."""
        moments_s = (np.array(self._moments_ns, float) - release_ns) / 1e9
        sent = np.array(self._sent, float).reshape(len(moments_s), len(self._counters), 2)
        return moments_s, sent[..., 0], sent[..., 1]

    def _sample(self) -> None:
        self._moments_ns.append(time.monotonic_ns())
        sent = [each.sent() or (float("nan"), float("nan")) for each in self._counters]
        before = self._sent[-1] if self._sent else sent
        steps = [now[1] - earlier[1] for now, earlier in zip(sent, before, strict=True)]
        self._sent.append(sent)
        self._again.append(
            [
                each.retransmitted() if packets <= max(QUIET_PACKETS, QUIET_SHARE * most) else np.nan
                for each, packets, most in zip(self._counters, steps, self._most, strict=True)
            ]
        )
        self._most = list(map(max, self._most, steps))


def may_open(files: int) -> bool:
    """Whether so many more open files leave the measurement enough for its own."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")) + files + _SPARE_FILES <= most
