"""What is mounted in this process's mount namespace."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class MountPoint(NamedTuple):
    """One mount. root: which folder of its file system is seen there. options: the file system's own."""

    root: str
    where: str
    kind: str
    options: tuple[str, ...]


def mounts(file: Path = Path("/proc/self/mountinfo")) -> Iterator[MountPoint]:
    """All mounts, as proc_pid_mountinfo(5) lists them.

    A source may be empty (`mount -t tmpfs "" DIR`), and a name may be any bytes: fields end at single spaces.
    """
    for line in os.fsdecode(file.read_bytes()).split("\n"):
        before, _, after = line.partition(" - ")
        if after:
            root, where = map(_unescaped, before.split(" ")[3:5])
            kind, _, options = after.split(" ")[:3]
            yield MountPoint(root, where, kind, tuple(options.split(",")))


def _unescaped(field: str) -> str:
    """The kernel writes space, tab, newline and backslash as \\040 and the like."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)
