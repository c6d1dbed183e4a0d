"""Turns the tools' output into rows of `flows`, `intervals` and `transactions`: a flow for each, failed ones too."""

import inspect
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pairlab.base.error_location import located
from pairlab.measurement import congestion, own_columns
from pairlab.measurement.checks import steady_state
from pairlab.measurement.reading import Reading, Row
from pairlab.measurement.window import counted_s, window
from pairlab.model.spec import Spec
from pairlab.model.time_steps import carried_bytes
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.endpoints import Task
from pairlab.testbed.launch.conductor import Process

#: A timed flow that lasted a smaller share of its time failed.
LEAST_SHARE = 0.95

#: The initial retransmission timeout of TCP (RFC 6298, section 2; Linux's TCP_TIMEOUT_INIT), after which a SYN is
#: sent again. net.ipv4.tcp_syn_linear_timeouts (Linux 6.5) changes the third and later attempts only.
SYN_AGAIN_S = 1.0


def read_flows(
    spec: Spec,
    tasks: Sequence[Task],
    workload: Workload,
    clients: Sequence[Process],
    servers: Sequence[Process],
    release_ns: int,
    *,
    isolated: bool = True,
    silent_until_s: Sequence[float | None] = (),
    unless_chosen: str = "",
    hosts: Sequence[tuple[str, str]] = (),
) -> Reading:
    """The rows of `flows`, of `intervals` and of `transactions`, from each client's output, its start and its end.

    tasks: by pair. isolated: whether each endpoint has a network namespace of its own; else its counters are shared.
    silent_until_s: until when each client's link certainly had sent nothing, from the release; None: unknown.
    unless_chosen: the congestion control of TCP where its tool chooses none; empty: unknown. hosts: the names of those
    that each pair's client and server are on; empty: all are on one.
    """
    pairs = list(zip(tasks, clients, servers, strict=True))
    reported = [_reported(spec, workload, client, server) for _, client, server in pairs]
    steps_bytes = _steps_bytes(spec, reported)
    found = Reading(settling=steady_state.settle(steps_bytes), late_share=workload.late_s / spec.total_s)
    found.unread_share = _unread_share(reported)
    found.late_end_share = _late_end_share(spec, tasks, reported)
    found.warmup_s = found.settling.warmup * spec.interval_s
    found.steps_bytes = list(steps_bytes[found.settling.warmup :])
    for pair, (task, client, server) in enumerate(pairs):
        size_bytes = task.flow_bytes or None
        common = {"pair": pair, "protocol": task.protocol, "role": task.role, "priority": task.priority}
        common["size_bytes"] = size_bytes
        if hosts:
            common["client_host"], common["server_host"] = hosts[pair]
        common |= _of_start(client, spec.due_s(pair), release_ns)
        silent_s = silent_until_s[pair] if silent_until_s else None
        waited_s = _waited_s(workload, task, client) if isolated else None
        succeeded = []
        for number, (direction, of_direction) in enumerate(flows_of(spec)):
            sender = client if direction == "up" else server
            row = {**common, "flow": number, "direction": direction}
            # Counts of a process or namespace are of all its flows: they are in the row of the first flow only.
            row |= {} if number else _of_processes(client, server)
            row |= {} if of_direction else _of_sender(task, sender, isolated)
            missing = Measured({}, error=f"{workload.name} reported no result for this flow")
            measured = reported[pair].get((direction, of_direction)) or missing
            if measured.connected_ns is None and measured.connect_s is None:
                measured = replace(measured, connect_s=waited_s)
            if workload.carries and measured.connected_ns is None and not measured.error and not task.flow_bytes:
                measured = replace(
                    measured, connect_s=_connected_after_s(workload, measured, client, release_ns, silent_s)
                )
            try:
                controlled = {}
                if workload.carries:
                    controlled = congestion.of_flow(spec, task, measured, client, unless_chosen)
                    done, rows = _read(spec, task, measured, client, server, row, release_ns, found.warmup_s)
                else:
                    done, rows = _of_nothing_sent(measured)
            except ValueError as error:
                why = _with_stderr(str(error), client.stderr)
                why = why.encode(errors="replace").decode()  # JSON can escape half a character, which no file can hold
                found.flows.append({**row, "status": "failed", "error": why})
            else:
                found.flows.append({**row, "status": "ok", "error": "", **done, **controlled})
                found.intervals += rows
                found.transactions += _transactions(pair, number, measured)
                found.spans.append(_span(task, measured, found.flows[-1]))
                succeeded.append(measured)
        if task.protocol == "tcp" and len(succeeded) == len(flows_of(spec)):
            received = [size_bytes if each.received_bytes is None else each.received_bytes for each in succeeded]
            if None not in received:
                _add_received(found, pair, spec, succeeded, received)
            retransmits = [measured.flow.get("retransmits") for measured in succeeded]
            if None not in retransmits:
                found.retransmits[pair] = sum(retransmits)
                of_kernel = _counted_by_kernel(succeeded, {"up": client, "down": server})
                found.netns_retransmits[pair] = of_kernel if isolated else None
        if task.protocol == "udp" and succeeded:
            overrun_s = max(measured.flow["duration_s"] for measured in succeeded) - spec.total_s
            found.overrun_share = max(overrun_s / spec.total_s, found.overrun_share or 0.0)
        counted = None not in [_datagrams(measured)[0] for measured in succeeded]
        if task.protocol == "udp" and len(succeeded) == len(flows_of(spec)) and isolated and counted:
            _add_datagrams(found, pair, succeeded, server)
    return found


def flows_of(spec: Spec) -> list[tuple[str, int]]:
    """The flows of each pair, in the order of their rows: the direction of each, and its number in that."""
    return [(direction, number) for direction in spec.directions for number in range(spec.flows_per_pair)]


def _add_received(
    found: Reading, pair: int, spec: Spec, succeeded: Sequence[Measured], received: Sequence[float]
) -> None:
    """What a pair's receivers have, by whose links are compared: its server's, or of flows down alone its client's."""
    down = sum(each for flow, each in zip(succeeded, received, strict=True) if flow.direction == "down")
    if spec.direction == "both":
        found.received_bytes[pair], found.answered_bytes[pair] = sum(received) - down, down
        return
    found.received_bytes[pair] = sum(received)
    found.answered_bytes[pair] = sum(measured.answered_bytes or 0.0 for measured in succeeded)


def _steps_bytes(spec: Spec, reported: Sequence[dict[Any, Measured]]) -> np.ndarray:
    """What the timed TCP flows that lasted their whole time carried together in each interval after the warm-up.

    From the warm-up's end of the client that starts last, until the one that started first ends.
    """
    together_s = spec.duration_s - spec.last_due_s
    edges_s = spec.interval_s * np.arange(int(together_s / spec.interval_s + 1e-6) + 1)
    carried = [
        _carried(counted_s(spec, pair)[0] + edges_s, measured.intervals)
        for pair, flows in enumerate(reported)
        for measured in flows.values()
        if measured.intervals and not measured.error and _lasted_s(measured) >= LEAST_SHARE * spec.total_s
    ]
    return np.sum(carried, axis=0) if carried and not spec.flow_bytes else np.empty(0)


def _unread_share(reported: Sequence[dict[Any, Measured]]) -> float | None:
    known = [each for flows in reported for each in flows.values() if each.unread_bytes is not None]
    read_bytes = sum(each.flow["flow_bytes"] for each in known)
    return sum(each.unread_bytes or 0.0 for each in known) / read_bytes if read_bytes else None


def _late_end_share(spec: Spec, tasks: Sequence[Task], reported: Sequence[dict[Any, Measured]]) -> float | None:
    """See Reading. Tools without intervals tell nothing of when their flows carried what they did."""
    told_bps = in_time_bps = 0.0
    for task, flows in zip(tasks, reported, strict=True):
        for measured in flows.values():
            known = task.protocol == "tcp" and not task.flow_bytes and not measured.error
            if known and measured.intervals and measured.flow["flow_bytes"]:
                told_bps += measured.flow["flow_bytes"] * 8 / _lasted_s(measured)
                in_time_s = min(_lasted_s(measured), spec.total_s)
                in_time_bps += _carried(np.array([0.0, in_time_s]), measured.intervals)[0] * 8 / in_time_s
    return in_time_bps / told_bps - 1 if told_bps else None


def _carried(edges_s: np.ndarray, intervals: Sequence[Row]) -> np.ndarray:
    """The bytes of a flow in steps that are the same for all flows, as its own samples may be late."""
    columns = ([row[column] for row in intervals] for column in ("start_s", "end_s", "interval_bytes"))
    return carried_bytes(edges_s, *columns)


def _waited_s(workload: Workload, task: Task, client: Process) -> float | None:
    """The least time that a client waited to connect, by its namespace's count of retransmitted SYNs; None: unknown.

    Several retransmitted SYNs may be of connections that waited at the same time, so they do not add up. Flows of a
    fixed size count from their client's start where their tool reports nothing else, as in the papers.
    """
    known = workload.connects_first and task.protocol == "tcp" and not task.flow_bytes
    return SYN_AGAIN_S if known and client.syn_retransmits else None


def _connected_after_s(
    workload: Workload, measured: Measured, client: Process, release_ns: int, silent_s: float | None
) -> float | None:
    """How long after its client's start a flow began, where its tool does not report the moment.

    At least the time that connecting took (connect_s), and until its link sent more than a handshake, less the time
    that the tool waits by itself. Where the link cannot be seen, at most so late that the flow lasted to its client's
    end; then that is taken.
    """
    if client.start_ns is None or client.end_ns is None:
        return measured.connect_s
    reported_s = measured.connect_s or 0.0
    if silent_s is not None:
        return max(reported_s, silent_s - (client.start_ns - release_ns) / 1e9 - workload.waits_s)
    return max(reported_s, (client.end_ns - client.start_ns) / 1e9 - _lasted_s(measured) - workload.waits_s)


def _counted_by_kernel(succeeded: Sequence[Measured], senders: dict[str, Process]) -> tuple[int, int] | None:
    """Segments retransmitted in the senders' namespaces, at least and at most. senders: by direction. None: unknown."""
    directions = dict.fromkeys(measured.direction for measured in succeeded)
    counted = [
        _counted_in([measured for measured in succeeded if measured.direction == direction], senders[direction])
        for direction in directions
    ]
    known = [each for each in counted if each is not None]
    if len(known) < len(counted):
        return None
    return sum(least for least, _ in known), sum(most for _, most in known)


def _counted_in(sent: Sequence[Measured], sender: Process) -> tuple[int, int] | None:
    """The same of one sender, when its tool counted last, as the kernel sends on what was written; else to its end."""
    counts = [measured.netns_retransmits for measured in sent if measured.netns_retransmits]
    earlier, by_end = sender.tcp_retransmits_before, sender.tcp_retransmits_by_end
    if len(counts) == len(sent) and earlier is not None:
        return min(least for least, _ in counts) - earlier, max(most for _, most in counts) - earlier
    return None if by_end is None else (by_end, by_end)


def _add_datagrams(found: Reading, pair: int, succeeded: Sequence[Measured], server: Process) -> None:
    """What came to the server's namespace of a UDP pair, by its tool and by the kernel, where the kernel counts it."""
    received, received_bytes = (sum(each) for each in zip(*map(_datagrams, succeeded), strict=True))
    if server.udp_receive_errors is not None:
        found.datagrams[pair] = received + server.udp_receive_errors
        found.datagram_bytes[pair] = received_bytes * found.datagrams[pair] / received if received else 0.0


def _datagrams(measured: Measured) -> tuple[float | None, float]:
    """How many datagrams a flow's server received, and their payload; None: its tool does not know."""
    if measured.received_datagrams is not None:
        return measured.received_datagrams, measured.received_bytes or 0.0
    return measured.flow.get("datagrams_received"), measured.flow.get("flow_bytes", 0.0)


def begun_s(measured: Measured, row: Row) -> float:
    """When a flow's connection was established, from the release, or the earliest time if its tool does not report it.

    The earliest time is its client's start plus the time that connecting took, as far as the tool or the kernel reports
    it. The time it waited for a CPU before that is not included.
    """
    # The client's end minus the flow's duration is a bound only: with 50 clients on 2 CPUs it is up to 0.6 s late, and
    # iperf 2.1.8 sometimes waits for a second at the end.
    return row.get("connected_s", row["start_s"] + (measured.connect_s or 0.0))


def _span(task: Task, measured: Measured, row: Row) -> tuple[float, float]:
    """When a successful flow began, as precisely as its tool reports, and when it ended; from the release."""
    began_s = begun_s(measured, row)
    return began_s, row["completed_s"] if task.flow_bytes else began_s + measured.flow["duration_s"]


def _of_start(client: Process, due_s: float, release_ns: int) -> Row:
    started = {} if client.start_ns is None else {"start_s": (client.start_ns - release_ns) / 1e9}
    return {"intended_start_s": due_s, **started}


def _of_sender(task: Task, sender: Process, isolated: bool) -> Row:
    return {
        "netns_retransmits": sender.tcp_retransmits if isolated and task.protocol == "tcp" else None,
        "diag_retransmits": sender.diag_retransmits,
    }


def _of_processes(client: Process, server: Process) -> Row:
    return {
        "client_cpu_s": client.cpu_s,
        "server_cpu_s": server.cpu_s,
        **{
            f"{side}_{kind}_switches": getattr(process, f"{kind}_switches")
            for side, process in (("client", client), ("server", server))
            for kind in ("voluntary", "involuntary")
        },
    }


def _reported(spec: Spec, workload: Workload, client: Process, server: Process) -> dict[Any, Measured]:
    """The tool's results by direction and number (flows_of).

    A client of which some flows failed exits with an error, but has results.
    """
    try:
        results = workload.parse(client.stdout, server.stdout)
        own_columns.require_declared(workload, results)
        trouble = "" if any(measured.error for measured in results) else client.trouble
    except Exception as error:  # whatever a plugin raises is this client's failure, and no other's
        results, trouble = [], client.trouble or located(error, inspect.getfile(type(workload)))
    if trouble:
        return {each: Measured({}, error=trouble) for each in flows_of(spec)}
    return {(measured.direction, measured.number): measured for measured in results}


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
    """The rest of a flow's row, and its intervals. Raises ValueError where it failed.

    found_s: warm-up detected beyond the spec's.
    """
    warmup_s, until_s = (0.0, math.inf) if task.flow_bytes else counted_s(spec, row["pair"], found_s)
    out_of_time_s = spec.duration_s if task.flow_bytes else None
    if measured.error:
        raise ValueError(_in_time(measured.error, client, release_ns + 1e9 * row["intended_start_s"], out_of_time_s))
    done: Row = {}
    for column, moment_ns in (("connected_s", measured.connected_ns), ("first_byte_s", measured.first_byte_ns)):
        if moment_ns is not None:
            done[column] = (moment_ns - release_ns) / 1e9
    began_s = begun_s(measured, row | done)  # tools count from the connection
    if task.flow_bytes:
        done |= {**measured.flow, **_completion(task, measured, client, server, row, began_s, release_ns)}
        if done["fct_s"] > spec.duration_s:
            raise ValueError(_out_of_time(spec.duration_s))
    elif task.protocol == "udp":  # datagrams may arrive out of order, so there are no intervals
        require_duration(measured, spec.total_s)
        done |= measured.flow
    else:
        require_duration(measured, spec.total_s)
        measured = measured if measured.windowed else window(measured, warmup_s, until_s)
        done |= measured.flow
        _require_transactions(done)
    place = {"pair": row["pair"], "flow": row["flow"]}
    return done, [{**place, **_interval(each, began_s, warmup_s)} for each in measured.intervals]


def _require_transactions(flow: Row) -> None:
    """Raises ValueError where none came to an end, and none was even sent: its client asked for nothing."""
    if flow.get("transactions") == 0 and not flow.get("transactions_lost"):
        failed = flow.get("transactions_failed") or 0
        why = f"all {failed:,.0f} failed" if failed else "none ended in the time that counts"
        raise ValueError(f"there was no transaction: {why}")


def _of_nothing_sent(measured: Measured) -> tuple[Row, list[Row]]:
    """The same of a client that only computes: it takes the time that it takes."""
    if measured.error:
        raise ValueError(measured.error)
    return dict(measured.flow), []


def _completion(
    task: Task, measured: Measured, client: Process, server: Process, row: Row, begun_s: float, release_ns: int
) -> Row:
    """When a flow of a fixed size completed: as its tool reports, else when its client ended, as in the papers."""
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


def _in_time(error: str, client: Process, due_ns: float, limit_s: float | None) -> str:
    """The error; for a client that was killed as its time, from when it was due, was over, that reason."""
    if limit_s is None or not client.signal or client.start_ns is None:
        return error
    return _out_of_time(limit_s) if (client.end_ns - due_ns) / 1e9 >= limit_s else error


def _out_of_time(limit_s: float) -> str:
    return f"the flow did not complete within {limit_s:g} s"


def _transactions(pair: int, flow: int, measured: Measured) -> list[Row]:
    place = {"pair": pair, "flow": flow}
    timed = [{"latency_s": latency_s, "count": count} for latency_s, count in measured.latencies]
    return [{**place, **row} for row in (*timed, *measured.transactions)]


def _interval(row: Row, begun_s: float, warmup_s: float) -> Row:
    times = {"start_s": row["start_s"] + begun_s, "end_s": row["end_s"] + begun_s}
    return {**row, **times, "warmup": row["start_s"] < warmup_s - 1e-3}


def _with_stderr(error: str, stderr: str) -> str:
    printed = " ".join(stderr.split())[-200:]
    return f"{error} ({printed})" if printed and printed not in error else error


def require_duration(measured: Measured, total_s: float) -> None:
    """Raises ValueError where a timed flow ended early: iperf exits with 0 also when its connection breaks."""
    if (lasted_s := _lasted_s(measured)) < LEAST_SHARE * total_s:
        raise ValueError(f"the flow ended after {lasted_s:.2f} of {total_s:g} s")


def _lasted_s(measured: Measured) -> float:
    return measured.flow["duration_s"] if measured.lasted_s is None else measured.lasted_s
