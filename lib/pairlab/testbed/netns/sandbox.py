"""Sandbox: a process with namespaces of its own, in which a testbed runs and with which it ends.

Its own network, mount and PID namespaces, and where pairlab may not make those a user namespace too (unshare(1),
user_namespaces(7)). When its first process ends, the kernel kills every process in it and removes every link,
namespace and mount: nothing has to be cleaned up, and nothing can be left.
"""

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab import errors
from pairlab.errors import MeasurementFailed, TestbedError, Unavailable
from pairlab.testbed.cleanup import child_environment
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import Link, Uplink
from pairlab.testbed.netns import protocol
from pairlab.testbed.requirements import Lack, Program

UNSHARE = Program("unshare", "util-linux")
SYSCTLS = Path("/proc/sys")


#: Bits of capabilities(7): what it takes to make namespaces, and to set up links in them.
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21


def privileged() -> bool:
    """Whether we may make namespaces without a user namespace. Root in a container often may not."""
    status = Path("/proc/self/status").read_text()
    (effective,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    return all(effective >> bit & 1 for bit in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


def command() -> list[str]:
    """unshare's command line here: a user namespace only where it takes one."""
    rootless = [] if privileged() else ["--user", "--map-root-user"]
    program = UNSHARE.path() or UNSHARE.name
    return [program, *rootless, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@functools.cache
def lack() -> Lack | None:
    """Why no sandbox can be made on this host, or None. Tries one with a command that does nothing."""
    if missing := UNSHARE.lack():
        return missing
    # Setting loopback up shows whether we have the capabilities: AppArmor may grant the namespace without them.
    trial = [*command(), sys.executable, "-P", "-c", _SET_LOOPBACK_UP]
    done = subprocess.run(trial, env=child_environment.needed(), cwd="/", capture_output=True, text=True, check=False)
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
    """What to do about it, from the kernel's settings of user namespaces."""
    if os.geteuid() == 0:
        return (
            "this root lacks CAP_SYS_ADMIN (a container?): start it with --security-opt seccomp=unconfined and"
            " --security-opt systempaths=unconfined, as .devcontainer does, or run on the host"
        )
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


#: Kinds that pairlab's drivers use: tried together, as a sandbox takes longer than a try.
_USUAL_KINDS = ("bridge", "dummy", "ipip", "ipvlan", "macvlan", "netkit", "veth", "vxlan")
#: How to get kinds that are no modules.
_BUILT_IN = {"netkit": "boot Linux 6.7 or newer, built with CONFIG_NETKIT"}


def missing_links(driver: type[NetworkDriver]) -> list[Lack]:
    """The kinds of link that this driver needs and the kernel does not have: tried in a sandbox."""
    return missing_kinds(driver.links, f"leave {driver.name!r} out")


def missing_kinds(kinds: tuple[str, ...], otherwise: str) -> list[Lack]:
    """Those of these kinds of link that the kernel does not have, and what to do without them."""
    known = _known_links(tuple(sorted({*_USUAL_KINDS, *kinds}))) if kinds else {}
    return [
        Lack(f"this kernel has no {kind} links", f"{_BUILT_IN.get(kind, f'sudo modprobe {kind}')}, or {otherwise}")
        for kind in kinds
        if not known[kind]
    ]


@functools.cache
def _known_links(kinds: tuple[str, ...]) -> dict[str, bool]:
    with Sandbox() as probe:
        return probe.call("kinds_there", kinds)


def missing_shaping(links: Collection[Link]) -> list[Lack]:
    """What this host misses to shape links so: tried in a sandbox."""
    return [lack for link in dict.fromkeys(links) for lack in _missing_shaping(link)]


@functools.cache
def missing_probed(driver: type[NetworkDriver]) -> list[Lack]:
    """What the kernel lacks for what the driver tries beforehand: tried in a sandbox."""
    if driver.probe is NetworkDriver.probe or any(program.lack() for program in driver.programs):
        return []
    with Sandbox() as probe:
        return probe.call("lacks_probed", f"{driver.__module__}:{driver.__qualname__}", driver.name)


@functools.cache
def missing_uplink(uplink: Uplink) -> list[Lack]:
    """What this host misses to shape an uplink so: tried in a sandbox."""
    if not (uplink.rate_bps or uplink.delay_s):
        return []
    with Sandbox() as probe:
        return probe.call("lacks_uplink", uplink)


@functools.cache
def _missing_shaping(link: Link) -> list[Lack]:
    with Sandbox() as probe:
        return probe.call("lacks_shaping", link)


class Sandbox:
    """A running sandbox. Use as a context manager; leaving it ends everything inside.

    directory: for the agent's files; removed when its parent has ended. inherit: descriptors of ours it may use.
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
                "pairlab.testbed.netns.agent",
                str(theirs.fileno()),
                str(directory or ""),
            ]
            self._process = subprocess.Popen(
                [*command(), *agent],
                pass_fds=[theirs.fileno(), *inherit],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=child_environment.needed(),  # and with it all that it starts: switches, launchers, traffic tools
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us to handle
            )
        self._connection = Connection(ours.detach())

    def call(self, name: str, *arguments: Any, progress: Callable[[int], None] = lambda done: None) -> Any:
        """Calls that method of the agent. Raises what it raised, or TestbedError when the sandbox is gone.

        progress: called meanwhile with how far it is, by methods that report it.
        """
        try:
            protocol.send(self._connection, (name, arguments))
            while (answer := self._answer())[0] == protocol.PROGRESS:
                progress(int(answer[1]))
        except (EOFError, OSError) as error:
            raise TestbedError(f"the sandbox ended during {name!r}: {self._last_words() or repr(error)}") from error
        except (ValueError, TypeError) as error:
            raise TestbedError(f"the sandbox answered {name!r} with what is no answer: {error}") from error
        good, found = answer
        if good is True:
            return found
        kind, message = found
        raise errors.by_name(kind)(message)

    def _answer(self) -> list:
        """The next message. Raises ValueError where it is none."""
        answer = protocol.receive(self._connection, protocol.OF_ANSWERS)
        if not isinstance(answer, list) or len(answer) != 2:
            raise ValueError("it is no pair")
        good, found = answer
        is_error = good is False and isinstance(found, list) and [type(each) for each in found] == [str, str]
        if not (good is True or good == protocol.PROGRESS or is_error):
            raise ValueError("it is neither a result nor an error")
        return answer

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that have gone out at the driver's ports; None where it has none."""
        counts = self.call("port_counts")
        return None if counts is None else (int(counts[0]), int(counts[1]))

    def check(self) -> None:
        """Raises MeasurementFailed where what was built in here is broken: then no measurement in it counts."""
        try:
            self.call("check")
        except TestbedError as error:
            raise MeasurementFailed(
                f"the testbed broke while it was in use: {error}. Does `dmesg` show that memory ran out?"
                " Measure again; fewer pairs need less memory"
            ) from error

    @property
    def pid(self) -> int:
        """The process whose end is the sandbox's end, by its id outside."""
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
            if self._process.stderr:
                self._process.stderr.close()

    def _last_words(self) -> str:
        """Its last output, or how it ended; empty where it still runs."""
        try:
            _, complaint = self._process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            return ""
        words = complaint.decode(errors="replace").strip()[-500:]
        # When the agent is killed, unshare tries to end in the same way, and 2.38 complains that it cannot.
        killed = self._process.returncode < 0 or "sigprocmask unblock failed" in words
        return "it was killed" if killed else words or f"it ended with {self._process.returncode}"

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
