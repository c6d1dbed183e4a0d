"""From what the tools printed to rows of the tables `flows` and `intervals`: a row for every flow, failed ones too."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pairlab.spec import Spec
from pairlab.testbed.barrier import Process
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.tasks import Task, draw

Row = dict[str, Any]


def read_flows(
    spec: Spec,
    workload: Workload,
    clients: Sequence[Process],
    servers: Sequence[Process],
    release_ns: int,
    *,
    isolated: bool = True,
) -> tuple[list[Row], list[Row]]:
    """The rows of `flows` and of `intervals`, from each client's output, its start and its end.

    isolated: whether each endpoint has a network namespace of its own; else what is counted there is everybody's.
    """
    flows, intervals = [], []
    for pair, (task, client, server) in enumerate(zip(draw(spec), clients, servers, strict=True)):
        common = {"pair": pair, **_of_task(task), **_of_start(client, release_ns)}
        told = _reported(spec, workload, client, server)
        for number in range(spec.flows_per_pair):
            # What a process or a namespace counts is of all its flows together: it stands once, with the first.
            row = {**common, "flow": number, **({} if number else _of_processes(task, client, server, isolated))}
            measured = told.get(number) or Measured({}, error=f"{workload.name} told nothing of this flow")
            try:
                done, rows = _read(spec, task, measured, client, server, row, release_ns)
            except ValueError as error:
                flows.append({**row, "status": "failed", "error": _with_last_words(str(error), client.stderr)})
            else:
                flows.append({**row, "status": "ok", "error": "", **done})
                intervals += rows
    return flows, intervals


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
    spec: Spec, task: Task, measured: Measured, client: Process, server: Process, row: Row, release_ns: int
) -> tuple[Row, list[Row]]:
    """The rest of a flow's row, and its intervals. Raises ValueError where it did not do its work."""
    out_of_time_s = spec.duration_s if task.flow_bytes else None
    if measured.error:
        raise ValueError(_in_time(measured.error, client, out_of_time_s))
    used = measured.flow.get("congestion_control")
    if spec.congestion_control and task.protocol == "tcp" and used != spec.congestion_control:
        raise ValueError(f"its congestion control was {used or 'not told'}, not {spec.congestion_control}")
    done: Row = {}
    for column, moment_ns in (("connected_s", measured.connected_ns), ("first_byte_s", measured.first_byte_ns)):
        if moment_ns is not None:
            done[column] = (moment_ns - release_ns) / 1e9
    # A tool counts from its connection. Where it does not tell when that stood, its start is the nearest.
    begun_s = done.get("connected_s", row["start_s"])
    if task.flow_bytes:
        done |= {**measured.flow, **_completion(task, measured, client, server, row, begun_s, release_ns)}
    elif task.protocol == "udp":  # the last datagram that comes may be an early one
        done |= measured.flow
    else:
        measured = window(whole(measured, spec.total_s), spec.warmup_s)
        done |= measured.flow
    place = {"pair": row["pair"], "flow": row["flow"]}
    return done, [{**place, **_interval(each, begun_s, spec.warmup_s)} for each in measured.intervals]


def _completion(
    task: Task, measured: Measured, client: Process, server: Process, row: Row, begun_s: float, release_ns: int
) -> Row:
    """When a flow with an end was complete. Where the tool does not tell, its client's end is it, as in the papers."""
    completed_ns = measured.completed_ns
    if completed_ns is None:
        if server.trouble and server.end_ns and server.end_ns < client.end_ns:
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


def _in_time(error: str, client: Process, limit_s: float | None) -> str:
    """The error, but that a client we ended because its time was over failed for that."""
    if limit_s is None or not client.signal or client.start_ns is None:
        return error
    lasted_s = (client.end_ns - client.start_ns) / 1e9
    return f"it was not complete after {limit_s:g} s" if lasted_s >= limit_s else error


def _interval(row: Row, begun_s: float, warmup_s: float) -> Row:
    times = {"start_s": row["start_s"] + begun_s, "end_s": row["end_s"] + begun_s}
    return {**row, **times, "warmup": row["start_s"] < warmup_s - 1e-3}


def _with_last_words(error: str, stderr: str) -> str:
    told = " ".join(stderr.split())[-200:]
    return f"{error} ({told})" if told and told not in error else error


def whole(measured: Measured, total_s: float) -> Measured:
    """The same, where the flow lasted as long as it was to; iperf ends well when its connection breaks, too."""
    duration_s = measured.flow["duration_s"]
    if duration_s < 0.95 * total_s:
        raise ValueError(f"it ended after {duration_s:.2f} s of {total_s:g}")
    return measured


def window(measured: Measured, warmup_s: float) -> Measured:
    """What a flow did after its warm-up: totals over the intervals that begin later, all other columns as they are."""
    if not warmup_s:
        return measured
    kept = [row for row in measured.intervals if row["start_s"] >= warmup_s - 1e-3]
    duration_s = sum(row["end_s"] - row["start_s"] for row in kept)
    if duration_s <= 0:
        raise ValueError(f"it reported no interval after its warm-up of {warmup_s:g} s")
    flow_bytes = sum(row["interval_bytes"] for row in kept)
    flow = {"duration_s": duration_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / duration_s}
    if all(row.get("retransmits") is not None for row in kept):
        flow["retransmits"] = sum(row["retransmits"] for row in kept)
    return replace(measured, flow={**measured.flow, **flow})
