"""Progress from one process to another: from the kernel that measures to `pairlab run`, which started it.

Over a datagram socket, whose path the kernel has from its environment. A sender never waits: if nobody receives any
more, or not fast enough, its messages are lost.
"""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from pairlab.base.environment import setting
from pairlab.testbed.contracts import Progress, silent

#: The path of the socket, for processes that are started meanwhile.
VARIABLE = "PAIRLAB_PROGRESS"

_LARGEST = 4096  # bytes of one message
_PHASE_CHARACTERS = 300  # that many fit into it, whatever they are; JSON writes some in twelve bytes


def wanted() -> bool:
    """Whether the process that started this one wants to receive progress."""
    return bool(os.environ.get(VARIABLE))


@contextlib.contextmanager
def sender() -> Iterator[Progress]:
    """A Progress that sends it to the process that started this one."""
    address = os.environ[VARIABLE]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:

        def send(phase: str, done: float, total: float) -> None:
            message = json.dumps([phase[:_PHASE_CHARACTERS], done, total]).encode()
            with contextlib.suppress(OSError):
                line.sendto(message, socket.MSG_DONTWAIT, address)

        yield send


@contextlib.contextmanager
def receiving(place: Path, progress: Progress) -> Iterator[None]:
    """Passes progress of processes started meanwhile to `progress`, in a thread. place: a private folder."""
    if progress is silent:
        yield
        return
    path = str(place / "progress")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(path)
        receiver = threading.Thread(target=_receive, args=(line, progress), name="progress", daemon=True)
        receiver.start()
        try:
            with setting(**{VARIABLE: path}):
                yield
        finally:
            line.shutdown(socket.SHUT_RD)  # what has arrived is still read
            receiver.join()
            os.unlink(path)


def _receive(line: socket.socket, progress: Progress) -> None:
    while message := line.recv(_LARGEST):
        with contextlib.suppress(ValueError, TypeError):  # not from us
            phase, done, total = json.loads(message)
            progress(str(phase), float(done), float(total))
