"""What each client's link has sent, over time: the kernel's own account of who sent when, whatever tools report."""

import contextlib
import os
import resource
import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pairlab.testbed.host.link_counters import sent_in
from pairlab.testbed.host.ticker import Ticker
from pairlab.testbed.launch.conductor import Process

#: Samples of one measurement, the least time between two, and of each of them per link: reading one takes about 60 µs.
SAMPLES, LEAST_S, LEAST_S_PER_LINK = 20, 0.1, 0.01
#: A client has begun when its link has sent this share of all that it sends: a handshake is less.
BEGUN_SHARE = 0.01
#: Enough for thirty links; an endpoint has two, and a few more where the kernel has tunnels.
_TABLE_BYTES = 1 << 12
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
        self._bytes: int | None = None  # at the last call of sent_bps

    def open(self) -> None:
        """From now on it counts. A process that cannot be seen, or that is not ours to look at, stays unseen."""
        if self._process.pid and not self._process.over:
            with contextlib.suppress(OSError):
                self._file = os.open(f"/proc/{self._process.pid}/net/dev", os.O_RDONLY | os.O_CLOEXEC)
            self._bytes = self.sent_bytes()

    def sent_bytes(self) -> int | None:
        """Since it was made; None: not to be seen."""
        if self._file is None:
            return None
        try:
            sent = sent_in(os.pread(self._file, _TABLE_BYTES, 0).decode()).get(self._interface)
        except (OSError, ValueError):
            return None
        return sent[0] if sent else None

    def sent_bps(self, passed_s: float) -> float | None:
        """Bits per second since the last call; None: not to be seen. Of one that is over, and has no link: 0."""
        before, now = self._bytes, self.sent_bytes()
        if before is None or now is None:
            return 0.0 if self._process.over else None
        self._bytes = now
        return (now - before) * 8 / passed_s

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class LinkTelemetry:
    """Samples the links of these clients, each in a namespace of its own, while its block runs (a context manager).

    lasts_s: how long they send. Enter the block when they are ready, and leave it before the testbed goes.
    """

    def __init__(self, clients: Sequence[Process], interface: str, lasts_s: float):
        self._counters = [LinkCounter(each, interface) for each in clients]
        self._moments_ns: list[int] = []
        self._sent_bytes: list[list[float]] = []
        every_s = max(lasts_s / SAMPLES, LEAST_S, LEAST_S_PER_LINK * len(clients))
        self._ticker = Ticker(every_s, self._sample, "link-telemetry")

    def __enter__(self) -> "LinkTelemetry":
        if may_open(len(self._counters)):
            for each in self._counters:
                each.open()
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
        moments_s, sent_bytes = self._series(release_ns)
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
        moments_s, sent_bytes = self._series(release_ns)
        if np.isnan(sent_bytes).any():
            return []
        totals = sent_bytes.sum(axis=1)
        within = np.flatnonzero((moments_s >= begin_s) & (moments_s <= end_s))
        return [
            float(8 * (totals[later] - totals[earlier]) / (moments_s[later] - moments_s[earlier]))
            for earlier, later in pairwise(within)
        ]

    def _series(self, release_ns: int) -> tuple[np.ndarray, np.ndarray]:
        """The moments, in seconds from the release, and by moment and client the bytes; NaN where one is not seen."""
        moments_s = (np.array(self._moments_ns, float) - release_ns) / 1e9
        return moments_s, np.array(self._sent_bytes, float).reshape(len(moments_s), len(self._counters))

    def _sample(self) -> None:
        self._moments_ns.append(time.monotonic_ns())
        sent = [each.sent_bytes() for each in self._counters]
        self._sent_bytes.append([float("nan") if each is None else each for each in sent])


def may_open(files: int) -> bool:
    """Whether so many more open files leave the measurement enough for its own."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return len(os.listdir("/proc/self/fd")) + files + _SPARE_FILES <= most
