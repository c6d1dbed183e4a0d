"""flowgen rr: requests and responses, and their latencies."""

from collections.abc import Mapping, Sequence
from typing import Any

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import MOST_DATAGRAM_BYTES, FlowgenWorkload, FlowReport, Site, reports, token_options
from pairlab.testbed.endpoints import Pair, with_port

#: The opening of a connection, before the first request: rrwire.h.
OPENING_BYTES = 32

#: The headers of request and response datagrams: rrwire.h.
LEAST_REQUEST_DATAGRAM_BYTES, LEAST_RESPONSE_DATAGRAM_BYTES = 32, 16


class Rr(FlowgenWorkload):
    """Requests and responses by TCP or UDP: each after the response to the previous one, or at a rate.

    A connection has one outstanding request. At a rate (requests_per_s), each request's due time is independent of the
    others, and its latency counts from then: a late response makes the requests that waited for it late, too (Tene
    2015: coordinated omission). It includes the client's wake-up delay, about 10 µs, and more on busy CPUs. With
    connect_per_request, it includes the connection. A response by UDP after more than a second counts as lost; TCP
    waits up to a second beyond the end.

    Latencies are those of requests due in duration_s, after warmup_s. flows_per_pair is the number of connections, each
    a row of `flows`; flow_bytes include requests and responses.
    """

    name = "rr"
    summary = "flowgen rr: requests and responses by TCP or UDP, and their latencies"
    features = frozenset({"time", "flows", "udp", "warmup", "transactions", "ipv6"})

    def check(self, spec: Spec) -> None:
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

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return [*self.listening(pair, site, "rr-server"), *(["--udp"] if pair.task.protocol == "udp" else [])]

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = [site.flowgen, "rr", "--connect", with_port(pair.target, pair.port), *token_options(site)]
        argv += ["--duration", f"{spec.duration_s:g}"]
        request_bytes, response_bytes = sizes(spec, pair.task.protocol)
        argv += ["--request-bytes", str(request_bytes), "--response-bytes", str(response_bytes)]
        argv += ["--warmup", f"{spec.warmup_s:g}"] if spec.warmup_s else []
        argv += ["--rate", f"{spec.requests_per_s:.9g}"] if spec.requests_per_s else []
        argv += ["--connections", str(spec.flows_per_pair)] if spec.flows_per_pair > 1 else []
        argv += ["--connect-per-request"] if spec.connect_per_request else []
        return [*argv, "--udp"] if pair.task.protocol == "udp" else argv

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        lines = reports.json_lines("rr", stdout)
        with reports.read("rr"):
            buckets = {int(line["flow"]): line["buckets"] for line in lines if line["event"] == "latencies"}
            totals = [line for line in lines if line["event"] == "total"]
            if not totals:
                raise ValueError("rr reported 0 totals, not one for each connection")
            return [_measured(total, buckets[int(total["flow"])]) for total in totals]


def sizes(spec: Spec, protocol: str) -> tuple[int, int]:
    """The bytes of a request and of a response."""
    least = (LEAST_REQUEST_DATAGRAM_BYTES, LEAST_RESPONSE_DATAGRAM_BYTES) if protocol == "udp" else (1, 1)
    return spec.request_bytes or least[0], spec.response_bytes or least[1]


def _measured(total: Mapping[str, Any], buckets: Sequence[Sequence[Any]]) -> FlowReport:
    """One connection, from its total and the buckets of its histogram."""
    number = int(total["flow"])
    if total.get("error"):
        return FlowReport({}, number=number, error=f"rr: {total['error']}")
    counts = {key: int(total[key]) for key in ("transactions", "lost", "failed", "responses")}
    request_bytes, response_bytes = int(total["request_bytes"]), int(total["response_bytes"])
    return FlowReport(
        reports.transaction_totals(
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
        latencies=reports.latencies_s("rr", buckets, counts["transactions"]),
        windowed=True,
    )


def _carried(total: Mapping[str, Any], responses: int, request_bytes: int, response_bytes: int) -> dict[str, Any]:
    """Bytes that the server received and sent back, if known.

    Unknown for several connections by TCP, and for UDP with a missing response, whose request may have arrived.
    """
    if total["protocol"] == "tcp" and total["local"] is not None:
        received_bytes, answered_bytes = OPENING_BYTES + responses * request_bytes, 1 + responses * response_bytes
        return {"received_bytes": received_bytes, "answered_bytes": answered_bytes}
    if total["protocol"] == "udp" and responses == int(total["requests"]):
        return {"received_bytes": responses * request_bytes, "received_datagrams": responses}
    return {}
