"""Whose a process is: pairlab's, somebody else's, or not to be told.

Everything pairlab starts inherits PAIRLAB_OWNER (see owner.py), which outlives renamed processes and dead parents.
Where pairlab is used several times on one host, PAIRLAB_SESSION in the environment tells one use from the others: then
ours is what inherited the same, and what pairlab does elsewhere on the host is somebody else's.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pairlab.testbed import owner

OURS, UNKNOWN, OTHERS = "ours", "unknown", "others"
SESSION = "PAIRLAB_SESSION"

#: An id of Docker's, in the cgroup of a container's processes and in the command line of its shim.
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
#: A testbed's id, in the path of its working directory and in that of its cgroup.
RUN = re.compile(r"/pairlab-(?:[0-9]+@[0-9]+-)?([0-9a-z_]{8})(?![^/ ])")


@dataclass(frozen=True)
class Process:
    """What /proc says of it. begun: its start, in clock ticks since the host's, which no two of one id share."""

    pid: int
    parent: int
    begun: int
    zombie: bool
    words: tuple[str, ...]
    owner: str
    session: str
    container: str

    @property
    def name(self) -> str:
        return f"{self.pid}@{self.begun}"

    @property
    def is_shim(self) -> bool:
        """Whether it is the one of containerd's that looks after a container, on the host's side."""
        return _is_shim(self.words)

    @property
    def runs(self) -> set[str]:
        """The testbeds whose working directory or cgroup it has in its command line."""
        return {found for word in self.words for found in RUN.findall(word)}

    @property
    def told(self) -> str:
        return " ".join(self.words)[:200] or "(ended, and not yet taken leave of by its parent)"


class Kin:
    """The processes of this host, and whose they are. containers: whose each of Docker's containers is, by its id."""

    def __init__(self, processes: Mapping[int, Process], containers: Mapping[str, str], session: str, looker: int):
        self.processes = processes
        self.session = session
        self.looker = looker
        self._containers = containers
        self._above = set(_line(processes, looker))
        self._tidying: dict[str, set[str]] = {}
        for pid, each in processes.items():
            for run in each.runs if each.owner or each.session else ():
                self._tidying.setdefault(run, set()).add(self.whose(pid))

    def whose(self, pid: int) -> str:
        """Whose process that is. Who looks, and who started that, is nobody's left-over: others."""
        process = self.processes.get(pid)
        if process is None:
            return UNKNOWN
        if pid in self._above:
            return OTHERS
        if process.zombie:  # has no environment any more
            return OURS if process.parent not in self._above and self.whose(process.parent) == OURS else OTHERS
        if self.session:
            if process.session:
                return OURS if process.session == self.session else OTHERS
        elif process.owner or _is_pairlabs(process.words):
            return OURS
        return self.whose_container(process.container) if process.container else OTHERS

    def whose_container(self, identity: str) -> str:
        """Whose container that is; one that Docker does not know may be what it lost."""
        return self._containers.get(identity, UNKNOWN)

    def whose_testbed(self, run: str, told_owner: str = "") -> str:
        """Whose a thing of pairlab's is: ours, unless it is another session's.

        run: its testbed's id, which the processes that tidy up after it have in their command lines, longer than its
        owner lives. told_owner: who made it (see owner.me), which tells where there is no such process.
        """
        if not self.session:
            return OURS
        if tidying := self._tidying.get(run):
            return OURS if OURS in tidying else OTHERS
        if not told_owner or not owner.alive(told_owner):
            return OURS  # left behind, whoever it was
        pid = int(told_owner.partition("@")[0]) if told_owner.partition("@")[0].isdigit() else 0
        return OURS if pid in self._above or self.whose(pid) == OURS else OTHERS


def _line(processes: Mapping[int, Process], pid: int) -> Iterator[int]:
    """That process, its parent, and so on."""
    while pid in processes:
        yield pid
        pid = processes[pid].parent


def _is_pairlabs(words: tuple[str, ...]) -> bool:
    """Whether a command line is one of pairlab's own, for those that were started by hand."""
    programs = {os.path.basename(word) for word in words[:2]}
    return bool(
        programs & {"pairlab", "flowgen"}
        or any(word.startswith("pairlab.testbed.") for word in words)
        or any("/tmp/pairlab-" in word for word in words)
    )


def _is_shim(words: tuple[str, ...]) -> bool:
    return bool(words) and os.path.basename(words[0]).startswith("containerd-shim")


def processes() -> dict[int, Process]:
    """All that there are by id, but for the kernel's own threads."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            one = _read(place)
        except (OSError, ValueError, IndexError):  # gone in between
            continue
        if one.pid != 2 and one.parent != 2:
            found[one.pid] = one
    return found


def _read(place: Path) -> Process:
    state, parent, *rest = (place / "stat").read_text(errors="replace").rpartition(")")[2].split()
    environment = dict(line.partition("=")[::2] for line in _strings(place / "environ"))
    told = CONTAINER.search((place / "cgroup").read_text())
    words = tuple(_strings(place / "cmdline"))
    if told is None and _is_shim(words):
        told = CONTAINER.search(" ".join(words))
    return Process(
        pid=int(place.name),
        parent=int(parent),
        begun=int(rest[17]),
        zombie=state == "Z",
        words=words,
        owner=environment.get(owner.MARK, ""),
        session=environment.get(SESSION, ""),
        container=told[0] if told else "",
    )


def _strings(file: Path) -> list[str]:
    """The zero-ended strings in a file of /proc; none where it is not ours to read."""
    try:
        return file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
