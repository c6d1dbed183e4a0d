"""Carries several sockets over one stream, in both directions, and tells when the other end has gone."""

import contextlib
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence

from pairlab.testbed.ssh import BEATS_EVERY_S, SILENT_S

#: Before each part of what is carried: the number of its socket, and its size. A heartbeat has a number of its own.
_HEAD = struct.Struct("!BI")
_BEAT = 255
_MOST_BYTES = 1 << 16


class Pump:
    """incoming, outgoing: the stream's descriptors. sockets: those that it carries, whose other ends are used here.

    first: what is sent before all else. Once the stream has ended, or nothing came for SILENT_S, `ended` is set, and
    the sockets are shut down.
    """

    def __init__(self, incoming: int, outgoing: int, sockets: Sequence[socket.socket], first: bytes = b""):
        self._incoming, self._outgoing, self._sockets, self._first = incoming, outgoing, sockets, first
        self.ended = threading.Event()
        self.heard = threading.Event()
        """Set once anything came: until then, the other end may still be starting."""
        steps = (self._send, self._receive)
        self._threads = [threading.Thread(target=self._until_the_end, args=(each,), daemon=True) for each in steps]

    def start(self) -> None:
        for each in self._threads:
            each.start()

    def join(self) -> None:
        """Waits until the stream has ended, and nobody uses the descriptors any more."""
        for each in self._threads:
            each.join()

    def _until_the_end(self, step: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, EOFError):
            step()
        self.ended.set()
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _send(self) -> None:
        _write(self._outgoing, self._first)
        numbers = {each.fileno(): number for number, each in enumerate(self._sockets)}
        while not self.ended.is_set():
            ready, _, _ = select.select([*numbers], [], [], BEATS_EVERY_S)
            if not ready:
                _write(self._outgoing, _HEAD.pack(_BEAT, 0))
            for descriptor in ready:
                data = os.read(descriptor, _MOST_BYTES)
                _write(self._outgoing, _HEAD.pack(numbers[descriptor], len(data)) + data)
                if not data:  # closed here, which the other end is told
                    del numbers[descriptor]

    def _receive(self) -> None:
        while True:
            number, size = _HEAD.unpack(self._read(_HEAD.size))
            if number == _BEAT:
                continue
            if size > _MOST_BYTES or number >= len(self._sockets):
                raise EOFError("the other end sends what is none of ours")
            if size:
                self._sockets[number].sendall(self._read(size))
            else:
                self._sockets[number].shutdown(socket.SHUT_WR)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            within_s = SILENT_S if self.heard.is_set() else None
            if not select.select([self._incoming], [], [], within_s)[0]:
                raise EOFError("nothing came for too long")
            if not (part := os.read(self._incoming, size - len(data))):
                raise EOFError("the stream has ended")
            self.heard.set()
            data += part
        return data


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
