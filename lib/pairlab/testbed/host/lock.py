"""One measurement at a time on a host, whoever starts it: two at once would measure each other.

The lock is an abstract Unix socket (unix(7)): it belongs to the process bound to it, leaves no file behind, ends with
its process in any case, and the kernel names its holder (SO_PEERCRED). All users of one network namespace see it. The
holder also locks the folder /dev/shm itself (flock(2)), which network namespaces of one host share; containers have one
of their own, unless they run with --ipc=host. Measurements in containers that share neither do not see each other's
locks, only each other's CPU use: the check hidden_cpu.

A lock for all users of a host can be held by any of them: other programs than pairlab can take the name, too. They can
only delay measurements: two never run at once, and a waiting user sees the holder's process, user and command, or how
to find them if hidden. A lock for root only would exclude users.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pairlab.errors import HostBusy
from pairlab.testbed.cleanup import ownership

ADDRESS = "\0pairlab-measuring"
SHARED = "/dev/shm"
#: A holder's longest time from binding to listening, two system calls.
_SILENT_S = 2.0
_AGAIN_S = 0.2


@contextlib.contextmanager
def measuring(wait: bool = True, show: Callable[[str], None] = lambda text: None) -> Iterator[None]:
    """Holds the host. Waits for another holder, after showing who it is; with wait=False, raises HostBusy instead."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        shown, begun_s = None, time.monotonic()
        while not _bind(lock):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                name = _holder(connection)
                if name is None and time.monotonic() - begun_s < _SILENT_S:
                    time.sleep(0.01)  # the holder has ended, or does not listen yet
                    continue
                who = name or f"a process that does not answer ({_remedy()})"
                if not wait:
                    raise HostBusy(f"{who} is measuring on this host: wait for it to end, or stop it")
                if who != shown:
                    show(f"waiting for {who}, which is measuring on this host")
                    shown = who
                _await_end(connection)
                if name:
                    begun_s = time.monotonic()  # the next holder has as much time to answer
        lock.listen(64)
        with _shared_by_namespaces(wait, show):
            yield


@contextlib.contextmanager
def _shared_by_namespaces(wait: bool, show: Callable[[str], None]) -> Iterator[None]:
    """Holds the lock that is visible to other network namespaces, too, if there is one."""
    try:
        folder = os.open(SHARED, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = f"a process in another network namespace (`sudo lslocks` names who locked {SHARED})"
            if not wait:
                raise HostBusy(f"{who} is measuring on this host: wait for it to end, or stop it") from None
            show(f"waiting for {who}, which is measuring on this host")
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def holder() -> str:
    """The process that measures on this host now; empty if there is none, or none visible in this network namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        return _holder(connection) or ""


def await_turn(wait: bool = True, show: Callable[[str], None] = lambda text: None) -> None:
    """Waits until nobody measures on this host, like `measuring`; another measurement may begin right after."""
    with measuring(wait, show):
        pass


def _bind(lock: socket.socket) -> bool:
    try:
        lock.bind(ADDRESS)
        return True
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise


def _holder(connection: socket.socket) -> str | None:
    """The lock's holder, by a connection to it; None: no answer."""
    connection.settimeout(0)  # a full queue of waiters must not block us silently
    try:
        connection.connect(ADDRESS)
    except OSError:
        return None
    connection.settimeout(None)
    pid, uid = ownership.peer(connection)
    if not pid:
        return f"a process of {_user(uid)}, in another PID namespace,"
    return f"process {pid} of {_user(uid)} ({_command(pid)})"


def _await_end(connection: socket.socket) -> None:
    """Returns when the holder is done or dead, or after a moment if it does not answer."""
    try:
        while connection.recv(64):
            pass
    except ConnectionError:
        pass
    except OSError:  # not connected
        time.sleep(_AGAIN_S)


def _remedy() -> str:
    return "`sudo ss -xlap | grep pairlab-measuring` names it"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "its command is hidden"
    return " ".join(" ".join([os.path.basename(words[0]), *words[1:]]).split())[:80] or "unknown"
