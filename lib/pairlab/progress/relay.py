"""Progress from one process to another: from the kernel that measures to `pairlab run`, which started it.

Over a socket of datagrams, whose path the kernel has from its environment. A teller is never held up: where nobody
listens any more, or not fast enough, what it tells is lost.
"""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from pairlab.testbed.contracts import Progress, silent

#: Names the socket, for processes that are started meanwhile.
VARIABLE = "PAIRLAB_PROGRESS"

_LARGEST = 4096  # bytes of one message
_PHASE_CHARACTERS = 300  # that many fit into it, whatever they are; JSON writes some in twelve bytes


def asked() -> bool:
    """Whether who started this process wants to hear."""
    return bool(os.environ.get(VARIABLE))


@contextlib.contextmanager
def told() -> Iterator[Progress]:
    """A Progress that tells it to who started this process."""
    address = os.environ[VARIABLE]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:

        def tell(phase: str, done: float, total: float) -> None:
            message = json.dumps([phase[:_PHASE_CHARACTERS], done, total]).encode()
            with contextlib.suppress(OSError):
                line.sendto(message, socket.MSG_DONTWAIT, address)

        yield tell


@contextlib.contextmanager
def heard(place: Path, progress: Progress) -> Iterator[None]:
    """What processes that are started meanwhile tell goes to `progress`, in a thread. place: a folder of our own."""
    if progress is silent:
        yield
        return
    path = str(place / "progress")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.bind(path)
        listener = threading.Thread(target=_listen, args=(line, progress), name="progress", daemon=True)
        listener.start()
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = path
        try:
            yield
        finally:
            _restore(before)
            line.shutdown(socket.SHUT_RD)  # what has arrived is still read
            listener.join()
            os.unlink(path)


def _listen(line: socket.socket, progress: Progress) -> None:
    while message := line.recv(_LARGEST):
        with contextlib.suppress(ValueError, TypeError):  # not from us
            phase, done, total = json.loads(message)
            progress(str(phase), float(done), float(total))


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = before
