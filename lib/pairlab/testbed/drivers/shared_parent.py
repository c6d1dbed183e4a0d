"""Links on a shared parent link: macvlan, each with its own MAC address, and ipvlan, all with the parent's."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pairlab.testbed.contracts import DockerNetwork, Lan, NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan


class Macvlan(NetworkDriver):
    """Macvlan in bridge mode over a parent made for this testbed; never over a real network card.

    On one host the parent is one end of a veth pair: traffic between endpoints stays in the macvlan and never crosses
    it. With several hosts, it is the host's uplink, which traffic to other hosts crosses.
    """

    name = "macvlan"
    summary = "macvlan in bridge mode over a parent link of its own"
    isolation = "own-address"
    cannot = "reach its own host or be reached by it, nor be over Wi-Fi or a switch port for one hardware address"
    links = ("macvlan", "veth")
    spans_hosts = True
    docker = DockerNetwork(driver="macvlan", parent=True)

    def create(self, lan: Lan) -> None:
        self.kind = "uplink" if lan.others else "veth"
        self.parent = lan.add_parent()

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        lan.add_eth0(endpoint, "macvlan", link=self.parent, macvlan_mode="bridge")

    def facts(self) -> Mapping[str, Any]:
        return {"parent": getattr(self, "kind", "veth")}


class IpvlanL2(NetworkDriver):
    """Ipvlan in mode l2 over a parent made for this testbed, switching by Ethernet and ARP."""

    name = "ipvlan-l2"
    summary = "ipvlan in mode l2 over a parent link of its own"
    isolation = "own-address"
    cannot = "reach its own host, nor get an address by DHCP from its hardware address, which is the host's"
    links = ("ipvlan", "veth")
    docker = DockerNetwork(driver="ipvlan", parent=True, options={"ipvlan_mode": "l2"})
    mode: ClassVar[int] = 0
    """IPVLAN_MODE_L2, as rtnetlink(7) numbers it."""

    def create(self, lan: Lan) -> None:
        self.parent = lan.add_parent()

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        lan.add_eth0(endpoint, "ipvlan", link=self.parent, ipvlan_mode=self.mode)


class IpvlanL3(IpvlanL2):
    """Ipvlan in mode l3 over a parent made for this testbed, routing by IP addresses, without ARP."""

    name = "ipvlan-l3"
    summary = "ipvlan in mode l3, which routes, over a parent link of its own"
    cannot = "reach its own host, nor send broadcasts or multicasts"
    docker = DockerNetwork(driver="ipvlan", parent=True, options={"ipvlan_mode": "l3"})
    mode = 1  # IPVLAN_MODE_L3
