"""Turns the tools' output into rows of `flows`, `intervals` and `transactions`: a flow for each, failed ones too."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pairlab.errors import located
from pairlab.measurement import congestion, own_columns
from pairlab.measurement.checks import steady_state
from pairlab.measurement.parsed_flows import Hosts, ParsedFlows, Row, carried_in
from pairlab.measurement.window import counted_s, window
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, Workload
from pairlab.testbed.endpoints import Task
from pairlab.testbed.process_launcher import Process

#: A timed flow that lasted a smaller share of its time failed.
LEAST_SHARE = 0.95

#: Counts of a process, which are columns of `flows` of its client and its server.
OF_PROCESSES = ("cpu_s", "voluntary_switches", "involuntary_switches", "runqueue_wait_s", "stopped_s")

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
    hosts: Hosts = (),
) -> ParsedFlows:
    """The rows of `flows`, `intervals` and `transactions`, from the output, start and end of each client.

    tasks: by pair. isolated: whether each endpoint has its own network namespace; else counters are shared.
    silent_until_s: end of the silence that is certain on each client's link, from the release; None: unknown.
    unless_chosen: the congestion control of TCP if the tool sets none; empty: unknown.
    """
    pairs = [
        _Pair(spec, workload, release_ns, isolated, number, *ends)
        for number, ends in enumerate(zip(tasks, clients, servers, strict=True))
    ]
    steps_bytes = _steps_bytes(spec, pairs)
    settling = steady_state.settle(steps_bytes)
    parsed = ParsedFlows(late_share=workload.counter_lag_s / spec.total_s, warmup_s=settling.warmup * spec.interval_s)
    parsed.checks |= {"settled": settling.settled}
    parsed.checks |= {"unread": _unread_share(pairs), "late_end": _late_end_share(spec, pairs)}
    parsed.steps_bytes = list(steps_bytes[settling.warmup :])
    for pair in pairs:
        silent_s = silent_until_s[pair.number] if silent_until_s else None
        succeeded = []
        for number, (direction, of_direction) in enumerate(flows_of(spec)):
            row = pair.row(number, direction, of_direction)
            if hosts:
                row["client_host"], row["server_host"] = hosts[pair.number]
            measured = pair.measured(direction, of_direction, silent_s)
            try:
                if workload.sends_traffic:
                    controlled = congestion.of_flow(spec, pair.task, measured, pair.client, unless_chosen)
                    done, rows = pair.read(measured, row, parsed.warmup_s)
                    done |= controlled
                elif measured.error:
                    raise ValueError(measured.error)
                else:  # it only computes, for as long as it takes
                    done, rows = dict(measured.flow), []
            except ValueError as error:
                printed = " ".join(pair.client.stderr.split())[-200:]
                why = f"{error} ({printed})" if printed and printed not in str(error) else str(error)
                why = why.encode(errors="replace").decode()  # JSON can escape half a character, which no file can hold
                parsed.flows.append({**row, "status": "failed", "error": why})
            else:
                parsed.flows.append({**row, "status": "ok", "error": "", **done})
                parsed.intervals += rows
                timed = [{"latency_s": latency_s, "count": count} for latency_s, count in measured.latencies]
                place = {"pair": pair.number, "flow": number}
                parsed.transactions += [{**place, **each} for each in (*timed, *measured.transactions)]
                parsed.spans.append(pair.span(measured, parsed.flows[-1]))
                succeeded.append(measured)
        pair.add_totals(parsed, succeeded)
    return parsed


def flows_of(spec: Spec) -> list[tuple[str, int]]:
    """Direction and number within the direction of each flow of a pair, in the order of the rows."""
    return [(direction, number) for direction in spec.directions for number in range(spec.flows_per_pair)]


def started(client: Process, release_ns: int) -> Row:
    """The start of a client, from the release; empty if it was never released."""
    return {} if client.start_ns is None else {"start_s": (client.start_ns - release_ns) / 1e9}


def begun_s(measured: FlowReport, row: Row) -> float:
    """When a flow's connection was established, from the release, or the earliest time if its tool does not report it.

    The earliest time is its client's start plus the time that connecting took, as far as the tool or the kernel reports
    it. The time it waited for a CPU before that is not included.
    """
    # The client's end minus the flow's duration is a bound only: with 50 clients on 2 CPUs it is up to 0.6 s late, and
    # iperf 2.1.8 sometimes waits for a second at the end.
    return row.get("connected_s", row["start_s"] + (measured.connect_s or 0.0))


@dataclass(frozen=True)
class _Pair:
    """A pair's processes and their task. isolated: see read_flows."""

    spec: Spec
    workload: Workload
    release_ns: int
    isolated: bool
    number: int
    task: Task
    client: Process
    server: Process

    @cached_property
    def reported(self) -> dict[tuple[str, int], FlowReport]:
        """The tool's results by direction and number (flows_of).

        A client of which some flows failed exits with an error, but has results.
        """
        try:
            results = self.workload.parse(self.client.stdout, self.server.stdout)
            own_columns.require_declared(self.workload, results)
            trouble = "" if any(measured.error for measured in results) else self.client.failure
        except Exception as error:  # whatever a plugin raises is this client's failure, and no other's
            results, trouble = [], self.client.failure or located(error, inspect.getfile(type(self.workload)))
        if trouble:
            return {each: FlowReport({}, error=trouble) for each in flows_of(self.spec)}
        return {(measured.direction, measured.number): measured for measured in results}

    def row(self, number: int, direction: str, of_direction: int) -> Row:
        """A flow's row before the tool's report. Counts of a process, or of a sender's namespace, cover all of the
        pair's flows: only the first flow's row has them.
        """
        task, spec = self.task, self.spec
        row: Row = {"pair": self.number, "flow": number, "direction": direction, "protocol": task.protocol}
        row |= {"role": task.role, "priority": task.priority, "size_bytes": task.flow_bytes or None}
        row |= {"intended_start_s": spec.due_s(self.number), **started(self.client, self.release_ns)}
        sides = {"client": self.client, "server": self.server}
        if not number:
            row |= {f"{side}_{name}": getattr(each, name) for side, each in sides.items() for name in OF_PROCESSES}
        if not of_direction:
            sender = self.client if direction == "up" else self.server
            row["netns_retransmits"] = sender.tcp_retransmits if self.isolated and task.protocol == "tcp" else None
            row["diag_retransmits"] = sender.diag_retransmits
        return row

    def measured(self, direction: str, of_direction: int, silent_s: float | None) -> FlowReport:
        """The tool's report of a flow, with the connection time as far as it is known.

        If the tool does not report it, it is the least time that the client waited, by the namespace's count of
        retransmitted SYNs: one timeout, as several SYNs may be of connections that waited at the same time.
        Flows of a fixed size count from the client's start if the tool reports nothing else, as in the papers.
        """
        missing = FlowReport({}, error=f"{self.workload.name} reported no result for this flow")
        measured = self.reported.get((direction, of_direction)) or missing
        if measured.connected_ns is not None or self.task.flow_bytes:
            return measured
        waits = self.isolated and self.workload.connects_first and self.task.protocol == "tcp"
        if measured.connect_s is None and waits and self.client.syn_retransmits:
            measured = replace(measured, connect_s=SYN_AGAIN_S)
        if not self.workload.sends_traffic or measured.error:
            return measured
        return replace(measured, connect_s=self._connected_after_s(measured, silent_s))

    def _connected_after_s(self, measured: FlowReport, silent_s: float | None) -> float | None:
        """Time from the client's start to the begin of a flow, if the tool does not report the moment.

        At least the time that connecting took (connect_s), and until its link sent more than a handshake, less the time
        that the tool waits by itself. Where the link cannot be seen, at most so late that the flow lasted to its
        client's end; then that is taken.
        """
        start_ns, end_ns = self.client.start_ns, self.client.end_ns
        if start_ns is None or end_ns is None:
            return measured.connect_s
        if silent_s is not None:
            begun_after_s = silent_s - (start_ns - self.release_ns) / 1e9
        else:
            begun_after_s = (end_ns - start_ns) / 1e9 - _lasted_s(measured)
        return max(measured.connect_s or 0.0, begun_after_s - self.workload.start_delay_s)

    def read(self, measured: FlowReport, row: Row, detected_s: float) -> tuple[Row, list[Row]]:
        """The remaining columns of a flow's row, and the flow's intervals. Raises ValueError for a failed flow.

        detected_s: warm-up detected beyond the spec's.
        """
        spec, timed = self.spec, not self.task.flow_bytes
        warmup_s, until_s = counted_s(spec, self.number, detected_s) if timed else (0.0, math.inf)
        if measured.error:
            client, due_ns = self.client, self.release_ns + 1e9 * row["intended_start_s"]
            killed = not timed and client.signal and client.start_ns is not None and client.end_ns is not None
            if killed and (client.end_ns - due_ns) / 1e9 >= spec.duration_s:
                raise ValueError(f"the flow did not complete within {spec.duration_s:g} s")
            raise ValueError(measured.error)
        done: Row = {}
        for column, moment_ns in (("connected_s", measured.connected_ns), ("first_byte_s", measured.first_byte_ns)):
            if moment_ns is not None:
                done[column] = (moment_ns - self.release_ns) / 1e9
        began_s = begun_s(measured, row | done)  # tools count from the connection
        if timed:
            require_duration(measured, spec.total_s)
            if self.task.protocol == "tcp":  # datagrams may arrive out of order, so there are no intervals
                measured = measured if measured.windowed else window(measured, warmup_s, until_s)
                _require_transactions(measured.flow)
            done |= measured.flow
        else:
            done |= {**measured.flow, **self._completion(measured, row, began_s)}
            if done["fct_s"] > spec.duration_s:
                raise ValueError(f"the flow did not complete within {spec.duration_s:g} s")
        place = {"pair": row["pair"], "flow": row["flow"]}
        return done, [{**place, **_interval(each, began_s, warmup_s)} for each in measured.intervals]

    def _completion(self, measured: FlowReport, row: Row, begun_s: float) -> Row:
        """Completion of a flow of a fixed size: as the tool reports it, else the client's end, as in the papers."""
        completed_ns = measured.completed_ns
        if completed_ns is None:
            if self.server.failure and self.server.ended_by_itself:
                raise ValueError(f"its server {self.server.failure}")
            completed_ns = self.client.end_ns
        assert completed_ns is not None  # its client has ended, as its tool reported
        completed_s = (completed_ns - self.release_ns) / 1e9
        return {
            "completed_s": completed_s,
            "fct_s": completed_s - row["start_s"],
            "intended_fct_s": completed_s - row["intended_start_s"],
            "duration_s": completed_s - begun_s,
            "flow_bytes": self.task.flow_bytes,
            "throughput_bps": self.task.flow_bytes * 8 / (completed_s - begun_s),
        }

    def span(self, measured: FlowReport, row: Row) -> tuple[float, float]:
        """Begin of a successful flow, as precisely as the tool reports it, and its end; from the release."""
        began_s = begun_s(measured, row)
        return began_s, row["completed_s"] if self.task.flow_bytes else began_s + measured.flow["duration_s"]

    def add_totals(self, parsed: ParsedFlows, succeeded: Sequence[FlowReport]) -> None:
        """Adds the pair's totals for the cross-checks, most of them only if all flows succeeded."""
        all_succeeded = len(succeeded) == len(flows_of(self.spec))
        if self.task.protocol == "udp" and succeeded:
            overrun_s = max(measured.flow["duration_s"] for measured in succeeded) - self.spec.total_s
            parsed.checks["overrun"] = max(overrun_s / self.spec.total_s, parsed.checks["overrun"] or 0.0)
            if all_succeeded and self.isolated:
                self._add_datagrams(parsed, succeeded)
        if self.task.protocol != "tcp" or not all_succeeded:
            return
        if self.task.flow_bytes or None not in [each.received_bytes for each in succeeded]:
            self._add_received(parsed, succeeded)
        retransmits = [measured.flow.get("retransmits") for measured in succeeded]
        if None not in retransmits:
            parsed.retransmits[self.number] = sum(each or 0.0 for each in retransmits)
            parsed.netns_retransmits[self.number] = self._counted_by_kernel(succeeded) if self.isolated else None

    def _add_received(self, parsed: ParsedFlows, succeeded: Sequence[FlowReport]) -> None:
        """Bytes at the receivers whose links are compared: at the server, or for direction "down" at the client."""
        by_direction = {"up": 0.0, "down": 0.0}
        for each in succeeded:
            by_direction[each.direction] += self.task.flow_bytes if each.received_bytes is None else each.received_bytes
        if self.spec.direction == "both":
            received, answered = by_direction["up"], by_direction["down"]
        else:
            received, answered = sum(by_direction.values()), sum(each.answered_bytes or 0.0 for each in succeeded)
        parsed.received_bytes[self.number], parsed.answered_bytes[self.number] = received, answered

    def _counted_by_kernel(self, succeeded: Sequence[FlowReport]) -> tuple[int, int] | None:
        """Segments retransmitted in the senders' namespaces, at least and at most; None: unknown.

        Up to the tool's last count of each sender, as the kernel sends buffered data later; else up to its end.
        """
        counted = []
        for direction in dict.fromkeys(measured.direction for measured in succeeded):
            sender = self.client if direction == "up" else self.server
            sent = [measured.netns_retransmits for measured in succeeded if measured.direction == direction]
            counts = [each for each in sent if each]
            earlier, by_end = sender.tcp_retransmits_before, sender.tcp_retransmits_by_end
            if len(counts) == len(sent) and earlier is not None:
                least, most = min(least for least, _ in counts), max(most for _, most in counts)
                counted.append((least - earlier, most - earlier))
            elif by_end is not None:
                counted.append((by_end, by_end))
            else:
                return None
        return sum(least for least, _ in counted), sum(most for _, most in counted)

    def _add_datagrams(self, parsed: ParsedFlows, succeeded: Sequence[FlowReport]) -> None:
        """Datagrams that arrived in the server's namespace, by the tool's and the kernel's counts, where both exist."""
        datagrams, payloads_bytes = zip(*map(_datagrams, succeeded), strict=True)
        if self.server.udp_receive_errors is not None and None not in datagrams:
            received = sum(datagrams)
            arrived = parsed.datagrams[self.number] = received + self.server.udp_receive_errors
            parsed.datagram_bytes[self.number] = sum(payloads_bytes) * arrived / received if received else 0.0


def _datagrams(measured: FlowReport) -> tuple[float | None, float]:
    """Datagrams that a flow's server received, and their payload; None: the tool does not report them."""
    if measured.received_datagrams is not None:
        return measured.received_datagrams, measured.received_bytes or 0.0
    return measured.flow.get("datagrams_received"), measured.flow.get("flow_bytes", 0.0)


def _steps_bytes(spec: Spec, pairs: Sequence[_Pair]) -> np.ndarray:
    """Bytes of all timed TCP flows together that lasted their whole time, in each interval after the warm-up.

    From the end of the last client's warm-up to the end of the first client. The steps are the same
    for all flows, as a flow's own samples may be late.
    """
    together_s = spec.duration_s - spec.last_due_s
    edges_s = spec.interval_s * np.arange(int(together_s / spec.interval_s + 1e-6) + 1)
    carried = [
        carried_in(counted_s(spec, pair.number)[0] + edges_s, measured.intervals)
        for pair in pairs
        for measured in pair.reported.values()
        if measured.intervals and not measured.error and _lasted_s(measured) >= LEAST_SHARE * spec.total_s
    ]
    return np.sum(carried, axis=0) if carried and not spec.flow_bytes else np.empty(0)


def _unread_share(pairs: Sequence[_Pair]) -> float | None:
    reports = [each for pair in pairs for each in pair.reported.values() if each.unread_bytes is not None]
    read_bytes = sum(each.flow["flow_bytes"] for each in reports)
    return sum(each.unread_bytes or 0.0 for each in reports) / read_bytes if read_bytes else None


def _late_end_share(spec: Spec, pairs: Sequence[_Pair]) -> float | None:
    """The check late_end; None for tools that report no intervals."""
    reported_bps = in_time_bps = 0.0
    for pair in pairs:
        for measured in pair.reported.values():
            is_timed_tcp = pair.task.protocol == "tcp" and not pair.task.flow_bytes and not measured.error
            if is_timed_tcp and measured.intervals and measured.flow["flow_bytes"]:
                reported_bps += measured.flow["flow_bytes"] * 8 / _lasted_s(measured)
                in_time_s = min(_lasted_s(measured), spec.total_s)
                in_time_bps += carried_in([0.0, in_time_s], measured.intervals)[0] * 8 / in_time_s
    return in_time_bps / reported_bps - 1 if reported_bps else None


def _require_transactions(flow: Mapping[str, Any]) -> None:
    """Raises ValueError where no transaction completed and none was lost."""
    if flow.get("transactions") == 0 and not flow.get("transactions_lost"):
        failed = flow.get("transactions_failed") or 0
        why = f"all {failed:,.0f} failed" if failed else "none ended in the time that counts"
        raise ValueError(f"there was no transaction: {why}")


def _interval(row: Mapping[str, Any], begun_s: float, warmup_s: float) -> Row:
    times = {"start_s": row["start_s"] + begun_s, "end_s": row["end_s"] + begun_s}
    return {**row, **times, "warmup": row["start_s"] < warmup_s - 1e-3}


def require_duration(measured: FlowReport, total_s: float) -> None:
    """Raises ValueError where a timed flow ended early: iperf exits with 0 also when its connection breaks."""
    if (lasted_s := _lasted_s(measured)) < LEAST_SHARE * total_s:
        raise ValueError(f"the flow ended after {lasted_s:.2f} of {total_s:g} s")


def _lasted_s(measured: FlowReport) -> float:
    return measured.flow["duration_s"] if measured.lasted_s is None else measured.lasted_s
