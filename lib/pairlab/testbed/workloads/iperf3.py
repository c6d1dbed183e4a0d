"""iperf3."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import MOST_DATAGRAM_BYTES, FlowReport, Site, Workload, reports
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

#: Of the table `intervals`.
Row = dict[str, Any]

#: The error of a stopped client, and the possible errors of its server, which may be stopped first. Since 3.19 both add
#: the signal.
STOPPED = "interrupt - the client has terminated"
OF_STOPPED = ("the client has terminated", "interrupt - the server has terminated")

#: The negligible share of unread bytes, relative to the bytes that the server read.
KNOWN = 0.002


class Iperf3(Workload):
    """TCP at full rate, or UDP, reported by the client as JSON, with its server's report in it (--get-server-output).

    Bytes are those that the other end received: totals, and intervals too if its report has them (older runs have no
    server's report). Retransmits, RTT and window are the sender's. A UDP flow has totals only.
    """

    name = "iperf3"
    summary = "iperf3: TCP at full rate, and UDP"
    features = frozenset({"time", "flows", "message", "udp", "warmup", "intervals", "directions", "ipv6"})
    takes: ClassVar[Mapping[str, tuple[int, int]]] = {"flows_per_pair": (1, 128), "message_bytes": (1, 1 << 20)}
    whole_seconds = True
    chooses_congestion_control = True
    runs_until_stopped = True
    programs = (Program("iperf3", "iperf3"),)
    version_argv = ("iperf3", "--version")
    counts_connections = True
    connects_first = True  # a test starts once the control connection and all streams are established

    signal_message = "interrupt - the "  # followed by which of the two
    listens_by_tcp = True
    counter_lag_s = 0.1  # the client counts when it ends the test, and closes after the server's report

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.udp_share and spec.warmup_s:
            raise BadSpec("iperf3's totals of UDP have the warm-up in them: leave warmup_s at 0")
        if spec.udp_share and spec.message_bytes > MOST_DATAGRAM_BYTES:  # also by IPv6: iperf3's MAX_UDP_BLOCKSIZE
            raise BadSpec(f"iperf3 sends UDP with message_bytes up to {MOST_DATAGRAM_BYTES}, not {spec.message_bytes}")

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["iperf3", "-s", "-B", pair.server.address, "-p", str(pair.port)]
        return [*argv, "-i", f"{spec.interval_s:g}", "--json"]

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["iperf3", "-c", pair.target, "-p", str(pair.port)]
        argv += ["-t", f"{spec.total_s:.0f}", "-i", f"{spec.interval_s:g}", "--json", "--get-server-output"]
        argv += {"up": [], "down": ["--reverse"], "both": ["--bidir"]}[spec.direction]
        argv += ["-P", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["-l", str(spec.message_bytes)] if spec.message_bytes else []
        if pair.task.protocol == "udp":
            return [*argv, "-u", "-b", str(round(spec.udp_rate_bps))]  # 0: as fast as possible
        argv += ["-C", spec.congestion_control] if spec.congestion_control else []
        return argv

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        report = _report(stdout)
        if isinstance(report, dict) and "error" in report:
            raise ValueError(f"iperf3: {report['error']}")
        return self._measured(report)

    def parse_stopped(self, stdout: str, served: str = "") -> list[FlowReport]:
        """Parses a stopped client's report with its server's own output, as the client does not fetch that report."""
        report, of_server = _report(stdout), _report(served, of_several=True)
        if not isinstance(report, dict) or not isinstance(of_server, dict):
            raise ValueError("iperf3 printed no report")
        if not str(report.pop("error", STOPPED)).startswith(STOPPED):
            return self.parse(stdout)
        if not str(of_server.pop("error", OF_STOPPED[0])).startswith(OF_STOPPED):
            return self.parse(served)
        with reports.read("iperf3"):
            if of_server["intervals"][-2:-1] == of_server["intervals"][-1:]:  # the last one is printed twice
                of_server["intervals"].pop()
            for stream, of_stream in zip(report["end"]["streams"], of_server["end"]["streams"], strict=True):
                stream["receiver"] = of_stream["receiver"]
        return self._measured({**report, "server_output_json": of_server})

    def _measured(self, report: Mapping[str, Any]) -> list[FlowReport]:
        with reports.read("iperf3"):
            streams = report["end"]["streams"]
            if not streams:
                raise ValueError("iperf3 reported no transfer")
            of_server = _intervals_of_server(report)
            if report["start"]["test_start"]["protocol"] == "UDP":
                return [_of_datagrams(index, report, of_server) for index in range(len(streams))]
            return [_measured(index, report, of_server) for index in range(len(streams))]


def _report(text: str, of_several: bool = False) -> Any:
    """The printed report; between 3.16 and 3.17, each is printed twice. of_several: take the first of a server's, which
    prints another, without a test, when it is stopped.
    """
    text = text.strip()
    try:
        report, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"iperf3 printed no complete report: {error}") from None
    if not of_several and text[end:].strip() not in ("", text[:end]):
        raise ValueError(
            f"iperf3 printed {text[end:].strip()[:80]!r} after its report; expected one report, or twice the same"
        )
    return report


def _intervals_of_server(report: Mapping[str, Any]) -> dict[int, Any]:
    """The server's intervals of each stream, by the client's port, if reported.

    A proxy connects from ports of its own. Then a stream is identified if no other has its direction.
    """
    server = report.get("server_output_json")
    if server is None:
        return {}
    if "error" in server:
        raise ValueError(f"iperf3's server: {server['error']}")
    client_ports = [int(each["local_port"]) for each in report["start"]["connected"]]
    server_ports = [int(each["remote_port"]) for each in server["start"]["connected"]]
    directions = [_is_down(stream) for stream in report["end"]["streams"]]
    if not set(client_ports) & set(server_ports) and len(server_ports) == len(directions) == len(set(directions)):
        server_ports = client_ports
    if unknown := [port for port in client_ports if port not in server_ports]:
        raise ValueError(
            f"iperf3's server reports no stream from its client's port {unknown[0]}, but from"
            f" {', '.join(map(str, server_ports)) or 'none'}: a proxy replaces the ports; leave flows_per_pair at 1"
        )
    streams = zip(*(interval["streams"] for interval in server["intervals"]), strict=True)
    return dict(zip(server_ports, streams, strict=True))


def _is_down(stream: Mapping[str, Any]) -> bool:
    return stream.get("sender", {}).get("sender") is False  # UDP flows, which go up only, have no such part


def _measured(index: int, report: Mapping[str, Any], of_server: Mapping[int, Any]) -> FlowReport:
    """One flow. Every interval lists the streams in the order of the end report and of their connections."""
    stream = report["end"]["streams"][index]
    sent, arrived = stream["sender"], stream["receiver"]
    down = _is_down(stream)
    of_sender = [interval["streams"][index] for interval in report["intervals"]]
    arrivals = of_server[int(report["start"]["connected"][index]["local_port"])] if of_server else ()
    if down:
        of_sender, arrivals = arrivals, of_sender
    intervals = [_row(each) for each in of_sender]
    last = intervals[-1] if intervals else {}
    if arrivals:
        intervals = _with_arrivals(intervals, arrivals, reports.number(sent, "retransmits"))
    duration_s = float(arrived["end"]) - float(arrived["start"])  # the receiver's; its `seconds` are the sender's
    flow_bytes = float(arrived["bytes"])
    flow = {
        "duration_s": duration_s,
        "flow_bytes": flow_bytes,
        "throughput_bps": flow_bytes * 8 / duration_s if duration_s > 0 else 0.0,
        "retransmits": reports.number(sent, "retransmits"),
        "min_rtt_s": reports.number(sent, "min_rtt", 1e-6) or None,
        "rtt_s": last.get("rtt_s"),
        "cwnd_bytes": last.get("cwnd_bytes"),
        "congestion_control": str(report["end"].get("sender_tcp_congestion", "")),
    }
    # Data in flight at the end may have arrived without being read: then the received bytes are unknown.
    unread_bytes = float(sent["bytes"]) - flow_bytes
    received_bytes = flow_bytes if unread_bytes <= KNOWN * flow_bytes else None
    return FlowReport(
        flow,
        intervals,
        number=_number_in_direction(index, report),
        direction="down" if down else "up",
        received_bytes=received_bytes,
        unread_bytes=max(0.0, unread_bytes),
    )


def _of_datagrams(index: int, report: Mapping[str, Any], of_server: Mapping[int, Any]) -> FlowReport:
    """A UDP flow. The server's bytes tell the datagrams that arrived, as all have one length; its count of lost ones
    ends with the last that arrived.
    """
    stream, datagram_bytes = report["end"]["streams"][index]["udp"], report["start"]["test_start"]["blksize"]
    arrived = of_server[int(report["start"]["connected"][index]["local_port"])]
    sent, received_bytes = int(stream["packets"]), sum(int(each["bytes"]) for each in arrived)
    received = received_bytes // datagram_bytes
    if not received:
        raise ValueError("iperf3's server reported no datagrams: none arrived")
    flow = reports.totals(float(arrived[-1]["end"]), received_bytes) | {
        "datagrams_sent": sent,
        "datagrams_received": received,
        "datagrams_lost": max(0, sent - received),
        "datagrams_reordered": int(stream["out_of_order"]),
    }
    return FlowReport(flow, number=index, received_bytes=received_bytes, received_datagrams=received)


def _number_in_direction(index: int, report: Mapping[str, Any]) -> int:
    """The number of earlier streams with the same direction."""
    directions = [_is_down(stream) for stream in report["end"]["streams"]]
    return directions[:index].count(directions[index])


def _with_arrivals(intervals: list[Row], arrivals: Sequence[Mapping[str, Any]], retransmits: float | None) -> list[Row]:
    """The client's intervals with the server's received bytes.

    The server may have one more interval, after the client's end: its retransmits are the total's rest. After a stop it
    may have one less: then the client's last interval stays unchanged.
    """
    counts = [row["retransmits"] for row in intervals]
    rest = None if retransmits is None or None in counts else retransmits - sum(counts)
    more = [{"retransmits": rest}] if len(arrivals) == len(intervals) + 1 else []
    both = zip([*intervals, *more], arrivals, strict=False)
    return [*({**own, **_received(theirs)} for own, theirs in both), *intervals[len(arrivals) :]]


def _received(stream: Mapping[str, Any]) -> Row:
    """The columns of an interval that the server measures."""
    return {
        "start_s": float(stream["start"]),
        "end_s": float(stream["end"]),
        "interval_bytes": float(stream["bytes"]),
        "throughput_bps": float(stream["bits_per_second"]),
    }


def _row(stream: Mapping[str, Any]) -> Row:
    return _received(stream) | {
        "retransmits": reports.number(stream, "retransmits"),
        "rtt_s": reports.number(stream, "rtt", 1e-6),
        "cwnd_bytes": reports.number(stream, "snd_cwnd"),
    }
