"""sockperf, with which papers C and S measured by message size."""

import re

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Workload
from pairlab.testbed.requirements import Program

#: sockperf's own limits: its header, and what one UDP datagram carries (it holds TCP to the same).
LEAST_MESSAGE_BYTES, MOST_MESSAGE_BYTES = 14, 65507

TOTAL = re.compile(r"^sockperf: Total of (\d{1,18}) messages sent in (\d{1,9}\.\d{1,9}) sec", re.MULTILINE)
RATE = re.compile(r"^sockperf: Summary: Message Rate is (\d{1,18}) \[msg/sec\]", re.MULTILINE)
BANDWIDTH = re.compile(r"^sockperf: Summary: BandWidth is (\d{1,12}\.\d{1,9}) MBps", re.MULTILINE)

ERROR = re.compile(r"sockperf: ERROR: ([^\n]{1,200})")
REPORT = (TOTAL, RATE, BANDWIDTH)
NOTE = re.compile(r"NOTE: test was performed, using msg-size=(\d{1,9})\.")

#: The server's line for every so many messages (-A): how long they took to arrive. The first counts from its start.
ARRIVED = re.compile(r"^ *(\d{1,15}) \[usec\] +\d{1,15} \[msg/s\] +(\d{1,18}) \[msg\]$", re.MULTILINE)

#: So many bytes to a line in a run of a second, or messages where that is less, and more in longer ones: a line takes a
#: fast pair about a thousandth of the run, and some thousands of them a second cost next to nothing.
LINE_BYTES, LINE_MESSAGES = 1 << 20, 512

#: Up to this share, what was written and not reported by the server does not matter.
KNOWN = 0.005

#: What sockperf 3.7 calls MBps: messages a second, times their size, over this.
MBPS_BYTES = 1 << 20


class Sockperf(Workload):
    """TCP messages of one size, as fast as they can be written; bytes are those the server received.

    The server reports how long every so many messages took. Its first line is left out, as its time counts from
    the server's start, and so is what comes after the last whole line while the client sends: duration_s is less than
    was asked, by those two lines' time at most. Where fewer than two arrived, or of runs before the server was asked,
    bytes are those the client wrote: too many by what its socket buffer held at the end, tcp_wmem's 4 MiB at most.

    It connects at its start, then waits 2 s, whether it is to warm up or not, then sends: CPU use before 2.1 s after
    the release is not the traffic's. It reports no intervals and no TCP statistics. Nagle's algorithm is on, as
    in its other tools, so small messages are sent together.
    """

    name = "sockperf"
    summary = "sockperf: TCP throughput by message size (the papers' tool for that)"
    can = frozenset({"time", "message"})
    programs = (Program("sockperf", "sockperf"),)
    version_argv = ("sockperf", "--version")
    waits_s = 2.1
    connects_first = True

    def check(self, spec):
        if spec.total_s != int(spec.total_s):
            raise BadSpec(f"sockperf sends for whole seconds only, and duration_s is {spec.total_s:g}: change it")
        if spec.message_bytes and not LEAST_MESSAGE_BYTES <= spec.message_bytes <= MOST_MESSAGE_BYTES:
            raise BadSpec(
                f"sockperf takes message_bytes from {LEAST_MESSAGE_BYTES} to {MOST_MESSAGE_BYTES},"
                f" not {spec.message_bytes}"
            )

    def server(self, pair, spec, site):
        argv = ["sockperf", "server", "-i", pair.server.address, "-p", str(pair.port), "--tcp"]
        argv += ["--uc-reuseaddr"]  # a connection that others had on this port may wait for its end
        lines = ["-A", str(_messages_in_a_line(spec)), "--no-rdtsc"]
        return ["stdbuf", "--output=L", *argv, *lines]  # it is ended by a signal, and would take a full buffer with it

    def client(self, pair, spec, site):
        argv = ["sockperf", "throughput", "-i", pair.target, "-p", str(pair.port), "--tcp"]
        argv += ["-t", f"{spec.total_s:.0f}", "--no-rdtsc"]  # a TSC may not tick as often as it says it does
        return [*argv, "-m", str(spec.message_bytes or LEAST_MESSAGE_BYTES)]

    def parse(self, stdout, served=""):
        total, rate, bandwidth = (line.search(stdout) for line in REPORT)
        if not (total and rate and bandwidth):
            failed = ERROR.search(stdout)  # it exits with 0 even where it could not connect
            raise ValueError(f"sockperf: {failed[1]}" if failed else "sockperf reported no complete test")
        messages, duration_s, rate_hz = int(total[1]), float(total[2]), int(rate[1])
        if not (messages and duration_s and rate_hz):
            raise ValueError("sockperf sent nothing")
        message_bytes = _message_bytes(float(bandwidth[1]), rate_hz, NOTE.search(stdout))
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
