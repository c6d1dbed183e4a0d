"""Ipvlan: endpoints share a parent's MAC address, and are told apart by their IP addresses."""

from typing import ClassVar

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class IpvlanL2(NetworkDriver):
    """Ipvlan in mode l2 over a parent made for this testbed, switching by Ethernet and ARP."""

    name = "ipvlan-l2"
    summary = "ipvlan in mode l2 over a parent link of its own"
    isolation = "own-address"
    links = ("ipvlan", "veth")
    docker = DockerNetwork(driver="ipvlan", parent=True, options={"ipvlan_mode": "l2"})
    mode: ClassVar[int] = 0
    """IPVLAN_MODE_L2, as rtnetlink(7) numbers it."""

    def create(self, lan):
        self.parent = lan.add_parent()

    def attach(self, lan, endpoint):
        lan.add_eth0(endpoint, "ipvlan", link=self.parent, ipvlan_mode=self.mode)


class IpvlanL3(IpvlanL2):
    """Ipvlan in mode l3 over a parent made for this testbed, which routes: by IP addresses alone, without ARP."""

    name = "ipvlan-l3"
    summary = "ipvlan in mode l3, which routes, over a parent link of its own"
    docker = DockerNetwork(driver="ipvlan", parent=True, options={"ipvlan_mode": "l3"})
    mode = 1  # IPVLAN_MODE_L3
