"""The traffic of each client's link over time, by the kernel's counters, independent of tools' reports."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pairlab.testbed.contracts import Site
from pairlab.testbed.host.link_recorder import LinkRecorder
from pairlab.testbed.process_launcher import Process

#: Samples of one measurement, their least interval, and its least per link: reading a link takes about 60 µs.
SAMPLES, LEAST_S, LEAST_S_PER_LINK = 20, 0.1, 0.01
#: A client has begun once its link has sent this share of its total: a handshake is less.
BEGUN_SHARE = 0.01


class LinkTelemetry:
    """Records the traffic of processes' links, in a namespace each, while its block runs (a context manager).

    lasts_s: the sending time; 0: unknown. Enter the block when the processes are ready, and leave it before the testbed
    is removed.
    """

    def __init__(self, processes: Sequence[Process], site: Site, lasts_s: float):
        every_s = max(lasts_s / SAMPLES, LEAST_S, LEAST_S_PER_LINK * len(processes))
        remote = site.link_recorder([each.slot for each in processes], every_s)
        self._recorder = remote or LinkRecorder(processes, site.interface, every_s)

    def __enter__(self) -> "LinkTelemetry":
        self._recorder.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._recorder.__exit__(*raised)

    def silent_until_s(self, release_ns: int) -> list[float | None]:
        """The time from the release by which each client had certainly not begun to send; None: invisible."""
        moments_s, sent_bytes, _ = self._series(release_ns)
        silent_s: list[float | None] = []
        for client in range(sent_bytes.shape[1]):
            sent = sent_bytes[:, client] - sent_bytes[0, client]
            if np.isnan(sent).any() or not sent[-1]:
                silent_s.append(None)
            else:
                before = np.flatnonzero(sent < BEGUN_SHARE * sent[-1])
                silent_s.append(max(0.0, float(moments_s[before[-1]])))
        return silent_s

    def total_bps(self, release_ns: int, begin_s: float, end_s: float) -> list[float]:
        """The total rate of all links in bit/s, with headers, between consecutive samples from begin_s to end_s.

        Empty if a client is invisible.
        """
        moments_s, sent_bytes, _ = self._series(release_ns)
        steps = _steps(moments_s, sent_bytes.sum(axis=1), begin_s, end_s)
        return [] if steps is None else (8 * steps[1] / steps[0]).tolist()

    def steps(
        self, release_ns: int, begin_s: float, end_s: float, client: int | None = None
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Durations and packets between consecutive samples from begin_s to end_s, of that client's link, or of all
        links together; None if a client is invisible.
        """
        moments_s, _, packets = self._series(release_ns)
        return _steps(moments_s, packets.sum(axis=1) if client is None else packets[:, client], begin_s, end_s)

    def _series(self, release_ns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The moments, in seconds from the release, and bytes and packets by moment and client; NaN: invisible."""
        samples = self._recorder.samples
        moments_s = (np.array(samples.moments_ns, float) - release_ns) / 1e9
        sent = np.array(samples.sent, float)
        return moments_s, sent[..., 0], sent[..., 1]


def _steps(
    moments_s: np.ndarray, counts: np.ndarray, begin_s: float, end_s: float
) -> tuple[np.ndarray, np.ndarray] | None:
    if np.isnan(counts).any():
        return None
    within = (moments_s >= begin_s) & (moments_s <= end_s)
    return np.diff(moments_s[within]), np.diff(counts[within])
