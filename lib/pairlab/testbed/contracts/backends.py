"""The interface of a backend, its input (Layout), and its result (Site): endpoints that are up."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pairlab.testbed.contracts.networks import NetworkDriver
from pairlab.testbed.endpoints import FIRST_PORT, UPLINK, EndpointPlan, HostPlan, Limits, Link, pairs_of
from pairlab.testbed.requirements import MissingRequirement, Program, lacking


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The endpoints of a testbed, and their hosts.

    endpoints: client and server of each pair, in turn; for a workload with one client, that client and all servers.
    hosts: by EndpointPlan.host. workers: endpoints without a network, for CPU load beside the pairs. launched:
    endpoints that are launched once the others are up.
    """

    driver: type[NetworkDriver]
    endpoints: tuple[EndpointPlan, ...]
    hosts: tuple[HostPlan, ...] = (HostPlan(),)
    workers: tuple[EndpointPlan, ...] = ()
    launched: tuple[EndpointPlan, ...] = ()

    @property
    def all_endpoints(self) -> tuple[EndpointPlan, ...]:
        """All endpoints on the network, including those that are launched later."""
        return (*self.endpoints, *self.launched)

    @property
    def mtu_bytes(self) -> int:
        """The MTU of endpoints' links; 0: the driver's default."""
        return self.endpoints[0].mtu_bytes

    @property
    def crosses_hosts(self) -> bool:
        """Whether the ends of any pair are on different hosts."""
        return any(client.host != server.host for client, server in pairs_of(self.all_endpoints))

    @functools.cached_property
    def limits(self) -> dict[str, Limits]:
        """The endpoints' limits, by name; only of endpoints with limits."""
        return {each.name: each.limits for each in (*self.endpoints, *self.workers) if each.limits != Limits()}

    @property
    def links(self) -> dict[str, Link]:
        """The shaped links, by their endpoint's name."""
        return {each.name: each.link for each in self.endpoints if each.link != Link()}


class Site(ABC):
    """Endpoints that are up, as their backend provides them. facts: of this site, for the record."""

    flowgen: str
    """The path of pairlab's own generator, inside an endpoint."""
    directory: str
    """The path of the testbed's working directory, inside an endpoint."""
    addresses: dict[str, str]
    """The address of each endpoint's traffic, by name."""
    published: Mapping[str, str]
    """The servers' published addresses, by name, if they are not their own addresses."""
    interface: str = "eth0"
    """The endpoints' outgoing link on the driver's network."""
    on_host_network: Collection[str]
    """The names of endpoints with their host's network stack instead."""
    hosts: Mapping[str, int]
    """Each endpoint's host, by the endpoint's name."""
    interface_is_own: bool = True
    """For endpoints in a shared network stack: whether `interface` carries exactly their traffic, all of it."""
    first_port: int = FIRST_PORT
    """The port of the first pair's server; each further pair takes the next."""

    def __init__(self, layout: Layout, facts: Mapping[str, Any]):
        self.layout = layout
        self.addresses = {each.name: each.traffic_address for each in layout.endpoints}
        self.published = {each.name: each.published for each in layout.endpoints if each.published}
        self.on_host_network = {each.name for each in layout.endpoints if each.uses_host_network}
        self.hosts = {each.name: each.host for each in (*layout.endpoints, *layout.workers)}
        self.interface, self.interface_is_own = _traffic_link(layout)
        self._facts = dict(facts)

    @abstractmethod
    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Starts one process for each (endpoint name, argv); returns once all have started."""

    def release(self, gate: str) -> int | None:
        """Opens that gate in all hosts with kernels of their own at one moment; returns the moment, CLOCK_MONOTONIC in
        ns. None: there are no such hosts.
        """
        return None

    def interface_of(self, endpoint: str) -> str:
        """The endpoint's outgoing link."""
        return UPLINK if endpoint in self.on_host_network else self.interface

    def grant_realtime(self, pid: int) -> bool:
        """Grants a launcher real-time priority, which it may not set itself. pid: as this process sees it."""
        return False

    def launch_options(self, endpoint: str) -> list[str]:
        """Options of `flowgen hold` that apply the endpoint's limits to its process."""
        return []

    def neighbour_options(self, address: str) -> list[str]:
        """Options of `flowgen hold` that resolve the server's hardware address before the client is ready.

        Empty if the neighbour entries exist already, or the endpoints share one network stack.
        """
        return []

    def root_pids(self) -> Collection[int]:
        """The ids of the testbed's root processes: they and their descendants belong to the testbed."""
        return ()

    def process_marks(self) -> Collection[str]:
        """Words in the command lines of endpoints' parent processes that are not our children (a shim's)."""
        return ()

    def engine(self) -> Collection[int]:
        """The ids of the engine's processes that start and remove endpoints for us, and of those that reap them."""
        return ()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that the network's ports sent to endpoints; None: no ports are counted.

        Excludes packets dropped by a switch. With link-layer headers; packets as in process_launcher.LinkCounts.
        """
        return None

    def refused_connections(self) -> int:
        """Packets refused so far by the hosts' connection tracking for want of room (kernel_counters)."""
        return 0

    def clock_error_s(self) -> float | None:
        """The largest present difference between clocks of hosts, in s; None: all hosts share one clock."""
        return None

    def fetch(self, slots: Sequence[str], directory: Path) -> None:  # noqa: B027  (as begin_load)
        """Brings the output of these processes, .out and .err, to that directory, where it is on other machines."""

    def fetch_files(self, names: Sequence[str], directory: Path) -> None:  # noqa: B027  (as begin_load)
        """Likewise these files, which processes have written to `self.directory`."""

    def conditions(self) -> dict[str, str]:
        """The settings of hosts that are other machines (host/conditions.py), by machine and name."""
        return {}

    def begin_load(self, lasts_s: float) -> None:  # noqa: B027  (most sites have nothing to do)
        """From now on, what others use of the CPUs of hosts that are other machines counts, and which of the testbed's
        processes there are halted. lasts_s: about how long the traffic lasts; 0: unknown.
        """

    def end_load(self) -> list[dict[str, float | None]]:
        """What others have used since, of each such host, and who was halted, by the names of checks."""
        return []

    def link_recorder(self, slots: Sequence[str], every_s: float) -> Any:
        """A recorder, like LinkRecorder, of these processes' links in the kernels of their hosts.

        slots: of processes (ProcessLauncher). None: this kernel has all links.
        """
        return None

    def cpu_counts(self) -> list[str]:
        """The text of /proc/stat (proc_stat(5)) of each host with a kernel of its own; empty: there are none."""
        return []

    def used_s(self, slots: Sequence[str]) -> list[float] | None:
        """The CPU time of what each of these processes' launchers has started; None: this kernel has all of them."""
        return None

    def limits_in_force(self) -> Mapping[str, Mapping[str, float]]:
        """The CPU limits in each endpoint's cgroup files, by endpoint; only for endpoints with such a limit.

        cpu_quota (CPUs; 0: no limit), and cpu_shares (cgroup v1) or cpu_weight (v2).
        """
        return {}

    def shape(self, links: Mapping[str, Link]) -> None:
        """Shapes these endpoints' links, by name, before there is traffic; `facts` then includes it."""
        raise NotImplementedError

    def route_congestion_control(self, name: str) -> None:
        """Sets the congestion control on the endpoints' routes, at both ends, before there is traffic; `facts` then
        includes it. Called if Backend.missing_routes is empty.
        """
        raise NotImplementedError

    def launch(self, endpoints: Sequence[EndpointPlan], within_s: float, pings: bool) -> list[dict[str, Any]]:
        """Launches these endpoints at once on the running network, and removes them.

        within_s: the timeout of each. pings: whether their partners, which run already, ping them. Returns each
        endpoint's name and the columns of `launches` from status on, in their order.
        """
        raise NotImplementedError

    def facts(self) -> Mapping[str, Any]:
        """Facts of this site for the record."""
        return dict(self._facts)


def _traffic_link(layout: Layout) -> tuple[str, bool]:
    """The endpoints' outgoing link, and whether it carries all of their traffic if they share it."""
    if layout.driver.has_links():
        return "eth0", True
    if layout.driver.isolated:
        return "lo", True
    crossing = {client.host != server.host for client, server in pairs_of(layout.endpoints)}
    return (UPLINK if True in crossing else "lo"), len(crossing) == 1


#: Called with the progress of a phase: phase, done, total (0: nothing to count); seconds in tenths.
Progress = Callable[[str, float, float], None]


def no_progress(phase: str, done: float, total: float) -> None:
    """The Progress that shows nothing."""


class Backend(ABC):
    """Creates and removes endpoints."""

    name: ClassVar[str]
    summary: ClassVar[str]
    endpoint: ClassVar[str] = "endpoint"
    """The backend's word for an endpoint."""
    host_kind: ClassVar[str] = "namespace"
    """The kind of several hosts: `namespace`, on this machine's kernel, or `uml`, with a kernel each."""

    ip_versions: ClassVar[frozenset[int]] = frozenset({4})
    """The versions of the Internet Protocol that its networks carry."""

    def __init__(self, hosts: int = 0):
        """hosts: how many the spec has; 0: not known, so that requirements are those of all that there are."""
        self.hosts = hosts

    @classmethod
    def is_set_up(cls) -> bool:
        """Whether the user has named what it measures on, such as machines; it is offered to no other."""
        return True

    @abstractmethod
    def missing(self) -> list[MissingRequirement]:
        """Missing requirements of the backend as such. Builds nothing that stays."""

    @abstractmethod
    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        """Missing requirements of this driver, given the backend."""

    @abstractmethod
    def missing_programs(
        self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None
    ) -> list[MissingRequirement]:
        """The programs that are missing inside endpoints. driver: of their network, if known."""

    @abstractmethod
    def missing_routes(self, layout: Layout) -> list[MissingRequirement]:
        """Missing requirements for setting the endpoints' congestion control by routes.

        Without routes, the tool must set it by an option of its own.
        """

    @abstractmethod
    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        """Other missing requirements of this layout, by need: limits, shaped links, hosts, launches, number of pairs.

        Includes everything that the backend cannot do; builds nothing that stays.
        """

    def missing_to_span(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        """Missing requirements for that driver's network to span hosts."""
        return driver.missing_to_span()

    def missing_capture(self) -> list[MissingRequirement]:
        """Missing requirements for packet capture in endpoints."""
        return lacking(
            f"no process in an endpoint of backend {self.name!r} may capture packets", "take backend 'netns'"
        )

    def version(self) -> str:
        """The engine's version, as its sites' facts record it under the backend's name; empty: none."""
        return ""

    def tool_version(self, command: Sequence[str], driver: type[NetworkDriver]) -> str:
        """The first output line of Workload.version_command in endpoints; empty: unknown until they are up."""
        return ""

    @abstractmethod
    def open(self, layout: Layout, directory: Path, progress: Progress) -> AbstractContextManager[Site]:
        """Brings up these endpoints with their limits; removes everything on exit. directory: for files."""
