"""What a launcher in a host says reaches our control socket, and back; and an end on one side is one on the other."""

import contextlib
import json
import os
import socket
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from pairlab.testbed.own_kernels import MOST_UNREAD_BYTES
from pairlab.testbed.own_kernels.relay import Inner, Outer


@pytest.fixture
def place():
    """Of sockets, whose paths have at most 107 bytes."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def listener(place):
    """Our control socket, to which a relay leads; inner: the control socket in the host."""
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.bind(str(place / "control"))
    ours.listen()
    ours.settimeout(10)
    line = socket.socketpair()
    here, there = (Connection(os.dup(end.fileno())) for end in line)
    relays = [Inner(there, place / "inner"), Outer(here, place / "control")]
    for relay in relays:
        relay.start()
    with ours, line[0], line[1]:
        yield ours
        line[0].shutdown(socket.SHUT_RDWR)  # as when a host's kernel is killed
        for relay in relays:
            relay.join(10)
            assert not relay.is_alive()


@pytest.fixture
def open_sockets():
    """Those that a test opens, which end with it."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def launcher(listener, place, open_sockets):
    """Makes a launcher in the host."""

    def launcher():
        made = open_sockets(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        made.settimeout(10)
        made.connect(str(place / "inner"))
        return made

    return launcher


@pytest.fixture
def accepted(open_sockets):
    def accepted(listener):
        made = open_sockets(listener.accept()[0])
        made.settimeout(10)
        return made

    return accepted


def is_ended(end):
    """Whether the other end is closed, which resets the connection where it had not read all (unix(7))."""
    try:
        return end.recv(16) == b""
    except ConnectionResetError:
        return True


def test_each_launcher_has_a_connection_of_its_own_and_its_process_id_is_not_believed(listener, launcher, accepted):
    ends = {}
    for name in ("client-0.1", "server-0.2"):
        inner = launcher()
        inner.send(json.dumps({"event": "hello", "slot": name}).encode())
        outer = accepted(listener)
        assert json.loads(outer.recv(4096)) == {"event": "hello", "slot": name, "relayed": True}
        ends[name] = inner, outer
    for name, (inner, outer) in ends.items():
        outer.send(b"term")
        assert inner.recv(16) == b"term"
        inner.send(json.dumps({"event": "ended", "slot": name}).encode())
        assert json.loads(outer.recv(4096)) == {"event": "ended", "slot": name}


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_an_end_on_one_side_is_an_end_on_the_other(listener, launcher, accepted, first):
    inner = launcher()
    inner.send(b"{}")
    outer = accepted(listener)
    assert json.loads(outer.recv(4096)) == {"relayed": True}
    one, other = (inner, outer) if first == "inner" else (outer, inner)
    one.close()
    assert other.recv(16) == b""


def test_a_launcher_that_is_gone_when_it_is_spoken_to_ends_no_other(listener, launcher, accepted):
    inner = launcher()
    inner.send(b"{}")
    outer = accepted(listener)
    assert json.loads(outer.recv(4096)) == {"relayed": True}
    outer.send(b"term")
    inner.close()  # and what is said to it then is lost, and ends nothing else
    assert is_ended(outer)
    other = launcher()
    other.send(b"{}")
    assert json.loads(accepted(listener).recv(4096)) == {"relayed": True}


def test_no_more_is_on_the_way_to_a_host_than_its_line_can_take_and_all_of_it_arrives(place, accepted):
    """A terminal of a host that is full once is dead for good."""
    ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.bind(str(place / "control"))
    ours.listen()
    here, there = (Connection(end.detach()) for end in socket.socketpair())
    relay = Outer(here, place / "control")
    relay.start()
    with ours, there:
        there.send_bytes(json.dumps([1, "{}"]).encode())
        outer = accepted(ours)
        outer.recv(4096)
        for number in range(300):
            outer.send(f"{number:050d}".encode())
        arrived = []
        while len(arrived) < 300:
            read = [there.recv_bytes()]
            while sum(map(len, read)) + 60 <= MOST_UNREAD_BYTES and len(arrived) + len(read) < 300:
                read.append(there.recv_bytes())
            assert not there.poll(0.02)  # the rest waits until these were read
            arrived += [int(json.loads(each)[1]) for each in read]
            there.send_bytes(json.dumps([0, str(sum(map(len, read)))]).encode())
        assert arrived == list(range(300))
        outer.close()
    relay.join(10)
    assert not relay.is_alive()
