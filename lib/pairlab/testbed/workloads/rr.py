"""flowgen rr: requests and responses, and how long each took."""

import json

from pairlab.errors import BadSpec
from pairlab.testbed import token
from pairlab.testbed.contracts import Measured, Workload, transaction_totals

#: What begins a connection, before the first request: rrwire.h.
OPENING_BYTES = 32

#: The least that a datagram holds besides payload, and the most that IPv4 carries in one: rrwire.h.
LEAST_REQUEST_DATAGRAM_BYTES, LEAST_RESPONSE_DATAGRAM_BYTES, MOST_DATAGRAM_BYTES = 32, 16, 65507


class Rr(Workload):
    """Requests and their responses by TCP or UDP: each when the response to the one before has come, or at a rate.

    A connection has one request under way. At a rate (requests_per_s), each request is due at a moment that no other
    one delays, and its latency counts from then: where a response is late, those that waited behind it are late, too
    (Tene 2015: coordinated omission). It includes the time by which the client woke up late, which is
    some 10 µs, and more on busy CPUs.
    With connect_per_request, it includes the connection. A response by UDP that takes more than a second is lost; TCP
    waits up to a second beyond the end.

    Latencies are those of requests that were due in duration_s, after warmup_s. flows_per_pair are the connections,
    each a row of `flows`; flow_bytes are of requests and responses both.
    """

    name = "rr"
    summary = "flowgen rr: requests and responses by TCP or UDP, and their latencies"
    can = frozenset({"time", "flows", "udp", "warmup", "transactions"})

    @classmethod
    def version_command(cls, flowgen):
        return (flowgen, "version")

    def check(self, spec):
        if spec.udp_rate_bps:
            raise BadSpec("udp_rate_bps: rr sends at requests_per_s: give that, or leave both out")
        if not spec.udp_share:
            return
        if spec.connect_per_request:
            raise BadSpec("connect_per_request: UDP has no connections: leave it out, or udp_share at 0")
        for name, least in (
            ("request_bytes", LEAST_REQUEST_DATAGRAM_BYTES),
            ("response_bytes", LEAST_RESPONSE_DATAGRAM_BYTES),
        ):
            if (size := getattr(spec, name)) and not least <= size <= MOST_DATAGRAM_BYTES:
                raise BadSpec(f"{name}: rr sends it by UDP with {least} to {MOST_DATAGRAM_BYTES}, not {size}")

    def prepare(self, spec, directory):
        token.write(directory)

    def server(self, pair, spec, site):
        argv = [site.flowgen, "rr-server", "--bind", pair.server.address, "--port", str(pair.port)]
        return [*argv, *token.options(site), *(["--udp"] if pair.task.protocol == "udp" else [])]

    def client(self, pair, spec, site):
        argv = [site.flowgen, "rr", "--connect", f"{pair.target}:{pair.port}", *token.options(site)]
        argv += ["--duration", f"{spec.duration_s:g}"]
        request_bytes, response_bytes = sizes(spec, pair.task.protocol)
        argv += ["--request-bytes", str(request_bytes), "--response-bytes", str(response_bytes)]
        argv += ["--warmup", f"{spec.warmup_s:g}"] if spec.warmup_s else []
        argv += ["--rate", f"{spec.requests_per_s:.9g}"] if spec.requests_per_s else []
        argv += ["--connections", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["--connect-per-request"] if spec.connect_per_request else []
        return [*argv, "--udp"] if pair.task.protocol == "udp" else argv

    def parse(self, stdout, served=""):
        try:
            lines = [json.loads(line) for line in stdout.splitlines()]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"rr printed no complete report: {error}") from None
        try:
            buckets = {int(line["flow"]): line["buckets"] for line in lines if line["event"] == "latencies"}
            totals = [line for line in lines if line["event"] == "total"]
            if not totals:
                raise ValueError("rr reported 0 totals, not one for each connection")
            return [_measured(total, buckets[int(total["flow"])]) for total in totals]
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"rr's report is incomplete: {error!r}") from None


def sizes(spec, protocol):
    """The bytes of a request and of a response."""
    least = (LEAST_REQUEST_DATAGRAM_BYTES, LEAST_RESPONSE_DATAGRAM_BYTES) if protocol == "udp" else (1, 1)
    return spec.request_bytes or least[0], spec.response_bytes or least[1]


def _measured(total, buckets):
    """One connection, from its total and the buckets of its histogram."""
    number = int(total["flow"])
    if total.get("error"):
        return Measured({}, number=number, error=f"rr: {total['error']}")
    counts = {key: int(total[key]) for key in ("transactions", "lost", "failed", "responses")}
    request_bytes, response_bytes = int(total["request_bytes"]), int(total["response_bytes"])
    latencies = [(int(value_ns) / 1e9, int(count)) for value_ns, count in buckets]
    if sum(count for _, count in latencies) != counts["transactions"]:
        raise ValueError("rr's histogram has not as many latencies as there were transactions: the report is damaged")
    return Measured(
        transaction_totals(
            float(total["duration_s"]),
            counts["transactions"],
            request_bytes + response_bytes,
            lost=counts["lost"],
            failed=counts["failed"],
        ),
        connected_ns=int(total["connected_ns"]),
        number=number,
        **_carried(total, counts["responses"], request_bytes, response_bytes),
        lasted_s=float(total["lasted_s"]),
        latencies=latencies,
        windowed=True,
    )


def _carried(total, responses, request_bytes, response_bytes):
    """What the server received and sent back, where that is known.

    Not of several connections by TCP, nor of UDP where a response is missing, as the request may have arrived or not.
    """
    if total["protocol"] == "tcp" and total["local"] is not None:
        received_bytes, answered_bytes = OPENING_BYTES + responses * request_bytes, 1 + responses * response_bytes
        return {"received_bytes": received_bytes, "answered_bytes": answered_bytes}
    if total["protocol"] == "udp" and responses == int(total["requests"]):
        return {"received_bytes": responses * request_bytes, "received_datagrams": responses}
    return {}
