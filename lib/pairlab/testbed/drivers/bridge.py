"""The Linux bridge, Docker's default kind of network, with a pair of links to each container."""

from typing import ClassVar

from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork, Lan
from pairlab.testbed.endpoints import EndpointPlan


class Bridge(BridgedNetwork):
    """One bridge, and a veth pair from it to each endpoint."""

    name = "bridge"
    summary = "Linux bridge with a veth pair to each container"
    links = ("bridge", "veth")
    docker: ClassVar[DockerNetwork | None] = DockerNetwork(driver="bridge")

    def create(self, lan: Lan) -> None:
        self.bridge = lan.add_link("pairlab0", "bridge")


class Netkit(Bridge):
    """The same with a netkit pair in mode l2 (Linux 6.7) in place of the veth pair."""

    name = "netkit"
    summary = "Linux bridge with a netkit pair to each container"
    links = ("bridge", "netkit")
    docker = None

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        lan.add_netkit(endpoint, master=self.bridge)
