"""Open vSwitch: the testbed's own switch, separate from any of the host's."""

import errno
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pairlab.base.threads import run_in_thread
from pairlab.errors import TestbedError
from pairlab.testbed.contracts import Lan, NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan, HostPlan
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_tun

DAEMONS = ("ovsdb-server", "ovs-vswitchd")
TOOLS = ("ovsdb-tool", "ovs-vsctl", "ovs-ofctl")
#: The identifier of the tunnels between hosts.
VNI = 77


class Ovs(NetworkDriver):
    """One OVS bridge, and a veth pair from it to each endpoint.

    Uses the kernel datapath if available, else the userspace datapath (netdev) with userspace-tso-enable, without which
    TCP over veth stalls or loses most of its throughput. The record names the datapath.
    """

    name = "ovs"
    summary = "Open vSwitch with a veth pair to each container"
    isolation = "encapsulated"
    cannot = "cross a network that drops UDP port 4789, nor keep 1500-byte packets whole on an MTU of 1500"
    links = ("veth",)
    programs = tuple(Program(name, "openvswitch-switch") for name in (*DAEMONS, *TOOLS))
    spans_hosts = True
    overhead_bytes = 50  # Ethernet, IPv4, UDP, VXLAN

    @classmethod
    def missing(cls) -> list[MissingRequirement]:
        missing = missing_tun("Open vSwitch's userspace datapath")
        in_kernel = bool(missing) and run_in_thread(kernel_datapath)
        return [] if in_kernel else missing

    @classmethod
    def missing_to_span(cls) -> list[MissingRequirement]:
        if run_in_thread(kernel_datapath):
            return []
        what = "Open vSwitch's userspace datapath does not segment what it puts into tunnels"
        return lacking(what, "sudo modprobe openvswitch, or take driver 'overlay'")

    @classmethod
    def version(cls) -> str:
        return Program(DAEMONS[1], "openvswitch-switch").first_line("--version")

    def create(self, lan: Lan) -> None:
        self.commands = {program.name: program.command for program in self.programs}
        self.ports_made: list[str] = []
        self.port_of: dict[str, str] = {}
        self.datapath = "system" if kernel_datapath() else "netdev"
        base = self.base = lan.directory / "ovs"
        base.mkdir()
        self.database = f"unix:{base}/db.sock"
        lan.run([self.commands["ovsdb-tool"], "create", f"{base}/conf.db"])
        self._start(lan, "ovsdb-server", f"{base}/conf.db", f"--remote=p{self.database}")
        self._configure(lan, "--no-wait", "init")
        options = ["other_config:userspace-tso-enable=true"] if self.datapath == "netdev" else []
        self._configure(lan, "--no-wait", "set", "Open_vSwitch", ".", "external_ids:system-id=pairlab", *options)
        # In a kernel's first 10 s, OVS assumes 0 CPUs, starts no handlers, and loses packets.
        time.sleep(max(0.0, 10.5 - time.monotonic()))
        self._start(lan, "ovs-vswitchd", self.database)
        self._configure(lan, "add-br", "pairlab0", "--", "set", "bridge", "pairlab0", f"datapath_type={self.datapath}")

    def attach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        port = lan.add_veth(endpoint)
        self.ports_made.append(port)
        self.port_of[endpoint.mac] = port

    def attach_late(self, lan: Lan, endpoint: EndpointPlan) -> None:
        self._configure(lan, "add-port", "pairlab0", lan.add_veth(endpoint))

    def detach(self, lan: Lan, endpoint: EndpointPlan) -> None:
        self._configure(lan, "--if-exists", "del-port", "pairlab0", endpoint.name)

    def add_remote(self, lan: Lan, endpoint: EndpointPlan) -> None:
        (host,) = (each for each in lan.others if each.index == endpoint.host)
        self.port_of[endpoint.mac] = _tunnel_to(host)

    def ports(self, endpoints: Sequence[str]) -> Sequence[str]:
        return self.ports_made

    def activate(self, lan: Lan) -> None:
        """Adds all ports in one transaction: the switch reconfigures itself once, and ovs-vsctl waits for it.

        Ports to other hosts are protected: without traffic between them, no frame can loop.
        """
        words = [word for port in self.ports_made for word in ("--", "add-port", "pairlab0", port)]
        tunnels = {_tunnel_to(other): other for other in (lan.others if self.datapath == "system" else ())}
        for port, other in tunnels.items():
            kind = ["type=vxlan", f"options:remote_ip={other.address}", f"options:key={VNI}"]
            words += ["--", "add-port", "pairlab0", port, "--", "set", "port", port, "protected=true"]
            words += ["--", "set", "interface", port, *kind]
        self._configure(lan, *words)
        show = [self.commands["ovs-vsctl"], f"--db={self.database}", "--format=csv", "--no-headings"]
        interfaces = lan.run([*show, "--columns=name,ofport", "list", "interface"])
        numbers = dict(line.split(",") for line in interfaces.split())
        if wrong := [port for port in (*self.ports_made, *tunnels) if not numbers.get(port, "").isdigit()]:
            log = (lan.directory / "ovs" / "ovs-vswitchd.log").read_text().splitlines()
            why = next((line.split("|")[-1] for line in log if "|WARN|" in line or "|ERR|" in line), "no reason logged")
            raise TestbedError(f"Open vSwitch refused {len(wrong)} of its {len(self.ports_made)} ports: {why}")
        if tunnels:
            self._forward(lan, numbers)

    def _forward(self, lan: Lan, numbers: Mapping[str, str]) -> None:
        """Forwards frames by the endpoint's hardware address to its port, or to the tunnel to its host.

        By default the switch would flood them to all hosts until it has learned the address.
        """
        flows = [f"dl_dst={mac},actions=output:{numbers[port]}" for mac, port in self.port_of.items()]
        (self.base / "flows").write_text("\n".join(flows) + "\n")
        lan.run([self.commands["ovs-ofctl"], "add-flows", f"unix:{self.base}/pairlab0.mgmt", f"{self.base}/flows"])

    def check(self) -> None:
        for daemon in DAEMONS:
            pid = int((self.base / f"{daemon}.pid").read_text())
            if not os.path.exists(f"/proc/{pid}"):
                raise TestbedError(f"{daemon} has ended, and with it the network")

    def facts(self) -> Mapping[str, Any]:
        return {"datapath": self.datapath, "userspace_tso": self.datapath == "netdev", "ovs": self.version()}

    def _start(self, lan: Lan, daemon: str, *arguments: str) -> None:
        base = lan.directory / "ovs"
        common = [
            "--detach",
            "--no-chdir",
            f"--pidfile={base}/{daemon}.pid",
            f"--unixctl={base}/{daemon}.ctl",
        ]
        # The directory of all files of this OVS, separate from the host's own OVS.
        environment = dict.fromkeys(("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR"), str(base))
        argv = [self.commands[daemon], *arguments, *common, f"--log-file={base}/{daemon}.log", "-vconsole:off"]
        lan.run(argv, environment=environment)

    def _configure(self, lan: Lan, *arguments: str) -> None:
        lan.run([self.commands["ovs-vsctl"], f"--db={self.database}", "--timeout=15", *arguments])


def _tunnel_to(host: HostPlan) -> str:
    return f"to-{host.name}"


def kernel_datapath() -> bool:
    """Whether the kernel has Open vSwitch's datapath; the lookup of its netlink family also loads its module."""
    from pyroute2 import GenericNetlinkSocket
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with GenericNetlinkSocket() as socket:
            socket.bind("ovs_datapath", None)
        return True
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            return False
        raise
