"""Relays between launchers in a host and our control socket, over one serial line.

A launcher knows only a control socket. In its host, `Inner` listens on one; in the sandbox, `Outer` connects to ours
once for each launcher. Messages are [launcher's number, text]; an empty text closes the connection. Number 0 is no
launcher's: with it, Inner acknowledges bytes that it has read, as at most MOST_UNREAD_BYTES may be unread.
"""

import contextlib
import json
import os
import selectors
import socket
import threading
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.testbed.own_kernels import MOST_UNREAD_BYTES

_MOST_BYTES = 1 << 16


class _Relay(threading.Thread):
    """Relays messages between one serial line and the launchers' sockets, by number."""

    def __init__(self, line: Connection):
        super().__init__(daemon=True)
        self._line = line
        self._sockets: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(line, selectors.EVENT_READ)

    def run(self) -> None:
        with contextlib.suppress(EOFError, OSError):  # of the line: the host has ended, and what was in it
            while True:
                for key, _ in self._selector.select():
                    if key.fileobj is self._line:
                        self._take(self._line.recv_bytes(_MOST_BYTES))
                    else:
                        self._from_socket(key)
        ours: list[Any] = [key.fileobj for key in self._selector.get_map().values()]
        for each in ours:
            each.close()
        self._selector.close()

    def _take(self, message: bytes) -> None:
        self._from_line(*json.loads(message))

    def _from_line(self, number: int, text: str) -> None:
        if not text:
            self._close(number)
        elif number in self._sockets:
            with contextlib.suppress(OSError):  # it is gone, which its socket says next
                self._sockets[number].send(text.encode())

    def _from_socket(self, key: Any) -> None:
        try:
            packet = key.fileobj.recv(_MOST_BYTES)
        except OSError:
            packet = b""
        self._tell(key.data, packet.decode())
        if not packet:
            self._close(key.data)

    def _tell(self, number: int, text: str) -> None:
        self._line.send_bytes(json.dumps([number, text]).encode())

    def _add(self, number: int, sock: socket.socket) -> None:
        self._sockets[number] = sock
        self._selector.register(sock, selectors.EVENT_READ, number)

    def _close(self, number: int) -> None:
        if sock := self._sockets.pop(number, None):
            self._selector.unregister(sock)
            sock.close()


class Inner(_Relay):
    """In a host: listens on the control socket of its launchers."""

    def __init__(self, line: Connection, control: Path):
        super().__init__(line)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(control))
        os.chmod(control, 0o666)
        self._listener.listen(4096)
        self._count = 0
        self._selector.register(self._listener, selectors.EVENT_READ)

    def _take(self, message: bytes) -> None:
        super()._take(message)
        self._tell(0, str(len(message)))

    def _from_socket(self, key: Any) -> None:
        if key.fileobj is self._listener:
            sock, _ = self._listener.accept()
            self._count += 1
            self._add(self._count, sock)
        else:
            super()._from_socket(key)


class Outer(_Relay):
    """In the sandbox: connects to our control socket for each launcher."""

    def __init__(self, line: Connection, control: Path):
        super().__init__(line)
        self._control = control
        self._unsent: deque[bytes] = deque()
        self._unread_bytes = 0

    def _tell(self, number: int, text: str) -> None:
        self._unsent.append(json.dumps([number, text]).encode())
        self._send_what_may_be()

    def _send_what_may_be(self) -> None:
        """At least one is, so that one that is longer than all that may be unread is sent, too, by itself."""
        while self._unsent and (
            not self._unread_bytes or self._unread_bytes + len(self._unsent[0]) <= MOST_UNREAD_BYTES
        ):
            message = self._unsent.popleft()
            self._unread_bytes += len(message)
            self._line.send_bytes(message)

    def _from_line(self, number: int, text: str) -> None:
        if number == 0:
            self._unread_bytes -= int(text)
            self._send_what_may_be()
            return
        if text and number not in self._sockets:
            text = json.dumps({**json.loads(text), "relayed": True})  # its process id is that of another kernel
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.connect(str(self._control))
            self._add(number, sock)
        super()._from_line(number, text)
