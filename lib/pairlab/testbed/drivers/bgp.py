"""Routes by BGP: each host announces the subnet of its containers to the others, as in Calico's BGP mode."""

import os

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import BridgedNetwork
from pairlab.testbed.requirements import Program

BRIDGE = "pairlab0"
#: The autonomous system of all hosts, the one that Calico has by default: private (RFC 6996).
AS = 64512
#: How long BIRD may take to connect to all its neighbours and learn their routes.
CONVERGED_S = 30.0
BIRD, BIRDC = Program("bird", "bird2"), Program("birdc", "bird2")


class Bgp(BridgedNetwork):
    """On each host a bridge with a subnet of its own, and BIRD, which has a BGP session with every other host."""

    name = "bgp"
    summary = "a bridge and a subnet on each host; routes between hosts by BGP (BIRD)"
    isolation = "routed"
    aliases = ("calico-bgp",)
    links = ("bridge", "veth")
    programs = (BIRD, BIRDC)
    spans_hosts = True
    routed = True
    needs_hosts = True

    @classmethod
    def version(cls):
        return BIRD.first_line("--version")

    def create(self, lan):
        self.bridge = lan.add_gateway(BRIDGE)
        self.pid_file, self.control = lan.directory / "bird.pid", lan.directory / "bird.ctl"
        file = lan.directory / "bird.conf"
        file.write_text(_configuration(lan.host, lan.others))
        lan.run([BIRD.path(), "-c", str(file), "-s", str(self.control), "-P", str(self.pid_file)])

    def finish(self, lan):
        self.pid = int(self.pid_file.read_text())
        lan.await_routes([each.subnet for each in lan.others], CONVERGED_S)
        self.routes = lan.run([BIRDC.path(), "-s", str(self.control), "-r", "show", "route"])

    def check(self):
        if not os.path.exists(f"/proc/{self.pid}"):
            raise TestbedError("bird has ended, and with it the routes between hosts")

    def facts(self):
        return {"bgp": self.version(), "routes": self.routes, "stands_in_for": "Calico in its BGP mode, between hosts"}


def _configuration(host, others):
    """BIRD's: it exports the bridge's subnet with this host as next hop, and puts what it learns into the kernel."""
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
