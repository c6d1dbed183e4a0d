"""Macvlan: each endpoint has a MAC address of its own on a shared parent link."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class Macvlan(NetworkDriver):
    """Macvlan in bridge mode over a parent made for this testbed; never over a real network card.

    The parent is one end of a veth pair: traffic between endpoints stays in the macvlan and never crosses it.
    """

    name = "macvlan"
    summary = "macvlan in bridge mode over a parent link of its own"
    links = ("macvlan", "veth")
    docker = DockerNetwork(driver="macvlan", parent=True)

    def create(self, lan):
        self.parent = lan.add_link("parent0", "veth", peer="parent1")
        lan.set_up("parent1")  # else the parent has no carrier, and neither have its macvlans

    def attach(self, lan, endpoint):
        lan.add_eth0(endpoint, "macvlan", link=self.parent, macvlan_mode="bridge")

    def facts(self):
        return {"parent": "veth"}
