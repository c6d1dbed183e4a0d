"""What a network driver is, and what it builds with."""

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan, mac_of
from pairlab.testbed.requirements import Lack, Program


class Daemon(Protocol):
    """A daemon that `Lan.start` started."""

    def check(self) -> None:
        """Raises TestbedError, with its last words, where it has ended."""

    def await_output(self, words: str, within_s: float) -> None:
        """Waits until it has printed these words. Raises TestbedError where it ends, or has not by then."""


class Lan(ABC):
    """What a driver builds with on one host: links in the host's network namespace, and one namespace per endpoint.

    Everything made here ends with the sandbox. Methods raise Unavailable where the kernel lacks a kind of link, and
    TestbedError where it refuses for another reason. Further attributes of a link are pyroute2's, as ip-link(8) has
    them: br_ageing_time=0, vxlan_id=7, mtu=9000.
    """

    directory: Path
    """A directory for the driver's files on this host; it goes with the testbed."""
    host: HostPlan
    """The host that it is on."""
    others: Sequence[HostPlan]
    """The other hosts, which its uplink reaches; none where there is only one."""

    @abstractmethod
    def add_link(self, name: str, kind: str, **attributes: Any) -> int:
        """Makes a link of the host and sets it up; returns its index."""

    @abstractmethod
    def set_up(self, name: str) -> int:
        """Sets up a link of the host, such as the other end of a veth pair; returns its index."""

    def add_parent(self) -> int:
        """A link that endpoints' links can be on: the host's uplink; on an only host, one end of a veth pair."""
        if self.others:
            return self.set_up(UPLINK)
        parent = self.add_link("parent0", "veth", peer="parent1")
        self.set_up("parent1")  # else the parent has no carrier, and neither have the links on it
        return parent

    @abstractmethod
    def add_address(self, link: int, address: str, prefix: int) -> None:
        """Gives a link of the host (its index) an IPv4 address."""

    def add_gateway(self, name: str) -> int:
        """Makes a bridge of that name with the host's address in its subnet, and sets it up; returns its index."""
        bridge = self.add_link(name, "bridge", address=mac_of(self.host.gateway))
        self.add_address(bridge, self.host.gateway, ipaddress.IPv4Network(self.host.subnet).prefixlen)
        return bridge

    @abstractmethod
    def add_route(self, destination: str, *, link: int = 0, gateway: str = "") -> None:
        """Makes a route of the host to a network (10.129.0.0/16): by a link (its index), by a gateway, or both."""

    @abstractmethod
    def add_forwarding(self, link: int, mac: str, host: str) -> None:
        """Has a VXLAN link, and the bridge that it is in, forward to a hardware address on the host at `host`."""

    @abstractmethod
    def await_routes(self, destinations: Sequence[str], timeout_s: float) -> None:
        """Waits until the host has routes to these networks. Raises TestbedError where some are missing by then."""

    @abstractmethod
    def add_veth(self, endpoint: EndpointPlan, **attributes: Any) -> str:
        """Makes a veth pair: eth0 in the endpoint, and a port named after the endpoint in the host, set up.

        attributes: of the port, such as master= with a bridge's index. Returns the port's name.
        """

    @abstractmethod
    def turn_off_checksumming(self, endpoint: EndpointPlan) -> None:
        """Has the endpoint's kernel compute checksums and cut segments before packets are at its eth0.

        For veth pairs, which leave both out, as no wire needs them: whoever captures packets, to carry them in user
        space, would have them without. As `ethtool -K eth0 tx off`.
        """

    @abstractmethod
    def add_netkit(self, endpoint: EndpointPlan, **attributes: Any) -> str:
        """The same with a netkit pair in mode l2 in place of the veth pair."""

    @abstractmethod
    def add_eth0(self, endpoint: EndpointPlan, kind: str, **attributes: Any) -> None:
        """Makes a link of that kind (macvlan, ipvlan, …) as eth0 of the endpoint. link=: the index of its parent."""

    @abstractmethod
    def add_cable(self, one: EndpointPlan, other: EndpointPlan) -> None:
        """Makes a veth pair with one end as eth0 of one endpoint, and the other end as eth0 of the other."""

    @abstractmethod
    def run(self, argv: Sequence[str], timeout_s: float = 20.0, environment: Mapping[str, str] | None = None) -> str:
        """Runs a program on the host, without a shell, and returns its output. Raises TestbedError if it fails.

        environment: variables that it has besides ours.
        """

    @abstractmethod
    def start(
        self, argv: Sequence[str], within_s: float, *, words: str = "", environment: Mapping[str, str] | None = None
    ) -> Daemon:
        """Starts a daemon on the host, and waits until it says that it is ready (sd_notify(3)).

        words: what it prints then, where it does not speak sd_notify. environment: variables that it has besides ours.
        It runs in a directory of its name, in `directory`; its log is there. Raises TestbedError, with its last words,
        where it ends, or is not ready by then.
        """


@dataclass(frozen=True)
class DockerNetwork:
    """How Docker itself provides a driver's network; a driver without one is attached from outside.

    mode: `network` for a network of its own, made with Docker's driver `driver` and its options; or Docker's own `none`
    or `host`; or `container`: clients have `none`, and each server its client's network namespace (docker-run(1),
    --network); or `process`: endpoints are processes of the host, beside its daemon.
    parent: whether that driver needs a parent link on the host, which is then made for it. swarm: whether its network
    is a swarm's. own_daemon: whether a host has a daemon of its own also where it is the only one. It has for a swarm,
    as the user's daemon may be in another one, or in none. userland_proxy: that daemon's option of this name
    (dockerd(8)): whether a process on the host relays what nothing rewrites on its way to a published port.
    """

    mode: str = "network"
    driver: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    parent: bool = False
    swarm: bool = False
    own_daemon: bool = False
    userland_proxy: bool = False

    @property
    def has_own_daemons(self) -> bool:
        """Whether it is on daemons that run for the testbed only, whatever the number of hosts."""
        return self.own_daemon or self.swarm

    @property
    def has_containers(self) -> bool:
        return self.mode != "process"


#: How far a network keeps an endpoint apart from others: the values of `NetworkDriver.isolation`, the least first.
#: Their seed is paper S, tables II and IV, which grade it in words. What encrypts there does so here where it is said.
ISOLATIONS: Mapping[str, str] = {
    "none": "its host's own network stack: it sees all interfaces of the host, and shares its ports with all",
    "pair": "one network namespace for both ends of a pair, as in a pod; other pairs are apart",
    "own-address": "a namespace each, with a hardware address of its own on the hosts' network: all there reach it",
    "namespace": "a namespace each, on a switch of the host; all on that switch reach it",
    "routed": "a namespace each; between hosts, its packets are plain, with its own address",
    "published": "a namespace each; between hosts, it is reached at published ports only",
    "encapsulated": "a namespace each; between hosts, its packets are in a tunnel, and can be read there",
    "encrypted": "a namespace each; between hosts, its packets are in a tunnel, and cannot be read there",
    "cable": "a namespace each, and a cable to one other: nobody else reaches it",
    "closed": "a namespace each, and no network: nobody reaches it",
}


class NetworkDriver(ABC):
    """Connects endpoints. One instance serves one host of a testbed, and runs inside the sandbox that owns its links.

    When the sandbox ends, the kernel removes every link, process and file made in it: a driver undoes nothing.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    """Names by which users of other software know it. A spec may have one, and is then a spec of this driver."""
    links: ClassVar[tuple[str, ...]] = ()
    """Kinds of link (ip-link(8)) that the kernel must have."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs of the host that it runs."""
    absent_in: ClassVar[tuple[str, ...]] = ()
    """The backends in which there is no such network."""
    isolated: ClassVar[bool] = True
    """Whether each endpoint, or each pair, has a network namespace of its own (else: its host's)."""
    isolation: ClassVar[str] = "namespace"
    """How far it keeps an endpoint apart from others: one of ISOLATIONS."""
    pair_shares: ClassVar[bool] = False
    """Whether both ends of a pair are in one network namespace, and reach each other by its loopback."""
    pairs_apart: ClassVar[bool] = False
    """Whether a client reaches the server of its own pair only."""
    carries_traffic: ClassVar[bool] = True
    """Whether endpoints reach each other at all."""
    spans_hosts: ClassVar[bool] = False
    """Whether endpoints reach those on other hosts."""
    routed: ClassVar[bool] = False
    """Whether each host has a subnet of its own, which its endpoints leave by a gateway, the host."""
    publishes: ClassVar[bool] = False
    """Whether a server is reached at a port of its host's address instead of its own."""
    overhead_bytes: ClassVar[int] = 0
    """By how many bytes the packets between hosts are longer than those that endpoints send: a tunnel's headers."""
    floods: ClassVar[bool] = False
    """Whether endpoints receive frames meant for others: their links count these too, so no check uses them."""
    needs_hosts: ClassVar[bool] = False
    """Whether it is nothing of its own within one host."""
    max_endpoints: ClassVar[int | None] = None
    """How many endpoints the network can have on one host, where there is a limit."""
    docker: ClassVar[DockerNetwork | None] = None
    """How Docker provides it; None: `create` and `attach` do, into containers without a network."""

    @classmethod
    def lacks(cls) -> list[Lack]:
        """What else this host lacks for it, besides links and programs. Leaves nothing behind."""
        return []

    @classmethod
    def lacks_to_span(cls) -> list[Lack]:
        """What this host lacks besides for endpoints to reach those on other hosts. Leaves nothing behind."""
        return []

    def probe(self, lan: Lan) -> None:  # noqa: B027
        """Tries, in a sandbox of its own, what the kernel may lack besides links. Raises TestbedError where it does."""

    @classmethod
    def version(cls) -> str:
        """The version of its switch, as `facts` records it under the driver's name; empty where it has none."""
        return ""

    @classmethod
    def separates(cls) -> bool:
        """Whether each endpoint has a network namespace that it shares with no other."""
        return cls.isolated and not cls.pair_shares

    @classmethod
    def has_links(cls) -> bool:
        """Whether each endpoint has a link of its own, eth0."""
        return cls.separates() and cls.carries_traffic

    def create(self, lan: Lan) -> None:  # noqa: B027 (a driver may have nothing to create)
        """Makes what all endpoints on this host share."""

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027
        """Gives one endpoint its eth0. Called for client-0, server-0, client-1, …

        Address, loopback and neighbours are set, and eth0 is set up, after `finish`.
        """

    def join(self, lan: Lan, endpoint: EndpointPlan) -> None:
        """The same for one more endpoint when the network is up, after `finish`: by default as `attach`."""
        self.attach(lan, endpoint)

    def leave(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027 (most have nothing to forget)
        """Forgets an endpoint that `join` attached, before its link is removed."""

    def reach(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027
        """Has this host's network reach one endpoint of another host. Called for each, after all `attach`."""

    def finish(self, lan: Lan) -> None:  # noqa: B027
        """Called once all endpoints are attached, and all others reached, on every host."""

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

    def docker_facts(self, lan: Lan) -> Mapping[str, Any]:
        """The same of a network that a host's own Docker daemon has built, and no `create`."""
        return {"options": dict(self.docker.options)} if self.docker and self.docker.options else {}


class BridgedNetwork(NetworkDriver):
    """A network with a Linux bridge on each host, and a veth pair from it to each endpoint.

    bridge: its index, which `create` sets.
    """

    max_endpoints = 1023  # ports of a Linux bridge (BR_MAX_PORTS), less Docker's own
    bridge: int

    @abstractmethod
    def create(self, lan: Lan) -> None:
        """Makes the bridge, and what else all endpoints on this host share."""

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        lan.add_veth(endpoint, master=self.bridge)

    def ports(self, endpoints: Sequence[str]) -> Sequence[str]:
        return endpoints  # add_veth names each port after its endpoint
