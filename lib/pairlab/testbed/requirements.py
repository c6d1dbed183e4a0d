"""What a host may lack: programs, room for neighbours, open files, a congestion control. The host is not changed."""

import importlib.util
import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairlab.errors import Unavailable
from pairlab.testbed.cleanup import child_environment

#: Hard limit of the kernel's table of neighbours, which only the host's own network namespace shows.
NEIGHBOUR_LIMIT = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
#: Neighbour entries left to the host itself and to what else runs on it.
SPARE_NEIGHBOURS = 16

#: Open files of a process that measures, such as a notebook's kernel, and for each endpoint.
OPEN_FILES, OPEN_FILES_EACH = 512, 4
#: With fewer than these, and one for each endpoint, a testbed cannot be.
LEAST_OPEN_FILES = 64

#: A program that does not say its version within this time has none that we know.
_VERSION_TIMEOUT_S = 5.0

#: Settings of TCP; those of congestion control are only visible in the host's own network namespace.
TCP_SETTINGS = Path("/proc/sys/net/ipv4")
#: In a site's facts, the congestion control that its endpoints' routes have.
ROUTED = "route_congestion_control"


@dataclass(frozen=True)
class Lack:
    """Something this host does not have: what is missing, and how to get it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


@dataclass(frozen=True)
class Program:
    """A program that a plugin runs; `package` is the Debian package that contains it.

    remedy: how to get it where no package contains it; `package` is then empty.
    """

    name: str
    package: str
    remedy: str = ""

    def path(self) -> str | None:
        """Where it is on this host. The sbin folders count too: a user's PATH often lacks them."""
        return shutil.which(self.name, path=os.environ.get("PATH", os.defpath) + ":/usr/local/sbin:/usr/sbin:/sbin")

    def lack(self) -> Lack | None:
        if self.path():
            return None
        return Lack(f"{self.name} is not installed", self.remedy or f"sudo apt-get install {self.package}")

    def first_line(self, *arguments: str) -> str:
        """What it prints first with these arguments, to stdout or else to stderr; empty where it cannot be run."""
        if not (path := self.path()):
            return ""
        try:
            done = subprocess.run(
                [path, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_VERSION_TIMEOUT_S,
                check=False,
                env=child_environment.needed(),
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return next(iter((done.stdout + done.stderr).strip().splitlines()), "")


@dataclass(frozen=True)
class PythonPackage(Program):
    """A package of the Python that pairlab runs with, which endpoints without an image of their own have, too."""

    def path(self) -> str | None:
        found = importlib.util.find_spec(self.name)
        return found.origin if found else None


#: The device by which programs have links of their own (tun(4)).
TUN = "/dev/net/tun"


def missing_tun(needed_by: str) -> list[Lack]:
    """What is missing for that to make links of its own by the kernel's TUN device."""
    if os.access(TUN, os.R_OK | os.W_OK):
        return []
    return [Lack(f"{needed_by} needs {TUN}", f"sudo chmod a+rw {TUN}, or run as root")]


def missing_neighbours(pairs: int) -> list[Lack]:
    """What is missing for the kernel to learn every endpoint's neighbour (arp(7)).

    Its table is one for all network namespaces of the host. In a full table nothing can be added, so connections
    would fail with "No route to host". Permanent entries do not count.
    """
    needed, limit = 2 * pairs + SPARE_NEIGHBOURS, _neighbour_limit()
    if limit is None or needed <= limit:
        return []
    what = f"the kernel's neighbour table has room for {limit} entries; {pairs} pairs need {needed}"
    return [Lack(what, f"sudo sysctl -w net.ipv4.neigh.default.gc_thresh3={2 * needed}, or fewer pairs")]


def missing_open_files(endpoints: int) -> list[Lack]:
    """What is missing for this process to hold a control connection, or a network namespace, of every endpoint."""
    needed, (_, most) = LEAST_OPEN_FILES + endpoints, resource.getrlimit(resource.RLIMIT_NOFILE)
    if needed <= most:
        return []
    what = f"{endpoints} endpoints need {needed} open files, and this process may have {most}"
    return [Lack(what, "raise the hard limit (ulimit -Hn, limits.conf, systemd's LimitNOFILE), or take fewer pairs")]


def allow_open_files(endpoints: int = 0) -> None:
    """Raises this process's soft limit, which its children inherit, as far as a testbed of that size can need."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < (wanted := min(most, OPEN_FILES + OPEN_FILES_EACH * endpoints)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def missing_congestion_control(name: str, *, by_route: Sequence[Lack], tool: str, chooses: bool) -> list[Lack]:
    """What is missing for TCP in the endpoints to use that congestion control (tcp(7)); "" is the kernel's default.

    by_route: what is missing to set it on their routes. Without that, it must be the host's default, or the tool must
    have an option for it (chooses), and the host allow it to all.
    """
    available, allowed = _listed("tcp_available_congestion_control"), _listed("tcp_allowed_congestion_control")
    if name and available is not None and name not in available:
        what = f"this kernel has no congestion control {name!r}; it has: {', '.join(available)}"
        return [Lack(what, f"sudo modprobe tcp_{name}, or choose another")]
    if not name or not by_route or _listed("tcp_congestion_control") == [name]:
        return []
    why, remedies = by_route[0].what, by_route[0].remedy
    if not chooses:
        what = f"workload {tool!r} cannot choose the congestion control {name!r}, and {why}"
        return [
            Lack(what, f"{remedies}, or another workload, or sudo sysctl -w net.ipv4.tcp_congestion_control={name}")
        ]
    if allowed is None or name in allowed:
        return []
    what = f"tools may not choose the congestion control {name!r}, only: {', '.join(allowed)}; and {why}"
    setting = f"net.ipv4.tcp_allowed_congestion_control='{' '.join([*allowed, name])}'"
    return [Lack(what, f"{remedies}, or sudo sysctl -w {setting}")]


def require(lacks: Mapping[str, Sequence[Lack]]) -> None:
    """Raises Unavailable, naming all that is missing and how to get it, unless nothing is. lacks: by what needs it."""
    if missing := {needed_by: found for needed_by, found in lacks.items() if found}:
        raise Unavailable(
            "; ".join(f"{needed_by}: {'; '.join(map(str, found))}" for needed_by, found in missing.items())
        )


def kernel_setting(file: Path) -> str:
    """What a setting of the kernel in /proc/sys is, for a text: "unknown" where it cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return "unknown"


def _neighbour_limit() -> int | None:
    try:
        return int(NEIGHBOUR_LIMIT.read_text())
    except (OSError, ValueError):
        return None


def _listed(setting: str) -> list[str] | None:
    try:
        return (TCP_SETTINGS / setting).read_text().split()
    except OSError:  # a network namespace of its own does not see the host's
        return None
