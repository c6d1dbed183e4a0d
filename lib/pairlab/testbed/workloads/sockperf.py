"""sockperf, with which papers C and S measured by message size, and paper M latency."""

import math
import re
from abc import abstractmethod
from collections.abc import Sequence

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Workload, incomplete, transaction_totals
from pairlab.testbed.requirements import Program

#: sockperf's own limits: its header, and what one UDP datagram carries (it holds TCP to the same).
LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES = 14, 65507

TOTAL = re.compile(r"^sockperf: Total of (\d{1,18}) messages sent in (\d{1,9}\.\d{1,9}) sec", re.MULTILINE)
RATE = re.compile(r"^sockperf: Summary: Message Rate is (\d{1,18}) \[msg/sec\]", re.MULTILINE)
BANDWIDTH = re.compile(r"^sockperf: Summary: BandWidth is (\d{1,12}\.\d{1,9}) MBps", re.MULTILINE)

ERROR = re.compile(r"sockperf: ERROR: ([^\n]{1,200})")
#: What a client prints at its end, each with how it looks.
REPORT = {
    TOTAL: "sockperf: Total of NUMBER messages sent in SECONDS sec",
    RATE: "sockperf: Summary: Message Rate is NUMBER [msg/sec]",
    BANDWIDTH: "sockperf: Summary: BandWidth is NUMBER MBps",
}
NOTE = re.compile(r"NOTE: test was performed, using msg-size=(\d{1,9})\.")

#: The server's line for every so many messages (-A): how long they took to arrive. The first counts from its start.
ARRIVED = re.compile(r"^ *(\d{1,15}) \[usec\] +\d{1,15} \[msg/s\] +(\d{1,18}) \[msg\]$", re.MULTILINE)

#: So many bytes to a line in a run of a second, or messages where that is less, and more in longer ones: a line takes a
#: fast pair about a thousandth of the run, and some thousands of them a second cost next to nothing.
LINE_BYTES, LINE_MESSAGES = 1 << 20, 512

#: What the client says of a pair that sends UDP, and the server when it is ended by SIGINT.
BY_UDP = re.compile(r"PORT = {1,8}\d{1,5} # UDP$", re.MULTILINE)
RECEIVED = re.compile(r"^sockperf: Total (\d{1,18}) messages received and handled$", re.MULTILINE)

#: Only SIGINT has the server count to its end. pairlab ends a command by SIGTERM, to all of its processes.
_COUNTED = """
( trap '' TERM; exec "$@" ) &
trap "kill -INT $!" TERM
wait
wait
"""

#: Up to this share, what was written and not reported by the server does not matter.
KNOWN = 0.005

#: What sockperf 3.7 calls MBps: messages a second, times their size, over this.
MBPS_BYTES = 1 << 20


class Sockperf(Workload):
    """TCP or UDP messages of one size, as fast as they can be written; bytes are those the server received.

    The server reports how long every so many messages took. Its first line is left out, as its time counts from
    the server's start, and so is what comes after the last whole line while the client sends: duration_s is less than
    was asked, by those two lines' time at most. Where fewer than two arrived, or of runs before the server was asked,
    bytes are those the client wrote: too many by what its socket buffer held at the end, tcp_wmem's 4 MiB at most.

    It connects at its start, then waits 2 s, whether it is to warm up or not, then sends: CPU use before 2.1 s after
    the release is not the traffic's. It reports no intervals and no TCP statistics. Nagle's algorithm is on, as
    in its other tools, so small messages are sent together by TCP.

    By UDP, each message is a datagram, and the server counts how many arrived in all: the others are lost. Where it was
    ended before it could tell, that is unknown.
    """

    name = "sockperf"
    summary = "sockperf: TCP or UDP throughput by message size (the papers' tool for that)"
    can = frozenset({"time", "message", "udp"})
    programs = (Program("sockperf", "sockperf"),)
    version_argv = ("sockperf", "--version")
    waits_s = 2.1
    connects_first = True

    def check(self, spec):
        if spec.total_s != int(spec.total_s):
            raise BadSpec(f"sockperf sends for whole seconds only, and duration_s is {spec.total_s:g}: change it")
        if spec.udp_rate_bps:
            raise BadSpec("udp_rate_bps: sockperf sends as fast as it can: leave it out, or use flowgen")
        if spec.message_bytes and not LEAST_MESSAGE_BYTES <= spec.message_bytes <= MOST_MESSAGE_BYTES:
            raise BadSpec(
                f"sockperf takes message_bytes from {LEAST_MESSAGE_BYTES} to {MOST_MESSAGE_BYTES},"
                f" not {spec.message_bytes}"
            )

    def server(self, pair, spec, site):
        argv = ["sockperf", "server", "-i", pair.server.address, "-p", str(pair.port)]
        argv += ["-A", str(_messages_in_a_line(spec)), "--no-rdtsc"]
        argv = ["stdbuf", "--output=L", *argv]  # it is ended by a signal, and would take a full buffer with it
        if pair.task.protocol == "udp":
            return ["sh", "-c", _COUNTED, "sh", *argv]
        return [*argv, "--tcp", "--uc-reuseaddr"]  # a connection that others had on this port may wait for its end

    def client(self, pair, spec, site):
        argv = ["sockperf", "throughput", "-i", pair.target, "-p", str(pair.port)]
        argv += ["--tcp"] if pair.task.protocol == "tcp" else []
        argv += ["-t", f"{spec.total_s:.0f}", "--no-rdtsc"]  # a TSC may not tick as often as it says it does
        return [*argv, "-m", str(spec.message_bytes or LEAST_MESSAGE_BYTES)]

    def parse(self, stdout, served=""):
        total, rate, bandwidth = _found(self.name, stdout, REPORT)
        _check_layout(served)
        messages, duration_s, rate_hz = int(total[1]), float(total[2]), int(rate[1])
        if not (messages and duration_s and rate_hz):
            raise ValueError("sockperf sent nothing")
        message_bytes = _message_bytes(float(bandwidth[1]), rate_hz, NOTE.search(stdout))
        if BY_UDP.search(stdout):
            return [_of_datagrams(served, messages, message_bytes, duration_s)]
        if arrived := _arrived(served, duration_s):
            flow_bytes, arrived_s = arrived[0] * message_bytes, arrived[1]
            flow = {"duration_s": arrived_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / arrived_s}
        else:
            flow = {
                "duration_s": duration_s,
                "flow_bytes": messages * message_bytes,
                "throughput_bps": float(rate_hz * message_bytes * 8),
            }
        # Where the server was ended before it had nearly all that was written, the rest is unknown.
        known = messages * message_bytes if _last_reported(served) >= (1 - KNOWN) * messages else None
        return [Measured(flow, lasted_s=duration_s, received_bytes=known)]


def _found(name, stdout, report):
    """The matches of a report's lines, each of which is there once. Raises ValueError where one is not."""
    for line, looks in report.items():
        if len(line.findall(stdout)) != 1:
            failed = ERROR.search(stdout)  # it exits with 0 even where it could not connect
            raise ValueError(f"{name}: {failed[1]}") if failed else incomplete(name, stdout, looks)
    return [line.search(stdout) for line in report]


def _check_layout(served):
    """Raises ValueError where the server tells how many messages arrived in words other than those known."""
    known = {"[usec]": (ARRIVED, "NUMBER [usec] NUMBER [msg/s] NUMBER [msg]")}
    known["messages received"] = (RECEIVED, "sockperf: Total NUMBER messages received and handled")
    for words, (line, looks) in known.items():
        unread = next((each for each in served.splitlines(keepends=True) if words in each and each.endswith("\n")), "")
        if unread and not line.search(served):
            raise ValueError(f"sockperf's server printed {unread.strip()[:160]!r}; expected {looks!r}")


def _of_datagrams(served, sent, message_bytes, duration_s):
    """A flow by UDP, of which only the server knows what arrived."""
    counted = RECEIVED.search(served)
    received = int(counted[1]) if counted else None
    arrived, arrived_s = _arrived(served, duration_s) or (received or 0, duration_s)
    if not arrived:
        raise ValueError("sockperf's server reported no datagrams: none arrived, or it was ended before it could tell")
    flow_bytes = arrived * message_bytes
    flow = {"duration_s": arrived_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / arrived_s}
    flow |= {"datagrams_sent": sent, "datagrams_received": received}
    flow["datagrams_lost"] = None if received is None else max(0, sent - received)
    received_bytes = None if received is None else received * message_bytes
    return Measured(flow, lasted_s=duration_s, received_datagrams=received, received_bytes=received_bytes)


#: By how much the time that sockperf's clock saw may differ from the time that its timer had.
CLOCK = 0.02

#: What the awk script below prints: a latency in ns and how many took it, and at the end what all of it was.
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

#: Reads the full log, whose rows are: number, when sent, when answered (s), round-trip time (µs). Of those sent in the
#: window, counts each latency with four digits, so within 0.05 %.
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
#: The log goes to awk and not to a disk, after the traffic; sockperf's own words, printed before, are the client's.
#: Its arguments: awk's options, awk's program, and the command.
_LOGGED = """
options=$1 program=$2; shift 2
{ "$@" --full-log /proc/self/fd/3 3>&1 1>&4 | LC_ALL=C awk -F ', ' $options "$program"; } 4>&1
"""


class _SockperfLatency(Workload):
    """Requests by TCP, each answered with as many bytes, and the time until each response.

    sockperf calls half the round-trip time the latency, and prints ten percentiles of it. pairlab reads its full log
    instead, which has every request's round trip: the time from sending a request until its response was whole, as
    everywhere in `transactions`.

    A client connects at its start, waits 2 s, sends for 0.4 s that sockperf leaves out, and then for warmup_s and
    duration_s; it is let go on for a second more. Times are by the CPU's time stamp counter, at the rate that
    /proc/cpuinfo has: a flow of which this clock is more than 2 % off the kernel's timer failed. The client's CPU time
    includes what it took to write and to read the log, after the traffic.

    By UDP it would stop at the first datagram that is lost (3.7); rr does not.
    """

    can = frozenset({"time", "warmup", "transactions"})
    programs = (Program("sockperf", "sockperf"), Program("awk", "mawk"))
    version_argv = ("sockperf", "--version")
    waits_s = 2.5
    connects_first = True
    ends_by_itself_s = 60.0  # of which it writes the log

    @property
    @abstractmethod
    def mode(self) -> str:
        """What sockperf calls it."""

    @abstractmethod
    def rate(self, spec) -> Sequence[str]:
        """The options for the rate."""

    def check(self, spec):
        if spec.connect_per_request:
            raise BadSpec(f"{self.name} keeps its connection: leave connect_per_request out, or use rr")
        if spec.request_bytes != spec.response_bytes:
            raise BadSpec(
                f"{self.name} answers with as many bytes as it was asked with: give request_bytes and response_bytes"
                f" the same value, not {spec.request_bytes} and {spec.response_bytes}"
            )
        if spec.request_bytes and not LEAST_MESSAGE_BYTES <= spec.request_bytes <= MOST_MESSAGE_BYTES:
            raise BadSpec(
                f"{self.name} takes request_bytes from {LEAST_MESSAGE_BYTES} to {MOST_MESSAGE_BYTES},"
                f" not {spec.request_bytes}"
            )

    def server(self, pair, spec, site):
        return ["sockperf", "server", "-i", pair.server.address, "-p", str(pair.port), "--tcp", "--uc-reuseaddr"]

    def client(self, pair, spec, site):
        message_bytes = spec.request_bytes or LEAST_MESSAGE_BYTES
        timer_s = math.ceil(spec.total_s) + 1
        argv = ["sockperf", self.mode, "-i", pair.target, "-p", str(pair.port), "--tcp", "--full-rtt"]
        argv += ["-t", str(timer_s), "-m", str(message_bytes), *self.rate(spec)]
        values = {"warmup_s": spec.warmup_s, "window_s": spec.duration_s, "message_bytes": message_bytes}
        options = " ".join(f"-v {name}={value:.9g}" for name, value in (values | {"timer_s": timer_s}).items())
        return ["sh", "-c", _LOGGED, "sh", options, _COUNT, *argv]

    def parse(self, stdout, served=""):
        ran, window = _found(self.name, stdout, LATENCY_REPORT)
        duration_s, timer_s, ran_s = float(window[1]), int(window[4]), float(ran[1])
        transactions, message_bytes = int(window[2]), int(window[3])
        latencies = sorted((int(ns) / 1e9, int(count)) for ns, count in BUCKET.findall(stdout))
        if not (transactions and duration_s and timer_s):
            raise ValueError(f"{self.name}: no request was answered after the warm-up")
        if sum(count for _, count in latencies) != transactions:
            raise ValueError(f"{self.name} told of {transactions} transactions, and not of the latency of each")
        if abs(ran_s / timer_s - 1) > CLOCK:
            raise ValueError(
                f"{self.name} ran for {timer_s} s by the kernel's timer and for {ran_s:g} s by its own clock, whose"
                f" latencies are not to be trusted: use rr"
            )
        return [
            Measured(
                transaction_totals(duration_s, transactions, 2 * message_bytes),
                received_bytes=int(ran[2]) * message_bytes,
                answered_bytes=int(ran[3]) * message_bytes,
                lasted_s=ran_s,
                latencies=latencies,
                windowed=True,
            )
        ]


class SockperfPingPong(_SockperfLatency):
    """Each request is sent when the response to the one before has come. The rest is _SockperfLatency's."""

    name = "sockperf-ping-pong"
    summary = "sockperf ping-pong: requests one after the other by TCP, and their round-trip times"
    mode = "ping-pong"

    def check(self, spec):
        super().check(spec)
        if spec.requests_per_s:
            raise BadSpec("requests_per_s: sockperf-ping-pong has no rate: use sockperf-under-load, or rr")

    def rate(self, spec):
        return []


class SockperfUnderLoad(_SockperfLatency):
    """Requests at a rate, whether or not responses have come; each latency counts from when it was sent.

    It does not count from when a request was due, as rr does: what a stall of the client delays is sent late, and
    counts as fast (coordinated omission). The rest is _SockperfLatency's.
    """

    name = "sockperf-under-load"
    summary = "sockperf under-load: requests at a rate by TCP, and their round-trip times"
    mode = "under-load"

    def check(self, spec):
        super().check(spec)
        if spec.requests_per_s < 1 or spec.requests_per_s != int(spec.requests_per_s):
            raise BadSpec(
                f"sockperf-under-load sends a whole number of requests per second, at least 1: give requests_per_s,"
                f" not {spec.requests_per_s:g}"
            )

    def rate(self, spec):
        return ["--mps", f"{spec.requests_per_s:.0f}", "--reply-every", "1"]


def _messages_in_a_line(spec):
    fewest = min(LINE_MESSAGES, LINE_BYTES // (spec.message_bytes or LEAST_MESSAGE_BYTES))
    return max(1, int(spec.total_s * fewest))


def _last_reported(served):
    """How many messages had arrived by the server's last line."""
    return max((int(found[2]) for found in ARRIVED.finditer(served)), default=0)


def _arrived(served, duration_s):
    """How many messages arrived while the client sent, after the first line's, and in how many seconds; or None."""
    rows = [(int(found[1]) * 1e-6, int(found[2])) for found in ARRIVED.finditer(served)]
    messages, arrived_s = 0, 0.0
    for (took_s, total), (_, before) in zip(rows[1:], rows, strict=False):
        if arrived_s + took_s > duration_s:
            break
        messages, arrived_s = messages + total - before, arrived_s + took_s
    return (messages, arrived_s) if arrived_s > 0 else None


def _message_bytes(bandwidth_mbps, rate_hz, note):
    """The size of a message, from sockperf's note on it, which must fit the bandwidth; without a note, from that.

    The note is missing for one size (1472 B). The bandwidth has three digits after the point.
    """
    derived = bandwidth_mbps * MBPS_BYTES / rate_hz
    if not note:
        return round(derived)
    noted = int(note[1])
    if abs(noted - derived) > 0.0011 * MBPS_BYTES / rate_hz:
        raise ValueError(f"sockperf's bandwidth implies messages of {derived:.0f} bytes, not of {noted}")
    return noted
