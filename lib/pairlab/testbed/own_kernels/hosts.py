"""Speaks for hosts with kernels of their own: calls each host's agent, and opens gates in all of them at one moment.

What concerns one host is its own agent's (guest.py). How a host comes to be, and is connected to the others, is a
matter of its kind: Host and Hosts have a subclass for each.
"""

import os
import select
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from multiprocessing.connection import Connection
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from pairlab.errors import TestbedError
from pairlab.testbed.endpoints import EndpointPlan, HostPlan, Link
from pairlab.testbed.netns import protocol, underlay
from pairlab.testbed.own_kernels import TO_US
from pairlab.testbed.own_kernels.relay import Outer

T = TypeVar("T")

#: How long a host may take to answer.
ANSWER_S = 120.0
#: How long a host may take to end once its agent has.
ENDS_WITHIN_S = 5.0
#: Round trips per comparison of clocks: the shortest counts.
ROUND_TRIPS = 20
#: The lead time from the calls to all hosts to the release, besides two round trips.
LEAD_NS = 50_000_000


class Host:
    """A host that begins, and then answers calls. offset_ns: from the host's clock to ours; error_ns: the error of that
    (compare_clocks).

    process: its kernel, or what leads to it; the host ends with it. log: the file of what that says. line, relayed: to
    the host's agent, and to the relay of its launchers (relay.py). control: our control socket. caller: a descriptor
    that becomes readable when the caller has gone.
    """

    #: How long it may take to begin.
    begins_within_s = 60.0

    def __init__(
        self,
        plan: HostPlan,
        process: subprocess.Popen,
        log: Path,
        line: Connection,
        relayed: Connection,
        control: Path,
        caller: int,
    ):
        self.plan = plan
        self.offset_ns = self.error_ns = 0
        self._process, self._log, self._line, self._caller = process, log, line, caller
        self._relay = Outer(relayed, control)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.plan.name

    def described(self) -> dict[str, Any]:
        """What is recorded of it besides its kernel and its clock."""
        return {"name": self.plan.name}

    def await_begin(self) -> None:
        self._await(self.begins_within_s, "to begin")
        try:
            first = self._line.recv_bytes(64)
        except EOFError:
            raise TestbedError(self._how_its_agent_ended()) from None
        if first != TO_US:
            raise TestbedError(f"{self.name} began wrongly: {self._last_words()}")
        self._relay.start()

    def send(self, name: str, *arguments: Any) -> None:
        """Begins a call, whose answer `receive` has."""
        protocol.send(self._line, (name, arguments))

    def receive(self) -> Any:
        self._await(ANSWER_S, "to answer")
        try:
            return protocol.result(self._line, whose=f"{self.name}: ")
        except EOFError:
            raise TestbedError(self._how_its_agent_ended()) from None

    def call(self, name: str, *arguments: Any) -> Any:
        self.send(name, *arguments)
        return self.receive()

    def compare_clocks(self) -> tuple[int, int]:
        """The offset of the host's clock, by the shortest round trip, and the offset's error: half that round trip."""
        trips = []
        for _ in range(ROUND_TRIPS):
            sent_ns = time.monotonic_ns()
            host_ns = self.call("clock")
            took_ns = time.monotonic_ns() - sent_ns
            trips.append((took_ns, sent_ns + took_ns // 2 - host_ns))
        took_ns, offset_ns = min(trips)
        return offset_ns, took_ns // 2

    def check(self) -> None:
        if self._process.poll() is not None:
            raise TestbedError(self._how_it_ended())
        self.call("check")

    def _await(self, within_s: float, what: str) -> None:
        """Waits until there is something to receive. Raises TestbedError where it ends, or is late."""
        ended = os.pidfd_open(self._process.pid)
        try:
            watched: list[Any] = [self._line, ended, self._caller]
            found, _, _ = select.select(watched, [], [], within_s)
        finally:
            os.close(ended)
        if self._caller in found:
            raise TestbedError("nobody waits for the hosts any more")
        if ended in found:
            raise TestbedError(self._how_it_ended())
        if not found:
            raise TestbedError(f"{self.name} took more than {within_s:g} s {what}: {self._last_words()}")

    def _how_its_agent_ended(self) -> str:
        """Once nothing comes from the agent any more: whether all of the host has ended, or the agent alone."""
        try:
            self._process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            return f"the agent of {self.name} ended: {self._last_words()}"
        return self._how_it_ended()

    def _how_it_ended(self) -> str:
        killed = self._process.wait() in (-signal.SIGKILL, -signal.SIGTERM)  # a panic aborts
        return f"{self.name} ended: {'it was killed' if killed else self._last_words()}"

    def _last_words(self) -> str:
        before_panic = self._log.read_text(errors="replace").partition("Kernel panic")[0]
        return " | ".join(before_panic.strip().splitlines()[-3:]) or "it said nothing"


class Hosts(ABC):
    """What can be called from outside, by the names that an agent has for it."""

    driver_file = ""
    has_daemons = False

    def __init__(self, directory: Path | None, progress: Callable[[int], None], caller: int):
        assert directory
        self._directory = directory
        self._caller = caller
        self._hosts: list[Host] = []
        self._of_endpoint: dict[str, int] = {}

    @abstractmethod
    def _begin(self, hosts: Sequence[HostPlan], driver: str) -> dict[str, Any]:
        """Begins all hosts, which _hosts then has, and connects them; returns the underlay's facts.

        driver: the network's, module:Class.
        """

    def build(self, driver: str, endpoints: Sequence[EndpointPlan], hosts: Sequence[HostPlan]) -> dict:
        """Begins the hosts, connects them, and builds the driver's network on each; returns its facts."""
        begun = time.monotonic()
        facts = self._begin(hosts, driver)
        self._of_endpoint = {each.name: each.host for each in endpoints}
        for each in self._hosts:
            each.await_begin()
        boot_s = time.monotonic() - begun
        for each in self._hosts:
            each.offset_ns, each.error_ns = each.compare_clocks()
        releases = self._call_each("set_clock_offset", ([each.offset_ns] for each in self._hosts))
        if len(hosts) > 1:
            shaped = self._call_each("connect_uplink", ([host, [o for o in hosts if o != host]] for host in hosts))
            facts = {"underlay": {**facts, **shaped[-1], **underlay.limited(hosts)}}
        built = self._call_each("build_host", ([driver, list(endpoints), list(hosts), host.index] for host in hosts))
        own = [
            {**each.described(), "kernel": release, "clock_error_s": each.error_ns / 1e9}
            for each, release in zip(self._hosts, releases, strict=True)
        ]
        return {**facts, **built[0], "kernels": own, "boot_s": round(boot_s, 3)}

    def place(self, hosts: Mapping[str, int]) -> None:
        """The host of each of these endpoints, which have no network."""
        self._of_endpoint |= hosts

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        self._call_each("spawn", ([part] for part in self._by_host(calls, itemgetter(0))))

    def open_gate(self, name: str) -> int:
        """Opens that gate in all hosts at one moment, which it returns; how far apart clients start, runs record."""
        at_ns = time.monotonic_ns() + LEAD_NS + 4 * max(each.error_ns for each in self._hosts)
        self._call_each("open_gate", ([name, at_ns - each.offset_ns] for each in self._hosts))
        return at_ns

    def clock_error_s(self) -> float:
        """By how much the clock of any host may be wrong by now: the errors of its offset, and its drift."""
        found = []
        for each in self._hosts:
            offset_ns, error_ns = each.compare_clocks()
            found.append(max(error_ns, each.error_ns) + abs(offset_ns - each.offset_ns))
        return max(found) / 1e9

    def begin_links(self, name: str, slots: Sequence[str], *how: Any) -> None:
        """From now on the links of these processes are sampled, each in its host (guest.py)."""
        self._call_each("begin_links", ([name, part, *how] for part in self._by_host(slots, _endpoint_of)))

    def end_links(self, name: str, slots: Sequence[str]) -> tuple[list, list]:
        """The samples by that name, as those of LinkSamples: processes as in slots, moments by our clock."""
        parts = self._by_host(slots, _endpoint_of)
        found = [
            ([ns + host.offset_ns for ns in moments_ns], sent)
            for host, part, (moments_ns, sent) in zip(
                self._hosts, parts, self._call_each("end_links", ([name] for _ in parts)), strict=True
            )
            if part
        ]
        return side_by_side(found, [part for part in parts if part], slots)

    def _by_host(self, items: Iterable[T], endpoint_of: Callable[[T], str]) -> list[list[T]]:
        """These items by the host of the endpoint that each is of."""
        parts: list[list[T]] = [[] for _ in self._hosts]
        for each in items:
            parts[self._of_endpoint[endpoint_of(each)]].append(each)
        return parts

    def used_s(self, slots: Sequence[str]) -> list[float]:
        """As Site.used_s."""
        parts = self._by_host(slots, _endpoint_of)
        used_s = chain(*self._call_each("used_s", ([part] for part in parts)))
        by_slot = dict(zip(chain(*parts), used_s, strict=True))
        return [by_slot[slot] for slot in slots]

    def launch(
        self, endpoints: Sequence[EndpointPlan], argv: Sequence[str], within_s: float, pings: bool
    ) -> list[dict[str, Any]]:
        """Launches these endpoints, each on its host, where its partner is, too (Agent.launch)."""
        parts = [[each for each in endpoints if each.host == host.plan.index] for host in self._hosts]
        launched = self._call_each("launch", ([part, list(argv), within_s, pings] for part in parts))
        rows = {row["name"]: row for of_host in launched for row in of_host}
        return [rows[each.name] for each in endpoints]

    def cpu_counts(self) -> list[str]:
        return self._call_each("cpu_counts")

    def shape(self, links: Mapping[str, Link]) -> dict:
        shaped: dict = {}
        for each in self._call_each("shape", ([dict(part)] for part in self._by_host(links.items(), itemgetter(0)))):
            shaped |= each
        return shaped

    def route_congestion_control(self, name: str, ip_version: int) -> str:
        return self._call_each("route_congestion_control", ([name, ip_version] for _ in self._hosts))[0]

    def port_counts(self) -> tuple[int, int] | None:
        counts = [each for each in self._call_each("port_counts") if each]
        return (sum(sent for sent, _ in counts), sum(packets for _, packets in counts)) if counts else None

    def refused_connections(self) -> int:
        return sum(self._call_each("refused_connections"))

    def built(self) -> list[dict]:
        return [host for each in self._call_each("built") for host in each]

    def check(self) -> None:
        for each in self._hosts:
            each.check()

    def _call_each(self, name: str, arguments: Iterable[Sequence[Any]] | None = None) -> list[Any]:
        """Calls all at once, each with its arguments; their answers, in order."""
        for host, words in zip(self._hosts, arguments or [()] * len(self._hosts), strict=True):
            host.send(name, *words)
        return [host.receive() for host in self._hosts]


def _endpoint_of(slot: str) -> str:
    return slot.rpartition(".")[0]


def side_by_side(
    found: Sequence[tuple[list[int], list]], parts: Sequence[Sequence[str]], slots: Sequence[str]
) -> tuple[list[int], list]:
    """Samples of several hosts as if they had been taken at the moments of the first: what was sent between two is
    taken as sent evenly.

    found: of each host moments, and by moment and process what was counted. parts: the processes of each; slots: all,
    in the order that is asked for.
    """
    import numpy as np  # it takes long to load, and is needed when all is over

    moments_ns = found[0][0]
    columns: dict[str, np.ndarray] = {}
    for (own_ns, sent), part in zip(found, parts, strict=True):
        counts = np.array(sent, float)
        for process, slot in enumerate(part):
            of_process = [np.interp(moments_ns, own_ns, counts[:, process, which]) for which in (0, 1)]
            columns[slot] = np.stack(of_process, axis=-1)
    return moments_ns, np.stack([columns[slot] for slot in slots], axis=1).tolist()
