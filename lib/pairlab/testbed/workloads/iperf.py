"""iperf 2, the tool of papers C and E."""

import re

from pairlab.testbed.contracts import Measured, Program, Workload

# The enhanced report (-e) in bytes and bits (-f b). What follows the rate is there for TCP senders only, and the
# variance of the RTT since 2.1.
LINE = re.compile(
    r"^\[\s*(?P<stream>\d{1,9})\]\s+(?P<start>\d{1,9}\.\d+)-\s*(?P<end>\d{1,9}\.\d+)\s+sec"
    r"\s+(?P<bytes>\d{1,18})\s+Bytes\s+(?P<rate>\d{1,18})\s+bits/sec"
    r"(?:\s+\d+/\d+\s+(?P<retries>\d{1,18})\s+(?P<cwnd>-?\d{1,15})K/(?P<rtt>\d{1,15})(?:\(\d+\))?\s+us)?",
    re.MULTILINE,
)


CONGESTION = re.compile(r"^TCP congestion control set to (\w{1,15})$", re.MULTILINE)


class Iperf(Workload):
    """TCP at full rate, reported by the client with -e: bytes written, retries, window, RTT."""

    name = "iperf"
    summary = "iperf 2: TCP at full rate (the papers' tool)"
    can = frozenset({"time", "flows", "message", "congestion", "warmup"})
    programs = (Program("iperf", "iperf"),)
    version_argv = ("iperf", "--version")

    def server(self, pair, spec, site):
        return ["iperf", "-s", "-B", pair.server.address, "-p", str(pair.port)]

    def client(self, pair, spec, site):
        argv = ["iperf", "-c", pair.server.address, "-p", str(pair.port)]
        argv += ["-t", f"{spec.total_s:g}", "-i", f"{spec.interval_s:g}", "-e", "-f", "b"]
        argv += ["-P", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["-l", str(spec.message_bytes)] if spec.message_bytes else []
        argv += ["-Z", spec.congestion_control] if spec.congestion_control else []
        return argv

    def parse(self, stdout, served=""):
        streams = {}
        for found in LINE.finditer(stdout):
            streams.setdefault(int(found["stream"]), []).append(_row(found))
        if not streams:
            raise ValueError("iperf reported no transfer")
        # Where it could not set what it was told, it goes on with the kernel's default, and says nothing here.
        told = CONGESTION.search(stdout)
        congestion = {"congestion_control": told[1]} if told else {}
        return [_measured(number, streams[stream], congestion) for number, stream in enumerate(sorted(streams))]


def _measured(number, rows, congestion):
    *intervals, total = rows  # the last line is the total, of one interval too
    if not intervals or total["start_s"] != intervals[0]["start_s"]:
        raise ValueError(f"iperf reported no total, and its last interval at {total['end_s']:g} s")
    flow = {
        "duration_s": total["end_s"] - total["start_s"],
        "flow_bytes": total["interval_bytes"],
        "throughput_bps": total["throughput_bps"],
        **{key: total[key] for key in ("retransmits", "rtt_s", "cwnd_bytes") if key in total},
        **congestion,
    }
    return Measured(flow, intervals, number=number)


def _row(found):
    row = {
        "start_s": float(found["start"]),
        "end_s": float(found["end"]),
        "interval_bytes": int(found["bytes"]),
        "throughput_bps": float(found["rate"]),
    }
    if found["retries"] is not None:
        row |= {"retransmits": int(found["retries"]), "rtt_s": int(found["rtt"]) * 1e-6}
        if int(found["cwnd"]) >= 0:  # -1: unknown
            row["cwnd_bytes"] = int(found["cwnd"]) * 1024
    return row
