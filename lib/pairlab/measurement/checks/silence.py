"""Time without progress: by the kernel's counters of who sends, each flow by itself and all together.

A stall is no outlier where it lasts for half of a run: so silence is judged as silence.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from pairlab.measurement.checks.steady_state import SILENT
from pairlab.testbed.host.link_telemetry import LinkTelemetry, Steps

#: Where no step has so many packets, one without any may be chance.
LEAST_PACKETS = 20
#: The payload of a segment of TCP over links of 1500 bytes: where only bytes are known, so many are one packet.
SEGMENT_BYTES = 1448


def longest_s(links: LinkTelemetry, release_ns: int, spans_s: Mapping[int, tuple[float, float]]) -> float | None:
    """The longest time in which one of these clients was silent (of_steps); None where one cannot be seen.

    spans_s: by the client's place among the links, from when to when it is to send, from the release.
    """
    steps = [links.steps(release_ns, client, *span_s) for client, span_s in spans_s.items()]
    known = [each for each in steps if each is not None]
    return max(map(of_steps, known), default=None) if len(known) == len(steps) else None


def of_steps(steps: Steps) -> float:
    """The longest time, in s, in which a link sent next to nothing (less than SILENT of the busiest step's packets a
    second), and nothing again.

    A flow that waits for what the network lost sends a segment again, at the latest after the first timeout (RFC 6298):
    its silence is a result. Where nothing was sent again, whoever sends or receives stood still. 0 where no step has
    LEAST_PACKETS.
    """
    if not len(steps.packets) or steps.packets.max() < LEAST_PACKETS:
        return 0.0
    most_per_s = SILENT * float((steps.packets / steps.took_s).max())
    stood = [run for run in _runs(~np.isnan(steps.again)) if steps.again[run][-1] == steps.again[run][0]]
    return max((_longest_below_s(steps.took_s[run], steps.packets[run], most_per_s) for run in stood), default=0.0)


def _longest_below_s(took_s: np.ndarray, packets: np.ndarray, most_per_s: float) -> float:
    """The longest of all stretches of these steps with no more packets a second; 0 where there is none."""
    ends_s, sent = (np.concatenate([[0.0], np.cumsum(values)]) for values in (took_s, packets))
    lasted_s, carried = np.subtract.outer(ends_s, ends_s), np.subtract.outer(sent, sent)
    return float(lasted_s[carried <= most_per_s * lasted_s].max())


def longest_run_s(took_s: np.ndarray, silent: np.ndarray) -> float:
    """The longest time of silent steps, one after the other."""
    return max((float(took_s[run].sum()) for run in _runs(silent)), default=0.0)


def _runs(silent: np.ndarray) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], silent, [False]]).astype(int)))
    return [slice(begin, end) for begin, end in edges.reshape(-1, 2)]


def share(links: LinkTelemetry, release_ns: int, begin_s: float, end_s: float) -> float | None:
    """In which share of that time all links together sent less than SILENT of what they sent in the busiest step.

    None where a client cannot be seen, or no step has LEAST_PACKETS.
    """
    steps = links.total_steps(release_ns, begin_s, end_s)
    return None if steps is None else _share(*steps)


def share_of_steps(steps_bytes: Sequence[float]) -> float | None:
    """The same of steps that all took as long, of which the payload is known."""
    return _share(np.ones(len(steps_bytes)), np.asarray(steps_bytes, float) / SEGMENT_BYTES)


def _share(took_s: np.ndarray, packets: np.ndarray) -> float | None:
    if not len(packets) or packets.max() < LEAST_PACKETS:
        return None
    return float(took_s[packets < SILENT * packets.max()].sum() / took_s.sum())
