"""NAT: servers are reached at published ports of their host's address, as with `docker run --publish`."""

from pairlab.testbed.contracts import BridgedNetwork
from pairlab.testbed.endpoints import FIRST_PORT
from pairlab.testbed.requirements import Program

BRIDGE = "pairlab0"


class Nat(BridgedNetwork):
    """On each host a bridge with a subnet of its own; nftables rewrites what goes to a published port (nft(8)).

    What leaves the subnet gets the host's address, and so does what a client sends to a server beside it by way of the
    host, as answers would else go past it.
    """

    name = "nat"
    summary = "a bridge and a subnet on each host; servers at published ports, by nftables"
    links = ("bridge", "veth")
    programs = (Program("nft", "nftables"),)
    spans_hosts = True
    routed = True
    publishes = True
    absent_in = ("docker",)

    def create(self, lan):
        self.bridge = lan.add_gateway(BRIDGE)
        self.servers = {}

    def probe(self, lan):
        lan.run([self.programs[0].path(), _rules("10.0.0.0/16", {FIRST_PORT: "10.0.0.2"})])

    def attach(self, lan, endpoint):
        super().attach(lan, endpoint)
        if endpoint.side == "server":
            self.servers[FIRST_PORT + endpoint.pair] = endpoint.address

    def finish(self, lan):
        self.rules = _rules(lan.host.subnet, self.servers)
        file = lan.directory / "nat.nft"
        file.write_text(self.rules)
        lan.run([self.programs[0].path(), "--file", str(file)])

    def facts(self):
        return {"nft": self.rules}


def _rules(subnet, servers):
    published = ", ".join(f"{port} : {address}" for port, address in servers.items())
    to_servers = [f"fib daddr type local dnat to {protocol} dport map {{ {published} }}" for protocol in ("tcp", "udp")]
    return "\n".join(
        [
            "table ip pairlab {",
            "  chain published {",
            "    type nat hook prerouting priority dstnat",
            *(f"    {rule}" for rule in (to_servers if servers else [])),
            "  }",
            "  chain leaving {",
            "    type nat hook postrouting priority srcnat",
            f'    ip saddr {subnet} oifname != "{BRIDGE}" masquerade',
            f'    ip saddr {subnet} oifname "{BRIDGE}" ct status dnat masquerade',
            "  }",
            "}",
            "",
        ]
    )
