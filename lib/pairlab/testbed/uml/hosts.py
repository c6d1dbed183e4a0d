"""The process inside a sandbox whose hosts are processes of user-mode Linux: boots them, and speaks for them.

Each is on one CPU; with the sandbox it ends. Its uplink is one with a link here, a port of the bridge that stands for
the wire.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.testbed.endpoints import HostPlan
from pairlab.testbed.netns import agent, protocol, underlay
from pairlab.testbed.own_kernels import MOST_UNREAD_BYTES
from pairlab.testbed.own_kernels.hosts import Host, Hosts
from pairlab.testbed.requirements import MissingRequirement
from pairlab.testbed.uml import kernel


class UmlHost(Host):
    """A host that boots. uplink: the link here that its own is one with; cpu: where it runs."""

    def __init__(self, plan: HostPlan, directory: Path, uplink: str, cpu: int, caller: int):
        self.cpu = cpu
        self.directory = directory / plan.name
        self.directory.mkdir()
        self._calls_by_file = 0
        init = kernel.init_script(
            self.directory, [sys.executable, "-P", "-m", "pairlab.testbed.uml.guest", str(self.directory)]
        )
        log = self.directory / "console"
        pairs = [socket.socketpair() for _ in range(2)]
        with log.open("wb") as console:
            theirs = [pair[1].fileno() for pair in pairs]
            process = subprocess.Popen(
                kernel.command(plan.name, init, theirs, console.fileno(), uplink),
                pass_fds=[*theirs, console.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=console,
                env={**os.environ, **kernel.ENVIRONMENT},
                cwd=paths.native(),  # of LD_PRELOAD, in which no path can have spaces or colons
                preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
            )
        for _, other in pairs:
            other.close()
        line, relayed = (Connection(ours.detach()) for ours, _ in pairs)
        super().__init__(plan, process, log, line, relayed, directory / "control", caller)

    def described(self) -> dict[str, Any]:
        return {**super().described(), "cpu": self.cpu}

    def send(self, name: str, *arguments: Any) -> None:
        """As Host.send; a call that is too long for the serial line, by a file."""
        call = protocol.encoded((name, arguments))
        if len(call) > MOST_UNREAD_BYTES:
            self._calls_by_file += 1
            file = self.directory / f"call-{self._calls_by_file}"
            file.write_bytes(call)
            call = protocol.encoded(("call_in_file", [str(file)]))
        self._line.send_bytes(call)


class UmlHosts(Hosts):
    """What can be called from outside, by the names that an agent has for it."""

    def _begin(self, hosts: Sequence[HostPlan], driver: str) -> dict[str, Any]:
        cpus = sorted(os.sched_getaffinity(0))
        facts = underlay.make_wire(hosts, kernel.wire()) if len(hosts) > 1 else {}
        for host in hosts:
            uplink = underlay.device_of(host) if len(hosts) > 1 else ""
            cpu = cpus[host.index % len(cpus)]
            self._hosts.append(UmlHost(host, self._directory, uplink, cpu, self._caller))
        return facts

    def missing_for_drivers(self, drivers: Sequence[str]) -> dict[str, list[MissingRequirement]]:
        """What is missing for these drivers in such a kernel, which is booted for this."""
        host = UmlHost(HostPlan(), self._directory, "", min(os.sched_getaffinity(0)), self._caller)
        host.await_begin()
        return host.call("missing_for_drivers", list(drivers))


if __name__ == "__main__":
    agent.main(UmlHosts)
