"""Netkit: containers on a Linux bridge by netkit pairs (Linux 6.7) in place of veth pairs."""

from pairlab.testbed.contracts import BridgedNetwork


class Netkit(BridgedNetwork):
    """One bridge, and a netkit pair in mode l2 from it to each endpoint: as `bridge`, but for the kind of link."""

    name = "netkit"
    summary = "Linux bridge with a netkit pair to each container"
    links = ("bridge", "netkit")

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge")

    def attach(self, lan, endpoint):
        lan.add_netkit(endpoint, master=self.bridge)
