"""The parts of a testbed: endpoints in pairs, their limits and links, and each pair's task.

This module imports nothing heavy, as the process inside a sandbox starts with it.
"""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """One endpoint's CPU limits.

    cpus: numbers of the allowed CPUs; None: any. cpu_quota: in CPUs; 0: no limit. cpu_shares: weight against other
    endpoints, where 1024 is the kernel's default; 0: that default.
    """

    cpus: tuple[int, ...] | None = None
    cpu_quota: float = 0.0
    cpu_shares: int = 0


@dataclass(frozen=True)
class Link:
    """The shaping of one endpoint's link, which makes the right result of a measurement known.

    rate_bps: the sending limit, link-layer headers included; 0: none. paced: whether its flows or requests are timed,
    so that bursts must be minimal. loss: share of arriving packets that are dropped at random.
    """

    rate_bps: float = 0.0
    loss: float = 0.0
    paced: bool = False


#: The role of pairs that send beside the measured ones.
BACKGROUND = "background"
#: The side of an endpoint without partner and network, for CPU load.
WORKER = "worker"


@dataclass(frozen=True)
class Task:
    """One pair's traffic, on each of its flows.

    protocol: `tcp` or `udp`. role: `elephant` or `mouse` if the spec has elephants, or `background`. flow_bytes:
    payload of each flow, which then ends; 0: it ends by time. priority: CPU priority of its containers, `high` or
    `normal`; empty if all have the same.
    """

    protocol: str = "tcp"
    role: str = ""
    flow_bytes: int = 0
    priority: str = ""


#: A host's link to the others, if there are several.
UPLINK = "uplink0"

#: The range of the hosts' subnets, if each host has its own, and their prefix length.
OF_HOSTS, PREFIX_OF_HOST = ipaddress.IPv4Network("10.128.0.0/10"), 16

#: The network of endpoints' IPv6 addresses (RFC 4193), whose last 32 bits are those of the IPv4 address.
OF_IPV6, LOOPBACK_IPV6 = ipaddress.IPv6Network("fd00:7061:6972::/96"), "::1"

#: The port of the first pair's server; each further pair takes the next.
FIRST_PORT = 5201


@dataclass(frozen=True)
class Uplink:
    """The shaping of a host's link to the others.

    rate_bps: the limit in each direction, link-layer headers included; 0: none. delay_s, jitter_s: delay of the host's
    outgoing packets, and its variation. paced: as in Link. loss: share of outgoing packets that are lost at random.
    """

    rate_bps: float = 0.0
    delay_s: float = 0.0
    jitter_s: float = 0.0
    mtu_bytes: int = 1500
    paced: bool = False
    loss: float = 0.0

    @property
    def by_netem(self) -> bool:
        """Whether packets are delayed or lost."""
        return self.delay_s > 0 or self.loss > 0


@dataclass(frozen=True)
class HostPlan:
    """A host of endpoints.

    address: of its uplink; empty for a single host. prefix: of the underlay between hosts. subnet: of its endpoints, if
    each host has its own; empty if all hosts share one.
    """

    index: int = 0
    address: str = ""
    prefix: int = 24
    subnet: str = ""
    uplink: Uplink = Uplink()

    @property
    def name(self) -> str:
        """host-0, host-1, …"""
        return f"host-{self.index}"

    @property
    def gateway(self) -> str:
        """The endpoints' gateway address in its subnet; empty without a subnet of its own."""
        return str(next(ipaddress.IPv4Network(self.subnet).hosts())) if self.subnet else ""


@dataclass(frozen=True)
class EndpointPlan:
    """The plan of one endpoint: client or server of a pair, with its limits and its link; or a worker.

    side: `client`, `server` or `worker`. pair: the pair's number, or the worker's. address: IPv4 address on the
    driver's network, unless Docker chooses one. mtu_bytes: of its link; 0: the driver's default. host: its host's
    index. gateway: to other networks; empty: none. published: the address for its partner, if not its own.
    uses_host_network: whether it has its host's network stack instead of the driver's network. meets_all: whether it
    exchanges packets with all others. ip_version: of its traffic.
    """

    pair: int
    side: str
    address: str
    prefix: int = 16
    limits: Limits = Limits()
    link: Link = Link()
    mtu_bytes: int = 0
    host: int = 0
    gateway: str = ""
    published: str = ""
    uses_host_network: bool = False
    meets_all: bool = False
    ip_version: int = 4

    @property
    def ipv6(self) -> str:
        """Its IPv6 address, derived from the IPv4 address."""
        own = ipaddress.IPv4Address(self.address)
        return LOOPBACK_IPV6 if own.is_loopback else str(OF_IPV6[int(own)])

    @property
    def ipv6_prefix(self) -> int:
        """The prefix length of its IPv6 network, which has the same hosts as the IPv4 network."""
        return OF_IPV6.prefixlen + self.prefix

    @property
    def traffic_address(self) -> str:
        """The address that its traffic uses."""
        return self.ipv6 if self.ip_version == 6 else self.address

    @property
    def mac(self) -> str:
        """The link's hardware address: locally administered, and derived from the IPv4 address as in Docker."""
        return mac_of(self.address)

    @property
    def name(self) -> str:
        """client-0, server-0, client-1, …"""
        return f"{self.side}-{self.pair}"

    @property
    def partner(self) -> str:
        """The name of the pair's other end, if each pair has a client of its own."""
        return f"{'server' if self.side == 'client' else 'client'}-{self.pair}"


def pairs_of(endpoints: Iterable[EndpointPlan]) -> list[tuple[EndpointPlan, EndpointPlan]]:
    """Each pair's client and server; the client is the pair's own, or the only one."""
    endpoints = list(endpoints)
    clients = {each.pair: each for each in endpoints if each.side == "client"}
    first = next(iter(clients.values()))
    return [(clients.get(each.pair, first), each) for each in endpoints if each.side == "server"]


def mac_of(address: str) -> str:
    """A locally administered hardware address, derived from an IPv4 address."""
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x42, *ipaddress.IPv4Address(address).packed))


def with_port(address: str, port: int) -> str:
    """10.77.0.1:5201, [fd00::1]:5201 (RFC 3986, section 3.2.2)."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@dataclass(frozen=True)
class Completed:
    """A finished command of an endpoint."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Endpoint:
    """One end of a pair that is up: a container, or a network namespace."""

    name: str
    address: str
    _runner: Callable[..., Completed] = field(repr=False, compare=False)

    def run(self, argv: Sequence[str], timeout_s: float = 30.0, *, unprivileged: bool = False) -> Completed:
        """Runs a command in the endpoint, without a shell, and returns its output.

        unprivileged: without capabilities, like traffic tools. Raises MeasurementFailed if it cannot be started or
        does not end within timeout_s.
        """
        return self._runner(self, argv, timeout_s, unprivileged)


@dataclass(frozen=True)
class Rank:
    """An endpoint of an all-to-all exchange. endpoint: its name; port: its listening port."""

    endpoint: str
    address: str
    port: int


@dataclass(frozen=True)
class Pair:
    """A client and its server. port: the server's. task: the client's traffic.

    published: the server's address for clients, if not its own. targets: address and port of every server, if the
    client is that of all pairs. ranks: of all pairs' endpoints in an all-to-all exchange, servers first: these are up
    first.
    """

    index: int
    client: Endpoint
    server: Endpoint
    port: int
    task: Task
    published: str = ""
    targets: tuple[tuple[str, int], ...] = ()
    ranks: tuple[Rank, ...] = ()

    @property
    def target(self) -> str:
        """The address that the client connects to; the server listens at its own."""
        return self.published or self.server.address
