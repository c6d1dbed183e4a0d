"""What runs on a machine, as root, outside of the sandbox that is a host there: it makes the sandbox, and ends it.

It comes over ssh, with the agent and flowgen, and is in memory only. The sandbox has network, mount and PID namespaces
of its own: when the ssh connection ends, or says nothing for SILENT_S, the sandbox is killed, and with it all that was
made in it. Its uplink is a macvlan link of the machine's interface, which ends with the sandbox's network.
"""

import contextlib
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.base.environment import boot_id
from pairlab.errors import HostBusy
from pairlab.testbed.cleanup.child_processes import search_path
from pairlab.testbed.endpoints import UPLINK, Limits
from pairlab.testbed.host import cgroups, conditions, facts, foreign_load, lock
from pairlab.testbed.host.foreign_load import HostSample, OwnProcesses
from pairlab.testbed.host.halts import HaltSampler
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.netns.agent import serve
from pairlab.testbed.requirements import MissingRequirement
from pairlab.testbed.ssh import CARRIED
from pairlab.testbed.ssh.pump import Pump

#: The agent's first words: it is imported from memory, too.
_GUEST = """
import sys
sys.path.insert(0, "/proc/self/fd/" + sys.argv[1])
from pairlab.testbed.ssh.guest import main
main(*map(int, sys.argv[2:]))
"""
_IN_A_SANDBOX = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
#: How long the sandbox's namespaces may take to exist.
_MADE_WITHIN_S = 10.0


class Keeper:
    """What can be called outside of the sandbox. sandbox: the process that ends with it. after: what ends after it."""

    driver_file = ""

    def __init__(self, sandbox: int, after: contextlib.ExitStack):
        self._own = OwnProcesses([sandbox])
        self._after = after
        self._groups: dict[str, Path] = {}
        self._before: HostSample | None = None

    def machine_facts(self) -> dict[str, Any]:
        """This machine, as far as it matters before anything is built."""
        return {
            "boot_id": boot_id(),
            "architecture": platform.machine(),
            "cpus": foreign_load.cpus_online(),
            "kernel": platform.release(),
            "cpu_model": facts.cpu_model(),
            "virtualization": facts.virtualization(),
        }

    def conditions(self) -> dict[str, str]:
        """The settings of this machine that a measurement may depend on."""
        return conditions.read()

    def missing_limits(self) -> list[MissingRequirement]:
        """What is missing here for limits of CPU time."""
        return list(filter(None, [cgroups.missing()]))

    def limit(self, limits: Mapping[str, Limits]) -> dict[str, str]:
        """Makes a control group for each of these endpoints that has a limit of CPU time; returns its folder."""
        self._groups = self._after.enter_context(cgroups.groups("ssh", limits))
        return {name: str(group) for name, group in self._groups.items()}

    def limits_in_force(self) -> dict[str, dict[str, float]]:
        return {name: cgroups.read(group) for name, group in self._groups.items()}

    def begin_load(self, lasts_s: float) -> None:
        """From now on, what others use of the CPUs counts, and who is halted. lasts_s: as of HaltSampler."""
        self._before, self._began_s = foreign_load.take_sample(self._own), time.monotonic()
        self._halts = HaltSampler(self._own, lasts_s)
        self._halts.__enter__()

    def end_load(self) -> dict[str, float | None]:
        """What others have used since, and which processes were halted or regrouped, by the names of checks."""
        assert self._before
        self._halts.__exit__(None, None, None)
        states = {
            state: self._halts.shares(state, self._began_s, time.monotonic()) for state in ("halted", "regrouped")
        }
        used = foreign_load.compare(self._before, foreign_load.take_sample(self._own))
        halted = max((share for _, _, share in states["halted"]), default=0.0)
        return used | {"halted": halted, "regrouped": len(states["regrouped"])}


def main(archive: int, flowgen: int, interface: str, callers_boot_id: str) -> None:
    """archive, flowgen: descriptors of files in memory, pairlab's modules and the generator. interface: empty: the host
    has no others. callers_boot_id: a caller on this very machine holds it already.
    """
    os.environ["PATH"] = search_path()
    if os.geteuid():
        sys.exit("a host's networks take root: give the user root, or `sudo: true`, in hosts.yaml")
    there = [name for _, name in socket.if_nameindex()]
    if interface and interface not in there:
        sys.exit(f"there is no interface {interface!r}; there are: {', '.join(there)}")
    try:
        with lock.measuring(wait=False) if boot_id() != callers_boot_id else contextlib.nullcontext():
            _keep(archive, flowgen, interface)
    except HostBusy as error:
        sys.exit(str(error))


def _keep(archive: int, flowgen: int, interface: str) -> None:
    pairs = [socket.socketpair() for _ in CARRIED]
    to_agent, to_relay, to_us = (theirs for _, theirs in pairs)
    handed = [archive, flowgen, to_agent.fileno(), to_relay.fileno()]
    words = [sys.executable, "-P", "-c", _GUEST, *map(str, handed)]
    with contextlib.ExitStack() as after, _sandbox([*_IN_A_SANDBOX, *words], handed) as sandbox:
        for each in (to_agent, to_relay):
            each.close()
        if interface:
            _give_uplink(sandbox, interface)
        line = Connection(to_us.detach())
        threading.Thread(target=serve, args=(line, Keeper(sandbox, after)), daemon=True).start()
        pump = Pump(0, 1, [ours for ours, _ in pairs])
        pump.heard.set()  # the caller beats from the beginning
        pump.start()
        pump.ended.wait()


@contextlib.contextmanager
def _sandbox(argv: list[str], handed: list[int]) -> Iterator[int]:
    """In the block, the sandbox runs, by the id of the process with which it ends."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, pass_fds=handed) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def _give_uplink(sandbox: int, interface: str) -> None:
    """Makes UPLINK in the network namespace of the sandbox, as soon as that exists."""
    own, deadline_s = os.stat("/proc/self/ns/net").st_ino, time.monotonic() + _MADE_WITHIN_S
    while os.stat(f"/proc/{sandbox}/ns/net").st_ino == own:
        if time.monotonic() > deadline_s:
            sys.exit("no sandbox could be made: does this kernel have network, mount and PID namespaces?")
        time.sleep(0.002)
    namespace = os.open(f"/proc/{sandbox}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    parent = socket.if_nametoindex(interface)
    rtnetlink.ask(rtnetlink.link(UPLINK, "macvlan", link=parent, net_ns_fd=namespace, macvlan_mode="bridge", up=False))
    os.close(namespace)
