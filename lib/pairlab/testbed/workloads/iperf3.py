"""iperf3."""

import json

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.requirements import Program

#: iperf3's own limits.
MOST_FLOWS, MOST_MESSAGE_BYTES = 128, 1 << 20

#: What a client says that was stopped, and what its server may say then: it may be stopped before it hears of it. Since
#: 3.19 both add by which signal.
STOPPED = "interrupt - the client has terminated"
OF_STOPPED = ("the client has terminated", "interrupt - the server has terminated")

#: Up to this share of what the server read, what it left unread does not matter.
KNOWN = 0.002


class Iperf3(Workload):
    """TCP at full rate, reported by the client as JSON, with its server's report in it (--get-server-output).

    Bytes are those that the other end received: totals, and the intervals too where its report has them (that of runs
    before it was asked has not). Retransmits, RTT and window are the sender's.
    """

    name = "iperf3"
    summary = "iperf3: TCP at full rate"
    can = frozenset({"time", "flows", "message", "warmup", "intervals", "directions"})
    chooses_congestion_control = True
    endless = True
    programs = (Program("iperf3", "iperf3"),)
    version_argv = ("iperf3", "--version")
    counts_connections = True
    connects_first = True  # a test starts when the server has the control connection and every stream

    says_when_signalled = "interrupt - the "  # and which of the two it is
    late_s = 0.1  # it counts when it asks its server to end, and closes when it has the server's report

    def check(self, spec):
        if spec.total_s != int(spec.total_s):
            raise BadSpec(
                f"iperf3 sends for whole seconds only, and warmup_s + duration_s is {spec.total_s:g}:"
                " change one of them, or take another workload"
            )
        if spec.flows_per_pair > MOST_FLOWS:
            raise BadSpec(f"iperf3 takes at most {MOST_FLOWS} flows_per_pair, not {spec.flows_per_pair}")
        if spec.message_bytes > MOST_MESSAGE_BYTES:
            raise BadSpec(f"iperf3 takes message_bytes up to {MOST_MESSAGE_BYTES}, not {spec.message_bytes}")

    def server(self, pair, spec, site):
        argv = ["iperf3", "-s", "-B", pair.server.address, "-p", str(pair.port)]
        return [*argv, "-i", f"{spec.interval_s:g}", "--json"]

    def client(self, pair, spec, site):
        argv = ["iperf3", "-c", pair.target, "-p", str(pair.port)]
        argv += ["-t", f"{spec.total_s:.0f}", "-i", f"{spec.interval_s:g}", "--json", "--get-server-output"]
        argv += {"up": [], "down": ["--reverse"], "both": ["--bidir"]}[spec.direction]
        argv += ["-P", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["-l", str(spec.message_bytes)] if spec.message_bytes else []
        argv += ["-C", spec.congestion_control] if spec.congestion_control else []
        return argv

    def parse(self, stdout, served=""):
        report = _report(stdout)
        if isinstance(report, dict) and "error" in report:
            raise ValueError(f"iperf3: {report['error']}")
        return self._measured(report)

    def parse_stopped(self, stdout, served=""):
        """A client that is stopped does not ask for its server's report, which that has printed, before others."""
        report, of_server = _report(stdout), _report(served, of_several=True)
        if not isinstance(report, dict) or not isinstance(of_server, dict):
            raise ValueError("iperf3 printed no report")
        if not str(report.pop("error", STOPPED)).startswith(STOPPED):
            return self.parse(stdout)
        if not str(of_server.pop("error", OF_STOPPED[0])).startswith(OF_STOPPED):
            return self.parse(served)
        try:
            if of_server["intervals"][-2:-1] == of_server["intervals"][-1:]:  # it prints the last one once more
                of_server["intervals"].pop()
            for own, theirs in zip(report["end"]["streams"], of_server["end"]["streams"], strict=True):
                own["receiver"] = theirs["receiver"]
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"iperf3's report is incomplete: {error!r}") from None
        return self._measured({**report, "server_output_json": of_server})

    def _measured(self, report):
        try:
            streams = report["end"]["streams"]
            if not streams:
                raise ValueError("iperf3 reported no transfer")
            of_server = _intervals_of_server(report)
            return [_measured(place, report, of_server) for place in range(len(streams))]
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"iperf3's report is incomplete: {error!r}") from None


def _report(text, of_several=False):
    """What was printed; between 3.16 and 3.17, each report twice. of_several: the first of a server's, which prints one
    more, of no test, when it is stopped.
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


def _intervals_of_server(report):
    """What the server had of each stream in each interval, by the client's port, if reported.

    A proxy in between connects from ports of its own. Then a stream is known where no other has its direction.
    """
    server = report.get("server_output_json")
    if server is None:
        return {}
    if "error" in server:
        raise ValueError(f"iperf3's server: {server['error']}")
    own = [int(each["local_port"]) for each in report["start"]["connected"]]
    ports = [int(each["remote_port"]) for each in server["start"]["connected"]]
    directions = [_is_down(stream) for stream in report["end"]["streams"]]
    if not set(own) & set(ports) and len(ports) == len(directions) == len(set(directions)):
        ports = own
    if unknown := [port for port in own if port not in ports]:
        raise ValueError(
            f"iperf3's server reports no stream from its client's port {unknown[0]}, but from"
            f" {', '.join(map(str, ports)) or 'none'}: a proxy replaces the ports; leave flows_per_pair at 1"
        )
    streams = zip(*(interval["streams"] for interval in server["intervals"]), strict=True)
    return dict(zip(ports, streams, strict=True))


def _is_down(stream):
    return stream["sender"].get("sender") is False


def _measured(place, report, of_server):
    """One flow. In every interval, the streams stand in the same order as at the end, and as they were connected."""
    stream = report["end"]["streams"][place]
    sent, arrived = stream["sender"], stream["receiver"]
    down = _is_down(stream)
    of_sender = [interval["streams"][place] for interval in report["intervals"]]
    arrivals = of_server[int(report["start"]["connected"][place]["local_port"])] if of_server else ()
    if down:
        of_sender, arrivals = arrivals, of_sender
    intervals = [_row(each) for each in of_sender]
    last = intervals[-1] if intervals else {}
    if arrivals:
        intervals = _with_arrivals(intervals, arrivals, _number(sent, "retransmits"))
    duration_s = float(arrived["end"]) - float(arrived["start"])  # its own clock's; its `seconds` are the sender's
    flow_bytes = float(arrived["bytes"])
    flow = {
        "duration_s": duration_s,
        "flow_bytes": flow_bytes,
        "throughput_bps": flow_bytes * 8 / duration_s if duration_s > 0 else 0.0,
        "retransmits": _number(sent, "retransmits"),
        "min_rtt_s": _number(sent, "min_rtt", 1e-6) or None,
        "rtt_s": last.get("rtt_s"),
        "cwnd_bytes": last.get("cwnd_bytes"),
        "congestion_control": str(report["end"].get("sender_tcp_congestion", "")),
    }
    # Data in flight when the time was over may have arrived without being read: then the count is unknown.
    on_its_way = float(sent["bytes"]) - flow_bytes
    known = flow_bytes if on_its_way <= KNOWN * flow_bytes else None
    return Measured(
        flow,
        intervals,
        number=_number_in_direction(place, report),
        direction="down" if down else "up",
        received_bytes=known,
        unread_bytes=max(0.0, on_its_way),
    )


def _number_in_direction(place, report):
    """How many streams of the same direction stand before that one."""
    senders = [_is_down(stream) for stream in report["end"]["streams"]]
    return senders[:place].count(senders[place])


def _with_arrivals(intervals, arrivals, retransmits):
    """The client's intervals with what its server received in each.

    The server may have one more, of what came in when the time was over: what was retransmitted then is the rest. Of a
    client that was stopped it has one less: that stays as the client has it.
    """
    known = [row["retransmits"] for row in intervals]
    rest = None if retransmits is None or None in known else retransmits - sum(known)
    more = [{"retransmits": rest}] if len(arrivals) == len(intervals) + 1 else []
    both = zip([*intervals, *more], arrivals, strict=False)
    return [*({**own, **_received(theirs)} for own, theirs in both), *intervals[len(arrivals) :]]


def _received(stream):
    """The columns of an interval that the server measures."""
    return {
        "start_s": float(stream["start"]),
        "end_s": float(stream["end"]),
        "interval_bytes": float(stream["bytes"]),
        "throughput_bps": float(stream["bits_per_second"]),
    }


def _row(stream):
    return {
        "start_s": float(stream["start"]),
        "end_s": float(stream["end"]),
        "interval_bytes": float(stream["bytes"]),
        "throughput_bps": float(stream["bits_per_second"]),
        "retransmits": _number(stream, "retransmits"),
        "rtt_s": _number(stream, "rtt", 1e-6),
        "cwnd_bytes": _number(stream, "snd_cwnd"),
    }


def _number(stream, key, unit=1):
    """That value in base units, or None where this system's TCP_INFO has it not."""
    return float(stream[key]) * unit if key in stream else None
