"""The interface of a network driver."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pairlab.testbed.endpoints import EndpointPlan
from pairlab.testbed.links.lan import Lan
from pairlab.testbed.requirements import MissingRequirement, Program


@dataclass(frozen=True)
class DockerNetwork:
    """How Docker itself provides a driver's network; drivers without one are attached from outside.

    mode: `network` for a network of its own, created by Docker's driver `driver` with these options; or Docker's own
    `none` or `host`; or `container`: clients have `none`, and each server joins its client's network namespace
    (docker-run(1), --network); or `process`: endpoints are processes of the host, beside its daemon.
    parent: whether Docker's driver needs a parent link on the host, which is then created. swarm: whether the network
    is a swarm's. own_daemon: whether even a single host runs a daemon of its own. With a swarm it always does, as the
    user's daemon may be in another swarm, or in none. userland_proxy: the daemon's option of this name (dockerd(8)):
    whether a process on the host relays packets to a published port that no rule rewrites.
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
        """Whether the network needs daemons that run for the testbed only, even on a single host."""
        return self.own_daemon or self.swarm

    @property
    def has_containers(self) -> bool:
        return self.mode != "process"


#: Degrees of isolation between endpoints: the values of `NetworkDriver.isolation`, weakest first.
#: Based on the grades in words of Suo et al. 2018, tables II and IV. Only "encrypted" networks encrypt here.
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
    """The driver's names in other software. A spec may give one; it is then recorded under this driver's name."""
    links: ClassVar[tuple[str, ...]] = ()
    """Kinds of link (ip-link(8)) that the kernel must support."""
    programs: ClassVar[tuple[Program, ...]] = ()
    """Programs of the host that the driver runs."""
    absent_in: ClassVar[tuple[str, ...]] = ()
    """Backends without this network."""
    isolated: ClassVar[bool] = True
    """Whether each endpoint, or each pair, has a network namespace of its own (else: its host's)."""
    isolation: ClassVar[str] = "namespace"
    """The endpoints' degree of isolation: one of ISOLATIONS."""
    cannot: ClassVar[str] = ""
    """The driver's functional limits compared with others, in a few words: reasons to choose another."""
    pair_shares_namespace: ClassVar[bool] = False
    """Whether both ends of a pair share one network namespace, and communicate over its loopback."""
    only_own_partner: ClassVar[bool] = False
    """Whether a client reaches the server of its own pair only."""
    carries_traffic: ClassVar[bool] = True
    """Whether endpoints reach each other at all."""
    spans_hosts: ClassVar[bool] = False
    """Whether endpoints reach those on other hosts."""
    routed: ClassVar[bool] = False
    """Whether each host has a subnet of its own, with the host as gateway."""
    publishes: ClassVar[bool] = False
    """Whether servers have published ports at their host's address instead of addresses of their own."""
    overhead_bytes: ClassVar[int] = 0
    """The length of a tunnel's headers, which packets between hosts have in addition."""
    floods: ClassVar[bool] = False
    """Whether endpoints receive frames meant for others: their links count these too, so no check uses them."""
    needs_hosts: ClassVar[bool] = False
    """Whether the driver makes sense only between several hosts."""
    max_endpoints: ClassVar[int | None] = None
    """The largest number of endpoints on one host; None: no limit."""
    docker: ClassVar[DockerNetwork | None] = None
    """How Docker provides the network; None: `create` and `attach` do, for containers without a network."""

    @classmethod
    def missing(cls) -> list[MissingRequirement]:
        """Missing requirements of this host, besides links and programs. Leaves nothing behind."""
        return []

    @classmethod
    def missing_to_span(cls) -> list[MissingRequirement]:
        """Further missing requirements for traffic between hosts. Leaves nothing behind."""
        return []

    def probe(self, lan: Lan) -> None:  # noqa: B027
        """Tries kernel features besides links, in a sandbox of its own. Raises TestbedError if one is missing."""

    @classmethod
    def version(cls) -> str:
        """The switch's version, as `facts` records it under the driver's name; empty: none."""
        return ""

    @classmethod
    def separates(cls) -> bool:
        """Whether each endpoint has a network namespace that it shares with no other."""
        return cls.isolated and not cls.pair_shares_namespace

    @classmethod
    def has_links(cls) -> bool:
        """Whether each endpoint has a link of its own, eth0."""
        return cls.separates() and cls.carries_traffic

    def create(self, lan: Lan) -> None:  # noqa: B027 (a driver may have nothing to create)
        """Creates the network's shared part on this host."""

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027
        """Creates one endpoint's eth0. Called for client-0, server-0, client-1, …

        Address, loopback and neighbours are set, and eth0 is set up, after `activate`.
        """

    def attach_late(self, lan: Lan, endpoint: EndpointPlan) -> None:
        """Attaches one more endpoint once the network is up, after `activate`; by default like `attach`."""
        self.attach(lan, endpoint)

    def detach(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027 (most have nothing to forget)
        """Undoes `attach_late` for an endpoint, before its link is removed."""

    def add_remote(self, lan: Lan, endpoint: EndpointPlan) -> None:  # noqa: B027
        """Makes one endpoint of another host reachable from this host. Called for each, after all `attach`."""

    def activate(self, lan: Lan) -> None:  # noqa: B027
        """Called on every host once all `attach` and `add_remote` calls are done."""

    def ports(self, endpoints: Sequence[str]) -> Sequence[str]:
        """The sandbox's links that carry all traffic to these endpoints; () if the driver has none."""
        return ()

    def check(self) -> None:  # noqa: B027
        """Called before the network is taken down: raises TestbedError if it has changed since it was created.

        The kernel keeps links as they are; a driver with daemons checks here that they still run.
        """

    def facts(self) -> Mapping[str, Any]:
        """Facts of this network for the record, such as the datapath in use."""
        return {}

    def docker_facts(self, lan: Lan) -> Mapping[str, Any]:
        """The facts of a network that a host's own Docker daemon built, instead of `create`."""
        return {"options": dict(self.docker.options)} if self.docker and self.docker.options else {}


class BridgedNetwork(NetworkDriver):
    """A network with a Linux bridge on each host, and a veth pair from it to each endpoint.

    bridge: the bridge's index, set by `create`.
    """

    max_endpoints = 1023  # ports of a Linux bridge (BR_MAX_PORTS), less Docker's own
    bridge: int

    @abstractmethod
    def create(self, lan: Lan) -> None:
        """Creates the bridge, and any other shared part of the network on this host."""

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        lan.add_veth(endpoint, master=self.bridge)

    def ports(self, endpoints: Sequence[str]) -> Sequence[str]:
        return endpoints  # add_veth names each port after its endpoint
