"""NAT: servers are reached at published ports of their host's address, as with `docker run --publish`."""

from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork
from pairlab.testbed.endpoints import FIRST_PORT
from pairlab.testbed.requirements import Program

BRIDGE = "pairlab0"
IPTABLES_SAVE = Program("iptables-save", "iptables")
#: Docker's option for it: the name of the bridge that it makes.
DOCKER_OPTIONS = {"com.docker.network.bridge.name": BRIDGE}


class Nat(BridgedNetwork):
    """On each host a bridge with a subnet of its own; nftables rewrites what goes to a published port (nft(8)).

    What leaves the subnet gets the host's address, and so does what a client sends to a server beside it by way of the
    host, as answers would else go past it.

    In Docker, a daemon without its userland proxy publishes the ports, so that iptables rewrites all that goes to them.
    With the proxy, it is driver `nat-proxy`.
    """

    name = "nat"
    summary = "a bridge and a subnet on each host; servers at published ports, by nftables, in Docker by iptables"
    isolation = "published"
    links = ("bridge", "veth")
    programs = (Program("nft", "nftables"),)
    spans_hosts = True
    routed = True
    publishes = True
    docker = DockerNetwork(driver="bridge", options=DOCKER_OPTIONS, own_daemon=True)

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

    def docker_facts(self, lan):
        rules = lan.run([IPTABLES_SAVE.path(), "--table", "nat"])
        kept = [line for line in rules.splitlines() if not line.startswith("#")]  # those have the time of day
        return {"iptables": "\n".join(kept), "userland_proxy": self.docker.userland_proxy}


class NatProxy(Nat):
    """Published ports of a daemon with its userland proxy, which is Docker's default.

    A driver, and no setting of `nat`, as it is another data path: what a client beside its server sends goes to a
    docker-proxy, a process that ends its connection and makes one of its own to the server. What comes from other hosts
    is rewritten by iptables as without it.
    """

    name = "nat-proxy"
    summary = "as nat in Docker, with a docker-proxy between clients and servers of one host"
    absent_in = ("netns",)
    docker = DockerNetwork(driver="bridge", options=DOCKER_OPTIONS, own_daemon=True, userland_proxy=True)


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
