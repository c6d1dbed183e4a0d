"""Memory for socket buffers that is used once before the traffic."""

import errno
import os
import socket

import pytest

from pairlab.testbed.host import socket_memory

MIB = 1 << 20


@pytest.fixture(params=["as it may", "no larger than wmem_max"])
def limit(request, monkeypatch):
    """Sockets as large as this user may have them, or as another user than root may."""
    if request.param != "as it may":
        monkeypatch.setattr(socket_memory, "SO_SNDBUFFORCE", 10_000)  # an option that no kernel knows
    return request.param


@pytest.mark.parametrize("pairs", [1, 3])
def test_buffers_of_as_many_pairs_are_filled_and_freed(pairs, limit):
    open_before = set(os.listdir("/proc/self/fd"))
    used = socket_memory.use_once(pairs)
    size_bytes = pairs * socket_memory.OF_A_PAIR_BYTES
    assert size_bytes <= used["used_bytes"] < size_bytes + MIB
    assert used["s_per_byte"] > 0
    assert used["s_per_byte_again"] > 0
    assert set(os.listdir("/proc/self/fd")) == open_before


def test_where_no_more_files_may_be_opened_it_uses_what_it_has(monkeypatch):
    left = [socket.socketpair() for _ in range(2)]

    def next_pair():
        if not left:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return left.pop()

    monkeypatch.setattr(socket_memory, "SO_SNDBUFFORCE", 10_000)
    monkeypatch.setattr(socket_memory.socket, "socketpair", next_pair)
    assert 0 < socket_memory.use_once(1000)["used_bytes"] < socket_memory.MOST_BYTES


@pytest.mark.parametrize(("free_bytes", "expected_bytes"), [(80 * MIB, 10 * MIB), (1 << 40, socket_memory.MOST_BYTES)])
def test_a_small_part_of_free_memory_is_used_and_no_more_than_256_mib(monkeypatch, free_bytes, expected_bytes):
    monkeypatch.setattr(socket_memory.psutil, "virtual_memory", lambda: type("", (), {"available": free_bytes}))
    filled = []
    monkeypatch.setattr(socket_memory, "_fill", lambda size_bytes: filled.append(size_bytes) or (size_bytes, 1.0))
    used = socket_memory.use_once(1000)
    assert filled[0] == used["used_bytes"] == expected_bytes
    assert filled[1] <= filled[0]
