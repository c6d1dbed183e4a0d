"""Ipvlan in mode l3: endpoints share a parent's MAC address, and are told apart by their IP addresses."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver

#: IPVLAN_MODE_L3, as rtnetlink(7) numbers it.
MODE = 1


class IpvlanL3(NetworkDriver):
    """Ipvlan in mode l3 over a parent made for this testbed, which routes: by IP addresses alone, without ARP."""

    name = "ipvlan-l3"
    summary = "ipvlan in mode l3, which routes, over a parent link of its own"
    links = ("ipvlan", "veth")
    docker = DockerNetwork(driver="ipvlan", parent=True, options={"ipvlan_mode": "l3"})

    def create(self, lan):
        self.parent = lan.add_parent()

    def attach(self, lan, endpoint):
        lan.add_eth0(endpoint, "ipvlan", link=self.parent, ipvlan_mode=MODE)
