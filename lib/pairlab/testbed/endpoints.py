"""What a testbed is made of: endpoints in pairs, what each may use of the host, and what each pair sends.

This module imports nothing heavy, as the process inside a sandbox starts with it.
"""

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field


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
    """How one endpoint's link is shaped, so that the right answer of a measurement over it is known.

    rate_bps: most that it sends, link-layer headers included; 0: no limit. paced: what it carries is timed, so that it
    may carry no more at once than it must. loss: share of arriving packets that are dropped at random.
    """

    rate_bps: float = 0.0
    loss: float = 0.0
    paced: bool = False


#: The role of pairs that send beside those that are measured.
BACKGROUND = "background"
#: The side of an endpoint that has no partner and no network: a process in it uses CPU time.
WORKER = "worker"


@dataclass(frozen=True)
class Task:
    """What one pair is to send, on each of its flows.

    protocol: `tcp` or `udp`. role: `elephant` or `mouse` where the spec has elephants, or `background`. flow_bytes:
    payload of each flow, which then ends; 0: it ends by time. priority: that of its containers for the CPUs, `high` or
    `normal`; empty where all have the same.
    """

    protocol: str = "tcp"
    role: str = ""
    flow_bytes: int = 0
    priority: str = ""


#: The link by which a host reaches the others, where there are several.
UPLINK = "uplink0"

#: The networks of the endpoints of each host, where it has a subnet of its own: all of them, and the length of each.
OF_HOSTS, PREFIX_OF_HOST = ipaddress.IPv4Network("10.128.0.0/10"), 16

#: The port of the first pair's server; each further pair takes the next.
FIRST_PORT = 5201


@dataclass(frozen=True)
class Uplink:
    """A host's link to the others, as it is shaped.

    rate_bps: most that it carries in each direction, link-layer headers included; 0: no limit. delay_s, jitter_s: by
    how much it delays what the host sends, and by how much that varies. paced: as of a Link.
    """

    rate_bps: float = 0.0
    delay_s: float = 0.0
    jitter_s: float = 0.0
    mtu_bytes: int = 1500
    paced: bool = False


@dataclass(frozen=True)
class HostPlan:
    """A host that endpoints are put on.

    address: of its uplink, with the prefix of the network between the hosts; empty where there is only one host.
    subnet: of the endpoints on it, where each host has its own; empty where all hosts share one.
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
        """The address in its subnet by which endpoints leave it; empty where it has no subnet of its own."""
        return str(next(ipaddress.IPv4Network(self.subnet).hosts())) if self.subnet else ""


@dataclass(frozen=True)
class EndpointPlan:
    """One endpoint to be made: client or server of a pair, with its limits and its link; or a worker.

    side: `client`, `server` or `worker`. pair: its number, or the worker's. address: its IPv4 address on the driver's
    network, where Docker does not choose one. mtu_bytes: of its link; 0: the driver's default. host: the index of the
    one it is on. gateway: by which it reaches other networks; empty: it need not. published: the address at which its
    partner reaches it, where that is not its own. uses_host_network: whether it has its host's network stack instead of
    the driver's network. meets_all: whether it exchanges packets with all others.
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

    @property
    def mac(self) -> str:
        """The hardware address of its link: locally administered, and made of its IPv4 address, as Docker does it."""
        return mac_of(self.address)

    @property
    def name(self) -> str:
        """client-0, server-0, client-1, …"""
        return f"{self.side}-{self.pair}"

    @property
    def partner(self) -> str:
        """The name of the other end of its pair, where each has a client of its own."""
        return f"{'server' if self.side == 'client' else 'client'}-{self.pair}"


def pairs_of(endpoints: Iterable[EndpointPlan]) -> list[tuple[EndpointPlan, EndpointPlan]]:
    """The client and the server of each pair: its own client, or the one that all servers have."""
    endpoints = list(endpoints)
    clients = {each.pair: each for each in endpoints if each.side == "client"}
    of_all = next(iter(clients.values()))
    return [(clients.get(each.pair, of_all), each) for each in endpoints if each.side == "server"]


def mac_of(address: str) -> str:
    """A locally administered hardware address, made of an IPv4 address."""
    return ":".join(f"{byte:02x}" for byte in (0x02, 0x42, *ipaddress.IPv4Address(address).packed))


@dataclass(frozen=True)
class Completed:
    """A command that has ended in an endpoint."""

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
        """Runs a command in here, without a shell, and returns what it printed.

        unprivileged: without capabilities, as traffic tools run. Raises MeasurementFailed when it cannot be started or
        does not end within timeout_s.
        """
        return self._runner(self, argv, timeout_s, unprivileged)


@dataclass(frozen=True)
class Rank:
    """One of the endpoints that all exchange messages with all. endpoint: its name; port: where it listens."""

    endpoint: str
    address: str
    port: int


@dataclass(frozen=True)
class Pair:
    """A client and its server. port: where the server listens. task: what the client sends.

    published: the address at which the server is reached, where that is not its own. targets: the address and port of
    each server that the client asks, where it is the client of all pairs. ranks: of all pairs' endpoints, where all
    exchange messages with all, servers first: these are up first.
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
