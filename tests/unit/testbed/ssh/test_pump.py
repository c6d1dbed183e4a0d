"""Several sockets over one stream: what is sent arrives, in both directions; and who hears nothing gives up."""

import contextlib
import os
import socket
import threading

import pytest

from pairlab.testbed.ssh import pump
from pairlab.testbed.ssh.pump import Pump

PATIENCE_S = 60
MUCH = os.urandom(1_000_000)


class Ends:
    """Two pumps over one stream; each has the other ends of two sockets."""

    def __init__(self, first=b""):
        self.streams = socket.socketpair()
        self.used, self.pumps, self.carried = [], [], []
        for stream, begins in zip(self.streams, (first, b""), strict=True):
            pairs = [socket.socketpair() for _ in range(2)]
            self.used.append([ours for ours, _ in pairs])
            self.carried += [carried for _, carried in pairs]
            self.pumps.append(Pump(stream.fileno(), stream.fileno(), [carried for _, carried in pairs], begins))
        for used in (each for side in self.used for each in side):
            used.settimeout(PATIENCE_S)

    def start(self, *which):
        self.started = [self.pumps[each] for each in which or (0, 1)]
        for each in self.started:
            each.start()
        return self

    def close(self):
        for each in self.streams:
            with contextlib.suppress(OSError):  # closed, or its other end is
                each.shutdown(socket.SHUT_RDWR)
        for each in self.started:  # else it would go on with descriptors that are another's by then
            each.join()
        for each in (*self.streams, *self.carried, *self.used[0], *self.used[1]):
            each.close()


@pytest.fixture
def ends():
    with contextlib.closing(Ends()) as made:
        yield made


def received(sock, size):
    data = b""
    while len(data) < size:
        data += sock.recv(size - len(data))
    return data


def test_each_socket_has_its_own_bytes_in_both_directions(ends):
    (left, other_left), (right, other_right) = ends.start().used
    left.sendall(b"to the right")
    sender = threading.Thread(target=other_right.sendall, args=(MUCH,))
    sender.start()
    assert received(right, 12) == b"to the right"
    assert received(other_left, len(MUCH)) == MUCH
    sender.join()
    right.sendall(b"and back")
    assert received(left, 8) == b"and back"


def test_one_that_is_closed_is_closed_at_the_other_end_and_the_others_go_on(ends):
    (left, other_left), (right, other_right) = ends.start().used
    left.shutdown(socket.SHUT_WR)
    assert right.recv(1) == b""
    other_left.sendall(b"still")
    assert received(other_right, 5) == b"still"


@pytest.mark.parametrize("how", ["the stream ends", "nothing comes", "what comes is no part"])
def test_where_the_other_end_is_gone_all_sockets_end(how, ends, monkeypatch):
    monkeypatch.setattr(pump, "SILENT_S", 0.2)
    mine, peer = ends.pumps[0], ends.streams[1]
    mine.heard.set()
    ends.start(0)
    if how == "the stream ends":
        peer.close()
    elif how == "what comes is no part":
        peer.sendall(b"\x07" * 64)
    assert mine.ended.wait(PATIENCE_S)
    assert [each.recv(1) for each in ends.used[0]] == [b"", b""]


def test_a_beat_keeps_the_other_end_alive(ends, monkeypatch):
    monkeypatch.setattr(pump, "BEATS_EVERY_S", 0.05)
    monkeypatch.setattr(pump, "SILENT_S", 1.0)
    ends.start()
    assert all(each.heard.wait(PATIENCE_S) for each in ends.pumps)
    assert not ends.pumps[0].ended.wait(2.0)


def test_until_anything_came_it_waits_as_the_other_end_may_still_begin(monkeypatch):
    monkeypatch.setattr(pump, "SILENT_S", 0.05)
    with contextlib.closing(Ends(first=b"what comes first")) as ends:
        ends.start(0)
        assert received(ends.streams[1], 16) == b"what comes first"
        assert not ends.pumps[0].ended.wait(0.5)
