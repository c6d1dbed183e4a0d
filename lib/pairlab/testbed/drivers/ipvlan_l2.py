"""Ipvlan in mode l2: endpoints share a parent's MAC address, and are told apart by their IP addresses."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver

#: IPVLAN_MODE_L2, as rtnetlink(7) numbers it.
MODE = 0


class IpvlanL2(NetworkDriver):
    """Ipvlan in mode l2 over a parent made for this testbed, switching by Ethernet and ARP."""

    name = "ipvlan-l2"
    summary = "ipvlan in mode l2 over a parent link of its own"
    links = ("ipvlan", "veth")
    docker = DockerNetwork(driver="ipvlan", parent=True, options={"ipvlan_mode": "l2"})

    def create(self, lan):
        self.parent = lan.add_parent()

    def attach(self, lan, endpoint):
        lan.add_eth0(endpoint, "ipvlan", link=self.parent, ipvlan_mode=MODE)
