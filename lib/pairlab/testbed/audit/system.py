"""What else a testbed could leave on a host: containers, processes, settings, cgroups, files and mounts.

One function for each kind, as in network.py.
"""

import contextlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from pairlab.testbed.audit.attribution import OTHERS, OURS, UNKNOWN, combined
from pairlab.testbed.audit.view import NAMED_NAMESPACES, Thing, View, entries, require_docker, whose_namespace_file
from pairlab.testbed.cleanup.process_table import CONTAINER
from pairlab.testbed.cleanup.workdir import PREFIX
from pairlab.testbed.host.cgroup_tree import mounts as mounted

CGROUPS = Path("/sys/fs/cgroup")
SYSCTLS = Path("/proc/sys")
#: Sysctls that the kernel itself counts, or changes with a link or a module that comes and goes.
VOLATILE = re.compile(
    r"net/netfilter/nf_conntrack_count|net/core/netdev_rss_key|net/ipv4/tcp_available_congestion_control"
    r"|net/ipv4/tcp_fastopen_key|.*/(flush|stable_secret)|vm/(stat_refresh|drop_caches|compact_memory)"
    r"|net/(ipv4|ipv6|mpls)/(conf|neigh)/(?!all/|default/)[^/]+/.*"
)
#: Made once by tools of the system that all share: a lock's file is no left-over.
SHARED_FILES = ("/run/xtables.lock",)


def containers(view: View) -> Iterator[Thing]:
    """Docker's containers, running or not."""
    require_docker(view.docker)
    for each in view.docker.containers:
        yield Thing("container", each["Id"][:12], view.containers[each["Id"]], each["Name"].removeprefix("/"))


def processes(view: View) -> Iterator[Thing]:
    """All processes but the kernel's own."""
    for pid, each in view.attribution.processes.items():
        yield Thing("process", each.name, view.attribution.whose(pid), each.command)


def sysctls(view: View) -> Iterator[Thing]:
    """Settings of the network, the scheduler and memory, with their values."""
    for folder, names, files in os.walk(SYSCTLS / "net"):
        names.sort()
        yield from _read_sysctls(os.path.join(folder, name) for name in files)
    yield from _read_sysctls(map(str, (SYSCTLS / "vm").iterdir()))
    yield from _read_sysctls(map(str, (SYSCTLS / "kernel").glob("sched*")))


def _read_sysctls(files: Iterable[str]) -> Iterator[Thing]:
    """By path, and not as Path: of hundreds of files, that takes most of the time of a snapshot."""
    for file in files:
        name = file.removeprefix(f"{SYSCTLS}/")
        if not VOLATILE.fullmatch(name):
            with contextlib.suppress(OSError), open(file, errors="replace") as opened:  # some are write-only
                yield Thing("sysctl", name, UNKNOWN, " ".join(opened.read().split()))


def cgroups(view: View) -> Iterator[Thing]:
    """Groups of every hierarchy. pairlab's bear its name; Docker's a container's id."""
    for folder, names, _ in os.walk(CGROUPS):
        for name in names:
            path = Path(folder, name)
            if container := CONTAINER.search(str(path)):
                whose = view.attribution.whose_container(container[0])
            elif ours := re.search(rf"/{PREFIX}([0-9]+@[0-9a-f.]+)-([^/]+)", str(path)):
                whose = view.attribution.whose_testbed(ours[2], ours[1])
            else:
                whose = OURS if PREFIX in name else OTHERS
            yield Thing("cgroup", str(path), whose)


def temporary_files(view: View) -> Iterator[Thing]:
    """Entries of the folders for temporary files, and of Jupyter's for running kernels.

    In /tmp pairlab itself makes only what bears its name; what its libraries make is in TMPDIR.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    own = Path(tempfile.gettempdir())
    runtime = Path(jupyter_runtime_dir())
    holders = _by_top({Path("/tmp"), Path("/dev/shm"), Path("/run"), own, runtime}, view)
    for folder, held in holders.items():
        for file in entries(folder):
            if str(file) in SHARED_FILES or file in holders:
                continue
            users = held.get(file.name, ())
            whose = OTHERS if users and all(view.attribution.whose(pid) == OTHERS for pid in users) else UNKNOWN
            if file.name.startswith(PREFIX):
                whose = _whose_directory(view, file)
            elif folder == runtime:
                users = [pid for pid, each in view.attribution.processes.items() if str(file) in " ".join(each.words)]
                whose = combined(view.attribution.whose(pid) for pid in users) if users else UNKNOWN
            elif folder == Path("/tmp") != own:
                whose = OTHERS
            yield Thing("temporary file", str(file), whose)


def _by_top(folders: set[Path], view: View) -> dict[Path, dict[str, set[int]]]:
    """For each folder, by entry: which processes have something open at or below it."""
    found: dict[Path, dict[str, set[int]]] = {folder: {} for folder in sorted(folders)}
    for path, pids in view.open_files.items():
        for folder, held in found.items():
            if path.startswith(f"{folder}/"):
                held.setdefault(path[len(str(folder)) + 1 :].split("/")[0], set()).update(pids)
    return found


def _whose_directory(view: View, directory: Path) -> str:
    owner = ""
    with contextlib.suppress(OSError):
        owner = (directory / "owner").read_text()
    return view.attribution.whose_testbed(directory.name.removeprefix(PREFIX), owner)


def mounts(view: View) -> Iterator[Thing]:
    """Mounts of the present mount namespace."""
    layers = {}
    for each in view.docker.containers:
        layers[(each["GraphDriver"]["Data"] or {}).get("MergedDir", "")] = each["Id"]
    for _, point, kind, _ in mounted():
        if container := layers.get(point) or ((known := CONTAINER.search(point)) and known[0]):
            whose = view.attribution.whose_container(container)
        elif Path(point).parent in NAMED_NAMESPACES:
            whose = whose_namespace_file(view, Path(point))
        else:
            whose = OURS if PREFIX in point else UNKNOWN
        yield Thing("mount", point, whose, kind)


def conntrack_entries() -> int | None:
    """How many connections the kernel tracks in this network namespace; None where tracking is off."""
    with contextlib.suppress(OSError):
        return int((SYSCTLS / "net/netfilter/nf_conntrack_count").read_text())
    return None
