"""Requirements of the host: programs, neighbour entries, open files, congestion control. The host is not changed."""

import importlib.util
import os
import resource
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairlab.errors import Unavailable
from pairlab.testbed.cleanup import child_processes

#: The hard limit of the kernel's neighbour table, visible in the host's own network namespace only.
NEIGHBOUR_LIMIT = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
#: Neighbour entries reserved for the host and its other programs.
SPARE_NEIGHBOURS = 16

#: The kernel's limits of a user's namespaces, as the present user namespace has them (namespaces(7)); outer ones, and
#: how many are in use, cannot be read.
NAMESPACE_LIMITS = Path("/proc/sys/user")
#: As many as a machine of usual size allows by itself.
_NAMESPACES = 15_000

#: Open files of the measuring process, such as a notebook's kernel, and of each endpoint.
OPEN_FILES, OPEN_FILES_EACH = 512, 4
#: The fewest open files of a testbed, besides one for each endpoint.
LEAST_OPEN_FILES = 64

#: The timeout of a program that prints its version; then the version is unknown.
_VERSION_TIMEOUT_S = 5.0

#: Settings of TCP; those of congestion control are only visible in the host's own network namespace.
TCP_SETTINGS = Path("/proc/sys/net/ipv4")
#: The fact of a site with the congestion control of its endpoints' routes.
ROUTED = "route_congestion_control"


@dataclass(frozen=True)
class MissingRequirement:
    """A missing requirement of this host: its description, and how to get it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def lacking(what: str, remedy: str) -> list[MissingRequirement]:
    """That one missing requirement, as what returns them has it: in a list."""
    return [MissingRequirement(what, remedy)]


@dataclass(frozen=True)
class Program:
    """A program that a plugin runs; `package` is the Debian package that contains it.

    remedy: how to get it if no package contains it; `package` is then empty.
    """

    name: str
    package: str
    remedy: str = ""

    def path(self) -> str | None:
        """The program's path on this host, or None."""
        return shutil.which(self.name, path=child_processes.search_path())

    @property
    def command(self) -> str:
        """The program's path, or its name if not found, which the error then shows."""
        return self.path() or self.name

    def missing(self) -> MissingRequirement | None:
        if self.path():
            return None
        return MissingRequirement(
            f"{self.name} is not installed", self.remedy or f"sudo apt-get install {self.package}"
        )

    def first_line(self, *arguments: str) -> str:
        """The first line of its output with these arguments, on stdout or else stderr; empty if it cannot be run."""
        if not (path := self.path()):
            return ""
        try:
            completed = subprocess.run(
                [path, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_VERSION_TIMEOUT_S,
                check=False,
                env=child_processes.needed(),
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return next(iter((completed.stdout + completed.stderr).strip().splitlines()), "")


@dataclass(frozen=True)
class PythonPackage(Program):
    """A package of pairlab's Python; endpoints without an image of their own have it too."""

    def path(self) -> str | None:
        module = importlib.util.find_spec(self.name)
        return module.origin if module else None


@dataclass(frozen=True)
class _WatchdogProgram(Program):
    """A program that watchdogs run, whose PATH has the usual folders whatever the user's has."""

    def path(self) -> str | None:
        return shutil.which(self.name, path=child_processes.search_path(*child_processes.USUAL))


#: What watchdogs run, besides the shell.
WATCHDOGS = tuple(_WatchdogProgram(name, "coreutils") for name in ("mktemp", "rm", "rmdir", "sleep"))


def missing_programs(programs: Iterable[Program]) -> list[MissingRequirement]:
    """The programs that are missing on this host."""
    return [missing for each in programs if (missing := each.missing())]


#: The device for links made by programs (tun(4)).
TUN = "/dev/net/tun"


def missing_tun(needed_by: str) -> list[MissingRequirement]:
    """Missing access to the kernel's TUN device. needed_by: the program that makes links with it."""
    if os.access(TUN, os.R_OK | os.W_OK):
        return []
    return lacking(f"{needed_by} needs {TUN}", f"sudo chmod a+rw {TUN}, or run as root")


def missing_neighbours(pairs: int) -> list[MissingRequirement]:
    """Missing room in the kernel's neighbour table (arp(7)) for every endpoint's entry.

    All network namespaces of the host share the table. Once it is full, connections fail with "No route to host".
    Permanent entries do not count.
    """
    needed, limit = 2 * pairs + SPARE_NEIGHBOURS, setting(NEIGHBOUR_LIMIT) or ""
    if not limit.isdecimal() or needed <= int(limit):
        return []
    what = f"the kernel's neighbour table has room for {limit} entries; {pairs} pairs need {needed}"
    return lacking(what, f"sudo sysctl -w net.ipv4.neigh.default.gc_thresh3={2 * needed}, or fewer pairs")


def namespace_limit(kind: str, limits: Path | None = None) -> int | None:
    """How many namespaces of that kind (net, mnt, pid, user) a user may have; None: not known. limits: their folder."""
    limit = setting((limits or NAMESPACE_LIMITS) / f"max_{kind}_namespaces") or ""
    return int(limit) if limit.isdecimal() else None


def allow_namespaces(kind: str, needed: int = 1) -> str:
    """The command that allows as many."""
    return f"sudo sysctl -w user.max_{kind}_namespaces={max(_NAMESPACES, 2 * needed)}"


def missing_namespaces(needed: int, needed_by: str) -> list[MissingRequirement]:
    """Missing room for so many network namespaces. needed_by: whose they are, such as "5 pairs"."""
    limit = namespace_limit("net")
    if limit is None or needed <= limit:
        return []
    what = f"user.max_net_namespaces is {limit}, and {needed_by} need {needed} network namespaces"
    return lacking(what, f"{allow_namespaces('net', needed)}, or fewer pairs")


def missing_open_files(endpoints: int) -> list[MissingRequirement]:
    """Missing open files for a control connection, or a network namespace, of every endpoint in this process."""
    needed, (_, most) = LEAST_OPEN_FILES + endpoints, resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed <= most:
        return []
    what = f"{endpoints} endpoints need {needed} open files, and this process may have {most}"
    return lacking(what, "raise the hard limit (ulimit -Hn, limits.conf, systemd's LimitNOFILE), or take fewer pairs")


def allow_open_files(endpoints: int = 0) -> None:
    """Raises the soft limit of open files, which children inherit, as far as a testbed of that size needs."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < (wanted := min(most, OPEN_FILES + OPEN_FILES_EACH * endpoints)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def congestion_controls() -> list[str]:
    """The kernel's present congestion controls; empty if it does not list them. Modules may add others."""
    return _listed("tcp_available_congestion_control") or []


def missing_congestion_control(
    name: str, *, by_route: Sequence[MissingRequirement], tool: str, chooses: bool
) -> list[MissingRequirement]:
    """Missing requirements for that congestion control (tcp(7)) in the endpoints; name: "" is the kernel's default.

    by_route: missing requirements for setting it on their routes. Without routes, it must be the host's default, or the
    tool must have an option for it (chooses) and the host must allow it to unprivileged processes.
    """
    available, allowed = _listed("tcp_available_congestion_control"), _listed("tcp_allowed_congestion_control")
    if name and available is not None and name not in available:
        what = f"this kernel has no congestion control {name!r}; it has: {', '.join(available)}"
        return lacking(what, f"sudo modprobe tcp_{name}, or choose another")
    if not name or not by_route or _listed("tcp_congestion_control") == [name]:
        return []
    why, remedies = by_route[0].what, by_route[0].remedy
    if not chooses:
        what = f"workload {tool!r} cannot choose the congestion control {name!r}, and {why}"
        return lacking(
            what, f"{remedies}, or another workload, or sudo sysctl -w net.ipv4.tcp_congestion_control={name}"
        )
    if allowed is None or name in allowed:
        return []
    what = f"tools may not choose the congestion control {name!r}, only: {', '.join(allowed)}; and {why}"
    setting = f"net.ipv4.tcp_allowed_congestion_control='{' '.join([*allowed, name])}'"
    return lacking(what, f"{remedies}, or sudo sysctl -w {setting}")


def require(lacks: Mapping[str, Sequence[MissingRequirement]]) -> None:
    """Raises Unavailable, with all missing requirements and their remedies, if there are any. lacks: by their need."""
    if missing := {needed_by: absent for needed_by, absent in lacks.items() if absent}:
        raise Unavailable(
            "; ".join(f"{needed_by}: {'; '.join(map(str, absent))}" for needed_by, absent in missing.items())
        )


def setting(file: str | Path) -> str | None:
    """The text of a system file, such as a setting in /proc/sys; None if it cannot be read."""
    try:
        return Path(file).read_text().strip()
    except OSError:
        return None


def read_file(file: str | Path, most_bytes: int) -> bytes | None:
    """The beginning of a system file, by system calls alone; None where it is gone, not for reading, or not for us."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.read(descriptor, most_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _listed(name: str) -> list[str] | None:
    """The words of a TCP setting; None if the present network namespace does not show the host's."""
    text = setting(TCP_SETTINGS / name)
    return None if text is None else text.split()
