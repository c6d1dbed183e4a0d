"""What there is on this host that a testbed could leave behind, and whose it is: one function for each kind.

Each takes what is known of the host's processes and Docker, and yields things; Unseen says why a kind cannot be looked
at here. Nothing is changed. What is said of whose a thing is errs to one side: only what is known to be somebody else's
is called that; what bears no sign is unknown, and counts.
"""

import contextlib
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pairlab.testbed.aside import aside
from pairlab.testbed.kin import CONTAINER, OTHERS, OURS, UNKNOWN, Kin
from pairlab.testbed.workdir import PREFIX

NAMESPACES = ("net", "mnt", "pid", "user")
NAMED_NAMESPACES = (Path("/run/netns"), Path("/run/docker/netns"))
CGROUPS = Path("/sys/fs/cgroup")
SYSCTLS = Path("/proc/sys")

#: Links of pairlab's: in a sandbox's network, and on the host below Docker's macvlan networks.
OUR_LINKS = re.compile(r"pairlab|pl[0-9a-z_]{8}x?$|(client|server)-[0-9]+$|parent[01]$")
#: What the kernel itself counts in sysctls, or changes with a link or a module that comes and goes.
VOLATILE = re.compile(
    r"net/netfilter/nf_conntrack_count|net/core/netdev_rss_key|net/ipv4/tcp_available_congestion_control"
    r"|net/ipv4/tcp_fastopen_key|.*/(flush|stable_secret)|vm/(stat_refresh|drop_caches|compact_memory)"
    r"|net/(ipv4|ipv6|mpls)/(conf|neigh)/(?!all/|default/)[^/]+/.*"
)
COUNTERS = re.compile(r" ?\[[0-9]+:[0-9]+\] ?")
#: Made once by tools of the system that all share: a lock's file is no left-over.
SHARED_FILES = ("/run/xtables.lock",)


class Unseen(Exception):
    """This kind cannot be looked at here; the message says why."""


@dataclass(frozen=True)
class Thing:
    """One thing on the host. name: what tells it from others of its kind. told: what it is like."""

    kind: str
    name: str
    whose: str
    told: str = ""


@dataclass(frozen=True)
class Docker:
    """What a daemon said: containers as it inspects them, and networks. lack: why it said nothing, else empty."""

    containers: tuple[dict, ...] = ()
    networks: tuple[dict, ...] = ()
    lack: str = ""


def ask_docker() -> Docker:
    """All containers, stopped ones too, and all networks."""
    import docker
    from docker.errors import NotFound

    from pairlab.testbed.lifeline import DOCKER_ERRORS

    try:
        with contextlib.closing(docker.from_env(timeout=20)) as client:
            found = []
            for each in client.api.containers(all=True):
                with contextlib.suppress(NotFound):  # gone in between
                    found.append(_inspected(client, each["Id"]))
            return Docker(tuple(found), tuple(client.api.networks()))
    except DOCKER_ERRORS as error:
        return Docker(lack=f"no Docker daemon answers ({type(error).__name__})")


def _inspected(client, identity: str) -> dict:
    """What Docker says of that container. What is read of it here stays as it is while it runs, so it is asked once."""
    if identity not in _inspections:
        told = client.api.inspect_container(identity)
        if not told["State"]["Running"]:
            return told
        _inspections[identity] = told
    return _inspections[identity]


_inspections: dict[str, dict] = {}


class View:
    """What the kinds are judged by: whose the processes are, what Docker has, and who holds what open."""

    def __init__(self, kin: Kin, docker: Docker, containers: Mapping[str, str]):
        self.kin = kin
        self.docker = docker
        self.containers = containers
        self.networks = {each["Id"]: whose_labels(kin, each["Labels"]) for each in docker.networks}
        self.open_files: dict[str, set[int]] = {}
        self.held: dict[str, set[int]] = {}  # net:[4026531992]: who holds it by a descriptor
        self.inside: dict[str, set[int]] = {}  # and who is in it
        for pid in kin.processes:
            self._look_into(pid)

    def _look_into(self, pid: int) -> None:
        place = f"/proc/{pid}"
        for name in NAMESPACES:
            with contextlib.suppress(OSError):
                self.inside.setdefault(os.readlink(f"{place}/ns/{name}"), set()).add(pid)
        links = [f"{place}/cwd"]
        with contextlib.suppress(OSError):
            links += [f"{place}/fd/{number}" for number in os.listdir(f"{place}/fd")]
        for link in links:
            with contextlib.suppress(OSError):
                target = os.readlink(link)
                if target.startswith("/"):
                    self.open_files.setdefault(target, set()).add(pid)
                elif target.partition(":")[0] in NAMESPACES:
                    self.held.setdefault(target, set()).add(pid)

    def of_network(self, link: str) -> str | None:
        """Whose Docker network that bridge of the host belongs to; None for no bridge of Docker's."""
        if link in ("docker0", "docker_gwbridge"):
            return OTHERS
        if not link.startswith("br-"):
            return None
        return next((whose for network, whose in self.networks.items() if network.startswith(link[3:])), UNKNOWN)


def whose_labels(kin: Kin, labels: Mapping[str, str] | None) -> str:
    """Whose a container or network is: all of pairlab's bear its label."""
    from pairlab.testbed.lifeline import LABEL

    if not labels or LABEL not in labels:
        return OTHERS
    return kin.whose_testbed(labels[LABEL], labels.get("pairlab.owner", ""))


def containers(view: View) -> Iterator[Thing]:
    """Docker's containers, running or not."""
    _answered(view.docker)
    for each in view.docker.containers:
        yield Thing("container", each["Id"][:12], view.containers[each["Id"]], each["Name"].removeprefix("/"))


def networks(view: View) -> Iterator[Thing]:
    """Docker's networks."""
    _answered(view.docker)
    for each in view.docker.networks:
        yield Thing("docker network", each["Id"][:12], view.networks[each["Id"]], each["Name"])


def _answered(docker: Docker) -> None:
    if docker.lack:
        raise Unseen(docker.lack)


def processes(view: View) -> Iterator[Thing]:
    """All processes but the kernel's own."""
    for pid, each in view.kin.processes.items():
        yield Thing("process", each.name, view.kin.whose(pid), each.told)


def namespaces(view: View) -> Iterator[Thing]:
    """Network, mount, PID and user namespaces: by who is in them, by who holds them open, and by name."""
    for space in view.inside.keys() | view.held.keys():
        inside, held = view.inside.get(space, set()), view.held.get(space, set())
        holders = inside | held
        if any(view.kin.whose(pid) == OTHERS for pid in inside):
            whose = OTHERS  # it would be there without us
        elif view.kin.looker in held:
            whose = OURS  # who looks forgot to close it
        else:
            whose = _together(view.kin.whose(pid) for pid in holders)
        words = [process.told for pid in sorted(holders)[:1] if (process := view.kin.processes.get(pid))]
        yield Thing("namespace", space, whose, "of " + (words[0] if words else "nobody"))
    for folder in NAMED_NAMESPACES:
        for file in _entries(folder):
            if _is_mounted(file):  # Docker sweeps the others away within a minute
                yield Thing("namespace", str(file), _whose_name(view, file), "named")


def _is_mounted(file: Path) -> bool:
    """Whether a namespace is mounted there; else it is an empty file that was left when one was unmounted."""
    try:
        return file.stat().st_dev != file.parent.stat().st_dev
    except OSError:  # gone in between
        return False


def _whose_name(view: View, file: Path) -> str:
    if PREFIX in file.name:
        return OURS
    if file.parent.name == "netns" and file.parent.parent.name != "docker":
        return OTHERS  # pairlab names none
    if file.name in ("default", "ingress_sbox") or re.match("[0-9]-", file.name):  # the daemon's own
        return OTHERS
    for each in view.docker.containers:
        if each["NetworkSettings"].get("SandboxKey", "").endswith(f"/{file.name}"):
            return view.containers[each["Id"]]
    return UNKNOWN


def _together(found: Iterator[str]) -> str:
    every = set(found)
    return OURS if OURS in every else UNKNOWN if UNKNOWN in every else OTHERS


def links(view: View) -> Iterator[Thing]:
    """Links of the network namespace that we are in."""
    found = aside(_read_links)
    names = {each["index"]: each["name"] for each in found}
    aliases = {each["name"]: each["alias"] for each in found}
    for each in found:
        name, master = each["name"], names.get(each["master"], "")
        whose = view.of_network(name)
        if OUR_LINKS.match(name):
            alias = aliases.get(name) or aliases.get(name.removesuffix("x")) or ""
            whose = view.kin.whose_testbed(name[2:10], alias) if name.startswith("pl") else OURS
        elif whose is None and each["kind"] == "veth" and master:
            whose = view.of_network(master)
        told = [each["kind"], "up" if each["up"] else "down", f"mtu {each['mtu']}", each["qdisc"]]
        told += [f"in {master}"] if master else []
        yield Thing("link", name, OTHERS if name == "lo" else whose or UNKNOWN, ", ".join(filter(None, told)))


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
    """Bridges and ports in the database of this host's own Open vSwitch, where it runs one. Ours never are in there."""
    socket = Path(os.environ.get("OVS_RUNDIR", "/run/openvswitch")) / "db.sock"
    if not socket.exists():
        return
    for table in ("Bridge", "Port"):
        told = _output(["ovs-vsctl", f"--db=unix:{socket}", "--timeout=5", "--format=json", "list", table])
        known = json.loads(told)
        for row in known["data"]:
            name = row[known["headings"].index("name")]
            yield Thing("switch", f"{table.lower()} {name}", OURS if OUR_LINKS.match(name) else UNKNOWN)


def firewall(view: View) -> Iterator[Thing]:
    """Rules and chains of iptables and nftables, without their counters; a rule's second copy is another thing."""
    if os.geteuid() != 0:
        raise Unseen("only root may read the rules of the firewall")
    copies: Counter[str] = Counter()
    for rule in _rules():
        copies[rule] += 1
        again = f" (copy {copies[rule]})" if copies[rule] > 1 else ""
        bridges = re.findall(r"\b(?:br-[0-9a-f]{12}|docker0)\b", rule)
        whose = _together(view.of_network(bridge) or UNKNOWN for bridge in bridges) if bridges else UNKNOWN
        yield Thing("firewall rule", rule + again, whose)


def _rules() -> Iterator[str]:
    for program in ("iptables", "ip6tables"):
        table = ""
        for line in _output([f"{program}-save"]).splitlines() if shutil.which(f"{program}-save") else ():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith((":", "-")):
                yield f"{program} {table} {re.sub(COUNTERS, '', line)}"
    chain: list[str] = []
    for line in _output(["nft", "--stateless", "list", "ruleset"]).splitlines() if shutil.which("nft") else ():
        words = line.strip()
        if words.endswith("{"):
            chain.append(words.removesuffix("{").strip())
        elif words == "}":
            chain.pop()
        elif words:
            yield f"nft {' '.join(chain)} {words}"


def sysctls(view: View) -> Iterator[Thing]:
    """Settings of the network, the scheduler and memory, with their values."""
    for folder, names, files in os.walk(SYSCTLS / "net"):
        names.sort()
        yield from _read_sysctls(Path(folder) / name for name in files)
    yield from _read_sysctls((SYSCTLS / "vm").iterdir())
    yield from _read_sysctls((SYSCTLS / "kernel").glob("sched*"))


def _read_sysctls(files: Iterator[Path]) -> Iterator[Thing]:
    for file in files:
        name = str(file.relative_to(SYSCTLS))
        if not VOLATILE.fullmatch(name):
            with contextlib.suppress(OSError):  # some are for writing only
                yield Thing("sysctl", name, UNKNOWN, " ".join(file.read_text(errors="replace").split()))


def cgroups(view: View) -> Iterator[Thing]:
    """Groups of every hierarchy. pairlab's bear its name; Docker's a container's id."""
    for folder, names, _ in os.walk(CGROUPS):
        for name in names:
            path = Path(folder, name)
            if container := CONTAINER.search(str(path)):
                whose = view.kin.whose_container(container[0])
            elif ours := re.search(rf"/{PREFIX}([0-9]+@[0-9]+)-([^/]+)", str(path)):
                whose = view.kin.whose_testbed(ours[2], ours[1])
            else:
                whose = OURS if PREFIX in name else OTHERS
            yield Thing("cgroup", str(path), whose)


def temporary_files(view: View) -> Iterator[Thing]:
    """What lies at the top of the folders for temporary files, and in Jupyter's for running kernels.

    In /tmp pairlab itself makes only what bears its name; what its libraries make is in TMPDIR.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    own = Path(tempfile.gettempdir())
    runtime = Path(jupyter_runtime_dir())
    holders = _by_top({Path("/tmp"), Path("/dev/shm"), Path("/run"), own, runtime}, view)
    for folder, held in holders.items():
        for file in _entries(folder):
            if str(file) in SHARED_FILES or file in holders:
                continue
            users = held.get(file.name, ())
            whose = OTHERS if users and all(view.kin.whose(pid) == OTHERS for pid in users) else UNKNOWN
            if file.name.startswith(PREFIX):
                whose = _whose_directory(view, file)
            elif folder == runtime:
                users = [pid for pid, each in view.kin.processes.items() if str(file) in " ".join(each.words)]
                whose = _together(view.kin.whose(pid) for pid in users) if users else UNKNOWN
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
    told = ""
    with contextlib.suppress(OSError):
        told = (directory / "owner").read_text()
    return view.kin.whose_testbed(directory.name.removeprefix(PREFIX), told)


def mounts(view: View) -> Iterator[Thing]:
    """Mounts as we see them."""
    layers = {}
    for each in view.docker.containers:
        layers[(each["GraphDriver"]["Data"] or {}).get("MergedDir", "")] = each["Id"]
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        point, kind = before.split()[4], after.split()[0]
        if container := layers.get(point) or ((known := CONTAINER.search(point)) and known[0]):
            whose = view.kin.whose_container(container)
        elif Path(point).parent in NAMED_NAMESPACES:
            whose = _whose_name(view, Path(point))
        else:
            whose = OURS if PREFIX in point else UNKNOWN
        yield Thing("mount", point, whose, kind)


def _entries(folder: Path) -> list[Path]:
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(folder.stat().st_mode):
            return sorted(folder.iterdir())
    return []


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unseen(f"{argv[0]} does not answer: {error}") from error
    return done.stdout


#: Every kind that is looked at, by what one of its things is called.
KINDS: dict[str, Callable[[View], Iterator[Thing]]] = {
    "container": containers,
    "docker network": networks,
    "process": processes,
    "namespace": namespaces,
    "link": links,
    "switch": switches,
    "firewall rule": firewall,
    "sysctl": sysctls,
    "cgroup": cgroups,
    "temporary file": temporary_files,
    "mount": mounts,
}


def conntrack_entries() -> int | None:
    """How many connections the kernel tracks in this network namespace; None where it tracks none."""
    with contextlib.suppress(OSError):
        return int((SYSCTLS / "net/netfilter/nf_conntrack_count").read_text())
    return None
