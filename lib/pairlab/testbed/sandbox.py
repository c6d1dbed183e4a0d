"""Sandbox: a process with namespaces of its own, in which a testbed lives and with which it dies.

Its own network, mount and PID namespaces, and where pairlab is not root a user namespace too (unshare(1),
user_namespaces(7)). When its first process ends, the kernel kills every process in it and removes every link,
namespace and mount: there is nothing to clean up, so nothing can be left.
"""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab import errors
from pairlab.errors import TestbedError, Unavailable
from pairlab.testbed.contracts import Lack, NetworkDriver, Program

UNSHARE = Program("unshare", "util-linux")
SYSCTLS = Path("/proc/sys")


def command() -> list[str]:
    """unshare's command line here: a user namespace only where we are not root."""
    rootless = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [UNSHARE.path(), *rootless, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@functools.cache
def lack() -> Lack | None:
    """Why this host lets us make no sandbox, or None. Tries one with a command that does nothing."""
    if missing := UNSHARE.lack():
        return missing
    # Setting loopback up shows whether we really hold the rights: AppArmor grants the namespace and not them.
    trial = [*command(), sys.executable, "-c", _SET_LOOPBACK_UP]
    done = subprocess.run(trial, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Lack(f"no sandbox can be made (unshare: {why.removeprefix('unshare: ')})", _remedy())


_SET_LOOPBACK_UP = """
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
"""


def _remedy() -> str:
    """What to do about it, by what the kernel says of user namespaces, which only those need who are not root."""
    if os.geteuid() == 0:
        return "this root lacks CAP_SYS_ADMIN (a container?): give it --privileged, or run on the host"
    switches = {
        "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
        "kernel/unprivileged_userns_clone": ("0", "1"),
        "user/max_user_namespaces": ("0", "15000"),
    }
    for path, (off, on) in switches.items():
        file = SYSCTLS / path
        if file.exists() and file.read_text().strip() == off:
            return f"sudo sysctl -w {path.replace('/', '.')}={on}, or run pairlab as root"
    return "allow user namespaces for this user, or run pairlab as root"


def missing_links(driver: type[NetworkDriver]) -> list[Lack]:
    """The kinds of link that this driver needs and the kernel does not have: tried in a sandbox."""
    known = _known_links(driver.links) if driver.links else {}
    return [
        Lack(f"this kernel has no {kind} links", f"sudo modprobe {kind}, or leave {driver.name!r} out")
        for kind, there in known.items()
        if not there
    ]


@functools.cache
def _known_links(kinds: tuple[str, ...]) -> dict[str, bool]:
    with Sandbox() as probe:
        return probe.call("knows", kinds)


class Sandbox:
    """A running sandbox. Use as a context manager; leaving it ends everything inside.

    directory: where the agent may keep files; it removes it when we are gone. inherit: descriptors of ours it may use.
    """

    def __init__(self, directory: Path | None = None, inherit: Sequence[int] = ()):
        if missing := lack():
            raise Unavailable(str(missing))
        ours, theirs = socket.socketpair()
        with theirs:
            agent = [
                sys.executable,
                "-P",
                "-m",
                "pairlab.testbed.agent",
                str(theirs.fileno()),
                str(directory or ""),
            ]
            self._process = subprocess.Popen(
                [*command(), *agent],
                pass_fds=[theirs.fileno(), *inherit],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us to handle
            )
        self._connection = Connection(ours.detach())

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls that method of the agent. Raises what it raised, or TestbedError when the sandbox is gone."""
        try:
            self._connection.send((name, arguments))
            good, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise TestbedError(f"the sandbox ended during {name!r}: {self._last_words() or error!r}") from error
        if good:
            return answer
        kind, message = answer
        raise errors.by_name(kind)(message)

    @property
    def pid(self) -> int:
        """The process whose end is the sandbox's end, seen from outside."""
        return self._process.pid

    def close(self) -> None:
        """Ends the sandbox and waits until it is gone."""
        self._connection.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()  # unshare --kill-child takes the rest along
            self._process.wait()
        finally:
            self._process.stderr.close()

    def _last_words(self) -> str:
        try:
            _, told = self._process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            return ""
        return told.decode(errors="replace").strip()[-500:]

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
