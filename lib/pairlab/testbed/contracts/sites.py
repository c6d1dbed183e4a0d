"""What a backend provides: endpoints that are up."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pairlab.errors import Unavailable
from pairlab.testbed.endpoints import FIRST_PORT, UPLINK, EndpointPlan, Link


class Site(ABC):
    """Endpoints that are up, as their backend provides them."""

    flowgen: str
    """The path of pairlab's own generator, inside an endpoint."""
    directory: str
    """The path of the testbed's working directory, inside an endpoint."""
    addresses: Mapping[str, str]
    """Each endpoint's IPv4 address, by name."""
    published: Mapping[str, str] = MappingProxyType({})
    """The addresses at which servers are reached, by name, where these are not their own."""
    interface: str = "eth0"
    """The link that an endpoint's traffic leaves by, on the driver's network."""
    on_host_network: Collection[str] = ()
    """The endpoints, by name, that have their host's network stack instead."""
    hosts: Mapping[str, int] = MappingProxyType({})
    """The host that each endpoint is on, by name; empty: all are on one."""
    interface_is_own: bool = True
    """Of endpoints that share a network stack: whether `interface` carries all of their traffic, and nobody else's."""
    first_port: int = FIRST_PORT
    """The port of the first pair's server; each further pair takes the next."""

    @abstractmethod
    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Starts one process for each (endpoint name, argv) and returns when all are started; waits for none."""

    def interface_of(self, endpoint: str) -> str:
        """The link that this endpoint's traffic leaves by."""
        return UPLINK if endpoint in self.on_host_network else self.interface

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

    def engine(self) -> Collection[int]:
        """Processes of others that start and remove endpoints for us, by their ids: an engine's, and who reaps them."""
        return ()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets sent to endpoints at the ports of the driver's network; None: it counts none.

        What a switch dropped went in there and did not come out. With link-layer headers; packets as in
        conductor.LinkCounts.
        """
        return None

    def refused_connections(self) -> int:
        """How many packets the hosts' connection tracking has refused for want of room, so far (kernel_room)."""
        return 0

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

    def launch(self, endpoints: Sequence[EndpointPlan], within_s: float, pings: bool) -> list[dict[str, Any]]:
        """Launches these endpoints on the network that is up, at once, and removes them.

        within_s: how long each may take. pings: whether their partners, which run already, ping them. Returns of each
        its name and the columns of `launches` from status on, in their order.
        """
        raise Unavailable("this backend launches nothing on a network that is up: take another backend")

    @abstractmethod
    def facts(self) -> Mapping[str, Any]:
        """What a record should say of this site."""
