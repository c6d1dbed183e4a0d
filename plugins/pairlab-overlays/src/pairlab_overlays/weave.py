"""Weave Net: a bridge on each host; the program weaver carries frames for other hosts in UDP, through user space."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import BridgedNetwork, Lan
from pairlab.testbed.endpoints import EndpointPlan, HostPlan, mac_of
from pairlab.testbed.requirements import Program

WEAVER = Program("weaver", "", "build it and put it on PATH, as docs/networks/weave.md says, or take 'overlay'")
IPTABLES = Program("iptables", "iptables")
#: The bridge that weaver makes, and the address at which it tells of itself: only its own host reaches it.
BRIDGE, STATUS = "pairlab0", ("127.0.0.1", 6782)
#: How long weaver may take to be ready, and to be connected to all other hosts.
READY_S, CONNECTED_S = 20.0, 30.0
#: How often it is asked for its connections while they are awaited.
_LOOK_EVERY_S = 0.05


class Weave(BridgedNetwork):
    """weaver on each host, connected to the weaver of every other; it makes the bridge, and captures frames from it.

    It cannot compute checksums and cannot cut segments: as `weave attach` does it, containers compute theirs, and send
    packets of the MTU one by one.
    """

    name = "weave"
    summary = "Weave Net: a bridge on each host; weaver carries frames between hosts in UDP (sleeve)"
    isolation = "encapsulated"
    cannot = "cross a network that drops port 6783, nor keep 1500-byte packets whole on an MTU of 1500"
    links = ("bridge", "veth", "dummy")  # weaver sets its bridge's MTU by a dummy link
    programs = (WEAVER, IPTABLES)
    spans_hosts = True
    needs_hosts = True
    max_endpoints = BridgedNetwork.max_endpoints - 1  # weaver has a port, too
    overhead_bytes = 62  # IPv4, UDP, 6 for the sender's name, 14 for the names of both peers and a length, Ethernet

    @classmethod
    def version(cls) -> str:
        return WEAVER.first_line("--version")

    def probe(self, lan: Lan) -> None:
        """Tries rules as weaver makes them before anything else."""
        iptables = [IPTABLES.command, "--wait"]
        lan.run([*iptables, "--append", "FORWARD", "--match", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"])
        lan.run([*iptables, "--table", "nat", "--new-chain", "WEAVE"])

    def create(self, lan: Lan) -> None:
        self.options = self._options(lan.host)
        argv = [WEAVER.command, *self.options, f"--db-prefix={lan.directory}/weave"]
        self.weaver = lan.start(
            [*argv, *(other.address for other in lan.others if other.index < lan.host.index)],
            READY_S,
            words="Listening for status+metrics requests",
            # It asks nobody for a newer version, and encrypts nothing.
            environment={"CHECKPOINT_DISABLE": "1", "WEAVE_PASSWORD": ""},
        )
        self.bridge = lan.set_up(BRIDGE)

    def _options(self, host: HostPlan) -> list[str]:
        """Weaver's on that host: it only carries frames; addresses, names and containers are pairlab's."""
        return [
            f"--name={mac_of(host.address)}",
            f"--nickname={host.name}",
            f"--host={host.address}",
            f"--weave-bridge={BRIDGE}",
            f"--mtu={host.uplink.mtu_bytes - self.overhead_bytes}",
            f"--status-addr={':'.join(map(str, STATUS))}",
            "--no-fastdp",
            "--no-discovery",
            "--no-dns",
            "--ipalloc-range=",
            "--docker-api=",
        ]

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        super().attach(lan, endpoint)
        lan.turn_off_checksumming(endpoint)

    def activate(self, lan: Lan) -> None:
        mtu_bytes = lan.host.uplink.mtu_bytes - self.overhead_bytes
        others = [other.address for other in lan.others]
        deadline = time.monotonic() + CONNECTED_S
        while missing := not_reached(told := _report(), others, mtu_bytes):
            self.weaver.check()
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"weaver of {lan.host.name} cannot send packets of {mtu_bytes} B to {', '.join(missing)} after"
                    f" {CONNECTED_S:g} s. Its report: {told}"
                )
            time.sleep(_LOOK_EVERY_S)
        self.connections = told.connections

    def check(self) -> None:
        self.weaver.check()

    def facts(self) -> Mapping[str, Any]:
        about = {
            "connections": [asdict(each) for each in self.connections],
            "options": self.options,
            "tx_checksumming": False,  # of containers' links
        }
        return {self.name: self.version(), "weaver": about}


@dataclass(frozen=True)
class Connection:
    """One of a weaver's connections to another.

    address: of the other's host. state: `established` once both have heard of each other in UDP. mode: `sleeve`.
    mtu_bytes: of IP packets that it carries in one piece. Where there is no connection yet, mode is empty, and it is 0.
    """

    address: str
    state: str
    mode: str
    mtu_bytes: int


@dataclass(frozen=True)
class Report:
    """What a weaver tells of itself.

    routed: names of those to which it sends frames directly, both those for containers there and those for which it
    does not know the place yet. It works routes out anew 0.1 s after a connection was established; until then it drops
    frames.
    """

    connections: Sequence[Connection] = ()
    routed: Collection[str] = ()


def read_report(text: str) -> Report:
    """A weaver's report in JSON (GET /report)."""
    router = json.loads(text)["Router"]
    connections = []
    for each in router["Connections"] or ():
        attributes: Mapping[str, Any] = each["Attrs"] or {}
        address = each["Address"].rpartition(":")[0]
        connections.append(Connection(address, each["State"], attributes.get("name", ""), attributes.get("mtu", 0)))
    direct = {each["Dest"] for each in router["UnicastRoutes"] or () if each["Dest"] == each["Via"]}
    own = [each["Via"] or () for each in router["BroadcastRoutes"] or () if each["Source"] == router["Name"]]
    return Report(connections, sorted(direct.intersection(*own) if own else ()))


def not_reached(report: Report, others: Collection[str], mtu_bytes: int) -> list[str]:
    """Which of these hosts, by address, it cannot send packets of that MTU to.

    Once a connection is established, it takes weaver a moment to find out the MTU; before, it says 65535.
    """
    fit = {each.address for each in report.connections if each.state == "established" and each.mtu_bytes == mtu_bytes}
    return sorted(each for each in others if each not in fit or mac_of(each) not in report.routed)


def _report() -> Report:
    """The report of this host's weaver; an empty one while it does not answer."""
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection(*STATUS, timeout=READY_S)  # heeds no proxy
    try:
        connection.request("GET", "/report", headers={"Accept": "application/json"})
        return read_report(connection.getresponse().read().decode())
    except (OSError, HTTPException):
        return Report()
    finally:
        connection.close()
