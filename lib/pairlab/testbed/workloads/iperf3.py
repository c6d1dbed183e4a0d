"""iperf3."""

import json

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Program, Workload

#: iperf3's own limits.
MOST_FLOWS, MOST_MESSAGE_BYTES = 128, 1 << 20


class Iperf3(Workload):
    """TCP at full rate, reported by the client as JSON."""

    name = "iperf3"
    summary = "iperf3: TCP at full rate"
    can = frozenset({"time", "flows", "message", "congestion", "warmup"})
    programs = (Program("iperf3", "iperf3"),)
    version_argv = ("iperf3", "--version")

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
        return ["iperf3", "-s", "-B", pair.server.address, "-p", str(pair.port)]

    def client(self, pair, spec, site):
        argv = ["iperf3", "-c", pair.server.address, "-p", str(pair.port)]
        argv += ["-t", f"{spec.total_s:.0f}", "-i", f"{spec.interval_s:g}", "--json"]
        argv += ["-P", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["-l", str(spec.message_bytes)] if spec.message_bytes else []
        argv += ["-C", spec.congestion_control] if spec.congestion_control else []
        return argv

    def parse(self, stdout, served=""):
        try:
            report = json.loads(stdout)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"iperf3 printed no whole report: {error}") from None
        if isinstance(report, dict) and "error" in report:
            raise ValueError(f"iperf3: {report['error']}")
        try:
            streams = report["end"]["streams"]
            if not streams:
                raise ValueError("iperf3 reported no transfer")
            return [_measured(number, stream["sender"], report) for number, stream in enumerate(streams)]
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"iperf3's report lacks what it should have: {error!r}") from None


def _measured(number, sent, report):
    """One flow. In every interval, the streams stand in the same order as at the end."""
    intervals = [_row(interval["streams"][number]) for interval in report["intervals"]]
    flow = {
        "duration_s": float(sent["seconds"]),
        "flow_bytes": float(sent["bytes"]),
        "throughput_bps": float(sent["bits_per_second"]),
        "retransmits": _number(sent, "retransmits"),
        "min_rtt_s": _number(sent, "min_rtt", 1e-6),
        "rtt_s": intervals[-1]["rtt_s"] if intervals else None,
        "cwnd_bytes": intervals[-1]["cwnd_bytes"] if intervals else None,
        "congestion_control": str(report["end"].get("sender_tcp_congestion", "")),
    }
    return Measured(flow, intervals, number=number)


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


def _number(told, key, unit=1):
    """That value in base units, or None where this system's TCP_INFO has it not."""
    return float(told[key]) * unit if key in told else None
