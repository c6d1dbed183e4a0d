"""NAT: servers at published ports of their host's address, as with `docker run --publish`."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import BridgedNetwork, DockerNetwork, Lan
from pairlab.testbed.endpoints import FIRST_PORT, EndpointPlan
from pairlab.testbed.requirements import Program

BRIDGE = "pairlab0"
IPTABLES_SAVE = Program("iptables-save", "iptables")
IPTABLES_LEGACY = Program("iptables-legacy-restore", "iptables")
#: Docker's option for the name of its bridge.
DOCKER_OPTIONS = {"com.docker.network.bridge.name": BRIDGE}


class Nat(BridgedNetwork):
    """On each host a bridge with a subnet of its own; nftables rewrites packets to published ports (nft(8)).

    Packets that leave the subnet get the host's source address; so do packets of a client to a published port on its
    own host, as responses would otherwise bypass the host.

    In Docker, a daemon without userland proxy publishes the ports: iptables rewrites all packets to them. With the
    proxy, it is driver `nat-proxy`.
    """

    name = "nat"
    summary = "a bridge and a subnet on each host; servers at published ports, by nftables, in Docker by iptables"
    isolation = "published"
    cannot = "be reached from other hosts but at published ports, of which a host has one of each number"
    links = ("bridge", "veth")
    programs = (Program("nft", "nftables"),)
    spans_hosts = True
    routed = True
    publishes = True
    docker = DockerNetwork(driver="bridge", options=DOCKER_OPTIONS, own_daemon=True)

    def create(self, lan: Lan) -> None:
        self.bridge = lan.add_gateway(BRIDGE)
        self.servers: dict[int, str] = {}

    def probe(self, lan: Lan) -> None:
        with tempfile.TemporaryDirectory() as directory:
            self._set(lan, Path(directory), "10.0.0.0/16", {FIRST_PORT: "10.0.0.2"})

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        super().attach(lan, endpoint)
        if endpoint.side == "server":
            self.servers[FIRST_PORT + endpoint.pair] = endpoint.address

    def activate(self, lan: Lan) -> None:
        self._set(lan, lan.directory, lan.host.subnet, self.servers)

    def _set(self, lan: Lan, directory: Path, subnet: str, servers: Mapping[int, str]) -> None:
        """Sets the rules by nftables, or by iptables if the kernel has no nftables for IPv4 (user-mode Linux)."""
        self.rules = {"nft": _rules(subnet, servers)}
        file = directory / "nat"
        file.write_text(self.rules["nft"])
        try:
            lan.run([self.programs[0].command, "--file", str(file)])
        except TestbedError:
            if not IPTABLES_LEGACY.path():
                raise
            self.rules = {"iptables": _iptables_rules(subnet, servers)}
            file.write_text(self.rules["iptables"])
            lan.run([IPTABLES_LEGACY.command, str(file)])

    def facts(self) -> Mapping[str, Any]:
        return self.rules

    def docker_facts(self, lan: Lan) -> Mapping[str, Any]:
        rules = lan.run([IPTABLES_SAVE.command, "--table", "nat"])
        lines = [line for line in rules.splitlines() if not line.startswith("#")]  # comments have the time of day
        return {"iptables": "\n".join(lines), "userland_proxy": self.docker.userland_proxy}


class NatProxy(Nat):
    """Published ports of a daemon with userland proxy, which is Docker's default.

    A driver, not a setting of `nat`, as it is another data path: traffic between client and server of one host passes
    through docker-proxy, a process that terminates the client's connection and opens one to the server. Packets from
    other hosts are rewritten by iptables as without the proxy.
    """

    name = "nat-proxy"
    summary = "as nat in Docker, with a docker-proxy between clients and servers of one host"
    absent_in = ("netns", "ssh", "uml")
    docker = DockerNetwork(driver="bridge", options=DOCKER_OPTIONS, own_daemon=True, userland_proxy=True)


def _rules(subnet: str, servers: Mapping[int, str]) -> str:
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


def _iptables_rules(subnet: str, servers: Mapping[int, str]) -> str:
    """The same rules, for iptables-restore(8)."""
    to_servers = [
        f"-A PREROUTING -m addrtype --dst-type LOCAL -p {protocol} --dport {port} -j DNAT --to-destination {address}"
        for port, address in servers.items()
        for protocol in ("tcp", "udp")
    ]
    leaving = [f"-A POSTROUTING -s {subnet} ! -o {BRIDGE} -j MASQUERADE"]
    leaving += [f"-A POSTROUTING -s {subnet} -o {BRIDGE} -m conntrack --ctstate DNAT -j MASQUERADE"]
    return "\n".join(["*nat", *to_servers, *leaving, "COMMIT", ""])
