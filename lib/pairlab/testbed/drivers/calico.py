"""Calico's routes between hosts, with a subnet on each: by BGP, or through IP-in-IP tunnels (RFC 2003)."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import BridgedNetwork, Lan
from pairlab.testbed.endpoints import UPLINK, HostPlan
from pairlab.testbed.requirements import Program

BRIDGE = "pairlab0"
#: The autonomous system of all hosts, Calico's default: private (RFC 6996).
AS = 64512
#: BIRD's longest time to connect to all neighbours and learn their routes.
CONVERGED_S = 30.0
BIRD, BIRDC = Program("bird", "bird2"), Program("birdc", "bird2")


class Bgp(BridgedNetwork):
    """On each host a bridge with a subnet of its own, and BIRD with a BGP session to every other host."""

    name = "bgp"
    summary = "a bridge and a subnet on each host; routes between hosts by BGP (BIRD)"
    isolation = "routed"
    cannot = "cross a network whose routers do not take part, unless hosts share a segment"
    aliases = ("calico-bgp",)
    links = ("bridge", "veth")
    programs = (BIRD, BIRDC)
    spans_hosts = True
    routed = True
    needs_hosts = True

    @classmethod
    def version(cls) -> str:
        return BIRD.first_line("--version")

    def create(self, lan: Lan) -> None:
        self.bridge = lan.add_gateway(BRIDGE)
        self.pid_file, self.control = lan.directory / "bird.pid", lan.directory / "bird.ctl"
        file = lan.directory / "bird.conf"
        file.write_text(_configuration(lan.host, lan.others))
        lan.run([BIRD.command, "-c", str(file), "-s", str(self.control), "-P", str(self.pid_file)])

    def activate(self, lan: Lan) -> None:
        self.pid = int(self.pid_file.read_text())
        lan.await_routes([each.subnet for each in lan.others], CONVERGED_S)
        self.routes = lan.run([BIRDC.command, "-s", str(self.control), "-r", "show", "route"])

    def check(self) -> None:
        if not os.path.exists(f"/proc/{self.pid}"):
            raise TestbedError("bird has ended, and with it the routes between hosts")

    def facts(self) -> Mapping[str, Any]:
        return {"bgp": self.version(), "routes": self.routes, "stands_in_for": "Calico in its BGP mode, between hosts"}


def _configuration(host: HostPlan, others: Sequence[HostPlan]) -> str:
    """BIRD's configuration: exports the bridge's subnet with this host as next hop, and installs learned routes."""
    sessions = [
        f"""protocol bgp {other.name.replace("-", "_")} {{
  local {host.address} as {AS};
  neighbor {other.address} as {AS};
  direct;
  connect delay time 1;
  connect retry time 1;
  ipv4 {{ import all; export where source = RTS_DEVICE; next hop self; gateway direct; }};
}}"""
        for other in others
    ]
    return "\n".join(
        [
            f"router id {host.address};",
            "protocol device { }",
            f'protocol direct {{ ipv4; interface "{BRIDGE}"; }}',
            "protocol kernel { ipv4 { import none; export where source = RTS_BGP; }; }",
            *sessions,
            "",
        ]
    )


class IpIp(BridgedNetwork):
    """On each host a bridge with a subnet of its own, and for each other host a tunnel and a route to its subnet."""

    name = "ipip"
    summary = "a bridge and a subnet on each host; IP-in-IP tunnels between hosts"
    isolation = "encapsulated"
    cannot = "cross a network that drops IP protocol 4, as some clouds do, nor carry IPv6 in its tunnels"
    aliases = ("calico-ipip",)
    links = ("bridge", "veth", "ipip")
    spans_hosts = True
    routed = True
    needs_hosts = True
    overhead_bytes = 20  # IPv4

    def create(self, lan: Lan) -> None:
        self.bridge = lan.add_gateway(BRIDGE)
        for other in lan.others:
            ends = {"ipip_local": lan.host.address, "ipip_remote": other.address, "ipip_link": lan.set_up(UPLINK)}
            lan.add_route(other.subnet, link=lan.add_link(f"to-{other.name}", "ipip", **ends))

    def facts(self) -> Mapping[str, Any]:
        return {"tunnel": {"kind": "ipip"}, "stands_in_for": "Calico in its IPIP mode, between hosts"}
