"""flowgen, pairlab's own generator: needs nothing in the container, and reports TCP_INFO."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pairlab.errors import BadSpec
from pairlab.testbed import token
from pairlab.testbed.contracts import Measured, Workload

#: Columns taken from a total as they are, by protocol.
KEPT = {
    "tcp": ("retransmits", "rtt_s", "min_rtt_s", "cwnd_bytes", "delivery_rate_bps"),
    "udp": ("datagrams_sent", "datagrams_received", "datagrams_lost", "datagrams_reordered"),
}

#: Its own header, and the most that IPv4 carries in a datagram.
LEAST_DATAGRAM_BYTES, MOST_DATAGRAM_BYTES = 40, 65507


class Flowgen(Workload):
    """TCP by time or by bytes, and UDP by time, as fast as it goes or at a rate.

    Bytes are of payload: of TCP those the receiver acknowledged (tcp(7), TCP_INFO), of UDP those the server received.
    A flow with an end is complete when its receiver has read the last byte. A UDP flow lasts as long as it was sent, or
    until the last datagram came where that was later; datagrams have 1448 bytes, or message_bytes. With direction down
    or both, its server sends by TCP what its client asks for, and each end reports of what it sends.
    """

    name = "flowgen"
    summary = "flowgen: TCP by time or by bytes, and UDP; exact, built with pairlab"
    can = frozenset({"time", "bytes", "flows", "directions", "message", "udp", "warmup", "intervals"})
    chooses_congestion_control = True
    endless = True

    @classmethod
    def version_command(cls, flowgen):
        return (flowgen, "version")

    def check(self, spec):
        if spec.udp_share and spec.warmup_s:
            raise BadSpec("flowgen reports no intervals for UDP, so warmup_s could not be left out: leave it at 0")
        fits = not spec.message_bytes or LEAST_DATAGRAM_BYTES <= spec.message_bytes <= MOST_DATAGRAM_BYTES
        if spec.udp_share and not fits:
            raise BadSpec(
                f"flowgen sends UDP with message_bytes from {LEAST_DATAGRAM_BYTES} to {MOST_DATAGRAM_BYTES},"
                f" not {spec.message_bytes}: its header has {LEAST_DATAGRAM_BYTES} bytes, and IPv4 carries no more in a"
                " datagram; sockperf sends from 14"
            )

    def prepare(self, spec, directory):
        token.write(directory)

    def server(self, pair, spec, site):
        argv = [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port), *token.options(site)]
        argv += ["--sends"] if spec.direction != "up" else []
        return [*argv, "--udp"] if pair.task.protocol == "udp" else argv

    def client(self, pair, spec, site):
        argv = [site.flowgen, "client", "--connect", f"{pair.target}:{pair.port}", *token.options(site)]
        argv += self._udp(spec) if pair.task.protocol == "udp" else self._tcp(pair.task, spec)
        argv += ["--flows", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["--direction", spec.direction] if spec.direction != "up" else []
        argv += ["--write-bytes", str(spec.message_bytes)] if spec.message_bytes else []
        return argv

    def endless_client(self, pair, spec, site):
        return [*self.client(pair, spec, site), "--stoppable"]

    def _udp(self, spec):
        rate = ["--rate", str(max(1, round(spec.udp_rate_bps)))] if spec.udp_rate_bps else []
        return ["--udp", "--duration", f"{spec.total_s:g}", *rate]

    def _tcp(self, task, spec):
        argv = ["--interval", f"{spec.interval_s:g}"]
        argv += ["--congestion", spec.congestion_control] if spec.congestion_control else []
        if task.flow_bytes:
            return [*argv, "--bytes", str(task.flow_bytes), "--limit", f"{spec.duration_s:g}"]
        return [*argv, "--duration", f"{spec.total_s:g}"]

    def parse(self, stdout, served=""):
        lines, received = _lines(stdout, "flowgen"), _lines(served, "flowgen's server")
        try:
            if asked := [line for line in lines if line.get("direction") == "down"]:
                up = [line for line in lines if line not in asked]
                return [*(self._up(up, received) if up else ()), *_down(asked, received)]
            return self._up(lines, received)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"flowgen's report is incomplete: {error!r}") from None

    def _up(self, lines, received):
        """The flows that the client sent, and reports on."""
        totals = [line for line in lines if line["event"] == "total"]
        if not totals:
            raise ValueError("flowgen reported 0 totals, not one for each flow")
        arrived = [line for line in received if line["event"] == "received" and line.get("direction") != "down"]
        by_port = {_port(line["peer"]): line for line in arrived}
        if len(totals) == len(arrived) == 1:  # a proxy in between connects from a port of its own
            by_port = {_port(totals[0].get("local")): arrived[0]}
        intervals = _intervals(lines)
        return [_measured(total, intervals, by_port.get(_port(total.get("local")), {})) for total in totals]


def _down(asked, served):
    """The flows that the server sent, and reports on; asked: what the client reports that it received of each."""
    totals = {int(line["flow"]): line for line in served if line["event"] == "total"}
    intervals = _intervals(line for line in served if line["event"] == "interval")
    return [_measured_down(received, totals.get(int(received["flow"])), intervals) for received in asked]


def _measured_down(received, total, intervals):
    number = int(received["flow"])
    if total is None:
        why = received.get("error") or "the server reported nothing of a flow that it was to send"
        return Measured({}, number=number, direction="down", error=f"flowgen: {why}")
    measured = _measured(total, intervals, received)
    if "complete" not in total and not received.get("ended"):
        measured = replace(measured, received_bytes=None)  # the rest was still on its way
    return replace(measured, direction="down")


def _intervals(lines):
    """By the number of their flow."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for line in lines:
        if line["event"] == "interval":
            found.setdefault(int(line.get("flow", 0)), []).append(line)
    return found


def _port(address):
    """The client's port, which tells flows of a pair apart; on the way, NAT may have replaced its address."""
    return (address or "").rpartition(":")[2]


def _lines(text, whose):
    try:
        return [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{whose} printed no complete report: {error}") from None


def _measured(total, intervals, received):
    """One flow, from the client's total and intervals, and from what the server received of it."""
    number = int(total.get("flow", 0))
    if error := _trouble(total, received):
        return Measured({}, number=number, error=f"flowgen: {error}")
    protocol = total.get("protocol", "tcp")
    flow = {key: float(total[key]) for key in ("duration_s", "flow_bytes", "throughput_bps")}
    flow |= {key: _number(total, key) for key in KEPT[protocol]}
    if protocol == "udp":
        return Measured(flow, number=number, first_byte_ns=_whole(total, "first_ns"))
    return Measured(
        {**flow, "congestion_control": str(total["congestion_control"])},
        [_row(line) for line in intervals.get(number, ())],
        connected_ns=int(total["connected_ns"]),
        number=number,
        received_bytes=_number(received, "flow_bytes"),
        first_byte_ns=_whole(received, "first_ns"),
        completed_ns=_whole(received, "last_ns") if "complete" in total else None,
        netns_retransmits=_by_kernel(total),
    )


def _trouble(total, received):
    """Why a flow failed; of one with an end, the server must have all that was sent."""
    if total.get("error"):
        return total["error"]
    if "complete" not in total:
        return ""
    sent, arrived = int(total["bytes_written"]), int(received.get("flow_bytes", 0))
    who = "client" if total.get("direction") == "down" else "server"
    if total["complete"] and arrived == sent:
        return ""
    return f"the {who} received {arrived} of {sent} bytes"


def _row(line):
    start_s, end_s, interval_bytes = (float(line[key]) for key in ("start_s", "end_s", "bytes"))
    return {
        "start_s": start_s,
        "end_s": end_s,
        "interval_bytes": interval_bytes,
        "throughput_bps": interval_bytes * 8 / (end_s - start_s) if end_s > start_s else None,
        "retransmits": _number(line, "retransmits"),
        "rtt_s": _number(line, "rtt_s"),
        "cwnd_bytes": _number(line, "cwnd_bytes"),
    }


def _number(line, key):
    """That value, or None where this system's TCP_INFO has it not."""
    return None if line.get(key) is None else float(line[key])


def _by_kernel(total):
    counts = [_whole(total, f"netns_retransmits_{when}") for when in ("before", "after")]
    return None if None in counts else tuple(counts)


def _whole(line, key):
    return None if line.get(key) is None else int(line[key])
