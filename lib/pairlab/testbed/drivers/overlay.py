"""An overlay: one Ethernet over all hosts, carried between them by VXLAN (RFC 7348)."""

from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork
from pairlab.testbed.endpoints import UPLINK

#: The network's identifier, and the port that IANA assigned to VXLAN.
VNI, PORT = 77, 4789


class Overlay(BridgedNetwork):
    """On each host a bridge with a veth pair to each endpoint, and a VXLAN link to the other hosts.

    Where an endpoint is, each host is told; none has to learn it by flooding (ip-link(8): nolearning).
    """

    name = "overlay"
    summary = "a bridge on each host, joined by VXLAN"
    links = ("bridge", "veth", "vxlan")
    spans_hosts = True
    max_endpoints = BridgedNetwork.max_endpoints - 1  # the tunnel is a port, too
    overhead_bytes = 50  # Ethernet, IPv4, UDP, VXLAN
    docker = DockerNetwork(driver="overlay", swarm=True)

    def create(self, lan):
        self.bridge = lan.add_link("pairlab0", "bridge")
        self.tunnel = 0
        if lan.others:
            self.tunnel = lan.add_link(
                "vxlan0",
                "vxlan",
                vxlan_id=VNI,
                vxlan_port=PORT,
                vxlan_local=lan.host.address,
                vxlan_link=lan.set_up(UPLINK),
                vxlan_learning=0,
                master=self.bridge,
            )

    def reach(self, lan, endpoint):
        (host,) = (each for each in lan.others if each.index == endpoint.host)
        lan.add_forwarding(self.tunnel, endpoint.mac, host.address)

    def facts(self):
        return {"tunnel": {"kind": "vxlan", "id": VNI, "port": PORT}} if self.tunnel else {}
