"""Routes through IP-in-IP tunnels (RFC 2003), between hosts as Calico has them in its IPIP mode."""

from pairlab.testbed.contracts import BridgedNetwork
from pairlab.testbed.endpoints import UPLINK


class IpIp(BridgedNetwork):
    """On each host a bridge with a subnet of its own, and a tunnel to each other host with a route to its subnet."""

    name = "ipip"
    summary = "a bridge and a subnet on each host; IP-in-IP tunnels between hosts"
    isolation = "encapsulated"
    aliases = ("calico-ipip",)
    links = ("bridge", "veth", "ipip")
    spans_hosts = True
    routed = True
    needs_hosts = True
    overhead_bytes = 20  # IPv4

    def create(self, lan):
        self.bridge = lan.add_gateway("pairlab0")
        for other in lan.others:
            ends = {"ipip_local": lan.host.address, "ipip_remote": other.address, "ipip_link": lan.set_up(UPLINK)}
            lan.add_route(other.subnet, link=lan.add_link(f"to-{other.name}", "ipip", **ends))

    def facts(self):
        return {"tunnel": {"kind": "ipip"}, "stands_in_for": "Calico in its IPIP mode, between hosts"}
