"""The first process in a host with a kernel of its own: sets up the system, and answers our calls.

It is the agent of a sandbox (netns.agent), with calls over a serial line in place of a socket. It ends with its kernel.
"""

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import time
import tty
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan, mac_of
from pairlab.testbed.host.link_recorder import LinkRecorder
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.lan import Lan
from pairlab.testbed.links.namespaces import inside, new_namespaces, without_ipv6
from pairlab.testbed.netns import protocol, underlay
from pairlab.testbed.netns.agent import Agent, serve
from pairlab.testbed.requirements import MissingRequirement, missing_programs
from pairlab.testbed.uml import HERE, TO_US, VECTOR
from pairlab.testbed.uml.relay import Inner

#: Set the name of a link (netdevice(7)).
_SIOCSIFNAME = 0x8923
_WRITABLE = ("/run", "/tmp", "/dev/shm")
_libc = ctypes.CDLL(None, use_errno=True)


class Guest(Agent):
    """What can be called in a host. Gates, and the control socket, are in HERE: a socket has to be its kernel's."""

    def __init__(self, directory: Path, caller: int):
        super().__init__(directory, lambda done: None, caller)
        self._pids: dict[str, int] = {}  # of launchers, by the slots of their processes
        self._gates: dict[str, int] = {}
        self._recorders: dict[str, LinkRecorder] = {}

    def call_in_file(self, file: str) -> Any:
        """Answers the call in that file of the machine's, too long for the serial line (MOST_UNREAD_BYTES)."""
        name, arguments = protocol.decoded(Path(file).read_bytes(), protocol.OF_CALLS)
        return getattr(self, name)(*arguments)

    def clock(self) -> int:
        """This kernel's CLOCK_MONOTONIC, in ns."""
        return time.monotonic_ns()

    def set_clock_offset(self, offset_ns: int) -> str:
        """Sets the offset that launchers and flowgen add to times that they report. Returns the kernel's release."""
        os.environ["FLOWGEN_CLOCK_OFFSET_NS"] = str(offset_ns)
        return os.uname().release

    def missing_for_drivers(self, drivers: Sequence[str]) -> dict[str, list[MissingRequirement]]:
        """What is missing in this kernel for each of these drivers (module:Class), also for its network to span
        hosts.
        """
        found = {}
        for driver in drivers:
            (apart,) = new_namespaces(1)  # a driver's trial leaves what it made
            with inside(apart):
                found[driver] = self._missing_for_driver(driver)
            os.close(apart)
        return found

    def _missing_for_driver(self, driver: str) -> list[MissingRequirement]:
        kind, lan = self._kind(driver), Lan({}, Path())
        otherwise = f"leave {kind.name!r} out"
        what = "the kernel of user-mode Linux has no {} links"
        found = [MissingRequirement(what.format(each), otherwise) for each in kind.links if not lan.has_kind(each)]
        found += [*missing_programs(kind.programs), *kind.missing()]
        if kind.spans_hosts and not found:
            found += kind.missing_to_span()
        return found or self.missing_probed(driver, kind.name)

    def connect_uplink(self, host: HostPlan, others: Sequence[HostPlan]) -> dict:
        """Makes the vector device this host's uplink; returns the uplink's shaping."""
        without_ipv6()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, _SIOCSIFNAME, struct.pack("16s16s", VECTOR.encode(), UPLINK.encode()))
        index = socket.if_nametoindex(UPLINK)
        rtnetlink.ask(rtnetlink.change(index, address=mac_of(host.address)))
        return underlay.set_up_uplink(host, others)

    def build_host(self, driver: str, endpoints: Sequence[EndpointPlan], hosts: Sequence[HostPlan], index: int) -> dict:
        """Builds the driver's network on this host, of which it is the only one here; returns its facts."""
        without_ipv6()
        return self.build(driver, endpoints, hosts, here=index)

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
        """As Agent.spawn, with this kernel's control socket and gates in place of those of the directory."""
        moved = []
        for endpoint, argv in calls:
            argv = list(argv)
            for option in ("--control", "--gate"):
                if option in argv:
                    place = argv.index(option) + 1
                    argv[place] = str(HERE / os.path.basename(argv[place]))
                    if option == "--gate":
                        self._make_gate(argv[place])
            moved.append((endpoint, argv))
        pids = super().spawn(moved)
        self._pids |= {argv[argv.index("--slot") + 1]: pid for (_, argv), pid in zip(moved, pids, strict=True)}
        return pids

    def _make_gate(self, path: str) -> None:
        name = os.path.basename(path)
        if name not in self._gates:
            os.mkfifo(path)
            self._gates[name] = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open_gate(self, name: str, at_ns: int) -> None:
        """Opens the gate at that time of this kernel's clock."""
        gate = self._gates.pop(name, None)
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if left_ns > 2_000_000:  # a timer may be late
                time.sleep((left_ns - 2_000_000) / 1e9)
        if gate is not None:
            os.close(gate)

    def begin_links(self, name: str, slots: Sequence[str], interface: str, every_s: float) -> None:
        """Begins to sample the links of these processes (LinkRecorder)."""
        processes = [SimpleNamespace(pid=self._pids[each], ended=False) for each in slots]
        self._recorders[name] = LinkRecorder(processes, interface, every_s)
        self._recorders[name].__enter__()

    def end_links(self, name: str) -> tuple[list, list]:
        """The samples by that name, by this kernel's clock."""
        recorder = self._recorders.pop(name)
        recorder.__exit__(None, None, None)
        return recorder.samples.moments_ns, recorder.samples.sent

    def cpu_counts(self) -> str:
        return Path("/proc/stat").read_text()


def main() -> None:
    directory = Path(sys.argv[1])
    _make_system(directory)
    lines = [os.open(f"/dev/ttyS{number}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC) for number in (0, 1)]
    for line in lines:
        tty.setraw(line)
    Inner(Connection(lines[1]), HERE / "control").start()
    connection = Connection(lines[0])
    connection.send_bytes(TO_US)
    files = HERE / "files"  # not in the directory: sockets have to be this kernel's
    files.mkdir()
    serve(connection, Guest(files, connection.fileno()))


def _make_system(directory: Path) -> None:
    """Mounts what a system has, and lets the kernel load modules. Of the machine's /tmp, only what is used is there."""
    used = [str(directory), sys.prefix, *sys.path, os.environ.get("PAIRLAB_FLOWGEN", "")]
    shared = sorted({os.path.join("/tmp", each.split("/")[2]) for each in used if each.startswith("/tmp/")})
    mounts = [("/proc", "proc", ""), ("/sys", "sysfs", ""), *((place, "tmpfs", "") for place in _WRITABLE)]
    mounts += [(place, "hostfs", place) for place in shared]
    for place, kind, data in mounts:
        os.makedirs(place, exist_ok=True)
        if _libc.mount(kind.encode(), place.encode(), kind.encode(), 0, data.encode() or None):
            code = ctypes.get_errno()
            raise OSError(code, f"{kind} could not be mounted at {place}: {os.strerror(code)}")
    os.environ["TMPDIR"] = "/tmp"  # the machine's may be a folder that is not here
    HERE.mkdir()
    Path("/proc/sys/kernel/modprobe").write_text(str(directory / "modprobe"))
    # As on any machine; where a tunnel asks for it first, the kernel waits for itself, with the lock of its links held.
    subprocess.run([str(directory / "modprobe"), "ipv6"], check=True)
    Path("/proc/sys/kernel/hostname").write_text(directory.name)
    rtnetlink.ask(rtnetlink.up(rtnetlink.LOOPBACK))


if __name__ == "__main__":
    main()
