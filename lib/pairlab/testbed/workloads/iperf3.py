"""iperf3."""

import json

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Program, Workload


class Iperf3(Workload):
    """One TCP connection at full rate, reported by the client as JSON."""

    name = "iperf3"
    summary = "iperf3: TCP at full rate"
    programs = (Program("iperf3", "iperf3"),)
    version_argv = ("iperf3", "--version")

    def check(self, spec):
        if spec.total_s != int(spec.total_s):
            raise BadSpec(
                f"iperf3 sends for whole seconds only, and warmup_s + duration_s is {spec.total_s:g}:"
                " change one of them, or take another workload"
            )

    def server(self, pair, spec, site):
        return ["iperf3", "-s", "-B", pair.server.address, "-p", str(pair.port)]

    def client(self, pair, spec, site):
        target = ["iperf3", "-c", pair.server.address, "-p", str(pair.port)]
        return [*target, "-t", f"{spec.total_s:.0f}", "-i", f"{spec.interval_s:g}", "--json"]

    def parse(self, stdout):
        try:
            report = json.loads(stdout)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"iperf3 printed no whole report: {error}") from None
        if isinstance(report, dict) and "error" in report:
            raise ValueError(f"iperf3: {report['error']}")
        try:
            return _measured(report)
        except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"iperf3's report lacks what it should have: {error!r}") from None


def _measured(report):
    sent = report["end"]["streams"][0]["sender"]
    intervals = [_row(interval["streams"][0]) for interval in report["intervals"]]
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
    return Measured(flow, intervals)


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
