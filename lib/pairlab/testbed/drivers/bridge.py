"""The Linux bridge: Docker's default kind of network."""

from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork


class Bridge(BridgedNetwork):
    """One bridge, and a veth pair from it to each endpoint."""

    name = "bridge"
    summary = "Linux bridge with a veth pair to each container"
    links = ("bridge", "veth")
    docker = DockerNetwork(driver="bridge")

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge")
