"""The basis of the lists of things: the owners of processes, Docker's state, and open files and namespaces."""

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.ownership import Liveness
from pairlab.testbed.cleanup.process_table import HostProcess
from pairlab.testbed.cleanup.workdir import PREFIX

OURS, UNKNOWN, OTHERS = "ours", "unknown", "others"


class Attribution:
    """The owner of a process, a container or a testbed of this host: pairlab, somebody else, or unknown.

    All of pairlab's processes inherit PAIRLAB_OWNER (cleanup/ownership.py), even if they are renamed or orphaned.
    If pairlab is used several times on one host, PAIRLAB_SESSION in the environment (session) separates the uses:
    processes with the same value are ours, and pairlab's others are somebody else's.
    containers: the owner of each Docker container, by id. observer: the process that takes the snapshot.
    """

    def __init__(
        self, processes: Mapping[int, HostProcess], containers: Mapping[str, str], session: str, observer: int
    ):
        self.processes = processes
        self.session = session
        self.observer = observer
        self._containers = containers
        self._above = set(_ancestry(processes, observer))
        self._cleaners: dict[str, set[str]] = {}
        for pid, each in processes.items():
            for run in each.runs if each.owner or each.session else ():
                self._cleaners.setdefault(run, set()).add(self.whose(pid))

    def whose(self, pid: int) -> str:
        """Whose process that is. The observer and its parents are no left-overs: they count as others."""
        process = self.processes.get(pid)
        if process is None:
            return UNKNOWN
        if pid in self._above:
            return OTHERS
        if process.zombie:  # a zombie has no environment
            return OURS if process.parent not in self._above and self.whose(process.parent) == OURS else OTHERS
        if self.session:
            if process.session:
                return OURS if process.session == self.session else OTHERS
        elif process.owner or _is_pairlabs(process.words):
            return OURS
        return self.whose_container(process.container) if process.container else OTHERS

    def whose_container(self, identity: str) -> str:
        """Whose container that is; unknown where Docker does not list it, as it may have lost it."""
        return self._containers.get(identity, UNKNOWN)

    def whose_testbed(self, run: str, owner: str = "") -> str:
        """Whose one of pairlab's testbeds is: ours, unless it is another session's.

        run: its id, which its cleanup processes have in their command lines, also after its owner died. owner: who
        made it (see ownership.me), for where there is no such process.
        """
        if not self.session:
            return OURS
        if cleaners := self._cleaners.get(run):
            return OURS if OURS in cleaners else OTHERS
        if not owner or (state := ownership.liveness(owner)) is Liveness.DEAD:
            return OURS  # left behind, by whomever
        if state is Liveness.UNKNOWN or not (named := ownership.Owner.parse(owner)):
            return UNKNOWN
        return OURS if named.pid in self._above or self.whose(named.pid) == OURS else OTHERS


def _ancestry(processes: Mapping[int, HostProcess], pid: int) -> Iterator[int]:
    """That process, its parent, and so on."""
    while pid in processes:
        yield pid
        pid = processes[pid].parent


def _is_pairlabs(words: tuple[str, ...]) -> bool:
    """Whether a command line is one of pairlab's own, for processes started by hand."""
    programs = {os.path.basename(word) for word in words[:3]}  # python -I …/pairlab
    return bool(
        programs & {"pairlab", "flowgen"}
        or any(word.startswith("pairlab.testbed.") for word in words)
        or any("/tmp/pairlab-" in word for word in words)
    )


def combined(owners: Iterable[str]) -> str:
    """Whose something is that several have a part in: ours if any is, else unknown if any is."""
    every = set(owners)
    return OURS if OURS in every else UNKNOWN if UNKNOWN in every else OTHERS


NAMESPACES = ("net", "mnt", "pid", "user")
NAMED_NAMESPACES = (Path("/run/netns"), Path("/run/docker/netns"))


class Unseen(Exception):
    """This kind cannot be listed here; the message says why."""


@dataclass(frozen=True)
class Thing:
    """One thing on the host. name: unique within its kind. detail: its settings, or what it runs."""

    kind: str
    name: str
    whose: str
    detail: str = ""


class Container(NamedTuple):
    """A container of Docker's. sandbox: its network namespace's file. root: where its root is mounted, or empty."""

    id: str
    name: str
    labels: Mapping[str, str]
    sandbox: str
    root: str


class Network(NamedTuple):
    """A network of Docker's."""

    id: str
    name: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class DockerState:
    """All containers, and networks. lack: why the daemon did not answer, else empty."""

    containers: tuple[Container, ...] = ()
    networks: tuple[Network, ...] = ()
    lack: str = ""


def ask_docker() -> DockerState:
    """All containers, stopped ones too, and all networks."""
    from docker.errors import NotFound

    from pairlab.testbed.docker import daemon
    from pairlab.testbed.docker.answers import optional, required

    try:
        with contextlib.closing(daemon.connect(20)) as client:
            containers = []
            for each in client.api.containers(all=True):
                with contextlib.suppress(NotFound):  # removed meanwhile
                    containers.append(_inspected(client, required(each, "Id")))
            networks = [
                Network(required(each, "Id"), optional(each, "Name") or "", optional(each, "Labels") or {})
                for each in client.api.networks()
            ]
            return DockerState(tuple(containers), tuple(networks))
    except daemon.DOCKER_ERRORS as error:
        return DockerState(lack=daemon.explain(error).what)


def _inspected(client: Any, identity: str) -> Container:
    """That container as Docker describes it, cached: the fields in use do not change while it runs."""
    from pairlab.testbed.docker.answers import optional

    if found := _running.get(identity):
        return found
    answer = client.api.inspect_container(identity)
    container = Container(
        identity,
        (optional(answer, "Name") or "").removeprefix("/"),
        optional(answer, "Config", "Labels") or {},
        optional(answer, "NetworkSettings", "SandboxKey") or "",
        # Where containerd stores images, there is no GraphDriver, and the mount point has the container's id.
        optional(answer, "GraphDriver", "Data", "MergedDir") or "",
    )
    if optional(answer, "State", "Running"):
        _running[identity] = container
    return container


_running: dict[str, Container] = {}


class View:
    """The owners of processes, Docker's state, and the processes that hold files and namespaces open."""

    def __init__(self, attribution: Attribution, docker: DockerState, containers: Mapping[str, str]):
        self.attribution = attribution
        self.docker = docker
        self.containers = containers
        self.networks = {each.id: whose_labels(attribution, each.labels) for each in docker.networks}
        self.open_files: dict[str, set[int]] = {}
        self.held: dict[str, set[int]] = {}  # net:[4026531992]: the processes with a descriptor of it
        self.inside: dict[str, set[int]] = {}  # and the processes in it
        for pid in attribution.processes:
            self._note_open(pid)

    def _note_open(self, pid: int) -> None:
        folder = f"/proc/{pid}"
        for name in NAMESPACES:
            with contextlib.suppress(OSError):
                self.inside.setdefault(os.readlink(f"{folder}/ns/{name}"), set()).add(pid)
        links = [f"{folder}/cwd"]
        with contextlib.suppress(OSError):
            links += [f"{folder}/fd/{number}" for number in os.listdir(f"{folder}/fd")]
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


def whose_labels(attribution: Attribution, labels: Mapping[str, str]) -> str:
    """The owner of a container or network: all of pairlab's have its label."""
    from pairlab.testbed.docker.reaper import LABEL, OWNER_LABEL

    if not labels.get(LABEL):
        return OTHERS
    return attribution.whose_testbed(labels[LABEL], labels.get(OWNER_LABEL) or "")


def require_docker(docker: DockerState) -> None:
    """Raises Unseen where the daemon did not answer."""
    if docker.lack:
        raise Unseen(docker.lack)


def whose_namespace_file(view: View, file: Path) -> str:
    """The owner of the namespace that is mounted at that file."""
    if PREFIX in file.name:
        return OURS
    if file.parent.name == "netns" and file.parent.parent.name != "docker":
        return OTHERS  # pairlab names none
    if file.name in ("default", "ingress_sbox") or re.match("[0-9]-", file.name):  # the daemon's own
        return OTHERS
    for each in view.docker.containers:
        if each.sandbox.endswith(f"/{file.name}"):
            return view.containers[each.id]
    return UNKNOWN


def entries(folder: Path) -> list[Path]:
    """The entries of a folder; none where it is no folder, or may not be read."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(folder.stat().st_mode):
            return sorted(folder.iterdir())
    return []
