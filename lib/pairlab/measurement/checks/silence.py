"""Time without progress: by the kernel's counters of who sends, each flow by itself and all together; where no link is
a flow's own, by what its tool reported.

A stall is no outlier where it lasts for half of a run: so silence is judged as silence.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pairlab.measurement.checks.steady_state import SILENT
from pairlab.testbed.host.link_telemetry import LinkTelemetry, Steps

#: Where no step has so many packets, one without any may be chance.
LEAST_PACKETS = 20
#: A silence after a segment was sent again is the network's for so many times as long as it had lasted before, and for
#: so long at least: timeouts double (RFC 6298), from 0.2 s on in Linux.
TIMEOUTS, LEAST_TIMEOUT_S = 2.5, 0.5
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
    its silence is a result. Where nothing was sent again, whoever sends or receives stood still; so too where the next
    timeout, of twice the time, is long over: a receiver whose buffer is full drops a segment, and then answers for it.
    0 where no step has LEAST_PACKETS.
    """
    if not len(steps.packets) or steps.packets.max() < LEAST_PACKETS:
        return 0.0
    most_per_s = SILENT * float((steps.packets / steps.took_s).max())
    stood = [part for run in _runs(~np.isnan(steps.again)) for part in _unexcused(steps, run)]
    return max((_longest_below_s(steps.took_s[run], steps.packets[run], most_per_s) for run in stood), default=0.0)


def _unexcused(steps: Steps, run: slice) -> list[slice]:
    """The parts of a quiet time that no segment sent again explains: all of it, or what is longer than a timeout."""
    ends_s = np.cumsum(steps.took_s[run])
    sent = run.start + 1 + np.flatnonzero(np.diff(steps.again[run]) > 0)  # the steps in which one was sent again
    if not len(sent):
        return [run]
    parts = []
    for begin, end in itertools.pairwise([*sent, run.stop]):
        since_s = float(ends_s[begin - run.start])
        if float(steps.took_s[begin + 1 : end].sum()) > max(LEAST_TIMEOUT_S, TIMEOUTS * since_s):
            parts.append(slice(begin + 1, end))
    return parts


def _longest_below_s(took_s: np.ndarray, packets: np.ndarray, most_per_s: float) -> float:
    """The longest of all stretches of these steps with no more packets a second; 0 where there is none."""
    ends_s, sent = (np.concatenate([[0.0], np.cumsum(values)]) for values in (took_s, packets))
    lasted_s, carried = np.subtract.outer(ends_s, ends_s), np.subtract.outer(sent, sent)
    return float(lasted_s[carried <= most_per_s * lasted_s].max())


def of_intervals(intervals: Sequence[Mapping[str, Any]], interval_s: float, begin_s: float) -> float | None:
    """The longest time, in s, after begin_s, in which a flow sent next to nothing, by what its tool reported.

    Who stands still does not report either: such an interval is longer than interval_s, and what it carried was sent
    in a part of it, at the flow's usual rate. 0 of flows that send nothing in most intervals.

    intervals: rows of the table `intervals`, of all flows; None where there are none.
    """
    flows: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in intervals:
        if row["end_s"] > max(row["start_s"], begin_s):
            flows.setdefault((row["pair"], row["flow"]), []).append(row)
    return max((_of_a_flow_s(rows, interval_s, begin_s) for rows in flows.values()), default=None)


def _of_a_flow_s(rows: Sequence[Mapping[str, Any]], interval_s: float, begin_s: float) -> float:
    start_s, end_s, carried_bytes = (
        np.array([row[name] for row in rows], float) for name in ("start_s", "end_s", "interval_bytes")
    )
    took_s = end_s - start_s
    if not (usual_per_s := float(np.median(carried_bytes / took_s))):
        return 0.0
    sending_s = np.minimum(took_s, np.maximum(interval_s, carried_bytes / usual_per_s))
    silent = carried_bytes / sending_s < SILENT * usual_per_s
    counted_s = np.minimum(took_s, end_s - begin_s)
    idle_s = np.minimum(took_s - sending_s, counted_s)
    parts_s, idle = np.column_stack([counted_s - idle_s, idle_s]), np.ones(len(rows), bool)
    return longest_run_s(parts_s.ravel(), np.column_stack([silent, idle]).ravel())


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
