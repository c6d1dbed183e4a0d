"""What is known of the host before its things are listed: processes, Docker, and who has what open."""

import contextlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pairlab.testbed.audit.attribution import OTHERS, OURS, UNKNOWN, Attribution
from pairlab.testbed.cleanup.workdir import PREFIX

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


@dataclass(frozen=True)
class DockerState:
    """Containers as the daemon inspects them, and networks. lack: why it did not answer, else empty."""

    containers: tuple[dict, ...] = ()
    networks: tuple[dict, ...] = ()
    lack: str = ""


def ask_docker() -> DockerState:
    """All containers, stopped ones too, and all networks."""
    from docker.errors import NotFound

    from pairlab.testbed.docker import daemon

    try:
        with contextlib.closing(daemon.connect(20)) as client:
            found = []
            for each in client.api.containers(all=True):
                with contextlib.suppress(NotFound):  # removed meanwhile
                    found.append(_inspected(client, each["Id"]))
            return DockerState(tuple(found), tuple(client.api.networks()))
    except daemon.DOCKER_ERRORS as error:
        return DockerState(lack=daemon.explain(error).what)


def _inspected(client, identity: str) -> dict:
    """Docker's description of that container, asked once: what is used of it does not change while it runs."""
    if identity not in _inspections:
        found = client.api.inspect_container(identity)
        if not found["State"]["Running"]:
            return found
        _inspections[identity] = found
    return _inspections[identity]


_inspections: dict[str, dict] = {}


class View:
    """Whose the processes are, what Docker has, and who has which file or namespace open."""

    def __init__(self, attribution: Attribution, docker: DockerState, containers: Mapping[str, str]):
        self.attribution = attribution
        self.docker = docker
        self.containers = containers
        self.networks = {each["Id"]: whose_labels(attribution, each["Labels"]) for each in docker.networks}
        self.open_files: dict[str, set[int]] = {}
        self.held: dict[str, set[int]] = {}  # net:[4026531992]: who holds it by a descriptor
        self.inside: dict[str, set[int]] = {}  # and who is in it
        for pid in attribution.processes:
            self._note_open(pid)

    def _note_open(self, pid: int) -> None:
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


def whose_labels(attribution: Attribution, labels: Mapping[str, str] | None) -> str:
    """Whose a container or network is: all of pairlab's bear its label."""
    from pairlab.testbed.docker.reaper import LABEL

    if not labels or LABEL not in labels:
        return OTHERS
    return attribution.whose_testbed(labels[LABEL], labels.get("pairlab.owner", ""))


def require_docker(docker: DockerState) -> None:
    """Raises Unseen where the daemon did not answer."""
    if docker.lack:
        raise Unseen(docker.lack)


def whose_namespace_file(view: View, file: Path) -> str:
    """Whose a namespace is that is mounted at that file."""
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


def entries(folder: Path) -> list[Path]:
    """The entries of a folder; none where it is no folder, or may not be read."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(folder.stat().st_mode):
            return sorted(folder.iterdir())
    return []
