"""The interface of a traffic tool, and of its reports."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pairlab.errors import BadSpec
from pairlab.model.metrics import Metric
from pairlab.testbed.contracts.backends import Site
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

if TYPE_CHECKING:
    import numpy as np

    from pairlab.model.spec import Spec


#: The largest payload of a UDP datagram over IPv4 (RFC 791, RFC 768).
MOST_DATAGRAM_BYTES = 65_507
#: The text columns of a tool's report; all others are numbers.
TEXTS = frozenset({"congestion_control"})


@dataclass(frozen=True)
class FlowReport:
    """A tool's report of one flow, in the columns of tables.TABLES.

    flow: totals, as columns of `flows`. intervals: rows of `intervals`; start_s and end_s count from the connection.
    latencies: a histogram of the transactions' latencies: each latency in s, and the number of transactions with it.
    transactions: the same as rows of `transactions`, with latency_s, count, and the workload's own metrics of that
    table. windowed: whether the tool excluded the warm-up itself; else pairlab does, by the intervals. number: the
    flow's index within its pair, from 0. received_bytes: payload that the server received, over the whole time;
    received_datagrams: the number of datagrams; answered_bytes: payload that the server sent back; unread_bytes:
    payload sent beyond received_bytes, which may have arrived unread. direction: `down` if the server sent the flow:
    client and server swap roles in this description, and numbers count from 0 too. error: why this flow failed, if
    other flows of its client did not. lasted_s: the sending time, if duration_s is another time. connect_s: the
    connection time, if the tool reports that instead of the moment. netns_retransmits: the kernel's count of
    retransmitted segments in the client's network namespace, just before and just after the tool's last count.
    Moments, CLOCK_MONOTONIC in ns, if the tool reports them: connected_ns, the connection was established;
    first_byte_ns, the server had the first byte; completed_ns, a flow with an end was complete.
    """

    flow: Mapping[str, Any]
    intervals: Sequence[Mapping[str, Any]] = ()
    connected_ns: int | None = None
    number: int = 0
    received_bytes: float | None = None
    unread_bytes: float | None = None
    first_byte_ns: int | None = None
    completed_ns: int | None = None
    error: str = ""
    lasted_s: float | None = None
    connect_s: float | None = None
    netns_retransmits: tuple[int, int] | None = None
    latencies: Sequence[tuple[float, int]] = ()
    transactions: Sequence[Mapping[str, Any]] = ()
    answered_bytes: float | None = None
    direction: str = "up"
    received_datagrams: int | None = None
    windowed: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for impossible values, so that none gets into a table or a mean."""
        integers = {key: getattr(self, key) for key in ("connected_ns", "first_byte_ns", "completed_ns", "number")}
        by_kernel = {f"netns_retransmits[{index}]": count for index, count in enumerate(self.netns_retransmits or ())}
        timed = [{"latency_s": latency_s, "count": count} for latency_s, count in self.latencies]
        rows: list[Mapping[str, Any]] = [self.flow, integers, by_kernel, *self.intervals, *timed, *self.transactions]
        for row in rows:
            for column, value in row.items():
                if column in TEXTS and isinstance(value, str):
                    value.encode()  # JSON can escape half a surrogate pair, which no file takes
                elif value is not None and not _is_number(value):
                    raise ValueError(f"{column} is {str(value)[:40]!r}, which is no number")
                elif value is not None and not 0 <= value < 2**63:  # nor is NaN
                    raise ValueError(f"{column} cannot be {str(value)[:40]}: the report is damaged")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class FlowTable:
    """All flows of one client with several servers, in the order of requests: arrays of equal length.

    pair: the server's pair. request: the request's number. size_bytes: the requested size. Moments in ns of
    CLOCK_MONOTONIC: intended_ns, the request was due; start_ns, it was sent; first_byte_ns and completed_ns, the client
    had the first and the last byte; 0: never. errno: why a flow failed; 0: it is complete.
    """

    pair: np.ndarray
    request: np.ndarray
    size_bytes: np.ndarray
    received_bytes: np.ndarray
    intended_ns: np.ndarray
    start_ns: np.ndarray
    first_byte_ns: np.ndarray
    completed_ns: np.ndarray
    errno: np.ndarray


#: Features that a spec may require of a tool: by name, whether the spec does, and the feature in words.
FEATURES: Mapping[str, tuple[Callable[[Spec], bool], str]] = {
    "time": (lambda spec: not spec.flows_end, "send for a given time: give flow_bytes"),
    "bytes": (lambda spec: spec.flow_bytes > 0, "send flows of a given size (flow_bytes)"),
    "sizes": (lambda spec: bool(spec.flow_sizes), "send flows of sizes from a distribution (flow_sizes)"),
    "flows": (lambda spec: spec.flows_per_pair > 1, "send several flows at once (flows_per_pair)"),
    "directions": (lambda spec: spec.direction != "up", "send from servers to clients (direction)"),
    "message": (lambda spec: spec.message_bytes > 0, "write message_bytes in each call"),
    "udp": (lambda spec: spec.udp_share > 0, "send UDP (udp_share)"),
    "warmup": (lambda spec: spec.warmup_s > 0, "leave out what was sent in warmup_s"),
    "intervals": (
        lambda spec: spec.start_spacing_s > 0 and not spec.flows_end,
        "report intervals, from which what was sent before all did (start_spacing_s) could be left out",
    ),
    "transactions": (
        lambda spec: bool(spec.request_bytes or spec.response_bytes or spec.requests_per_s or spec.connect_per_request),
        "send requests and await their responses (request_bytes, response_bytes, requests_per_s, connect_per_request)",
    ),
    "ipv6": (lambda spec: spec.ip_version == 6, "send over IPv6 (ip_version)"),
    "ranks": (lambda spec: spec.ranks > 0, "exchange messages between all containers (ranks)"),
}


class Workload(ABC):
    """A traffic tool: its command lines, and the parser of its output."""

    name: ClassVar[str]
    summary: ClassVar[str]
    features: ClassVar[frozenset[str]] = frozenset({"time"})
    """The FEATURES of the tool. A spec that requires another is refused before anything is built."""
    chooses_congestion_control: ClassVar[bool] = False
    """Whether the tool has an option for the spec's congestion_control. Needed only if the endpoints' routes cannot
    set it (Backend.missing_routes); else the commands' spec has none."""
    takes: ClassVar[Mapping[str, tuple[int, int]]] = {}
    """Smallest and largest accepted value of the spec's numbers, by field. 0, the default, is always accepted."""
    whole_seconds: ClassVar[bool] = False
    """Whether the tool sends for whole seconds only."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """The tool's own columns, besides those of tables.TABLES."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs required inside the endpoints."""
    version_argv: ClassVar[tuple[str, ...]] = ()
    """The command that prints the tool's version on its first line: `version_command`."""
    start_delay_s: ClassVar[float] = 0.0
    """The time from a client's start until it sends."""
    connects_first: ClassVar[bool] = False
    """Whether a client sends only once all its connections are established: one late connection delays all."""
    exit_grace_s: ClassVar[float] = 10.0
    """The time that a client may take to exit after its sending time; then it counts as hung."""
    serves_once: ClassVar[bool] = False
    """Whether the server exits by itself after its client, and prints its report only then."""
    signal_message: ClassVar[str] = ""
    """Words that client and server print after a caught signal, if their exit status does not show the signal."""
    one_port: ClassVar[bool] = True
    """Whether the client sends to pair.port only: else a driver that publishes this port cannot carry the traffic."""
    listens_by_tcp: ClassVar[bool] = False
    """Whether the server listens by TCP for UDP tasks too: for its control connection."""
    counter_lag_s: ClassVar[float] = 0.0
    """The time between a client's last count and its end, at most: the kernel counts that much longer."""
    runs_until_stopped: ClassVar[bool] = False
    """Whether the tool can be the background: a client that is stopped early reports the TCP payload sent until
    then, by intervals (`endless_client`, `parse_stopped`)."""
    sends_traffic: ClassVar[bool] = True
    """Whether flows carry payload; else the client computes, for duration_s at most, and reports metrics."""
    times_messages: ClassVar[bool] = False
    """Whether the tool times each message of message_bytes (with the feature transactions: each request)."""
    one_client: ClassVar[bool] = False
    """Whether one client, the first pair's, requests from all servers (pair.targets); `flow_table` reads its flows."""
    all_connect: ClassVar[bool] = False
    """Whether every endpoint exchanges messages with every other one: each has a rank (pair.ranks)."""
    counts_connections: ClassVar[bool] = False
    """Whether client and server infer a connection's direction from the order of connections: a proxy may change the
    order, and then nothing is sent."""
    prints_payload: ClassVar[bool] = False
    """Whether the server echoes the payload to stdout, which is then discarded."""

    @classmethod
    def version_command(cls, flowgen: str) -> Sequence[str]:
        """The command that prints the tool's version; (): none. flowgen: the path of pairlab's own generator."""
        return cls.version_argv

    def check(self, spec: Spec) -> None:
        """Raises BadSpec, before anything is built, for values that the tool cannot carry out, besides FEATURES."""
        if self.whole_seconds and spec.total_s != int(spec.total_s):
            names = "warmup_s + duration_s" if "warmup" in self.features else "duration_s"
            raise BadSpec(
                f"{self.name} sends for whole seconds only, and {names} is {spec.total_s:g}: change it, or take another"
                " workload"
            )
        for field, (least, most) in self.takes.items():
            if (value := getattr(spec, field)) and not least <= value <= most:
                raise BadSpec(f"{self.name} takes {field} from {least} to {most}, not {value}")

    def prepare(self, spec: Spec, directory: Path) -> None:  # noqa: B027
        """Writes the commands' input files into the testbed's working directory (site.directory in endpoints)."""

    @abstractmethod
    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        """The server's command; it must listen on pair.port (TCP, or UDP if that is the pair's task)."""

    @abstractmethod
    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        """The client's command; it must send pair.task and then exit: after spec.total_s, or the task's flow_bytes."""

    def client_reads(self, pair: Pair, spec: Spec, site: Site) -> str:
        """The client's file for standard input; empty: none."""
        return ""

    def endless_client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        """The command of a background client; it is stopped by SIGTERM before spec.total_s is over."""
        return self.client(pair, spec, site)

    def parse_stopped(self, stdout: str, served: str = "") -> list[FlowReport]:
        """Like `parse`, for a stopped background client."""
        return self.parse(stdout, served)

    def flow_table(self, spec: Spec, directory: Path) -> FlowTable:
        """The flows that the one client recorded in the testbed's working directory.

        Raises ValueError, naming the problem, for a missing or incomplete record.
        """
        raise NotImplementedError(f"{self.name} has one client for all servers, and reads no table of its flows")

    @abstractmethod
    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        """Parses the output of the client (stdout) and of its server (served) into a FlowReport for each flow.

        Raises ValueError, naming the problem, for an incomplete report.
        """


#: The token that authenticates clients to flowgen's servers, whose ports others may reach too: lib/flowgen/src/token.h.
_TOKEN, _TOKEN_BYTES = "token", 16


def write_token(directory: Path) -> None:
    """Writes a new token to its file in that directory."""
    (directory / _TOKEN).write_bytes(secrets.token_bytes(_TOKEN_BYTES))
    (directory / _TOKEN).chmod(0o644)  # a container's user is not ours; other users do not get into the directory


def token_options(site: Site) -> list[str]:
    """Options of flowgen's servers and clients for the token's file."""
    return ["--token-file", f"{site.directory}/{_TOKEN}"]


class FlowgenWorkload(Workload):
    """A workload by flowgen, pairlab's own generator, whose servers answer only clients with the testbed's token."""

    @classmethod
    def version_command(cls, flowgen: str) -> Sequence[str]:
        return (flowgen, "version")

    def prepare(self, spec: Spec, directory: Path) -> None:
        write_token(directory)

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return self.listening(pair, site)

    def listening(self, pair: Pair, site: Site, kind: str = "server") -> list[str]:
        """The command of flowgen's server for that pair. kind: flowgen's subcommand."""
        address = ["--bind", pair.server.address, "--port", str(pair.port)]
        return [site.flowgen, kind, *address, *token_options(site)]
