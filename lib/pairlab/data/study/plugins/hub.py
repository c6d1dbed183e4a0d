"""A hub: a Linux bridge that forgets addresses at once, so that each frame goes to all ports."""

from pairlab.testbed.contracts import NetworkDriver


class Hub(NetworkDriver):
    """One bridge with an ageing time of zero, and a veth pair from it to each endpoint."""

    name = "hub"
    summary = "Linux bridge that floods every frame"
    links = ("bridge", "veth")
    floods = True

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge", br_ageing_time=0)

    def attach(self, lan, endpoint):
        lan.add_veth(endpoint, master=self.bridge)
