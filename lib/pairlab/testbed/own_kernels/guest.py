"""The agent in a host with a kernel of its own: answers our calls.

It is the agent of a sandbox (netns.agent), with calls over another kind of line.
"""

import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan, mac_of
from pairlab.testbed.host.foreign_load import used_by_s
from pairlab.testbed.host.link_recorder import LinkRecorder
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.lan import Lan
from pairlab.testbed.links.namespaces import inside, new_namespaces, without_ipv6
from pairlab.testbed.netns import underlay
from pairlab.testbed.netns.agent import Agent
from pairlab.testbed.own_kernels import HERE
from pairlab.testbed.requirements import MissingRequirement, missing_programs


class Guest(Agent, ABC):
    """What can be called in a host. Gates, and the control socket, are in HERE: a socket has to be its kernel's."""

    #: What messages call its kernel.
    kernel = "that kernel"

    def __init__(self, directory: Path, caller: int):
        super().__init__(directory, lambda done: None, caller)
        self._pids: dict[str, int] = {}  # of launchers, by the slots of their processes
        self._gates: dict[str, int] = {}
        self._recorders: dict[str, LinkRecorder] = {}

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
        what = f"{self.kernel} has no {{}} links"
        found = [MissingRequirement(what.format(each), otherwise) for each in kind.links if not lan.has_kind(each)]
        found += [*missing_programs(kind.programs), *kind.missing()]
        if kind.spans_hosts and not found:
            found += kind.missing_to_span()
        return found or self.missing_probed(driver, kind.name)

    def connect_uplink(self, host: HostPlan, others: Sequence[HostPlan]) -> dict:
        """Sets up this host's uplink; returns the uplink's shaping."""
        without_ipv6()
        self._make_uplink()
        index = socket.if_nametoindex(UPLINK)
        rtnetlink.ask(rtnetlink.change(index, address=mac_of(host.address)))
        return underlay.set_up_uplink(host, others)

    @abstractmethod
    def _make_uplink(self) -> None:
        """Names the host's link to the others UPLINK."""

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

    def used_s(self, slots: Sequence[str]) -> list[float]:
        """The CPU time of what each of these processes' launchers has started."""
        return used_by_s(self._pids[each] for each in slots)

    def cpu_counts(self) -> str:
        return Path("/proc/stat").read_text()
