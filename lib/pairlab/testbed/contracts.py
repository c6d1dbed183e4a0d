"""What a driver, a workload, a pinning and a backend are. Read this first.

A *testbed* is a number of client/server pairs of *endpoints* on one network. A backend makes the endpoints
(containers, or bare network namespaces), a driver connects them, a workload says what runs in them and reads what
it printed, and a pinning binds each to a core. A plugin is one class in one file of its folder, or an entry point of
another package; no other file has to mention it.

This module imports nothing heavy, as the process inside a sandbox starts with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pairlab.errors import Unavailable
from pairlab.testbed.endpoints import EndpointPlan, Limits, Link, Pair
from pairlab.testbed.requirements import Lack, Program

if TYPE_CHECKING:
    from pairlab.model.spec import Spec

#: Called with how far a phase is: phase, done, total (0 where there is nothing to count); seconds in tenths.
Progress = Callable[[str, float, float], None]


def silent(phase: str, done: float, total: float) -> None:
    """The Progress that shows nothing."""


class Pinning(ABC):
    """A policy that binds each endpoint to one core."""

    name: ClassVar[str]
    summary: ClassVar[str]
    least_cores: ClassVar[int] = 1
    """The fewest cores on which the policy makes sense."""

    @abstractmethod
    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        """The core of each endpoint (client-0, server-0, client-1, …), by name; endpoints left unbound are left out.

        cores: numbers of the available CPUs, each once; at least least_cores of them.
        """


class Lan(ABC):
    """What a driver builds with: links in the sandbox's own network namespace, and one namespace per endpoint.

    Everything made here ends with the sandbox. Methods raise Unavailable where the kernel lacks a kind of link, and
    TestbedError where it refuses for another reason. Further attributes of a link are pyroute2's, as ip-link(8) has
    them: br_ageing_time=0, vxlan_id=7, mtu=9000.
    """

    directory: Path
    """A directory for the driver's files; it goes with the testbed."""

    @abstractmethod
    def add_link(self, name: str, kind: str, **attributes: Any) -> int:
        """Makes a link in the sandbox and sets it up; returns its index."""

    @abstractmethod
    def set_up(self, name: str) -> int:
        """Sets up a link of the sandbox, such as the other end of a veth pair; returns its index."""

    @abstractmethod
    def add_veth(self, endpoint: EndpointPlan, **attributes: Any) -> str:
        """Makes a veth pair: eth0 in the endpoint, and a port named after the endpoint in the sandbox, set up.

        attributes: of the port, such as master= with a bridge's index. Returns the port's name.
        """

    @abstractmethod
    def add_eth0(self, endpoint: EndpointPlan, kind: str, **attributes: Any) -> None:
        """Makes a link of that kind (macvlan, ipvlan, …) as eth0 of the endpoint. link=: the index of its parent."""

    @abstractmethod
    def add_cable(self, one: EndpointPlan, other: EndpointPlan) -> None:
        """Makes a veth pair with one end as eth0 of one endpoint, and the other end as eth0 of the other."""

    @abstractmethod
    def run(self, argv: Sequence[str], timeout_s: float = 20.0) -> str:
        """Runs a program in the sandbox, without a shell, and returns its output. Raises TestbedError if it fails."""


@dataclass(frozen=True)
class DockerNetwork:
    """How Docker itself provides a driver's network; a driver without one is attached from outside.

    mode: `network` for a network of its own, made with Docker's driver `driver`, or `host`. parent: whether that
    driver needs a parent link on the host, which is then made for it.
    """

    mode: str = "network"
    driver: str = ""
    parent: bool = False


class NetworkDriver(ABC):
    """Connects endpoints. One instance serves one testbed, and runs inside the sandbox that owns its links.

    When the sandbox ends, the kernel removes every link, process and file made in it: a driver undoes nothing.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    links: ClassVar[tuple[str, ...]] = ()
    """Kinds of link (ip-link(8)) that the kernel must have."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs of the host that it runs."""
    isolated: ClassVar[bool] = True
    """Whether each endpoint has a network namespace of its own (else: one for all, on loopback)."""
    floods: ClassVar[bool] = False
    """Whether endpoints receive frames meant for others: their links count these too, so no check uses them."""
    max_endpoints: ClassVar[int | None] = None
    """How many endpoints the network can have, where there is a limit."""
    docker: ClassVar[DockerNetwork | None] = None
    """How Docker provides it; None: `create` and `attach` do, into containers without a network."""

    @classmethod
    def lacks(cls) -> list[Lack]:
        """What else this host lacks for it, besides links and programs. Leaves nothing behind."""
        return []

    @classmethod
    def version(cls) -> str:
        """The version of its switch, as `facts` records it under the driver's name; empty where it has none."""
        return ""

    def create(self, lan: Lan) -> None:  # noqa: B027 (a driver may have nothing to create)
        """Makes what all endpoints share."""

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027
        """Gives one endpoint its eth0. Called for client-0, server-0, client-1, …

        Address, loopback and neighbours are set, and eth0 is set up, after `finish`.
        """

    def finish(self, lan: Lan) -> None:  # noqa: B027
        """Called once all endpoints are attached."""

    def ports(self, endpoints: Sequence[str]) -> Sequence[str]:
        """Links of the sandbox by which all traffic to these endpoints leaves it; () where the driver has none."""
        return ()

    def check(self) -> None:  # noqa: B027
        """Called before the network is taken down: raises TestbedError where it is not as it was made.

        The kernel keeps links as they are; a driver with daemons says here whether they still run.
        """

    def facts(self) -> Mapping[str, Any]:
        """What a record should say of this network, such as the datapath in use."""
        return {}


class Site(ABC):
    """Endpoints that are up, as their backend provides them."""

    flowgen: str
    """The path of pairlab's own generator, inside an endpoint."""
    directory: str
    """The path of the testbed's working directory, inside an endpoint."""
    addresses: Mapping[str, str]
    """Each endpoint's IPv4 address, by name."""
    interface: str = "eth0"
    """The link that an endpoint's traffic leaves by."""
    loopback_is_own: bool = True
    """Whether nobody else uses the loopback of endpoints that share a network stack."""
    first_port: int = 5201
    """The port of the first pair's server; each further pair takes the next."""

    @abstractmethod
    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Starts one process for each (endpoint name, argv) and returns when all are started; waits for none."""

    def grant_realtime(self, pid: int) -> bool:
        """Gives a launcher (its pid, as this process sees it) a real-time priority that it may not take itself."""
        return False

    def launch_options(self, endpoint: str) -> list[str]:
        """Options of `flowgen hold` that keep a process in this endpoint to its limits."""
        return []

    def neighbour_options(self, address: str) -> list[str]:
        """Options of `flowgen hold` that have a client learn its server's hardware address before it is ready.

        Empty where the endpoints know each other already, or share one network stack.
        """
        return []

    def roots(self) -> Collection[int]:
        """Processes that hold the testbed, by their ids: they and their descendants are its."""
        return ()

    def marks(self) -> Collection[str]:
        """Words in the command lines of processes that hold the endpoints but are no children of ours (a shim's)."""
        return ()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets sent to endpoints at the ports of the driver's network; None: it counts none.

        What a switch dropped went in there and did not come out. With link-layer headers; packets as in
        conductor.LinkCounts.
        """
        return None

    def limits_in_force(self) -> Mapping[str, Mapping[str, float]]:
        """By endpoint, what its cgroup's files say of its CPU time; only for endpoints with such a limit.

        cpu_quota (CPUs; 0: no limit), and cpu_shares (cgroup v1) or cpu_weight (v2).
        """
        return {}

    def shape(self, links: Mapping[str, Link]) -> None:
        """Shapes these endpoints' links, by name, before there is traffic; `facts` then includes it."""
        raise Unavailable("this backend shapes no links: leave out link_rate_bps and link_loss")

    def route_congestion_control(self, name: str) -> None:
        """Sets it on the endpoints' routes, at both ends, before there is traffic; `facts` then includes it.

        Called where the backend's lacks_routes says that it can.
        """
        raise Unavailable("this backend sets no routes: leave out congestion_control, or take a tool that chooses it")

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What a record should say of this site."""


class Backend(ABC):
    """Makes endpoints and takes them away again."""

    name: ClassVar[str]
    summary: ClassVar[str]
    endpoint: ClassVar[str] = "endpoint"
    """What one of its endpoints is called."""

    @abstractmethod
    def lacks(self) -> list[Lack]:
        """What this host lacks for the backend as such. Builds nothing that stays."""

    @abstractmethod
    def lacks_for(self, driver: type[NetworkDriver]) -> list[Lack]:
        """What it lacks for this driver, given the backend."""

    @abstractmethod
    def lacks_program(self, program: Program) -> Lack | None:
        """Whether this program is missing inside the backend's endpoints."""

    def lacks_programs(self, workload: type[Workload]) -> list[Lack]:
        """Which of the workload's programs are."""
        return [lack for program in workload.programs if (lack := self.lacks_program(program))]

    def version(self) -> str:
        """The version of its engine, as its sites' facts record it under the backend's name; empty: it has none."""
        return ""

    def tool_version(self, workload: type[Workload]) -> str:
        """The version of that tool as its endpoints have it; empty where that is not known before they are up."""
        return ""

    def lacks_limits(self, limits: Collection[Limits]) -> list[Lack]:
        """What this host lacks to hold endpoints to these limits. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} limits no CPU use", "take another backend")] if limits else []

    def lacks_pairs(self, driver: type[NetworkDriver], pairs: int) -> list[Lack]:
        """What this host lacks for so many pairs on this driver's network."""
        return []

    def lacks_links(self, links: Collection[Link]) -> list[Lack]:
        """What this host lacks to shape links like this. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} shapes no links", "take another backend")] if links else []

    def lacks_routes(self, driver: type[NetworkDriver]) -> list[Lack]:
        """What it lacks to set the congestion control of endpoints on that driver's network by their routes.

        Without that, a tool has to choose it by its own option, where it has one.
        """
        return [Lack(f"backend {self.name!r} sets no routes", "take another backend")]

    @abstractmethod
    def open(
        self, endpoints: Sequence[EndpointPlan], driver: NetworkDriver, directory: Path, progress: Progress
    ) -> AbstractContextManager[Site]:
        """Brings up these endpoints on the driver's network, with their limits; removes everything on leaving."""


@dataclass(frozen=True)
class Measured:
    """What a tool reported of one flow, in the columns of records.TABLES.

    flow: totals, as columns of `flows`; intervals: rows of `intervals`, with start_s and end_s from its connection.
    number: of the flow within its pair, from 0. received_bytes: payload that its server received of it, over its
    whole time, where the tool reports it; unread_bytes: what was sent besides, and may have arrived unread. error: why
    this flow failed, where others of its client did not. lasted_s: how long it was sending, where its duration_s is
    another time. connect_s: how long connecting took, where the tool reports that instead of the moment.
    netns_retransmits: what the kernel had counted in the client's network namespace, since that was made, just before
    and just after the tool counted last.
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

    def __post_init__(self):
        """Raises ValueError for what no tool can have measured, so that it gets into no table and no mean."""
        whole = {key: getattr(self, key) for key in ("connected_ns", "first_byte_ns", "completed_ns", "number")}
        by_kernel = {f"netns_retransmits[{place}]": count for place, count in enumerate(self.netns_retransmits or ())}
        tables: list[Mapping[str, Any]] = [self.flow, whole, by_kernel, *self.intervals]
        for values in tables:
            for column, value in values.items():
                if isinstance(value, str):
                    value.encode()  # JSON can escape half a surrogate pair, which no file takes
                elif value is not None and not 0 <= value < 2**63:  # nor is NaN
                    raise ValueError(f"{column} cannot be {str(value)[:40]}: the report is damaged")


#: What a spec can ask of a tool: by feature, whether it does, and in words.
FEATURES: Mapping[str, tuple[Callable[[Spec], bool], str]] = {
    "time": (lambda spec: not spec.flow_bytes, "send for a given time: give flow_bytes"),
    "bytes": (lambda spec: spec.flow_bytes > 0, "send flows of a given size (flow_bytes)"),
    "flows": (lambda spec: spec.flows_per_pair > 1, "send several flows at once (flows_per_pair)"),
    "message": (lambda spec: spec.message_bytes > 0, "write message_bytes in each call"),
    "udp": (lambda spec: spec.udp_share > 0, "send UDP (udp_share)"),
    "warmup": (
        lambda spec: spec.warmup_s > 0 or (spec.start_spacing_s > 0 and not spec.flow_bytes),
        "report intervals, from which warmup_s and what was sent before all did (start_spacing_s) could be left out",
    ),
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
    """Words that its client prints where a signal ended it that it caught: then nothing else tells so."""
    late_s: ClassVar[float] = 0.0
    """How long before its end a client may take its last count, so that the kernel counts more than it reports."""
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

    @abstractmethod
    def parse(self, stdout: str, served: str = "") -> list[Measured]:
        """Reads what the client printed (stdout) and what its server printed (served): a Measured for each flow.

        Raises ValueError, with what is wrong, where that is no complete report.
        """
