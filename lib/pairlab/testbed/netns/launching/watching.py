"""Watch: hears when links come up, and pings addresses until each has answered. Nothing heavy is imported here.

Moments are CLOCK_MONOTONIC in ns, taken when the kernel wakes us: for a link's message of rtnetlink(7), or for an ICMP
echo reply (icmp(7)). Between two requests to one address lies a millisecond.
"""

import contextlib
import os
import select
import socket
import struct
import threading
import time
from pathlib import Path

from pairlab.testbed.netns import neighbours

#: Between two requests to an address that has not answered.
EVERY_NS = 1_000_000
#: So many first requests ask for the neighbour anew, and later each of so many: an answer may take longer than to the
#: next request.
_OFTEN = 16
ECHO_REQUEST, ECHO_REPLY = 8, 0
_PAYLOAD = b"pairlab launch  "
_RTMGRP_LINK, _RTM_NEWLINK = 1, 16
_IFF_LOOPBACK, _IFF_LOWER_UP_AND_UP = 0x8, 0x10000 | 0x1
#: Which groups may open ping sockets: a setting of each network namespace, and in a new one none may.
PING_GROUP_RANGE = Path("/proc/sys/net/ipv4/ping_group_range")


def may_ping(range_text: str, groups: set[int]) -> bool:
    """Whether one of these groups may open ping sockets, by the text of the sysctl net.ipv4.ping_group_range."""
    first, last = map(int, range_text.split())
    return any(first <= group <= last for group in groups)


def may_ping_here() -> bool:
    """The same of this process and its network namespace."""
    return may_ping(PING_GROUP_RANGE.read_text(), {os.getegid(), *os.getgroups()})


def allow_pings() -> None:
    """Lets root's group open ping sockets in the present network namespace, which is one of ours."""
    PING_GROUP_RANGE.write_text("0 0")


def ping_socket(address: str) -> socket.socket:
    """An unprivileged socket for ICMP echo, in the present network namespace, connected to that address."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    made.setblocking(False)
    with contextlib.suppress(OSError):  # there may be no route yet: each request tries again
        made.connect((address, 0))
    return made


def link_socket() -> socket.socket:
    """A socket that hears of changes to links in the present network namespace."""
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    made.bind((0, _RTMGRP_LINK))
    made.setblocking(False)
    return made


class Watch:
    """Hears and pings in a thread of its own, as a context manager.

    answered_ns and up_ns have the moments, by name, as they come.
    """

    def __init__(self) -> None:
        self.answered_ns: dict[str, int] = {}
        self.up_ns: dict[str, int] = {}
        self._asked: dict[str, tuple[socket.socket, str]] = {}
        self._links: dict[str, socket.socket] = {}
        self._held: set[str] = set()
        self._begun_anew: set[str] = set()
        self._sent: dict[str, int] = {}
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def ping(self, name: str, sock: socket.socket, address: str, *, when_up: bool = False, anew: bool = False) -> None:
        """Pings that address by that socket, which it closes in the end, until it has answered.

        when_up: from when the link of that name is up, or `begin` is called. anew: each of the first requests has the
        kernel ask anew for the address's neighbour. By itself it does so after a second: whoever asks too early waits.
        """
        with self._changed:
            self._asked[name] = sock, address
            if when_up:
                self._held.add(name)
            if anew:
                self._begun_anew.add(name)
            self._changed.notify_all()

    def begin(self, name: str) -> None:
        """Begins to ping the one of that name, whether or not its link was heard to come up."""
        with self._changed:
            self._held.discard(name)
            self._changed.notify_all()

    def hear(self, name: str, sock: socket.socket) -> None:
        """Notes when a link in that socket's namespace is up and has a carrier, of whatever name but the loopback."""
        with self._changed:
            self._links[name] = sock
            self._changed.notify_all()

    def wait(self, names: list[str], until_ns: int) -> None:
        """Returns when all of these have answered, or at that moment."""
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
        for sock, _ in self._asked.values():
            sock.close()
        for sock in self._links.values():
            sock.close()

    def _run(self) -> None:
        sequence, next_ns = 0, 0
        while True:
            with self._changed:
                while not self._over and not self._waits():
                    self._changed.wait()
                if self._over:
                    return
                asked = {name: each for name, each in self._asked.items() if name not in self.answered_ns}
                links = {name: each for name, each in self._links.items() if name not in self.up_ns}
            if time.monotonic_ns() >= next_ns:
                next_ns = time.monotonic_ns() + EVERY_NS
                sequence = (sequence + 1) % 65536
                for name, (sock, address) in asked.items():
                    if name in self._held:
                        continue
                    self._sent[name] = sent = self._sent.get(name, -1) + 1
                    if name in self._begun_anew and (sent < _OFTEN or not sent % _OFTEN):
                        neighbours.forget(address, sock)
                    _ask(sock, address, sequence)
            if self._look(asked, links):
                next_ns = 0  # ask at once where a link has come up

    def _waits(self) -> bool:
        return self._asked.keys() > self.answered_ns.keys() or self._links.keys() > self.up_ns.keys()

    def _look(self, asked: dict[str, tuple[socket.socket, str]], links: dict[str, socket.socket]) -> bool:
        """Waits for what comes next, at most until the next request is due. Returns whether a link has come up."""
        names = {sock.fileno(): name for name, (sock, _) in asked.items()}
        of_links = {sock.fileno(): name for name, sock in links.items()}
        poller = select.poll()
        for descriptor in (*names, *of_links):
            poller.register(descriptor, select.POLLIN)
        ready = poller.poll(1)
        now_ns, came_up = time.monotonic_ns(), False
        with self._changed:
            for descriptor, _ in ready:
                if (name := names.get(descriptor)) and _answered(asked[name][0]):
                    self.answered_ns[name] = now_ns
                elif (name := of_links.get(descriptor)) and _came_up(links[name]):
                    self.up_ns[name] = now_ns
                    self._held.discard(name)
                    came_up = True
            self._changed.notify_all()
        return came_up


def _ask(sock: socket.socket, address: str, sequence: int) -> None:
    """One request; the kernel sets its identifier and checksum."""
    with contextlib.suppress(OSError):  # no route yet, a neighbour that did not answer, a full queue
        sock.sendto(struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, 0, sequence) + _PAYLOAD, (address, 0))


def _answered(sock: socket.socket) -> bool:
    try:
        return sock.recv(2048)[:1] == bytes([ECHO_REPLY])
    except OSError:
        return False


def _came_up(sock: socket.socket) -> bool:
    """Whether what can be read says that a link is up with a carrier (struct ifinfomsg)."""
    found = False
    with contextlib.suppress(BlockingIOError):
        while True:
            message, place = sock.recv(65536), 0
            while place + 32 <= len(message):
                length, kind = struct.unpack_from("=IH", message, place)
                (flags,) = struct.unpack_from("=I", message, place + 24)
                up = flags & _IFF_LOWER_UP_AND_UP == _IFF_LOWER_UP_AND_UP and not flags & _IFF_LOOPBACK
                found |= kind == _RTM_NEWLINK and up
                place += length + -length % 4
    return found
