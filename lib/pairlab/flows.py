"""From what the tools printed to rows of the tables `flows` and `intervals`: a row for every flow, failed ones too."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pairlab import steady
from pairlab.spec import Spec
from pairlab.steps import carried_bytes
from pairlab.testbed.barrier import Process
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.tasks import Task, draw

Row = dict[str, Any]

#: A flow that lasted a smaller share of its time did not do its work.
WHOLE = 0.95

#: The soonest that TCP sends a SYN again (RFC 6298, section 2; Linux's TCP_TIMEOUT_INIT): the initial RTO. What
#: net.ipv4.tcp_syn_linear_timeouts (Linux 6.5) changes is when it is sent a third time, and later.
SYN_AGAIN_S = 1.0


@dataclass
class Reading:
    """What the tools told, as rows of `flows` and `intervals`, and what cross-checks need beside them.

    warmup_s: warm-up that was found after the spec's. spans: begin and end, from the release, of each flow that did its
    work. received_bytes: payload of each pair of which all flows did, over all of their time; retransmits: segments,
    likewise, where the tool tells. Both of TCP only. late_share: of what there was, the part that came after the
    tool's last count at most.
    """

    flows: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    settling: steady.Settling = field(default_factory=steady.Settling)
    warmup_s: float = 0.0
    spans: list[tuple[float, float]] = field(default_factory=list)
    received_bytes: dict[int, float] = field(default_factory=dict)
    retransmits: dict[int, float] = field(default_factory=dict)
    late_share: float = 0.0


def read_flows(
    spec: Spec,
    workload: Workload,
    clients: Sequence[Process],
    servers: Sequence[Process],
    release_ns: int,
    *,
    isolated: bool = True,
) -> Reading:
    """The rows of `flows` and of `intervals`, from each client's output, its start and its end.

    isolated: whether each endpoint has a network namespace of its own; else what is counted there is everybody's.
    """
    pairs = list(zip(draw(spec), clients, servers, strict=True))
    told = [_reported(spec, workload, client, server) for _, client, server in pairs]
    found = Reading(settling=_settling(spec, told), late_share=workload.late_s / spec.total_s)
    found.warmup_s = found.settling.warmup * spec.interval_s
    for pair, (task, client, server) in enumerate(pairs):
        common = {"pair": pair, **_of_task(task), **_of_start(client, release_ns)}
        waited_s = _waited_s(workload, task, client) if isolated else None
        whole_flows = []
        for number in range(spec.flows_per_pair):
            # What a process or a namespace counts is of all its flows together: it stands once, with the first.
            row = {**common, "flow": number, **({} if number else _of_processes(task, client, server, isolated))}
            measured = told[pair].get(number) or Measured({}, error=f"{workload.name} told nothing of this flow")
            if measured.connected_ns is None and measured.connect_s is None:
                measured = replace(measured, connect_s=waited_s)
            try:
                done, rows = _read(spec, task, measured, client, server, row, release_ns, found.warmup_s)
            except ValueError as error:
                why = _with_last_words(str(error), client.stderr)
                why = why.encode(errors="replace").decode()  # JSON can escape half a character, which no file takes
                found.flows.append({**row, "status": "failed", "error": why})
            else:
                found.flows.append({**row, "status": "ok", "error": "", **done})
                found.intervals += rows
                found.spans.append(_span(task, measured, found.flows[-1]))
                whole_flows.append(measured)
        if task.protocol == "tcp" and len(whole_flows) == spec.flows_per_pair:
            received = [_received_bytes(task, measured) for measured in whole_flows]
            if None not in received:
                found.received_bytes[pair] = sum(received)
            retransmits = [measured.flow.get("retransmits") for measured in whole_flows]
            if None not in retransmits:
                found.retransmits[pair] = sum(retransmits)
    return found


def _settling(spec: Spec, told: Sequence[dict[int, Measured]]) -> steady.Settling:
    """Where the total throughput had settled, by the TCP flows that have no end but time, and lasted it."""
    if spec.flow_bytes:
        return steady.Settling()
    edges_s = spec.warmup_s + spec.interval_s * np.arange(int(spec.duration_s / spec.interval_s + 1e-6) + 1)
    carried = [
        _carried(edges_s, measured.intervals)
        for flows in told
        for measured in flows.values()
        if measured.intervals and not measured.error and _lasted_s(measured) >= WHOLE * spec.total_s
    ]
    return steady.settle(np.sum(carried, axis=0)) if carried else steady.Settling()


def _carried(edges_s: np.ndarray, intervals: Sequence[Row]) -> np.ndarray:
    """The bytes of a flow in steps that are the same for all flows, as a sample of one may be late."""
    columns = ([row[column] for row in intervals] for column in ("start_s", "end_s", "interval_bytes"))
    return carried_bytes(edges_s, *columns)


def _waited_s(workload: Workload, task: Task, client: Process) -> float | None:
    """How long at least a client waited to connect, by its namespace's count of SYNs sent again; None: nobody knows.

    Not longer where there were several of these, as they may be of connections that waited at the same time. Flows with
    an end count from their client's start where their tool tells no more, as in the papers.
    """
    known = workload.connects_first and task.protocol == "tcp" and not task.flow_bytes
    return SYN_AGAIN_S if known and client.syn_retransmits else None


def _begun_s(measured: Measured, row: Row) -> float:
    """When a flow's connection stood, from the release; where its tool does not tell, when it can have at the soonest.

    That is its client's start, and how long connecting took, as far as its tool tells that, or the kernel: what it
    waited for a CPU before is not in it.
    """
    # Its client's end less what it lasted is no better: with 50 clients on 2 CPUs it comes up to 0.6 s late, and
    # iperf 2.1.8 waits for a second now and then when all is done.
    return row.get("connected_s", row["start_s"] + (measured.connect_s or 0.0))


def _span(task: Task, measured: Measured, row: Row) -> tuple[float, float]:
    """When a flow that did its work began, as nearly as its tool tells, and when it ended; from the release."""
    begun_s = _begun_s(measured, row)
    return begun_s, row["completed_s"] if task.flow_bytes else begun_s + measured.flow["duration_s"]


def _received_bytes(task: Task, measured: Measured) -> float | None:
    """What the server had of a flow that did its work; None where only the client counted."""
    return measured.received_bytes if measured.received_bytes is not None else (task.flow_bytes or None)


def _of_task(task: Task) -> Row:
    return {"protocol": task.protocol, "role": task.role, "size_bytes": task.flow_bytes or None}


def _of_start(client: Process, release_ns: int) -> Row:
    started = {} if client.start_ns is None else {"start_s": (client.start_ns - release_ns) / 1e9}
    return {"intended_start_s": 0.0, **started}


def _of_processes(task: Task, client: Process, server: Process, isolated: bool) -> Row:
    return {
        "client_cpu_s": client.cpu_s,
        "server_cpu_s": server.cpu_s,
        "netns_retransmits": client.tcp_retransmits if isolated and task.protocol == "tcp" else None,
        "diag_retransmits": client.diag_retransmits,
    }


def _reported(spec: Spec, workload: Workload, client: Process, server: Process) -> dict[int, Measured]:
    """What the tool told of each flow, by its number. A client of which some flows failed ends badly, and tells."""
    try:
        told = workload.parse(client.stdout, server.stdout)
        trouble = "" if any(measured.error for measured in told) else client.trouble
    except ValueError as error:
        told, trouble = [], client.trouble or str(error)
    if trouble:
        return {number: Measured({}, error=trouble) for number in range(spec.flows_per_pair)}
    return {measured.number: measured for measured in told}


def _read(
    spec: Spec,
    task: Task,
    measured: Measured,
    client: Process,
    server: Process,
    row: Row,
    release_ns: int,
    found_s: float,
) -> tuple[Row, list[Row]]:
    """The rest of a flow's row, and its intervals. Raises ValueError where it did not do its work.

    found_s: warm-up that was found after the spec's.
    """
    warmup_s = spec.warmup_s + found_s
    out_of_time_s = spec.duration_s if task.flow_bytes else None
    if measured.error:
        raise ValueError(_in_time(measured.error, client, release_ns, out_of_time_s))
    used = measured.flow.get("congestion_control")
    if spec.congestion_control and task.protocol == "tcp" and used != spec.congestion_control:
        raise ValueError(f"its congestion control was {used or 'not told'}, not {spec.congestion_control}")
    done: Row = {}
    for column, moment_ns in (("connected_s", measured.connected_ns), ("first_byte_s", measured.first_byte_ns)):
        if moment_ns is not None:
            done[column] = (moment_ns - release_ns) / 1e9
    begun_s = _begun_s(measured, row | done)  # a tool counts from its connection
    if task.flow_bytes:
        done |= {**measured.flow, **_completion(task, measured, client, server, row, begun_s, release_ns)}
    elif task.protocol == "udp":  # the last datagram that comes may be an early one
        done |= measured.flow
    else:
        measured = window(whole(measured, spec.total_s), warmup_s)
        done |= measured.flow
    place = {"pair": row["pair"], "flow": row["flow"]}
    return done, [{**place, **_interval(each, begun_s, warmup_s)} for each in measured.intervals]


def _completion(
    task: Task, measured: Measured, client: Process, server: Process, row: Row, begun_s: float, release_ns: int
) -> Row:
    """When a flow with an end was complete. Where the tool does not tell, its client's end is it, as in the papers."""
    completed_ns = measured.completed_ns
    if completed_ns is None:
        if server.trouble and server.ended_by_itself:
            raise ValueError(f"its server {server.trouble}")
        completed_ns = client.end_ns
    completed_s = (completed_ns - release_ns) / 1e9
    return {
        "completed_s": completed_s,
        "fct_s": completed_s - row["start_s"],
        "intended_fct_s": completed_s - row["intended_start_s"],
        "duration_s": completed_s - begun_s,
        "flow_bytes": task.flow_bytes,
        "throughput_bps": task.flow_bytes * 8 / (completed_s - begun_s),
    }


def _in_time(error: str, client: Process, release_ns: int, limit_s: float | None) -> str:
    """The error, but that a client we ended because its time was over, which is from the release, failed for that."""
    if limit_s is None or not client.signal or client.start_ns is None:
        return error
    ended_s = (client.end_ns - release_ns) / 1e9
    return f"it was not complete after {limit_s:g} s" if ended_s >= limit_s else error


def _interval(row: Row, begun_s: float, warmup_s: float) -> Row:
    times = {"start_s": row["start_s"] + begun_s, "end_s": row["end_s"] + begun_s}
    return {**row, **times, "warmup": row["start_s"] < warmup_s - 1e-3}


def _with_last_words(error: str, stderr: str) -> str:
    told = " ".join(stderr.split())[-200:]
    return f"{error} ({told})" if told and told not in error else error


def whole(measured: Measured, total_s: float) -> Measured:
    """The same, where the flow lasted as long as it was to; iperf ends well when its connection breaks, too."""
    if (lasted_s := _lasted_s(measured)) < WHOLE * total_s:
        raise ValueError(f"it ended after {lasted_s:.2f} s of {total_s:g}")
    return measured


def _lasted_s(measured: Measured) -> float:
    return measured.flow["duration_s"] if measured.lasted_s is None else measured.lasted_s


def window(measured: Measured, warmup_s: float) -> Measured:
    """What a flow did after its warm-up: totals over the intervals that begin later, all other columns as they are."""
    if not warmup_s:
        return measured
    kept = [row for row in measured.intervals if row["start_s"] >= warmup_s - 1e-3]
    duration_s = sum(row["end_s"] - row["start_s"] for row in kept)
    if duration_s <= 0:
        raise ValueError(f"it reported no interval after its warm-up of {warmup_s:g} s")
    flow_bytes = sum(row["interval_bytes"] for row in kept)
    flow = {
        "duration_s": duration_s,
        "flow_bytes": flow_bytes,
        "throughput_bps": flow_bytes * 8 / duration_s,
        "retransmits": _retransmits_since(measured, warmup_s),
    }
    return replace(measured, flow={**measured.flow, **flow})


def _retransmits_since(measured: Measured, warmup_s: float) -> float | None:
    """Segments retransmitted after the warm-up: the total less those in it, else those after it, where told."""
    warm, kept = [], []
    for row in measured.intervals:
        (warm if row["start_s"] < warmup_s - 1e-3 else kept).append(row.get("retransmits"))
    total = measured.flow.get("retransmits")
    if total is not None and None not in warm:
        return total - sum(warm)
    return None if None in kept else sum(kept)
