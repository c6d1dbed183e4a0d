"""iperf 2, the tool of Boeira et al. 2021."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, Site, Workload
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

#: Of the table `intervals`.
Row = dict[str, Any]

# A line of the enhanced report, in which amounts below 1,000 have decimals. After the rate, a server's line has reads,
# and a client's has writes and, on systems with TCP_INFO, retries, the window (NA or -1: unknown), the RTT (0: unknown)
# and the rate over the RTT, which then is no number; since 2.1 also the RTT's variance; since 2.2 also packets, and
# bytes in flight before the window.
LINE = re.compile(
    r"^\[ *(?P<stream>\d{1,9})\] +(?:(?P<start>\d{1,9}\.\d+)- *(?P<end>\d{1,9}\.\d+) +sec"
    r" +(?P<bytes>\d{1,18}(?:\.\d{1,3})?) +Bytes +(?P<rate>\d{1,18}(?:\.\d{1,3})?) +bits/sec"
    r" +(?:\d+=[\d:]+|\d+/\d+(?: +(?P<retries>\d{1,18}) +(?:-?\d{1,15}K\(\d+\)/)?"
    r"(?:NA|(?P<cwnd>-?\d{1,15})K(?:\(\d+\))?)/(?P<rtt>\d{1,15})(?:\(\d+\))? *us"
    r"(?: +(?:[\d.]+|-?(?:NAN|nan|INF|inf)))?)?) *"
    r"|(?P<unknown>\d[^\n]*))$(?=\n)",
    re.MULTILINE,
)

#: The versions with known lines.
KNOWN_VERSIONS = "2.1.8 to 2.2.1"

#: The enhanced report, in bytes and bits.
REPORT = ("-e", "-f", "b")

# The requested congestion control, and since 2.2 the one in use. Without a request, 2.2 tells what the socket has, at
# times before it is connected, and only then has it the route's.
CONGESTION = re.compile(
    r"^TCP congestion control (?:set to (?P<asked>[\w.-]{1,15})(?: using (?P<used>[\w.-]{0,15}))?"
    r"|using [\w.-]{1,15}|(?P<unknown>[^\n]*))$",
    re.MULTILINE,
)

# Identifies streams by the client's port, which both sides report. Also the client's connection time.
CONNECTED = re.compile(
    r"^\[\s*(?P<stream>\d{1,9})\] local \S{1,99} port (?P<own>\d{1,5})"
    r" connected with \S{1,99} port (?P<peer>\d{1,5})\b(?:[^\n]{0,99}\(ct=(?P<connect_ms>\d{1,9}\.\d{1,9}) ms\))?",
    re.MULTILINE,
)


class Iperf(Workload):
    """TCP at full rate: bytes received by the server, and retries, window and RTT of the client (-e on both sides).

    A client counts written bytes, including those in its socket buffer, sometimes megabytes. So totals and intervals
    are the server's; without its report (older runs) they are the client's.
    """

    name = "iperf"
    summary = "iperf 2: TCP at full rate (the papers' tool)"
    features = frozenset({"time", "flows", "message", "warmup", "intervals", "ipv6"})
    chooses_congestion_control = True
    programs = (Program("iperf", "iperf"),)
    version_argv = ("iperf", "--version")
    serves_once = True
    runs_until_stopped = True

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["iperf", "-s", "-B", pair.server.address, "-p", str(pair.port)]
        argv += ["-V"] if spec.ip_version == 6 else []
        return [*argv, *REPORT, "-i", f"{spec.interval_s:g}", "-P", str(spec.flows_per_pair)]  # ends after as many

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["iperf", "-c", pair.target, "-p", str(pair.port)]
        argv += ["-t", f"{spec.total_s:g}", "-i", f"{spec.interval_s:g}", *REPORT]
        argv += ["-V"] if spec.ip_version == 6 else []
        argv += ["-P", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["-l", str(spec.message_bytes)] if spec.message_bytes else []
        argv += ["-Z", spec.congestion_control] if spec.congestion_control else []
        return argv

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        sent, received = _streams(stdout), _streams(served)
        if not sent:
            raise ValueError("iperf reported no transfer")
        congestion = _congestion(stdout)
        connected = {int(match["stream"]): match for match in CONNECTED.finditer(stdout)}
        if served:
            ports = {stream: match["own"] for stream, match in connected.items()}
            streams = {match["peer"]: int(match["stream"]) for match in CONNECTED.finditer(served)}
            if len(sent) == len(received) == len(ports) == 1:  # a proxy in between connects from a port of its own
                streams = dict.fromkeys(ports.values(), next(iter(received)))
            sent = {
                stream: _received(rows, received.get(streams.get(ports.get(stream, ""), -1)))
                for stream, rows in sent.items()
            }
        flows = [
            _measured(number, sent[stream], congestion, connected.get(stream))
            for number, stream in enumerate(sorted(sent))
        ]
        return [replace(each, received_bytes=each.flow["flow_bytes"]) for each in flows] if served else flows


def _congestion(text: str) -> dict[str, str]:
    """The requested congestion control. iperf 2.1 prints none if setting it failed, and uses the kernel's default."""
    line = CONGESTION.search(text)
    if not line:
        return {}
    _check_known(line)
    used = line["asked"] if line["used"] is None else line["used"]
    return {"congestion_control": used} if used else {}


def _check_known(line: re.Match[str]) -> None:
    if line["unknown"] is not None:
        raise ValueError(
            f"iperf printed {line[0][:160]!r}, a layout that pairlab does not know: install iperf {KNOWN_VERSIONS},"
            " or report this line"
        )


def _streams(text: str) -> dict[int, list[Row]]:
    """Each stream's rows, by its number; the last row is the total, even of a single interval."""
    rows: dict[int, list[dict[str, float]]] = {}
    for line in LINE.finditer(text):
        _check_known(line)
        rows.setdefault(int(line["stream"]), []).append(_row(line))
    return rows


def _received(sent: list[Row], received: list[Row] | None) -> list[Row]:
    """The server's rows, each with the client's TCP values of the same interval."""
    if not received:
        raise ValueError("iperf's server reported no transfer of this connection")
    _check_total(sent, "iperf")
    _check_total(received, "iperf's server")
    by_start = {row["start_s"]: row for row in sent[:-1]}
    rows = [{**_tcp(by_start.get(row["start_s"], {})), **row} for row in received[:-1]]
    total = {**_tcp(sent[-1]), **received[-1]}
    return [*rows, *_rest(rows, total), total]


def _rest(rows: list[Row], total: Row) -> list[Row]:
    """The rest after the last interval, which the server reports in its total only."""
    duration_s = total["end_s"] - rows[-1]["end_s"]
    interval_bytes = total["interval_bytes"] - sum(row["interval_bytes"] for row in rows)
    if duration_s <= 0 or interval_bytes <= 0:
        return []
    rest = {
        "start_s": rows[-1]["end_s"],
        "end_s": total["end_s"],
        "interval_bytes": interval_bytes,
        "throughput_bps": interval_bytes * 8 / duration_s,
    }
    if "retransmits" in total and all("retransmits" in row for row in rows):
        rest["retransmits"] = total["retransmits"] - sum(row["retransmits"] for row in rows)
    return [rest]


def _tcp(row: Row) -> Row:
    return {key: row[key] for key in ("retransmits", "rtt_s", "cwnd_bytes") if key in row}


def _check_total(rows: list[Row], whose: str) -> None:
    if len(rows) < 2 or rows[-1]["start_s"] != rows[0]["start_s"]:
        raise ValueError(f"{whose} reported no total; its last interval ended at {rows[-1]['end_s']:g} s")


def _measured(
    number: int, rows: list[Row], congestion: Mapping[str, str], connected: re.Match[str] | None
) -> FlowReport:
    _check_total(rows, "iperf")
    *intervals, total = rows
    flow = {
        "duration_s": total["end_s"] - total["start_s"],
        "flow_bytes": total["interval_bytes"],
        "throughput_bps": total["throughput_bps"],
        **_tcp(total),
        **congestion,
    }
    connect_ms = connected and connected["connect_ms"]
    return FlowReport(flow, intervals, number=number, connect_s=float(connect_ms) * 1e-3 if connect_ms else None)


def _row(line: re.Match[str]) -> Row:
    row = {
        "start_s": float(line["start"]),
        "end_s": float(line["end"]),
        "interval_bytes": int(line["bytes"].partition(".")[0]),
        "throughput_bps": float(line["rate"]),
    }
    if line["retries"] is not None:
        row["retransmits"] = int(line["retries"])
        if int(line["rtt"]):
            row["rtt_s"] = int(line["rtt"]) * 1e-6
        if line["cwnd"] and int(line["cwnd"]) >= 0:
            row["cwnd_bytes"] = int(line["cwnd"]) * 1024
    return row
