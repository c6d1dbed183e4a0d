"""The processes of this host, as /proc has them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pairlab.testbed.cleanup import ownership

#: Names one use of pairlab among several on one host; inherited by all it starts.
SESSION = "PAIRLAB_SESSION"

#: An id of Docker's, in the cgroup of a container's processes and in the command line of its shim.
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
#: A testbed's id, in the path of its working directory and in that of its cgroup.
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
        """Whether it is containerd's shim of a container, on the host's side."""
        return _is_shim(self.words)

    @property
    def runs(self) -> set[str]:
        """The testbeds whose working directory or cgroup is in its command line."""
        return {found for word in self.words for found in RUN.findall(word)}

    @property
    def command(self) -> str:
        return " ".join(self.words)[:200] or "(exited; its parent has not reaped it yet)"


def _is_shim(words: tuple[str, ...]) -> bool:
    return bool(words) and os.path.basename(words[0]).startswith("containerd-shim")


def read_processes() -> dict[int, HostProcess]:
    """All processes by id, without the kernel's own threads."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            one = _read(place)
        except (OSError, ValueError, IndexError):  # it ended meanwhile
            continue
        if one.pid != 2 and one.parent != 2:
            found[one.pid] = one
    return found


def _read(place: Path) -> HostProcess:
    state, parent, begun = ownership.read_stat(place)
    environment = dict(line.partition("=")[::2] for line in _strings(place / "environ"))
    container = CONTAINER.search((place / "cgroup").read_text())
    words = tuple(_strings(place / "cmdline"))
    if container is None and _is_shim(words):
        container = CONTAINER.search(" ".join(words))
    return HostProcess(
        pid=int(place.name),
        parent=parent,
        begun=begun,
        zombie=state == "Z",
        words=words,
        owner=environment.get(ownership.MARK, ""),
        session=environment.get(SESSION, ""),
        container=container[0] if container else "",
    )


def _strings(file: Path) -> list[str]:
    """The zero-ended strings in a file of /proc; none where it is not ours to read."""
    try:
        return file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []
