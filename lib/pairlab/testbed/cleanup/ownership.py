"""The owner of a testbed, and whether it still runs: to find leftovers of a crash."""

import contextlib
import enum
import fcntl
import os
import re
import socket
import struct
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple, Self

from pairlab.base.environment import boot_id

#: Names the owner in the environment of all processes that pairlab starts; children inherit it.
MARK = "PAIRLAB_OWNER"

_OWNER = re.compile(r"([0-9]{1,9})@([0-9]+)\.([0-9]+)\.([0-9]+)\.([0-9a-f]{32})")


class Liveness(enum.Enum):
    """Whether an owner runs. UNKNOWN: it cannot be determined here, so none of the owner's things are removed."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


class Owner(NamedTuple):
    """A process, named uniquely over all PID namespaces and boots; clock steps do not change the name.

    start_ticks: its start, in clock ticks since boot; two processes with one id never share it. As /proc counts from
    the boot of the reader's time namespace, that namespace is part of the name. The namespaces are inode numbers.
    Source: proc(5), /proc/pid/stat; namespaces(7); time_namespaces(7).
    """

    pid: int
    start_ticks: int
    pid_namespace: int
    time_namespace: int
    boot: str

    def __str__(self) -> str:
        return f"{self.pid}@{self.start_ticks}.{self.pid_namespace}.{self.time_namespace}.{self.boot}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for other text, such as `1@1700000000`, an older pairlab's name."""
        if not (match := _OWNER.fullmatch(text)):
            return None
        pid, start_ticks, pid_namespace, time_namespace = map(int, match.groups()[:4])
        return cls(pid, start_ticks, pid_namespace, time_namespace, match[5])


def me() -> str:
    """The name of this process."""
    _, _, start_ticks = read_stat(Path("/proc/self"))
    return str(Owner(os.getpid(), start_ticks, _namespace("pid"), _namespace("time"), boot_id()))


def liveness(owner: str, *, lock: Path | None = None, remote: bool = False) -> Liveness:
    """Whether the process of that name still runs. The first line that applies counts:

    ======================================================================= =======
    its lock is held                                                        alive
    the name is none that `me` gives, such as an older pairlab's            unknown
    its lock is free                                                        dead
    it is of another boot, and `remote`                                     unknown
    it is of another boot                                                   dead
    it is of another PID namespace                                          unknown
    no process has its id                                                   dead
    it is of another time namespace, or /proc does not show that process    unknown
    that process began at the same tick, and is no zombie                   alive
    that process is another one, or a zombie                                dead
    ======================================================================= =======

    lock: the file that the owner holds (see `held`), if it may be on this host. It counts if it is this user's and
    names that owner. remote: the testbed may be on another host, such as a container of a remote Docker daemon.
    """
    by_lock = _lock(lock, owner) if lock else Liveness.UNKNOWN
    named = Owner.parse(owner)
    if by_lock is Liveness.ALIVE or (named and by_lock is Liveness.DEAD):
        return by_lock
    if named is None:
        return Liveness.UNKNOWN
    try:
        if named.boot != boot_id():
            return Liveness.UNKNOWN if remote else Liveness.DEAD
        if named.pid_namespace != _namespace("pid"):
            return Liveness.UNKNOWN
        with contextlib.suppress(PermissionError):  # another user's process
            os.kill(named.pid, 0)
        if named.time_namespace != _namespace("time") or not _proc_is_of_our_namespace():
            return Liveness.UNKNOWN
        state, _, start_ticks = read_stat(Path(f"/proc/{named.pid}"))
    except ProcessLookupError:
        return Liveness.DEAD
    except (OSError, ValueError, IndexError):  # such as a process that hidepid hides
        return Liveness.UNKNOWN
    return Liveness.ALIVE if start_ticks == named.start_ticks and state not in "ZX" else Liveness.DEAD


@contextlib.contextmanager
def held(file: Path) -> Iterator[None]:
    """Makes that file, names this process in it, and holds its lock (flock(2)) in the block, or until the process dies.

    The lock shows in any namespace whether the owner lives. Raises OSError.
    """
    with file.open("xb", buffering=0) as opened:
        closed_in_forks(opened)  # a fork shares the lock
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.write(me().encode())
        yield


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process at the other end of a Unix socket, as we see it (SO_PEERCRED, unix(7)), and its user.

    0: a process of another PID namespace.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def read_stat(folder: Path) -> tuple[str, int, int]:
    """State, parent and start (clock ticks since boot) of the process with that folder in /proc.

    Raises OSError, ValueError or IndexError where the process has ended, or is hidden.
    """
    state, parent, *rest = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    return state, int(parent), int(rest[17])


def _lock(file: Path, owner: str) -> Liveness:
    """Whether that owner holds its lock on the file; unknown if the file is another user's, or not on this host."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)) as opened:
            if os.fstat(opened.fileno()).st_uid != os.geteuid() or opened.read(200) != owner:
                return Liveness.UNKNOWN
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: other processes may test it at the same time
            return Liveness.DEAD
    except BlockingIOError:
        return Liveness.ALIVE
    except (OSError, ValueError):
        return Liveness.UNKNOWN


def _namespace(kind: str) -> int:
    """The inode number of our namespace of that kind; 0 where this kernel has none."""
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except FileNotFoundError:
        return 0


def _proc_is_of_our_namespace() -> bool:
    """Whether the ids in /proc are of our PID namespace, not of an ancestor: pid_namespaces(7)."""
    (ids,) = re.findall(r"^NSpid:(.*)$", Path("/proc/self/status").read_text(), re.MULTILINE) or [""]
    return len(ids.split()) <= 1


#: Files that show that this process lives: a forked child that kept them open would do so after its death. Programs do
#: not inherit them, as they are close-on-exec.
_files: "weakref.WeakSet[IO[bytes]]" = weakref.WeakSet()


def closed_in_forks(file: IO[bytes]) -> None:
    """Closes that file in every child that Python forks from now on (os.fork, multiprocessing)."""
    _files.add(file)


def _close() -> None:
    for each in list(_files):
        each.close()


os.register_at_fork(after_in_child=_close)
