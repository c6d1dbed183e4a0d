"""What a network namespace has, while others change it."""

import socket

from pairlab.testbed.host.description import describe


def test_a_link_that_has_gone_since_it_was_listed_is_left_out(monkeypatch):
    """Docker moves links into containers at any moment."""
    there, listed = describe(), socket.if_nameindex()
    monkeypatch.setattr(socket, "if_nameindex", lambda: [*listed, (2**31 - 1, "moved")])
    assert describe() == there
