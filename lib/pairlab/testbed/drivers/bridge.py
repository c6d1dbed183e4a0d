"""The Linux bridge: Docker's default kind of network."""

from pairlab.testbed.contracts import DockerNetwork, NetworkDriver


class Bridge(NetworkDriver):
    """One bridge, and a veth pair from it to each endpoint."""

    name = "bridge"
    summary = "Linux bridge with a veth pair to each container"
    links = ("bridge", "veth")
    max_endpoints = 1023  # ports of a Linux bridge (BR_MAX_PORTS), less Docker's own
    docker = DockerNetwork(driver="bridge")

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge")

    def attach(self, lan, endpoint):
        lan.add_veth(endpoint, master=self.bridge)

    def ports(self, endpoints):
        return endpoints  # add_veth names each port after its endpoint
