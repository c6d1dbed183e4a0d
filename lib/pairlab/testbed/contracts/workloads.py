"""What a traffic tool is, and what it reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pairlab.model.metrics.declared import Metric
from pairlab.testbed.contracts.sites import Site
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import Program

if TYPE_CHECKING:
    import numpy as np

    from pairlab.model.spec import Spec


#: The columns that are texts, as far as tools report them.
TEXTS = frozenset({"congestion_control"})


@dataclass(frozen=True)
class Measured:
    """What a tool reported of one flow, in the columns of tables.TABLES.

    flow: totals, as columns of `flows`; intervals: rows of `intervals`, with start_s and end_s from its connection.
    latencies: of its transactions, each latency in s, with how many took it. transactions: the same as rows of
    `transactions`, with latency_s, count, and the workload's own metrics of that table. windowed: whether the tool
    itself left out the warm-up, which else its intervals tell of. number: of the flow within its pair, from 0.
    received_bytes: payload that its server received of it, over its whole time, where the tool reports it;
    received_datagrams: in how many datagrams; answered_bytes: what that sent back; unread_bytes: what was sent besides,
    and may have arrived unread. direction: `down` of a flow that its server sent: all that is said here of its client
    and its server is then of the other one, and its number counts from 0 too. error: why this flow failed, where others
    of its client did not. lasted_s: how long it was sending, where its duration_s is another time. connect_s: how long
    connecting took, where the tool reports that instead of the moment. netns_retransmits: what the kernel had counted
    in the client's network namespace, since that was made, just before and just after the tool counted last.
    Moments, CLOCK_MONOTONIC in ns, where the tool reports them: when the connection was established, when the server
    had the first byte, and when a flow with an end was complete.
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

    def __post_init__(self):
        """Raises ValueError for what no tool can have measured, so that it gets into no table and no mean."""
        whole = {key: getattr(self, key) for key in ("connected_ns", "first_byte_ns", "completed_ns", "number")}
        by_kernel = {f"netns_retransmits[{place}]": count for place, count in enumerate(self.netns_retransmits or ())}
        timed = [{"latency_s": latency_s, "count": count} for latency_s, count in self.latencies]
        tables: list[Mapping[str, Any]] = [self.flow, whole, by_kernel, *self.intervals, *timed, *self.transactions]
        for values in tables:
            for column, value in values.items():
                if column in TEXTS and isinstance(value, str):
                    value.encode()  # JSON can escape half a surrogate pair, which no file takes
                elif value is not None and not _is_number(value):
                    raise ValueError(f"{column} is {str(value)[:40]!r}, which is no number")
                elif value is not None and not 0 <= value < 2**63:  # nor is NaN
                    raise ValueError(f"{column} cannot be {str(value)[:40]}: the report is damaged")


def transaction_totals(
    duration_s: float, transactions: int, transaction_bytes: int, *, lost: int = 0, failed: int = 0
) -> dict[str, float]:
    """The totals of a flow of requests and responses (Measured.flow).

    transactions: answered in duration_s, each of transaction_bytes, request and response together. lost, failed: not
    answered, and not sent.
    """
    flow_bytes = transactions * transaction_bytes
    return {
        "duration_s": duration_s,
        "flow_bytes": flow_bytes,
        "throughput_bps": flow_bytes * 8 / duration_s,
        "transactions": transactions,
        "transactions_lost": lost,
        "transactions_failed": failed,
    }


def incomplete(tool: str, printed: str, expected: str) -> ValueError:
    """The error of a tool of whose report a line is missing that it should have: expected."""
    last = printed.rstrip().rpartition("\n")[2].strip()
    ended = f"the last line that it printed is {last[:160]!r}" if last else "it printed nothing"
    return ValueError(f"{tool} reported no complete test: {ended}; expected {expected!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


@dataclass(frozen=True)
class FlowTable:
    """All flows of a client that asks all servers, in the order of their requests: arrays of one length.

    pair: that of the flow's server. request: its number. size_bytes: asked for. Moments in ns of CLOCK_MONOTONIC:
    intended_ns, when it was due; start_ns, when it was asked for; first_byte_ns and completed_ns, when its client had
    its first byte and its last; 0: it did not come to that. errno: why a flow failed; 0: it is complete.
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


#: What a spec can ask of a tool: by feature, whether it does, and in words.
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
    "ranks": (lambda spec: spec.ranks > 0, "exchange messages between all containers (ranks)"),
}


class Workload(ABC):
    """A traffic tool: its command lines, and how to read what it prints."""

    name: ClassVar[str]
    summary: ClassVar[str]
    can: ClassVar[frozenset[str]] = frozenset({"time"})
    """Which of FEATURES it has. A spec that asks for another is refused before anything is built."""
    chooses_congestion_control: ClassVar[bool] = False
    """Whether it has an option for the spec's congestion_control. Needed only where the endpoints' routes cannot have
    it (Backend.lacks_routes); else the spec that its commands are made from asks for none."""
    metrics: ClassVar[tuple[Metric, ...]] = ()
    """Columns of its own: what it reports besides those of tables.TABLES."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs it needs inside the endpoints."""
    version_argv: ClassVar[tuple[str, ...]] = ()
    """Prints the tool's version, on its first line: `version_command`."""
    waits_s: ClassVar[float] = 0.0
    """How long a client waits, from its start, before it sends."""
    connects_first: ClassVar[bool] = False
    """Whether a client sends nothing before all its connections are established: one late connection delays all."""
    ends_by_itself_s: ClassVar[float] = 10.0
    """How long after its sending time a client may take to end before it counts as hung."""
    serves_once: ClassVar[bool] = False
    """Whether the server ends by itself after its client, and prints its report only then."""
    says_when_signalled: ClassVar[str] = ""
    """Words that client and server print where a signal ended them that they caught: then nothing else tells so."""
    one_port: ClassVar[bool] = True
    """Whether all that its client sends goes to pair.port: else a driver that publishes this port cannot carry it."""
    listens_by_tcp: ClassVar[bool] = False
    """Whether its server listens by TCP where the task is UDP, too: for its control connection."""
    late_s: ClassVar[float] = 0.0
    """How long before its end a client may take its last count, so that the kernel counts more than it reports."""
    endless: ClassVar[bool] = False
    """Whether it can be the background: stopped before its time is over, its client reports what it sent by TCP until
    then, by intervals (`endless_client`, `parse_stopped`)."""
    carries: ClassVar[bool] = True
    """Whether its flows carry anything; else its client computes, for duration_s at most, and metrics tell the rest."""
    times_messages: ClassVar[bool] = False
    """Whether it times each message of message_bytes (and one with the feature transactions each request)."""
    one_client: ClassVar[bool] = False
    """Whether one client, the first pair's, asks all servers (pair.targets); `flow_table` then reads its flows."""
    all_connect: ClassVar[bool] = False
    """Whether every endpoint exchanges messages with every other one: each has a rank (pair.ranks)."""
    counts_connections: ClassVar[bool] = False
    """Whether client and server know which direction a connection has by the order in which it was made: a proxy in
    between may change that, and then nothing is sent."""
    prints_payload: ClassVar[bool] = False
    """Whether the server echoes the payload to stdout, which is then discarded."""

    @classmethod
    def version_command(cls, flowgen: str) -> Sequence[str]:
        """The command that prints its version; () where it has none. flowgen: the path of pairlab's own generator."""
        return cls.version_argv

    def check(self, spec: Spec) -> None:  # noqa: B027
        """Raises BadSpec, before anything is built, where the tool cannot do what the spec asks, besides FEATURES."""

    def prepare(self, spec: Spec, directory: Path) -> None:  # noqa: B027
        """Makes the files that its commands read, in the testbed's working directory (site.directory inside)."""

    @abstractmethod
    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        """The server's command; it must listen on pair.port (TCP, or UDP where that is the pair's task)."""

    @abstractmethod
    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        """The client's command; it must send pair.task and then end: after spec.total_s, or its flow_bytes."""

    def client_reads(self, pair: Pair, spec: Spec, site: Site) -> str:
        """The file that the client has as its standard input; empty: there is nothing to read."""
        return ""

    def endless_client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        """The command of a client in the background; it is stopped (SIGTERM) before spec.total_s is over."""
        return self.client(pair, spec, site)

    def parse_stopped(self, stdout: str, served: str = "") -> list[Measured]:
        """As `parse`, of such a client, which was stopped."""
        return self.parse(stdout, served)

    def flow_table(self, spec: Spec, directory: Path) -> FlowTable:
        """The flows that the one client has written into the testbed's working directory.

        Raises ValueError, with what is wrong, where it has written none, or a part.
        """
        raise NotImplementedError(f"{self.name} has one client for all servers, and reads no table of its flows")

    @abstractmethod
    def parse(self, stdout: str, served: str = "") -> list[Measured]:
        """Reads what the client printed (stdout) and what its server printed (served): a Measured for each flow.

        Raises ValueError, with what is wrong, where that is no complete report.
        """
