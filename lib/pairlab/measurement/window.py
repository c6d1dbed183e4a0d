"""Which part of a timed flow counts: after the warm-up, and while all other clients send, too."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, reports


def counted_s(spec: Spec, pair: int, detected_s: float = 0.0) -> tuple[float, float]:
    """From when until when a timed flow of that pair counts, in s from when it began.

    Of clients that start one after the other, that is after the warm-up of the last one, until the first one has sent
    for its time. detected_s: warm-up detected beyond the spec's.
    """
    due_s = spec.due_s(pair)
    return spec.last_due_s - due_s + spec.warmup_s + detected_s, spec.total_s - due_s if due_s else math.inf


def expected_s(spec: Spec) -> float:
    """How long flows last, where that is known beforehand; 0: they have an end."""
    return 0.0 if spec.flows_end else spec.traffic_s


def of_background_s(spec: Spec, ended_s: float) -> tuple[float, float]:
    """From when until when the background's totals are taken, from the release: while the others count, or their flows
    end. ended_s: when the last client had ended.
    """
    begin_s, end_s = (0.0, ended_s) if spec.flow_bytes else (counted_s(spec, 0)[0], min(spec.total_s, ended_s))
    return (begin_s, end_s) if begin_s < end_s else (0.0, ended_s)


def window(measured: FlowReport, warmup_s: float, until_s: float = math.inf) -> FlowReport:
    """The flow without its warm-up, and until a moment: totals over whole intervals, all other columns unchanged.

    The duration is from the end of the last interval of the warm-up: a tool may report none while nothing gets on.
    Raises ValueError where there is no interval.
    """
    if not warmup_s and until_s == math.inf:
        return measured
    kept: list[Mapping[str, Any]] = []
    others: list[Mapping[str, Any]] = []
    for row in measured.intervals:
        in_time = row["end_s"] <= until_s + 0.1 * (row["end_s"] - row["start_s"])  # a sample may be late
        (kept if in_time and row["start_s"] >= warmup_s - 1e-3 else others).append(row)
    begin_s = max((row["end_s"] for row in measured.intervals if row["start_s"] < warmup_s - 1e-3), default=0.0)
    duration_s = max((row["end_s"] for row in kept), default=0.0) - begin_s
    if duration_s <= 0:
        raise ValueError(f"the tool reported no interval after the warm-up of {warmup_s:g} s")
    flow_bytes = sum(row["interval_bytes"] for row in kept)
    # Segments retransmitted in the intervals that are kept: the total minus those in the others, else their sum.
    counts: list[list[Any]] = [[row.get("retransmits") for row in rows] for rows in (kept, others)]
    inside, outside = (None if None in each else sum(each) for each in counts)
    total = measured.flow.get("retransmits")
    flow = {
        **reports.totals(duration_s, flow_bytes),
        "retransmits": inside if total is None or outside is None else total - outside,
    }
    return replace(measured, flow={**measured.flow, **flow})
