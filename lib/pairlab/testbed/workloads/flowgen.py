"""flowgen, pairlab's own generator: requires nothing in the container, and reports TCP_INFO."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import MOST_DATAGRAM_BYTES, FlowgenWorkload, FlowReport, Site, reports, token_options
from pairlab.testbed.endpoints import Pair, Task, with_port

#: A line of a report.
Line = Mapping[str, Any]

#: Columns copied from a total, by protocol.
KEPT = {
    "tcp": ("retransmits", "rtt_s", "min_rtt_s", "cwnd_bytes", "delivery_rate_bps"),
    "udp": ("datagrams_sent", "datagrams_received", "datagrams_lost", "datagrams_reordered"),
}

#: flowgen's own header.
LEAST_DATAGRAM_BYTES = 40


class Flowgen(FlowgenWorkload):
    """TCP by time or by bytes, and UDP by time, as fast as it goes or at a rate.

    Bytes are payload: for TCP acknowledged by the receiver (tcp(7), TCP_INFO), for UDP received by the server. A flow
    with an end is complete when its receiver has read the last byte. A UDP flow lasts until the last datagram was sent
    or, if later, received; datagrams have 1448 bytes, or message_bytes. With direction down or both, the server sends
    by TCP on the client's request, and each end reports the flows that it sends.
    """

    name = "flowgen"
    summary = "flowgen: TCP by time or by bytes, and UDP; exact, built with pairlab"
    features = frozenset({"time", "bytes", "flows", "directions", "message", "udp", "warmup", "intervals", "ipv6"})
    chooses_congestion_control = True
    runs_until_stopped = True

    def check(self, spec: Spec) -> None:
        if spec.udp_share and spec.warmup_s:
            raise BadSpec("flowgen reports no intervals for UDP, so warmup_s could not be left out: leave it at 0")
        fits = not spec.message_bytes or LEAST_DATAGRAM_BYTES <= spec.message_bytes <= MOST_DATAGRAM_BYTES
        if spec.udp_share and not fits:
            raise BadSpec(
                f"flowgen sends UDP with message_bytes from {LEAST_DATAGRAM_BYTES} to {MOST_DATAGRAM_BYTES},"
                f" not {spec.message_bytes}: its header has {LEAST_DATAGRAM_BYTES} bytes, and IPv4 carries no more in a"
                " datagram; sockperf sends from 14"
            )

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = self.listening(pair, site)
        argv += ["--sends"] if spec.direction != "up" else []
        return [*argv, "--udp"] if pair.task.protocol == "udp" else argv

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = [site.flowgen, "client", "--connect", with_port(pair.target, pair.port), *token_options(site)]
        argv += self._udp(spec) if pair.task.protocol == "udp" else self._tcp(pair.task, spec)
        argv += ["--flows", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["--direction", spec.direction] if spec.direction != "up" else []
        argv += ["--write-bytes", str(spec.message_bytes)] if spec.message_bytes else []
        return argv

    def endless_client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return [*self.client(pair, spec, site), "--stoppable"]

    def _udp(self, spec: Spec) -> list[str]:
        rate = ["--rate", str(max(1, round(spec.udp_rate_bps)))] if spec.udp_rate_bps else []
        return ["--udp", "--duration", f"{spec.total_s:g}", *rate]

    def _tcp(self, task: Task, spec: Spec) -> list[str]:
        argv = ["--interval", f"{spec.interval_s:g}"]
        argv += ["--congestion", spec.congestion_control] if spec.congestion_control else []
        if task.flow_bytes:
            return [*argv, "--bytes", str(task.flow_bytes), "--limit", f"{spec.duration_s:g}"]
        return [*argv, "--duration", f"{spec.total_s:g}"]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        lines, received = reports.json_lines("flowgen", stdout), reports.json_lines("flowgen's server", served)
        with reports.read("flowgen"):
            if down := [line for line in lines if line.get("direction") == "down"]:
                up = [line for line in lines if line not in down]
                return [*(self._up(up, received) if up else ()), *_down(down, received)]
            return self._up(lines, received)

    def _up(self, lines: Sequence[Line], received: Sequence[Line]) -> list[FlowReport]:
        """Reports of the flows that the client sent."""
        totals = [line for line in lines if line["event"] == "total"]
        if not totals:
            raise ValueError("flowgen reported 0 totals, not one for each flow")
        arrived = [line for line in received if line["event"] == "received" and line.get("direction") != "down"]
        by_port = {_port(line["peer"]): line for line in arrived}
        if len(totals) == len(arrived) == 1:  # a proxy in between connects from a port of its own
            by_port = {_port(totals[0].get("local")): arrived[0]}
        intervals = _intervals(lines)
        return [_measured(total, intervals, by_port.get(_port(total.get("local")), {})) for total in totals]


def _down(arrived: Sequence[Line], served: Sequence[Line]) -> list[FlowReport]:
    """Reports of the flows that the server sent. arrived: the client's line on each flow's received bytes."""
    totals = {int(line["flow"]): line for line in served if line["event"] == "total"}
    intervals = _intervals(line for line in served if line["event"] == "interval")
    return [_measured_down(received, totals.get(int(received["flow"])), intervals) for received in arrived]


def _measured_down(received: Line, total: Line | None, intervals: Mapping[int, list[Line]]) -> FlowReport:
    number = int(received["flow"])
    if total is None:
        error = received.get("error") or "the server reported nothing of a flow that it was to send"
        return FlowReport({}, number=number, direction="down", error=f"flowgen: {error}")
    measured = _measured(total, intervals, received)
    if "complete" not in total and not received.get("ended"):
        measured = replace(measured, received_bytes=None)  # the rest was still in flight
    return replace(measured, direction="down")


def _intervals(lines: Iterable[Line]) -> dict[int, list[Line]]:
    """The interval lines, by the number of their flow."""
    by_flow: dict[int, list[Line]] = {}
    for line in lines:
        if line["event"] == "interval":
            by_flow.setdefault(int(line.get("flow", 0)), []).append(line)
    return by_flow


def _port(address: str | None) -> str:
    """The client's port, which identifies a pair's flow; NAT may have replaced the client's address."""
    return (address or "").rpartition(":")[2]


def _measured(total: Line, intervals: Mapping[int, list[Line]], received: Line) -> FlowReport:
    """One flow, from the client's total and intervals, and the server's line on received bytes."""
    number = int(total.get("flow", 0))
    if error := _trouble(total, received):
        return FlowReport({}, number=number, error=f"flowgen: {error}")
    protocol = total.get("protocol", "tcp")
    flow: dict[str, Any] = {key: float(total[key]) for key in ("duration_s", "flow_bytes", "throughput_bps")}
    flow |= {key: reports.number(total, key) for key in KEPT[protocol]}
    if protocol == "udp":
        return FlowReport(flow, number=number, first_byte_ns=_whole(total, "first_ns"))
    return FlowReport(
        {**flow, "congestion_control": str(total["congestion_control"])},
        [_row(line) for line in intervals.get(number, ())],
        connected_ns=int(total["connected_ns"]),
        number=number,
        received_bytes=reports.number(received, "flow_bytes"),
        first_byte_ns=_whole(received, "first_ns"),
        completed_ns=_whole(received, "last_ns") if "complete" in total else None,
        netns_retransmits=_by_kernel(total),
    )


def _trouble(total: Line, received: Line) -> str:
    """The reason of a flow's failure; of a flow with an end, the receiver must have all bytes."""
    if total.get("error"):
        return total["error"]
    if "complete" not in total:
        return ""
    sent, arrived = int(total["bytes_written"]), int(received.get("flow_bytes", 0))
    receiver = "client" if total.get("direction") == "down" else "server"
    if total["complete"] and arrived == sent:
        return ""
    return f"the {receiver} received {arrived} of {sent} bytes"


def _row(line: Line) -> dict[str, float | None]:
    start_s, end_s, interval_bytes = (float(line[key]) for key in ("start_s", "end_s", "bytes"))
    return {
        "start_s": start_s,
        "end_s": end_s,
        "interval_bytes": interval_bytes,
        "throughput_bps": interval_bytes * 8 / (end_s - start_s) if end_s > start_s else None,
        "retransmits": reports.number(line, "retransmits"),
        "rtt_s": reports.number(line, "rtt_s"),
        "cwnd_bytes": reports.number(line, "cwnd_bytes"),
    }


def _by_kernel(total: Line) -> tuple[int, int] | None:
    before, after = (_whole(total, f"netns_retransmits_{when}") for when in ("before", "after"))
    return None if before is None or after is None else (before, after)


def _whole(line: Line, key: str) -> int | None:
    return None if line.get(key) is None else int(line[key])
