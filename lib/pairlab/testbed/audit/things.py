"""The things that a testbed could leave on a host, kind by kind.

One function for each kind: it yields the kind's things, and raises Unseen if they cannot be read. Nothing is changed.
Attribution is cautious: only things known to be somebody else's count as others'; things without a sign are unknown.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pairlab.base.threads import run_in_thread
from pairlab.testbed.audit.view import (
    NAMED_NAMESPACES,
    OTHERS,
    OURS,
    UNKNOWN,
    Thing,
    Unseen,
    View,
    combined,
    entries,
    require_docker,
    whose_namespace_file,
)
from pairlab.testbed.cleanup.child_processes import search_path
from pairlab.testbed.cleanup.process_table import CONTAINER
from pairlab.testbed.cleanup.workdir import PREFIX, run_of
from pairlab.testbed.host.cgroups import mounts as mounted
from pairlab.testbed.requirements import setting

CGROUPS = Path("/sys/fs/cgroup")
SYSCTLS = Path("/proc/sys")
#: Sysctls that are the kernel's counters, or that change with links and modules.
VOLATILE = re.compile(
    r"net/netfilter/nf_conntrack_count|net/core/netdev_rss_key|net/ipv4/tcp_available_congestion_control"
    r"|net/ipv4/tcp_fastopen_key|.*/(flush|stable_secret)|vm/(stat_refresh|drop_caches|compact_memory)"
    r"|net/(ipv4|ipv6|mpls)/(conf|neigh)/(?!all/|default/)[^/]+/.*"
)
#: Files of system tools that all users share: a lock file is no leftover.
SHARED_FILES = ("/run/xtables.lock",)


def containers(view: View) -> Iterator[Thing]:
    """Docker's containers, running or not."""
    require_docker(view.docker)
    for each in view.docker.containers:
        yield Thing("container", each.id[:12], view.containers[each.id], each.name)


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
    """By str, not Path: Path objects of hundreds of files would take most of a snapshot's time."""
    for file in files:
        name = file.removeprefix(f"{SYSCTLS}/")
        if not VOLATILE.fullmatch(name):
            with contextlib.suppress(OSError), open(file, errors="replace") as opened:  # some are write-only
                yield Thing("sysctl", name, UNKNOWN, " ".join(opened.read().split()))


def cgroups(view: View) -> Iterator[Thing]:
    """Groups of every hierarchy. pairlab's have its name in theirs; Docker's have a container's id."""
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

    In /tmp, all of pairlab's own entries have its prefix; its libraries' entries are in TMPDIR.
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
    """For each folder, by entry: the processes with open files at or below it."""
    holders: dict[Path, dict[str, set[int]]] = {folder: {} for folder in sorted(folders)}
    for path, pids in view.open_files.items():
        for folder, held in holders.items():
            if path.startswith(f"{folder}/"):
                held.setdefault(path[len(str(folder)) + 1 :].split("/")[0], set()).update(pids)
    return holders


def _whose_directory(view: View, directory: Path) -> str:
    owner = ""
    with contextlib.suppress(OSError):
        owner = (directory / "owner").read_text()
    return view.attribution.whose_testbed(run_of(directory), owner)


def mounts(view: View) -> Iterator[Thing]:
    """Mounts of the present mount namespace."""
    roots = {each.root: each.id for each in view.docker.containers}
    for _, point, kind, _ in mounted():
        if container := roots.get(point) or ((match := CONTAINER.search(point)) and match[0]):
            whose = view.attribution.whose_container(container)
        elif Path(point).parent in NAMED_NAMESPACES:
            whose = whose_namespace_file(view, Path(point))
        else:
            whose = OURS if PREFIX in point else UNKNOWN
        yield Thing("mount", point, whose, kind)


def conntrack_entries() -> int | None:
    """The number of connections that the kernel tracks in this network namespace; None if tracking is off."""
    count = setting(SYSCTLS / "net/netfilter/nf_conntrack_count")
    return int(count) if count else None


#: Links of pairlab's: in a sandbox's network, and on the host below Docker's macvlan networks.
OUR_LINKS = re.compile(r"pairlab|pl[0-9a-z_]{8}x?$|(client|server)-[0-9]+$|parent[01]$")
COUNTERS = re.compile(r" ?\[[0-9]+:[0-9]+\] ?")


def networks(view: View) -> Iterator[Thing]:
    """Docker's networks."""
    require_docker(view.docker)
    for each in view.docker.networks:
        yield Thing("docker network", each.id[:12], view.networks[each.id], each.name)


def namespaces(view: View) -> Iterator[Thing]:
    """Network, mount, PID and user namespaces: those with processes, those held by descriptors, and named ones."""
    for space in view.inside.keys() | view.held.keys():
        inside, held = view.inside.get(space, set()), view.held.get(space, set())
        holders = inside | held
        if any(view.attribution.whose(pid) == OTHERS for pid in inside):
            whose = OTHERS  # it would be there without us
        elif view.attribution.observer in held:
            whose = OURS  # the observer forgot to close it
        else:
            whose = combined(view.attribution.whose(pid) for pid in holders)
        words = [process.command for pid in sorted(holders)[:1] if (process := view.attribution.processes.get(pid))]
        yield Thing("namespace", space, whose, "of " + (words[0] if words else "nobody"))
    for folder in NAMED_NAMESPACES:
        for file in entries(folder):
            if _is_mounted(file):  # Docker removes the others within a minute
                yield Thing("namespace", str(file), whose_namespace_file(view, file), "named")


def _is_mounted(file: Path) -> bool:
    """Whether a namespace is mounted there; else it is an empty file, left when one was unmounted."""
    try:
        return file.stat().st_dev != file.parent.stat().st_dev
    except OSError:  # gone meanwhile
        return False


def links(view: View) -> Iterator[Thing]:
    """Links of the present network namespace."""
    attributes = run_in_thread(_read_links)
    names = {each["index"]: each["name"] for each in attributes}
    aliases = {each["name"]: each["alias"] for each in attributes}
    for each in attributes:
        name, master = each["name"], names.get(each["master"], "")
        whose = view.of_network(name)
        if OUR_LINKS.match(name):
            alias = aliases.get(name) or aliases.get(name.removesuffix("x")) or ""
            whose = view.attribution.whose_testbed(name[2:10], alias) if name.startswith("pl") else OURS
        elif whose is None and each["kind"] == "veth" and master:
            whose = view.of_network(master)
        detail = [each["kind"], "up" if each["up"] else "down", f"mtu {each['mtu']}", each["qdisc"]]
        detail += [f"in {master}"] if master else []
        yield Thing("link", name, OTHERS if name == "lo" else whose or UNKNOWN, ", ".join(filter(None, detail)))


def _read_links() -> list[dict]:
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        return [
            {
                "index": link["index"],
                "name": link.get("ifname"),
                "master": link.get("master"),
                "alias": link.get("ifalias"),
                "kind": (link.get("linkinfo") or {}).get("kind") or "",
                "up": bool(link["flags"] & 1),
                "mtu": link.get("mtu"),
                "qdisc": link.get("qdisc"),
            }
            for link in ipr.get_links()
        ]


def switches(view: View) -> Iterator[Thing]:
    """Bridges and ports in the database of this host's Open vSwitch, if it runs; pairlab's switches are not in it."""
    socket = Path(os.environ.get("OVS_RUNDIR", "/run/openvswitch")) / "db.sock"
    if not socket.exists():
        return
    for table in ("Bridge", "Port"):
        output = _output(["ovs-vsctl", f"--db=unix:{socket}", "--timeout=5", "--format=json", "list", table])
        rows = json.loads(output)
        for row in rows["data"]:
            name = row[rows["headings"].index("name")]
            yield Thing("switch", f"{table.lower()} {name}", OURS if OUR_LINKS.match(name) else UNKNOWN)


def firewall(view: View) -> Iterator[Thing]:
    """Rules and chains of iptables and nftables, without counters; a rule's second copy is a thing of its own."""
    if os.geteuid() != 0:
        raise Unseen("only root may read the rules of the firewall")
    copies: Counter[str] = Counter()
    for rule in _rules():
        copies[rule] += 1
        again = f" (copy {copies[rule]})" if copies[rule] > 1 else ""
        bridges = re.findall(r"\b(?:br-[0-9a-f]{12}|docker0)\b", rule)
        whose = combined(view.of_network(bridge) or UNKNOWN for bridge in bridges) if bridges else UNKNOWN
        yield Thing("firewall rule", rule + again, whose)


def _rules() -> Iterator[str]:
    for program in ("iptables", "ip6tables"):
        table = ""
        for line in _printed(f"{program}-save"):
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith((":", "-")):
                yield f"{program} {table} {re.sub(COUNTERS, '', line)}"
    chain: list[str] = []
    for line in _printed("nft", "--stateless", "list", "ruleset"):
        words = line.strip()
        if words.endswith("{"):
            chain.append(words.removesuffix("{").strip())
        elif words == "}":
            chain.pop()
        elif words:
            yield f"nft {' '.join(chain)} {words}"


def _printed(program: str, *arguments: str) -> list[str]:
    """The lines that it prints; none where it is not installed."""
    path = shutil.which(program, path=search_path())
    return _output([path, *arguments]).splitlines() if path else []


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unseen(f"{argv[0]} does not answer: {error}") from error
    return done.stdout
