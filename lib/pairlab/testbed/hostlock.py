"""One measurement at a time on a host, whoever starts it: two at once would measure each other.

The lock is an abstract Unix socket (unix(7)): it belongs to whichever process is bound to it, leaves no file behind,
ends with its process however that dies, and tells by SO_PEERCRED who holds it. It is seen by all users of one network
namespace, that is, of one host.
"""

import contextlib
import errno
import os
import pwd
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from pairlab.errors import HostBusy

ADDRESS = "\0pairlab-measuring"


@contextlib.contextmanager
def measuring(wait: bool = True, tell: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Holds the host meanwhile. Another holder is waited for, after telling who it is, or HostBusy is raised."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        told = None
        while not _bind(lock):
            holder = _holder()
            if holder is None:
                continue  # gone in between
            connection, who = holder
            with connection:
                if not wait:
                    raise HostBusy(f"{who} is measuring on this host: wait for it to end, or stop it")
                if who != told:
                    tell(f"waiting for {who}, which is measuring on this host")
                    told = who
                with contextlib.suppress(ConnectionError):
                    connection.recv(1)  # comes back when the holder is done, or dead
        lock.listen(64)
        yield


def _bind(lock: socket.socket) -> bool:
    try:
        lock.bind(ADDRESS)
        return True
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise


def _holder() -> tuple[socket.socket, str] | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(ADDRESS)
    except ConnectionError:
        connection.close()
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return connection, f"process {pid} of {_user(uid)} ({_command(pid)})"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "its command is not ours to see"
    return " ".join([os.path.basename(words[0]), *words[1:]]).strip()[:80] or "unknown"
