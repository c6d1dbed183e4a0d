"""Sandbox: a process with namespaces of its own, in which a testbed runs and with which it ends.

It has network, mount and PID namespaces, and where pairlab may not make those, a user namespace too (unshare(1),
user_namespaces(7)). When its first process ends, the kernel kills every process in it and removes every link,
namespace and mount: nothing has to be cleaned up, and nothing can be left.
"""

import errno
import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.errors import MeasurementFailed, TestbedError, Unavailable
from pairlab.testbed.cleanup import child_processes
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import Link, Uplink
from pairlab.testbed.netns import protocol
from pairlab.testbed.requirements import (
    MissingRequirement,
    Program,
    allow_namespaces,
    missing_programs,
    namespace_limit,
    setting,
)

UNSHARE = Program("unshare", "util-linux")
SYSCTLS = Path("/proc/sys")
#: The namespaces of a sandbox, by the names in their limits.
_KINDS = ("net", "mnt", "pid")


#: Bits of capabilities(7): the capabilities to set up links, and to make namespaces.
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21


def privileged() -> bool:
    """Whether we may make namespaces without a user namespace. Root in a container often may not."""
    status = Path("/proc/self/status").read_text()
    (effective,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    return all(effective >> bit & 1 for bit in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


def command() -> list[str]:
    """unshare's command line on this host: with a user namespace only where needed."""
    rootless = [] if privileged() else ["--user", "--map-root-user"]
    program = UNSHARE.command
    return [program, *rootless, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


@functools.cache
def missing() -> MissingRequirement | None:
    """Why no sandbox can be made on this host, or None. Tries one with a command that does nothing."""
    if missing := UNSHARE.missing():
        return missing
    # Setting loopback up shows whether we have the capabilities: AppArmor may grant the namespace without them.
    trial = [*command(), sys.executable, "-P", "-c", _SET_LOOPBACK_UP]
    in_english = child_processes.needed() | {"LC_ALL": "C"}
    done = subprocess.run(trial, env=in_english, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    remedy = _of_limits() if os.strerror(errno.ENOSPC) in why else _remedy()
    return MissingRequirement(f"no sandbox can be made (unshare: {why.removeprefix('unshare: ')})", remedy)


_SET_LOOPBACK_UP = """
import fcntl, socket, struct
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
"""


def _of_limits() -> str:
    """The remedy, by the kernel's limits of namespaces: those of which a sandbox gets none, else any that may be used
    up.
    """
    kinds = [*_KINDS, *([] if privileged() else ["user"])]
    limits = {kind: limit for kind in kinds if (limit := namespace_limit(kind, SYSCTLS / "user")) is not None}
    least = min(limits.values(), default=0)
    reached = " and ".join(f"user.max_{kind}_namespaces is {limit}" for kind, limit in limits.items() if limit == least)
    allow = " ".join(allow_namespaces(kind) for kind, limit in limits.items() if limit == least)
    if least == 0 and limits:
        return f"{reached}, and a sandbox needs 1: {allow}"
    return (
        f"all namespaces that this user may have are in use ({reached or 'the limit is not known'}): end what has them,"
        f" or {allow or allow_namespaces('net')}, also outside of the container if this is one"
    )


def _remedy() -> str:
    """The remedy, by the kernel's settings of user namespaces."""
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
        if setting(SYSCTLS / path) == off:
            return f"sudo sysctl -w {path.replace('/', '.')}={on}, or run pairlab as root"
    return "allow user namespaces for this user, or run pairlab as root"


#: Kinds of link that pairlab's drivers use: probed together, as a sandbox takes longer than a probe.
_USUAL_KINDS = ("bridge", "dummy", "ipip", "ipvlan", "macvlan", "netkit", "veth", "vxlan")
#: The remedy for kinds that are not modules.
_BUILT_IN = {"netkit": "boot Linux 6.7 or newer, built with CONFIG_NETKIT"}


def missing_links(driver: type[NetworkDriver]) -> list[MissingRequirement]:
    """The kinds of link that this driver needs and the kernel lacks: probed in a sandbox."""
    return missing_kinds(driver.links, f"leave {driver.name!r} out")


def missing_kinds(kinds: tuple[str, ...], otherwise: str) -> list[MissingRequirement]:
    """The kinds of link that the kernel lacks, with remedies. otherwise: the alternative to a module."""
    supported = _probed("kinds_there", tuple(sorted({*_USUAL_KINDS, *kinds}))) if kinds else {}
    return [
        MissingRequirement(
            f"this kernel has no {kind} links", f"{_BUILT_IN.get(kind, f'sudo modprobe {kind}')}, or {otherwise}"
        )
        for kind in kinds
        if not supported[kind]
    ]


def missing_shaping(links: Collection[Link]) -> list[MissingRequirement]:
    """The missing requirements of such links."""
    return [lack for link in dict.fromkeys(links) for lack in _probed("missing_shaping", link)]


def missing_probed(driver: type[NetworkDriver]) -> list[MissingRequirement]:
    """The kernel features that the driver probes for and lacks."""
    if driver.probe is NetworkDriver.probe or missing_programs(driver.programs):
        return []
    return _probed("missing_probed", import_path(driver), driver.name)


def missing_uplink(uplink: Uplink) -> list[MissingRequirement]:
    """The missing requirements of such an uplink."""
    return _probed("missing_uplink", uplink) if uplink.rate_bps or uplink.by_netem else []


@functools.cache
def _probed(name: str, *arguments: Any) -> Any:
    """The result of that method of the agent, in a sandbox made for this probe."""
    with Sandbox() as probe:
        return probe.call(name, *arguments)


def import_path(driver: type[NetworkDriver]) -> str:
    """The driver's class as the sandbox's agent imports it, module:Class."""
    return f"{driver.__module__}:{driver.__qualname__}"


class Sandbox:
    """A running sandbox. Use as a context manager; leaving it ends everything inside.

    directory: for the agent's files; removed when the parent has ended. inherit: our descriptors for its use. agent:
    the module that runs in it. confined: False: it has no namespaces of its own, as what it is for is elsewhere.
    """

    def __init__(
        self,
        directory: Path | None = None,
        inherit: Sequence[int] = (),
        agent: str = "pairlab.testbed.netns.agent",
        *,
        confined: bool = True,
    ):
        if confined and (lacking := missing()):
            raise Unavailable(str(lacking))
        ours, theirs = socket.socketpair()
        # With it all that it starts: switches, launchers, traffic tools; outside, ssh needs its agent.
        environment = child_processes.needed() if confined else child_processes.needed_with_docker()
        with theirs:
            argv = [sys.executable, "-P", "-m", agent, str(theirs.fileno()), str(directory or "")]
            self._process = subprocess.Popen(
                [*(command() if confined else []), *argv],
                pass_fds=[theirs.fileno(), *inherit],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=environment,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for us to handle
            )
        self._connection = Connection(ours.detach())

    def call(self, name: str, *arguments: Any, progress: Callable[[int], None] = lambda done: None) -> Any:
        """Calls that method of the agent. Raises its error, or TestbedError when the sandbox is gone.

        progress: called with the method's progress, if it reports any.
        """
        try:
            protocol.send(self._connection, (name, arguments))
            return protocol.result(self._connection, progress)
        except (EOFError, OSError) as error:
            raise TestbedError(f"the sandbox ended during {name!r}: {self._last_words() or repr(error)}") from error
        except (ValueError, TypeError) as error:
            raise TestbedError(f"the sandbox answered {name!r} with what is no answer: {error}") from error

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets sent at the driver's ports; None without ports."""
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
        """The sandbox's last output, or how it ended; empty while it still runs."""
        try:
            _, stderr = self._process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            return ""
        words = stderr.decode(errors="replace").strip()[-500:]
        # When the agent is killed, unshare tries to end by the same signal; version 2.38 reports that it cannot.
        killed = self._process.returncode < 0 or "sigprocmask unblock failed" in words
        return "it was killed" if killed else words or f"it ended with {self._process.returncode}"

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
