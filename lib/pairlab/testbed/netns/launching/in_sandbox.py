"""Launches inside a sandbox: a namespace, a process in it, its link, and the first answer to a ping.

This runs in the sandbox's agent, which has made the networks: nothing heavy is imported here.
"""

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan
from pairlab.testbed.netns import neighbours, rtnetlink
from pairlab.testbed.netns.launching.watching import Watch, allow_pings, link_socket, ping_socket
from pairlab.testbed.netns.namespaces import inside, new_namespaces
from pairlab.testbed.netns.networks import Network

#: How long a thread of ours keeps the others waiting: far less than the millisecond between pings.
_SWITCH_S = 0.0001


class Launching:
    """The launches on networks that are built. spaces, hosts: namespaces of endpoints and of hosts, by name."""

    def __init__(self, built: Sequence[Network], spaces: dict[str, int], hosts: dict[str, int]):
        self._built = built
        self._spaces = spaces
        self._hosts = hosts
        self._partners = {each.name: each for network in built for each in network.endpoints}
        self._reached: set[str] = set()
        sys.setswitchinterval(_SWITCH_S)

    def run(
        self, endpoints: Sequence[EndpointPlan], argv: Sequence[str], within_s: float, pings: bool
    ) -> list[dict[str, Any]]:
        """Launches these, removes them, and returns a row of `launches` of each: what it took, in s from the command.

        argv: of the process in each. within_s: until when each must have answered. pings: whether they have an address
        that their partners reach.
        """
        kind = type(self._built[0].driver)
        with Watch() as watch, contextlib.ExitStack() as stack:
            sockets = {each.name: self._ping_socket(each) for each in endpoints} if pings else {}
            begun_ns = time.monotonic_ns()
            for each in endpoints:
                if pings:
                    anew = kind.has_links() and not self._introduces(kind)
                    watch.ping(each.name, sockets[each.name], each.address, when_up=kind.has_links(), anew=anew)
            rows = []
            for each in endpoints:
                row: dict[str, Any] = {"name": each.name, "status": "ok", "error": ""}
                rows.append(row)
                try:
                    stack.enter_context(self._launched(each, kind, argv, watch, row, begun_ns))
                except (TestbedError, OSError) as error:
                    row |= {"status": "failed", "error": str(error)}
            good = [row["name"] for row in rows if row["status"] == "ok"]
            if pings:
                watch.wait(good, begun_ns + int(within_s * 1e9))
            for row in rows:
                _conclude(row, watch, begun_ns, within_s, pings)
        return rows

    @contextlib.contextmanager
    def _launched(
        self,
        endpoint: EndpointPlan,
        kind: Any,
        argv: Sequence[str],
        watch: Watch,
        row: dict[str, Any],
        begun_ns: int,
    ) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            space = self._space(endpoint, kind, stack)
            row["created_s"] = _since_s(begun_ns)
            with inside(space) if space is not None else contextlib.nullcontext():
                if kind.has_links():
                    watch.hear(endpoint.name, link_socket())
                quiet = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
                pid = os.posix_spawn(argv[0], list(argv), os.environ, file_actions=quiet)
            row["running_s"] = _since_s(begun_ns)
            stack.callback(_end, pid)
            if kind.has_links() and space is not None:
                stack.callback(self.detach, endpoint)
                self.join(endpoint, space)
                row["attached_s"] = _since_s(begun_ns)
                watch.begin(endpoint.name)
            yield

    def _space(self, endpoint: EndpointPlan, kind: Any, stack: contextlib.ExitStack) -> int | None:
        """The namespace that it is launched into: its own, its partner's, or its host's (None: the sandbox's own)."""
        if not kind.isolated:
            return self._hosts.get(self._host(endpoint).lan.host.name)
        if kind.pair_shares:
            return self._spaces[endpoint.partner]
        (made,) = new_namespaces(1)
        stack.callback(os.close, made)
        return made

    def join(self, endpoint: EndpointPlan, space: int) -> None:
        """Attaches one endpoint, whose namespace this is, to the networks that are up."""
        own = self._host(endpoint)
        self._spaces[endpoint.name] = space
        with own.lan.entered():
            own.driver.join(own.lan, endpoint)
        if endpoint.name not in self._reached:  # what others know of it stays for its next launch
            self._reached.add(endpoint.name)
            for other in self._built:
                if other is not own:
                    with other.lan.entered():
                        other.driver.reach(other.lan, endpoint)
        own.lan.configure(endpoint, has_link=True)
        if self._introduces(type(own.driver)):
            self._introduce(endpoint, space)
        if own.lan.gateway_link:
            with own.lan.entered():
                neighbours.know(own.lan.gateway_link, {endpoint.address: endpoint.mac})

    def _introduces(self, kind: type[NetworkDriver]) -> bool:
        """Whether endpoints have to be told of their partners, as no broadcast reaches these."""
        return kind.reach is not NetworkDriver.reach and len(self._built) > 1

    def _introduce(self, endpoint: EndpointPlan, space: int) -> None:
        """Tells it and its partner of each other: tunnels that know where each endpoint is carry no broadcasts."""
        if not (partner := self._partners.get(endpoint.partner)):
            return
        for there, other in ((space, partner), (self._spaces[partner.name], endpoint)):
            with inside(there):
                neighbours.know("eth0", {other.address: other.mac})

    def detach(self, endpoint: EndpointPlan) -> None:
        """Removes its link at once: the kernel removes a namespace later, and until then it would answer pings."""
        own = self._host(endpoint)
        with own.lan.entered():
            own.driver.leave(own.lan, endpoint)
        if (space := self._spaces.pop(endpoint.name, None)) is not None:
            with inside(space), contextlib.suppress(OSError):  # it may have failed before it had one
                rtnetlink.ask(rtnetlink.removal(socket.if_nametoindex("eth0")))

    def _host(self, endpoint: EndpointPlan) -> Network:
        (found,) = (each for each in self._built if each.lan.host.index == endpoint.host)
        return found

    def _ping_socket(self, endpoint: EndpointPlan) -> socket.socket:
        space = self._spaces.get(endpoint.partner)
        with inside(space) if space is not None else contextlib.nullcontext():
            allow_pings()
            return ping_socket(endpoint.address)


def _conclude(row: dict[str, Any], watch: Watch, begun_ns: int, within_s: float, pings: bool) -> None:
    """Adds to a launch's row what the watch saw, and when it was ready."""
    name = row["name"]
    if up_ns := watch.up_ns.get(name):
        row["link_up_s"] = (up_ns - begun_ns) / 1e9
    if answered_ns := watch.answered_ns.get(name):
        row["first_ping_s"] = (answered_ns - begun_ns) / 1e9
    if row["status"] != "ok":
        return
    if pings and not answered_ns:
        row |= {"status": "failed", "error": f"no ping was answered within {within_s:g} s"}
        return
    row["ready_s"] = max(row["running_s"], row.get("first_ping_s", 0.0))


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _since_s(moment_ns: int) -> float:
    return (time.monotonic_ns() - moment_ns) / 1e9
