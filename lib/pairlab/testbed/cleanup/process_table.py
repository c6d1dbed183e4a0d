"""The processes of this host, from /proc."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pairlab.testbed.cleanup import ownership

#: Names one use of pairlab among several on one host; all its processes inherit it.
SESSION = "PAIRLAB_SESSION"

#: A container's id, in the cgroup of its processes and in the command line of its shim.
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
#: A testbed's id, in the paths of its working directory and of its cgroup.
RUN = re.compile(r"/pairlab-(?:[0-9]+@[0-9a-f.]+-)?([0-9A-Za-z_]{8})(?![^/ ])")


@dataclass(frozen=True)
class HostProcess:
    """One process. begun: its start, in clock ticks since boot; two processes with one id never share it."""

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
        """Whether it is containerd's shim of a container."""
        return _is_shim(self.words)

    @property
    def runs(self) -> set[str]:
        """The testbeds whose working directory or cgroup is in its command line."""
        return {run for word in self.words for run in RUN.findall(word)}

    @property
    def command(self) -> str:
        return " ".join(self.words)[:200] or "(exited; its parent has not reaped it yet)"


def _is_shim(words: tuple[str, ...]) -> bool:
    return bool(words) and os.path.basename(words[0]).startswith("containerd-shim")


def read_processes() -> dict[int, HostProcess]:
    """All processes by id, without the kernel's own threads."""
    processes = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            process = _read(folder)
        except (OSError, ValueError, IndexError):  # it ended meanwhile
            continue
        if process.pid != 2 and process.parent != 2:
            processes[process.pid] = process
    return processes


def children(parents: Mapping[int, int]) -> dict[int, list[int]]:
    """The children of each process that has some. parents: by the process's id."""
    found = defaultdict(list)
    for pid, parent in parents.items():
        found[parent].append(pid)
    return dict(found)


def descendants(children: Mapping[int, Sequence[int]], roots: Iterable[int]) -> set[int]:
    """The roots, and all processes that descend from one."""
    found: set[int] = set()
    left = [*roots]
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, ())
    return found


def _read(folder: Path) -> HostProcess:
    state, parent, begun = ownership.read_stat(folder)
    environment = dict(line.partition("=")[::2] for line in _strings(folder / "environ"))
    container = CONTAINER.search((folder / "cgroup").read_text())
    words = tuple(_strings(folder / "cmdline"))
    if container is None and _is_shim(words):
        container = CONTAINER.search(" ".join(words))
    return HostProcess(
        pid=int(folder.name),
        parent=parent,
        begun=begun,
        zombie=state == "Z",
        words=words,
        owner=environment.get(ownership.MARK, ""),
        session=environment.get(SESSION, ""),
        container=container[0] if container else "",
    )


def _strings(file: Path) -> list[str]:
    """The zero-terminated strings in a file of /proc; none if we may not read it."""
    try:
        return file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
