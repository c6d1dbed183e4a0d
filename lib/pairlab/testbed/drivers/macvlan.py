"""Macvlan: each endpoint has a MAC address of its own on a shared parent link."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class Macvlan(NetworkDriver):
    """Macvlan in bridge mode over a parent made for this testbed; never over a real network card.

    On one host the parent is one end of a veth pair: traffic between endpoints stays in the macvlan and never crosses
    it. Where there are several hosts, it is the host's uplink, which traffic to the others crosses.
    """

    name = "macvlan"
    summary = "macvlan in bridge mode over a parent link of its own"
    isolation = "own-address"
    links = ("macvlan", "veth")
    spans_hosts = True
    docker = DockerNetwork(driver="macvlan", parent=True)

    def create(self, lan):
        self.kind = "uplink" if lan.others else "veth"
        self.parent = lan.add_parent()

    def attach(self, lan, endpoint):
        lan.add_eth0(endpoint, "macvlan", link=self.parent, macvlan_mode="bridge")

    def facts(self):
        return {"parent": getattr(self, "kind", "veth")}
