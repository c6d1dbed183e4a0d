"""What a backend, a network driver and a workload are. Read this first.

A *testbed* is a number of client/server pairs of *endpoints* on one network. A backend makes the endpoints
(containers, or bare network namespaces), a driver connects them, a workload says what runs in them and reads what
it printed; a pinning says which core each is bound to. Each plugin is one class in one file of its folder (or an
entry point of another package); nothing else has to know of it.

This module imports nothing heavy, as the process inside a sandbox starts with it.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pairlab.errors import Unavailable

if TYPE_CHECKING:
    from pairlab.spec import Spec
    from pairlab.testbed.netlink import Lan
    from pairlab.testbed.tasks import Task

#: Told how far a phase is: phase, done, total (0 where there is nothing to count); seconds come in tenths.
Progress = Callable[[str, float, float], None]


def silent(phase: str, done: float, total: float) -> None:
    """The Progress that tells nobody."""


@dataclass(frozen=True)
class Lack:
    """Something this host does not have: what is missing, and how to get it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


@dataclass(frozen=True)
class Program:
    """A program that a plugin runs; `package` is Debian's package that has it."""

    name: str
    package: str

    def path(self) -> str | None:
        """Where it is on this host. The sbin folders count too: a user's PATH often lacks them."""
        return shutil.which(self.name, path=os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin")

    def lack(self) -> Lack | None:
        return None if self.path() else Lack(f"{self.name} is not installed", f"sudo apt-get install {self.package}")


@dataclass(frozen=True)
class EndpointPlan:
    """One endpoint to be made: its name, and its address where it has a network of its own."""

    name: str
    address: str
    prefix: int = 16


@dataclass(frozen=True)
class Limits:
    """What one endpoint may use of the CPUs.

    cpus: those it may run on, by number; None: any. cpu_quota: CPUs' worth of time at most; 0: no limit. cpu_shares:
    weight of its time against other endpoints', where 1024 is the kernel's default; 0: that default.
    """

    cpus: tuple[int, ...] | None = None
    cpu_quota: float = 0.0
    cpu_shares: int = 0


@dataclass(frozen=True)
class Link:
    """How one endpoint's link is made worse than it is, so that what tools must read over it is known.

    rate_bps: what it sends at most, link-layer headers included; 0: as much as it can. loss: share of the packets
    arriving there that are lost, by chance.
    """

    rate_bps: float = 0.0
    loss: float = 0.0


class Pinning(ABC):
    """A policy that binds each endpoint to one core."""

    name: ClassVar[str]
    summary: ClassVar[str]
    least_cores: ClassVar[int] = 1
    """How many cores it makes sense on."""

    @abstractmethod
    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        """The core of each endpoint (client-0, server-0, client-1, …), by name; none for those left unbound.

        cores: numbers of the CPUs there are, each once, least_cores of them or more.
        """


@dataclass(frozen=True)
class DockerNetwork:
    """How Docker itself provides a driver's network; a driver without one is attached from outside.

    mode: `network` for a network of its own, made with Docker's driver `driver`, or `host`. parent: whether that
    driver wants a link of the host to sit on, which is then made for it.
    """

    mode: str = "network"
    driver: str = ""
    parent: bool = False


class NetworkDriver(ABC):
    """Connects endpoints. One instance serves one testbed, and runs inside the sandbox that owns its links.

    The sandbox takes every link, process and file made here with it when it ends, so a driver undoes nothing.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    links: ClassVar[tuple[str, ...]] = ()
    """Kinds of link (ip-link(8)) that the kernel must know."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs of the host that it runs."""
    isolated: ClassVar[bool] = True
    """Whether each endpoint has a network namespace of its own (else: one for all, on loopback)."""
    floods: ClassVar[bool] = False
    """Whether endpoints get frames that are for others: their links count these too, and prove no tool wrong."""
    max_endpoints: ClassVar[int | None] = None
    """How many endpoints the network can have, where there is a limit."""
    docker: ClassVar[DockerNetwork | None] = None
    """How Docker provides it; None: `create` and `attach` do, into containers without a network."""

    @classmethod
    def lacks(cls) -> list[Lack]:
        """What else this host misses for it, beside links and programs. Builds nothing that stays."""
        return []

    def create(self, lan: Lan) -> None:  # noqa: B027 (a driver may have nothing to create)
        """Makes what all endpoints share."""

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027
        """Gives one endpoint its eth0; the address is set and the link brought up by the caller."""

    def ports(self, endpoints: Sequence[str]) -> Sequence[str]:
        """Links of the sandbox by which all traffic goes out to these endpoints, where the driver has such."""
        return ()

    def finish(self, lan: Lan) -> None:  # noqa: B027
        """Called once all endpoints are attached."""

    def check(self) -> None:  # noqa: B027
        """Called before the network is taken down: raises TestbedError where it does not stand as it was made.

        What the kernel keeps, stands; a driver that has daemons says here whether they still run.
        """

    def facts(self) -> Mapping[str, Any]:
        """What a record should say of this network, such as the datapath in use."""
        return {}


class Site(ABC):
    """Endpoints that are up, as their backend provides them."""

    flowgen: str
    """The native generator's path, seen from inside an endpoint."""
    directory: str
    """The testbed's working directory, seen from inside an endpoint."""
    addresses: Mapping[str, str]
    """Each endpoint's IPv4 address, by name."""
    interface: str = "eth0"
    """The link an endpoint's traffic leaves by."""
    loopback_is_own: bool = True
    """Whether nobody else uses the loopback that endpoints without a network of their own share."""
    first_port: int = 5201
    """The port of the first pair's server; each further pair takes the next."""

    @abstractmethod
    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Starts one process for each (endpoint name, argv); returns when all are started. Nobody waits for them."""

    def hasten(self, pid: int) -> bool:
        """Gives a launcher (its pid, as we see it) the real time that it may not take itself; whether that came off."""
        return False

    def launch_options(self, endpoint: str) -> list[str]:
        """What `flowgen hold` must be told so that a process in this endpoint keeps to its limits."""
        return []

    def marks(self) -> Collection[str]:
        """Words in the command lines of processes that hold the endpoints and did not come from us (a shim's)."""
        return ()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that have gone out to endpoints at the ports of the driver's network; None: it counts none.

        What a switch dropped has come in there and not gone out. With link-layer headers, and a packet as for
        barrier.LinkCounts.
        """
        return None

    def limits_in_force(self) -> Mapping[str, Mapping[str, float]]:
        """By endpoint, what its cgroup's files say of its CPU time; only of those that were to be limited in it.

        cpu_quota (CPUs; 0: no limit), and cpu_shares (cgroup v1) or cpu_weight (v2).
        """
        return {}

    def shape(self, links: Mapping[str, Link]) -> None:
        """Makes these endpoints' links, by name, as asked, before there is traffic; `facts` tells of it."""
        raise Unavailable("this backend shapes no links: leave out link_rate_bps and link_loss")

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What a record should say of this site."""


class Backend(ABC):
    """Makes endpoints and takes them away again."""

    name: ClassVar[str]
    summary: ClassVar[str]
    endpoint: ClassVar[str] = "endpoint"
    """What an endpoint of it is, in a word."""
    administers: ClassVar[bool] = False
    """Whether what runs in its endpoints has CAP_NET_ADMIN over their network."""

    @abstractmethod
    def lacks(self) -> list[Lack]:
        """What this host misses for the backend as such. Builds nothing that stays."""

    @abstractmethod
    def lacks_for(self, driver: type[NetworkDriver]) -> list[Lack]:
        """What it misses for this driver, the backend being there."""

    @abstractmethod
    def lacks_program(self, program: Program) -> Lack | None:
        """Whether this program is there inside the backend's endpoints."""

    def lacks_limits(self, limits: Collection[Limits]) -> list[Lack]:
        """What this host misses to hold endpoints to these limits. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} limits no CPU use", "take another backend")] if limits else []

    def lacks_links(self, links: Collection[Link]) -> list[Lack]:
        """What this host misses to shape links so. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} shapes no links", "take another backend")] if links else []

    @abstractmethod
    def open(
        self,
        endpoints: Sequence[str],
        driver: NetworkDriver,
        directory: Path,
        progress: Progress,
        limits: Mapping[str, Limits],
    ) -> AbstractContextManager[Site]:
        """Brings up endpoints of these names on the driver's network; takes all of it away on leaving.

        limits: by endpoint; one that is not in it is not limited.
        """


@dataclass(frozen=True)
class Completed:
    """A command that has ended in an endpoint."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Endpoint:
    """One end of a pair: a container, or a network namespace."""

    name: str
    address: str
    _runner: Callable[..., Completed] = field(repr=False, compare=False)

    def run(self, argv: Sequence[str], timeout_s: float = 30.0) -> Completed:
        """Runs a command in here and returns what it printed. No shell is involved.

        Raises MeasurementFailed when it cannot be started or does not end within timeout_s.
        """
        return self._runner(self, argv, timeout_s)


@dataclass(frozen=True)
class Pair:
    """A client and its server; port is the one the server is to listen on, task what the client is to send."""

    index: int
    client: Endpoint
    server: Endpoint
    port: int
    task: Task


@dataclass(frozen=True)
class Measured:
    """What a tool reported of one flow, in the columns of records.TABLES.

    flow: totals, as columns of `flows`; intervals: rows of `intervals`, with start_s and end_s from its connection.
    number: of the flow within its pair, from 0. received_bytes: payload that its server had received of it, from its
    connection to its end, where the tool tells. error: why this flow failed, where others of its client did not.
    lasted_s: how long it was sending, where its duration_s is another time. connect_s: how long connecting took, where
    the tool tells that, and not when the connection stood.
    Moments, CLOCK_MONOTONIC in ns, where the tool tells: when the connection stood, when the server had the first
    byte, and when a flow with an end was complete.
    """

    flow: Mapping[str, Any]
    intervals: Sequence[Mapping[str, Any]] = ()
    connected_ns: int | None = None
    number: int = 0
    received_bytes: float | None = None
    first_byte_ns: int | None = None
    completed_ns: int | None = None
    error: str = ""
    lasted_s: float | None = None
    connect_s: float | None = None

    def __post_init__(self):
        """Raises ValueError for what no tool can have measured, so that no table and no mean ever has it."""
        moments = {key: getattr(self, key) for key in ("connected_ns", "first_byte_ns", "completed_ns", "number")}
        for told in (self.flow, moments, *self.intervals):
            for column, value in told.items():
                if isinstance(value, str):
                    value.encode()  # JSON can escape half a character, which no file takes
                elif value is not None and not 0 <= value < 2**63:  # nor is NaN
                    raise ValueError(f"{column} cannot be {str(value)[:40]}: the report is damaged")


#: What a spec can ask of a tool: by feature, whether it does, and in words.
FEATURES: Mapping[str, tuple[Callable[[Spec], bool], str]] = {
    "time": (lambda spec: not spec.flow_bytes, "send until a time is over: give flow_bytes"),
    "bytes": (lambda spec: spec.flow_bytes > 0, "send a flow of flow_bytes that then ends"),
    "flows": (lambda spec: spec.flows_per_pair > 1, "send several flows at once (flows_per_pair)"),
    "message": (lambda spec: spec.message_bytes > 0, "write message_bytes in each call"),
    "udp": (lambda spec: spec.udp_share > 0, "send UDP (udp_share)"),
    "congestion": (lambda spec: bool(spec.congestion_control), "choose the congestion_control"),
    "warmup": (lambda spec: spec.warmup_s > 0, "tell of intervals, from which warmup_s could be left out"),
}


class Workload(ABC):
    """A traffic tool: its command lines, and how to read what it prints."""

    name: ClassVar[str]
    summary: ClassVar[str]
    can: ClassVar[frozenset[str]] = frozenset({"time"})
    """Which of FEATURES it has. A spec that asks for another is refused before anything is built."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs it needs inside the endpoints."""
    version_argv: ClassVar[tuple[str, ...]] = ()
    """Prints the tool's version, on its first line."""
    waits_s: ClassVar[float] = 0.0
    """How long a client waits, from its start, before it sends."""
    connects_first: ClassVar[bool] = False
    """Whether no flow of a client sends before all its connections stand; then one that was late was late for all."""
    ends_by_itself_s: ClassVar[float] = 10.0
    """How long after its sending time a client may take to end before it counts as hung."""
    serves_once: ClassVar[bool] = False
    """Whether the server ends by itself once its client has, and only then has told all it has to tell."""
    late_s: ClassVar[float] = 0.0
    """How long before its end a client may take its last count, so that the kernel has more than it tells."""
    prints_payload: ClassVar[bool] = False
    """Whether the server prints what it receives, which is then thrown away."""

    def check(self, spec: Spec) -> None:  # noqa: B027
        """Raises BadSpec, before anything is built, where the tool cannot do what the spec asks, beside FEATURES."""

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
        """Reads what the client printed, and what its server did: one Measured for each flow it tells of.

        Raises ValueError, with what is wrong, where that is no whole report.
        """


def installed(programs: Sequence[Program]) -> Iterator[Lack]:
    """The lacks among programs of this host."""
    for program in programs:
        if lack := program.lack():
            yield lack
