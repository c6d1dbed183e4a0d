"""Launches endpoints on networks that are up, timing each phase, and watches for their first echo replies.

This runs in the sandbox's agent, which has built the networks: nothing heavy is imported here. Times are
CLOCK_MONOTONIC in ns, taken when the kernel wakes us: for a link's message of rtnetlink(7), or for an ICMP echo reply
(icmp(7)). Requests to one address are a millisecond apart.
"""

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pairlab.errors import TestbedError
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.namespaces import inside, new_namespaces
from pairlab.testbed.netns import neighbours
from pairlab.testbed.netns.networks import Network

#: Python's thread switch interval: far less than the millisecond between pings.
_SWITCH_S = 0.0001
#: The interval between two requests to an address that has not answered.
EVERY_NS = 1_000_000
#: This many first requests repeat the ARP request, and then one in as many: an ARP reply may take longer than the
#: interval.
_OFTEN = 16
ECHO_REQUEST, ECHO_REPLY = 8, 0
_PAYLOAD = b"pairlab launch  "
_RTMGRP_LINK, _RTM_NEWLINK = 1, 16
_IFF_LOOPBACK, _IFF_LOWER_UP_AND_UP = 0x8, 0x10000 | 0x1
#: The groups that may open ping sockets: a setting of each network namespace; none in a new one.
PING_GROUP_RANGE = Path("/proc/sys/net/ipv4/ping_group_range")


def may_ping(range_text: str, groups: set[int]) -> bool:
    """Whether one of these groups may open ping sockets, by the text of the sysctl net.ipv4.ping_group_range."""
    first, last = map(int, range_text.split())
    return any(first <= group <= last for group in groups)


def may_ping_here() -> bool:
    """Whether this process may open ping sockets in its network namespace."""
    return may_ping(PING_GROUP_RANGE.read_text(), {os.getegid(), *os.getgroups()})


def allow_pings() -> None:
    """Lets root's group open ping sockets in the present network namespace, which must be ours."""
    PING_GROUP_RANGE.write_text("0 0")


def ping_socket(address: str) -> socket.socket:
    """An unprivileged socket for ICMP echo, in the present network namespace, connected to that address."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    sock.setblocking(False)
    with contextlib.suppress(OSError):  # there may be no route yet: each request tries again
        sock.connect((address, 0))
    return sock


def link_socket() -> socket.socket:
    """A netlink socket that receives link changes in the present network namespace."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.bind((0, _RTMGRP_LINK))
    sock.setblocking(False)
    return sock


class Watch:
    """Pings addresses and listens for links in a thread of its own, as a context manager.

    answered_ns, up_ns: times of the first echo replies and of the carriers, by name, added as they occur.
    """

    def __init__(self) -> None:
        self.answered_ns: dict[str, int] = {}
        self.up_ns: dict[str, int] = {}
        self._pinged: dict[str, tuple[socket.socket, str]] = {}
        self._links: dict[str, socket.socket] = {}
        self._held: set[str] = set()
        self._begun_anew: set[str] = set()
        self._sent: dict[str, int] = {}
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def ping(self, name: str, sock: socket.socket, address: str, *, when_up: bool = False, anew: bool = False) -> None:
        """Pings that address by that socket, which the watch closes at exit, until the first echo reply.

        when_up: only once the link of that name is up, or `begin` is called. anew: the first requests each make the
        kernel repeat its ARP request. By itself it would do so after a second, and an early ping would wait for that.
        """
        with self._changed:
            self._pinged[name] = sock, address
            if when_up:
                self._held.add(name)
            if anew:
                self._begun_anew.add(name)
            self._changed.notify_all()

    def begin(self, name: str) -> None:
        """Begins to ping that name's address, even if no message said that the link is up."""
        with self._changed:
            self._held.discard(name)
            self._changed.notify_all()

    def hear(self, name: str, sock: socket.socket) -> None:
        """Notes when any link but the loopback in that socket's namespace is up and has a carrier."""
        with self._changed:
            self._links[name] = sock
            self._changed.notify_all()

    def wait(self, names: list[str], until_ns: int) -> None:
        """Returns when all of these names have answered, or at that time."""
        with self._changed:
            while any(name not in self.answered_ns for name in names):
                if (left_ns := until_ns - time.monotonic_ns()) <= 0 or not self._changed.wait(left_ns / 1e9):
                    return

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()
        self._thread.join()
        for sock, _ in self._pinged.values():
            sock.close()
        for sock in self._links.values():
            sock.close()

    def _run(self) -> None:
        sequence, next_ns = 0, 0
        while True:
            with self._changed:
                while not self._over and not self._is_pending():
                    self._changed.wait()
                if self._over:
                    return
                pinged = {name: target for name, target in self._pinged.items() if name not in self.answered_ns}
                links = {name: sock for name, sock in self._links.items() if name not in self.up_ns}
            if time.monotonic_ns() >= next_ns:
                next_ns = time.monotonic_ns() + EVERY_NS
                sequence = (sequence + 1) % 65536
                for name, (sock, address) in pinged.items():
                    if name in self._held:
                        continue
                    self._sent[name] = sent = self._sent.get(name, -1) + 1
                    if name in self._begun_anew and (sent < _OFTEN or not sent % _OFTEN):
                        neighbours.delete(address, sock)
                    _send_request(sock, address, sequence)
            if self._poll(pinged, links):
                next_ns = 0  # ping at once when a link has come up

    def _is_pending(self) -> bool:
        return self._pinged.keys() > self.answered_ns.keys() or self._links.keys() > self.up_ns.keys()

    def _poll(self, pinged: dict[str, tuple[socket.socket, str]], links: dict[str, socket.socket]) -> bool:
        """Waits for messages, at most until the next request is due. Returns whether a link has come up."""
        pinged_names = {sock.fileno(): name for name, (sock, _) in pinged.items()}
        link_names = {sock.fileno(): name for name, sock in links.items()}
        poller = select.poll()
        for descriptor in (*pinged_names, *link_names):
            poller.register(descriptor, select.POLLIN)
        ready = poller.poll(1)
        now_ns, came_up = time.monotonic_ns(), False
        with self._changed:
            for descriptor, _ in ready:
                if (name := pinged_names.get(descriptor)) and _received_reply(pinged[name][0]):
                    self.answered_ns[name] = now_ns
                elif (name := link_names.get(descriptor)) and _came_up(links[name]):
                    self.up_ns[name] = now_ns
                    self._held.discard(name)
                    came_up = True
            self._changed.notify_all()
        return came_up


def _send_request(sock: socket.socket, address: str, sequence: int) -> None:
    """Sends an echo request; the kernel sets the identifier and the checksum."""
    with contextlib.suppress(OSError):  # no route yet, no ARP reply, a full queue
        sock.sendto(struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, 0, sequence) + _PAYLOAD, (address, 0))


def _received_reply(sock: socket.socket) -> bool:
    try:
        return sock.recv(2048)[:1] == bytes([ECHO_REPLY])
    except OSError:
        return False


def _came_up(sock: socket.socket) -> bool:
    """Whether a pending message says that a link is up with a carrier (struct ifinfomsg)."""
    came_up = False
    with contextlib.suppress(BlockingIOError):
        while True:
            message, place = sock.recv(65536), 0
            while place + 32 <= len(message):
                length, kind = struct.unpack_from("=IH", message, place)
                (flags,) = struct.unpack_from("=I", message, place + 24)
                up = flags & _IFF_LOWER_UP_AND_UP == _IFF_LOWER_UP_AND_UP and not flags & _IFF_LOOPBACK
                came_up |= kind == _RTM_NEWLINK and up
                place += length + -length % 4
    return came_up


class Launching:
    """Launches on built networks. namespaces, hosts: descriptors of endpoints' and hosts' namespaces, by name."""

    def __init__(self, networks: Sequence[Network], namespaces: dict[str, int], hosts: dict[str, int]):
        self._networks = networks
        self._namespaces = namespaces
        self._hosts = hosts
        self._partners = {each.name: each for network in networks for each in network.endpoints}
        self._reached: set[str] = set()
        sys.setswitchinterval(_SWITCH_S)

    def run(
        self, endpoints: Sequence[EndpointPlan], argv: Sequence[str], within_s: float, pings: bool
    ) -> list[dict[str, Any]]:
        """Launches these endpoints, removes them, and returns their rows of `launches`: times in s from the command.

        argv: of the process in each. within_s: the limit for each first reply. pings: whether the endpoints have an
        address that their partners reach.
        """
        kind = type(self._networks[0].driver)
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
            launched = [row["name"] for row in rows if row["status"] == "ok"]
            if pings:
                watch.wait(launched, begun_ns + int(within_s * 1e9))
            for row in rows:
                conclude(row, watch, begun_ns, within_s, pings)
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
            namespace = self._namespace(endpoint, kind, stack)
            row["created_s"] = since_s(begun_ns)
            with inside(namespace) if namespace is not None else contextlib.nullcontext():
                if kind.has_links():
                    watch.hear(endpoint.name, link_socket())
                null_stdin = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
                pid = os.posix_spawn(argv[0], list(argv), os.environ, file_actions=null_stdin)
            row["running_s"] = since_s(begun_ns)
            stack.callback(_end, pid)
            if kind.has_links() and namespace is not None:
                stack.callback(self.detach, endpoint)
                self.join(endpoint, namespace)
                row["attached_s"] = since_s(begun_ns)
                watch.begin(endpoint.name)
            yield

    def _namespace(self, endpoint: EndpointPlan, kind: Any, stack: contextlib.ExitStack) -> int | None:
        """The endpoint's namespace: a new one, the partner's, or the host's (None: the sandbox's own)."""
        if not kind.isolated:
            return self._hosts.get(self._host(endpoint).lan.host.name)
        if kind.pair_shares_namespace:
            return self._namespaces[endpoint.partner]
        (namespace,) = new_namespaces(1)
        stack.callback(os.close, namespace)
        return namespace

    def join(self, endpoint: EndpointPlan, namespace: int) -> None:
        """Attaches an endpoint, which has that namespace, to the networks that are up."""
        own = self._host(endpoint)
        self._namespaces[endpoint.name] = namespace
        with own.lan.entered():
            own.driver.attach_late(own.lan, endpoint)
        if endpoint.name not in self._reached:  # other hosts' entries for it stay for its next launch
            self._reached.add(endpoint.name)
            for other in self._networks:
                if other is not own:
                    with other.lan.entered():
                        other.driver.add_remote(other.lan, endpoint)
        own.lan.configure(endpoint, has_link=True)
        if self._introduces(type(own.driver)):
            self._introduce(endpoint, namespace)
        if own.lan.gateway_link:
            with own.lan.entered():
                neighbours.set_static(own.lan.gateway_link, {endpoint.address: endpoint.mac})

    def _introduces(self, kind: type[NetworkDriver]) -> bool:
        """Whether endpoints need static neighbours, as no broadcast reaches their partners."""
        return kind.add_remote is not NetworkDriver.add_remote and len(self._networks) > 1

    def _introduce(self, endpoint: EndpointPlan, namespace: int) -> None:
        """Makes the endpoint and its partner static neighbours: tunnels with static entries carry no broadcasts."""
        if not (partner := self._partners.get(endpoint.partner)):
            return
        for end, neighbour in ((namespace, partner), (self._namespaces[partner.name], endpoint)):
            with inside(end):
                neighbours.set_static("eth0", {neighbour.address: neighbour.mac})

    def detach(self, endpoint: EndpointPlan) -> None:
        """Removes the endpoint's link at once: its namespace, which the kernel removes later, would answer pings."""
        own = self._host(endpoint)
        with own.lan.entered():
            own.driver.detach(own.lan, endpoint)
        if (namespace := self._namespaces.pop(endpoint.name, None)) is not None:
            with inside(namespace), contextlib.suppress(OSError):  # no eth0, if the launch failed before it
                rtnetlink.ask(rtnetlink.removal(socket.if_nametoindex("eth0")))

    def _host(self, endpoint: EndpointPlan) -> Network:
        (network,) = (each for each in self._networks if each.lan.host.index == endpoint.host)
        return network

    def _ping_socket(self, endpoint: EndpointPlan) -> socket.socket:
        namespace = self._namespaces.get(endpoint.partner)
        with inside(namespace) if namespace is not None else contextlib.nullcontext():
            allow_pings()
            return ping_socket(endpoint.address)


def conclude(row: dict[str, Any], watch: Watch, begun_ns: int, within_s: float, pings: bool) -> None:
    """Adds the watch's times to a launch's row, and when the endpoint was ready."""
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


def since_s(moment_ns: int) -> float:
    """Seconds since that moment."""
    return (time.monotonic_ns() - moment_ns) / 1e9


def _end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
