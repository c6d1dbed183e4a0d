"""sockperf, the tool of Boeira et al. and Suo et al. for message sizes, and of Mentz et al. for latency."""

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import MOST_DATAGRAM_BYTES, FlowReport, Site, Workload, reports
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

#: sockperf's own header. MOST_DATAGRAM_BYTES holds for its TCP, too.
LEAST_MESSAGE_BYTES = 14

TOTAL = re.compile(r"^sockperf: Total of (\d{1,18}) messages sent in (\d{1,9}\.\d{1,9}) sec", re.MULTILINE)
RATE = re.compile(r"^sockperf: Summary: Message Rate is (\d{1,18}) \[msg/sec\]", re.MULTILINE)
BANDWIDTH = re.compile(r"^sockperf: Summary: BandWidth is (\d{1,12}\.\d{1,9}) MBps", re.MULTILINE)

ERROR = re.compile(r"sockperf: ERROR: ([^\n]{1,200})")
#: The lines of a client's report, each with its layout.
REPORT = {
    TOTAL: "sockperf: Total of NUMBER messages sent in SECONDS sec",
    RATE: "sockperf: Summary: Message Rate is NUMBER [msg/sec]",
    BANDWIDTH: "sockperf: Summary: BandWidth is NUMBER MBps",
}
NOTE = re.compile(r"NOTE: test was performed, using msg-size=(\d{1,9})\.")

#: The server's line for every n messages (-A): the time of their arrival; the first counts from the server's start.
ARRIVED = re.compile(r"^ *(\d{1,15}) \[usec\] +\d{1,15} \[msg/s\] +(\d{1,18}) \[msg\]$", re.MULTILINE)

#: Bytes per line in a run of a second, or messages if that is less; proportionally more in longer runs: a line of a
#: fast pair covers about a thousandth of the run, and some thousand lines per second cost next to nothing.
LINE_BYTES, LINE_MESSAGES = 1 << 20, 512

#: The client's line for UDP, and the server's line after SIGINT.
BY_UDP = re.compile(r"PORT = {1,8}\d{1,5} # UDP$", re.MULTILINE)
RECEIVED = re.compile(r"^sockperf: Total (\d{1,18}) messages received and handled$", re.MULTILINE)

#: The server prints its total only after SIGINT. pairlab ends a command by SIGTERM to all of its processes.
_COUNTED = """
( trap '' TERM; exec "$@" ) &
trap "kill -INT $!" TERM
wait
wait
"""

#: The negligible share of written messages that the server did not report.
KNOWN = 0.005

#: The MBps of sockperf 3.7: messages per second, times their size, over this.
MBPS_BYTES = 1 << 20


class Sockperf(Workload):
    """TCP or UDP messages of one size, as fast as they can be written; bytes are the server's.

    The server prints a line with the arrival time of every n messages. The first line is excluded, as its time counts
    from the server's start, and so is everything after the last complete line while the client sends: duration_s is
    shorter than the spec's by those two lines' time at most. With fewer than two lines, or in older runs without the
    server's lines, bytes are the client's: too many by its socket buffer at the end, tcp_wmem's 4 MiB at most.

    The client connects at its start, waits 2 s even without a warm-up, then sends: CPU use before 2.1 s after the
    release is not the traffic's. There are no intervals and no TCP statistics. Nagle's algorithm is on, as in the other
    tools, so TCP coalesces small messages.

    By UDP, each message is a datagram, and the server counts the received ones: the others are lost. If it was killed
    before its report, the loss is unknown.
    """

    name = "sockperf"
    summary = "sockperf: TCP or UDP throughput by message size (the papers' tool for that)"
    features = frozenset({"time", "message", "udp"})
    takes: ClassVar[Mapping[str, tuple[int, int]]] = {"message_bytes": (LEAST_MESSAGE_BYTES, MOST_DATAGRAM_BYTES)}
    whole_seconds = True
    programs = (Program("sockperf", "sockperf"),)
    version_argv = ("sockperf", "--version")
    start_delay_s = 2.1
    connects_first = True

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.udp_rate_bps:
            raise BadSpec("udp_rate_bps: sockperf sends as fast as it can: leave it out, or use flowgen")

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["sockperf", "server", "-i", pair.server.address, "-p", str(pair.port)]
        argv += ["-A", str(_messages_in_a_line(spec)), "--no-rdtsc"]
        argv = ["stdbuf", "--output=L", *argv]  # the signal that ends it would discard a full buffer
        if pair.task.protocol == "udp":
            return ["sh", "-c", _COUNTED, "sh", *argv]
        return [*argv, "--tcp", "--uc-reuseaddr"]  # an earlier connection of this port may be in TIME-WAIT

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["sockperf", "throughput", "-i", pair.target, "-p", str(pair.port)]
        argv += ["--tcp"] if pair.task.protocol == "tcp" else []
        argv += ["-t", f"{spec.total_s:.0f}", "--no-rdtsc"]  # the TSC's rate may differ from the stated one
        return [*argv, "-m", str(spec.message_bytes or LEAST_MESSAGE_BYTES)]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        total, rate, bandwidth = _matches(self.name, stdout, REPORT)
        _check_layout(served)
        messages, duration_s, rate_hz = int(total[1]), float(total[2]), int(rate[1])
        if not (messages and duration_s and rate_hz):
            raise ValueError("sockperf sent nothing")
        message_bytes = _message_bytes(float(bandwidth[1]), rate_hz, NOTE.search(stdout))
        if BY_UDP.search(stdout):
            return [_of_datagrams(served, messages, message_bytes, duration_s)]
        if arrived := _arrived(served, duration_s):
            flow_bytes, arrived_s = arrived[0] * message_bytes, arrived[1]
            flow = reports.totals(arrived_s, flow_bytes)
        else:
            flow = {
                "duration_s": duration_s,
                "flow_bytes": messages * message_bytes,
                "throughput_bps": float(rate_hz * message_bytes * 8),
            }
        # If the server was ended before nearly all written messages had arrived, the total is unknown.
        received_bytes = messages * message_bytes if _last_reported(served) >= (1 - KNOWN) * messages else None
        return [FlowReport(flow, lasted_s=duration_s, received_bytes=received_bytes)]


def _matches(name: str, stdout: str, report: Mapping[re.Pattern[str], str]) -> list[re.Match[str]]:
    """The matches of a report's lines. Raises ValueError unless each occurs once."""
    for line, layout in report.items():
        if len(line.findall(stdout)) != 1:
            failed = ERROR.search(stdout)  # sockperf exits with 0 even if it could not connect
            raise ValueError(f"{name}: {failed[1]}") if failed else reports.incomplete(name, stdout, layout)
    return [match for line in report if (match := line.search(stdout))]


def _check_layout(served: str) -> None:
    """Raises ValueError if the server's lines on arrived messages have an unknown layout."""
    layouts = {"[usec]": (ARRIVED, "NUMBER [usec] NUMBER [msg/s] NUMBER [msg]")}
    layouts["messages received"] = (RECEIVED, "sockperf: Total NUMBER messages received and handled")
    for words, (line, layout) in layouts.items():
        printed = next((each for each in served.splitlines(keepends=True) if words in each and each.endswith("\n")), "")
        if printed and not line.search(served):
            raise ValueError(f"sockperf's server printed {printed.strip()[:160]!r}; expected {layout!r}")


def _of_datagrams(served: str, sent: int, message_bytes: int, duration_s: float) -> FlowReport:
    """A UDP flow, by the server's count of arrived datagrams."""
    total = RECEIVED.search(served)
    received = int(total[1]) if total else None
    arrived, arrived_s = _arrived(served, duration_s) or (received or 0, duration_s)
    if not arrived:
        raise ValueError("sockperf's server reported no datagrams: none arrived, or it was ended before it could tell")
    flow = reports.totals(arrived_s, arrived * message_bytes)
    flow |= {"datagrams_sent": sent, "datagrams_received": received}
    flow["datagrams_lost"] = None if received is None else max(0, sent - received)
    received_bytes = None if received is None else received * message_bytes
    return FlowReport(flow, lasted_s=duration_s, received_datagrams=received, received_bytes=received_bytes)


#: The largest relative difference between sockperf's clock and its timer.
CLOCK = 0.02

#: The lines of the awk script below: a latency in ns with its number of transactions, and at the end the totals.
BUCKET = re.compile(r"^latency_ns (\d{1,18}) (\d{1,18})$", re.MULTILINE)
WINDOW = re.compile(
    r"^window_s (\d{1,9}(?:\.\d{1,9})?) transactions (\d{1,18}) message_bytes (\d{1,9}) timer_s (\d{1,9})$",
    re.MULTILINE,
)
RAN = re.compile(
    r"^sockperf: \[Total Run\] RunTime=(\d{1,9}\.\d{1,9}) sec; .{0,80}"
    r"SentMessages=(\d{1,18}); ReceivedMessages=(\d{1,18})$",
    re.MULTILINE,
)

LATENCY_REPORT = {
    RAN: "sockperf: [Total Run] RunTime=SECONDS sec; … SentMessages=NUMBER; ReceivedMessages=NUMBER",
    WINDOW: "window_s SECONDS transactions NUMBER message_bytes NUMBER timer_s NUMBER",
}

#: Reads the full log, whose columns are: number, time sent, time answered (s), round-trip time (µs). Counts the
#: latencies of requests sent in the window, with four digits, so within 0.05 %.
_COUNT = """
/^[0-9]+, / {
    if (!every++) first = $2 + warmup_s
    if ($2 < first || $2 >= first + window_s) next
    ns = $4 * 1000
    for (step = 1; ns / step >= 10000; step *= 10);
    count[sprintf("%.0f", int(ns / step + 0.5) * step)]++
    transactions++
}
END {
    for (each in count) printf "latency_ns %s %.0f\\n", each, count[each]
    shown = "window_s %.9g transactions %.0f message_bytes %.0f timer_s %.0f\\n"
    printf shown, window_s, transactions, message_bytes, timer_s
}
"""
#: Pipes the log to awk, not to a disk, after the traffic; sockperf's own output precedes it.
#: Arguments: awk's options, awk's program, and the command.
_LOGGED = """
options=$1 program=$2; shift 2
{ "$@" --full-log /proc/self/fd/3 3>&1 1>&4 | LC_ALL=C awk -F ', ' $options "$program"; } 4>&1
"""


class _SockperfLatency(Workload):
    """Requests by TCP with responses of the same size, and their latencies.

    sockperf defines latency as half the round-trip time, and prints ten percentiles of it. pairlab reads the full log
    instead, with every request's round trip: the time from sending a request until its response is complete, as
    everywhere in `transactions`.

    A client connects at its start, waits 2 s, sends for 0.4 s that sockperf excludes, then for warmup_s and duration_s,
    and for a second more. Times are by the CPU's time stamp counter, at the rate in /proc/cpuinfo: a flow fails if this
    clock is more than 2 % off the kernel's timer. The client's CPU time includes writing and reading the log, after the
    traffic.

    By UDP, sockperf 3.7 stops at the first lost datagram; rr does not.
    """

    features = frozenset({"time", "warmup", "transactions"})
    takes: ClassVar[Mapping[str, tuple[int, int]]] = {"request_bytes": (LEAST_MESSAGE_BYTES, MOST_DATAGRAM_BYTES)}
    programs = (Program("sockperf", "sockperf"), Program("awk", "mawk"))
    version_argv = ("sockperf", "--version")
    start_delay_s = 2.5
    connects_first = True
    exit_grace_s = 60.0  # for writing the log

    mode: ClassVar[str]
    """sockperf's subcommand."""

    @abstractmethod
    def rate(self, spec: Spec) -> Sequence[str]:
        """sockperf's options for the rate."""

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.connect_per_request:
            raise BadSpec(f"{self.name} keeps its connection: leave connect_per_request out, or use rr")
        if spec.request_bytes != spec.response_bytes:
            raise BadSpec(
                f"{self.name} answers with as many bytes as it was asked with: give request_bytes and response_bytes"
                f" the same value, not {spec.request_bytes} and {spec.response_bytes}"
            )

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return ["sockperf", "server", "-i", pair.server.address, "-p", str(pair.port), "--tcp", "--uc-reuseaddr"]

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        message_bytes = spec.request_bytes or LEAST_MESSAGE_BYTES
        timer_s = math.ceil(spec.total_s) + 1
        argv = ["sockperf", self.mode, "-i", pair.target, "-p", str(pair.port), "--tcp", "--full-rtt"]
        argv += ["-t", str(timer_s), "-m", str(message_bytes), *self.rate(spec)]
        values = {"warmup_s": spec.warmup_s, "window_s": spec.duration_s, "message_bytes": message_bytes}
        options = " ".join(f"-v {name}={value:.9g}" for name, value in (values | {"timer_s": timer_s}).items())
        return ["sh", "-c", _LOGGED, "sh", options, _COUNT, *argv]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        ran, window = _matches(self.name, stdout, LATENCY_REPORT)
        duration_s, timer_s, ran_s = float(window[1]), int(window[4]), float(ran[1])
        transactions, message_bytes = int(window[2]), int(window[3])
        latencies = sorted((int(ns) / 1e9, int(count)) for ns, count in BUCKET.findall(stdout))
        if not (transactions and duration_s and timer_s):
            raise ValueError(f"{self.name}: no request was answered after the warm-up")
        if sum(count for _, count in latencies) != transactions:
            raise ValueError(f"{self.name} reported {transactions} transactions, and not the latency of each")
        if abs(ran_s / timer_s - 1) > CLOCK:
            raise ValueError(
                f"{self.name} ran for {timer_s} s by the kernel's timer and for {ran_s:g} s by its own clock, whose"
                f" latencies are not to be trusted: use rr"
            )
        return [
            FlowReport(
                reports.transaction_totals(duration_s, transactions, 2 * message_bytes),
                received_bytes=int(ran[2]) * message_bytes,
                answered_bytes=int(ran[3]) * message_bytes,
                lasted_s=ran_s,
                latencies=latencies,
                windowed=True,
            )
        ]


class SockperfPingPong(_SockperfLatency):
    """Each request is sent after the response to the previous one. Otherwise as _SockperfLatency."""

    name = "sockperf-ping-pong"
    summary = "sockperf ping-pong: requests one after the other by TCP, and their round-trip times"
    mode = "ping-pong"

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.requests_per_s:
            raise BadSpec("requests_per_s: sockperf-ping-pong has no rate: use sockperf-under-load, or rr")

    def rate(self, spec: Spec) -> Sequence[str]:
        return []


class SockperfUnderLoad(_SockperfLatency):
    """Requests at a rate, independent of responses; each latency counts from the sending of its request.

    It does not count from the request's due time, as in rr: requests delayed by a stall of the client are sent late and
    count as fast (coordinated omission). Otherwise as _SockperfLatency.
    """

    name = "sockperf-under-load"
    summary = "sockperf under-load: requests at a rate by TCP, and their round-trip times"
    mode = "under-load"

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.requests_per_s < 1 or spec.requests_per_s != int(spec.requests_per_s):
            raise BadSpec(
                f"sockperf-under-load sends a whole number of requests per second, at least 1: give requests_per_s,"
                f" not {spec.requests_per_s:g}"
            )

    def rate(self, spec: Spec) -> Sequence[str]:
        return ["--mps", f"{spec.requests_per_s:.0f}", "--reply-every", "1"]


def _messages_in_a_line(spec: Spec) -> int:
    fewest = min(LINE_MESSAGES, LINE_BYTES // (spec.message_bytes or LEAST_MESSAGE_BYTES))
    return max(1, int(spec.total_s * fewest))


def _last_reported(served: str) -> int:
    """The number of messages that had arrived by the server's last line."""
    return max((int(match[2]) for match in ARRIVED.finditer(served)), default=0)


def _arrived(served: str, duration_s: float) -> tuple[int, float] | None:
    """Messages that arrived while the client sent, after the first line's, and their time in s; None: too few lines."""
    rows = [(int(match[1]) * 1e-6, int(match[2])) for match in ARRIVED.finditer(served)]
    messages, arrived_s = 0, 0.0
    for (took_s, total), (_, before) in zip(rows[1:], rows, strict=False):
        if arrived_s + took_s > duration_s:
            break
        messages, arrived_s = messages + total - before, arrived_s + took_s
    return (messages, arrived_s) if arrived_s > 0 else None


def _message_bytes(bandwidth_mbps: float, rate_hz: int, note: re.Match[str] | None) -> int:
    """The size of a message, from sockperf's note, which must agree with the bandwidth; without a note, from that.

    The note is missing for one size (1472 B). The bandwidth has three decimals.
    """
    derived = bandwidth_mbps * MBPS_BYTES / rate_hz
    if not note:
        return round(derived)
    printed = int(note[1])
    if abs(printed - derived) > 0.0011 * MBPS_BYTES / rate_hz:
        raise ValueError(f"sockperf's bandwidth implies messages of {derived:.0f} bytes, not of {printed}")
    return printed
