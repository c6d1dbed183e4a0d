"""The tree of CPU control groups, in both versions of cgroups(7): which group a process is in, and its limits there."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class MountPoint(NamedTuple):
    """One mount. root: which folder of its file system is seen there. options: the file system's own."""

    root: str
    where: str
    kind: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Hierarchy:
    """Where the CPU controller is: its cgroup version, where it is mounted, and the group there that is ours."""

    version: int
    mount: Path
    own: Path

    def base(self) -> Path | None:
        """The group in which we may make groups with a CPU controller, or None."""
        if self.version == 1:
            return self.own if os.access(self.own, os.W_OK) else None
        for group in (self.own, *self.own.parents):
            if not group.is_relative_to(self.mount):
                return None
            # A process moves only where its mover may write, in the group above both places as well.
            writable = os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
            if writable and "cpu" in words(group / "cgroup.subtree_control"):
                return group
        return None


def hierarchy(process: Path = Path("/proc/self")) -> Hierarchy | None:
    """The CPU controller's hierarchy, as this process sees it, or None where none is mounted."""
    found: dict[int, tuple[Path, str]] = {}
    for version, mount, root in hierarchies():
        found.setdefault(version, (mount, root))
    groups = groups_of(process)
    for version in (1, 2):
        if version in found and version in groups:
            mount, root = found[version]
            inside = os.path.relpath(groups[version], root)
            own = mount if inside.startswith("..") else mount / inside
            return Hierarchy(version, mount, own)
    return None


def hierarchies(every: Iterable[MountPoint] | None = None) -> Iterator[tuple[int, Path, str]]:
    """The mounted hierarchies that may have a CPU controller: version, where, and which group is seen there.

    every: the mounts to look through; None: those of this process.
    """
    for each in mounts() if every is None else every:
        if each.kind == "cgroup2":
            yield 2, Path(each.where), each.root
        elif each.kind == "cgroup" and "cpu" in each.options:
            yield 1, Path(each.where), each.root


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


def groups_of(process: Path) -> dict[int, str]:
    """The groups a process is in, by version."""
    found = {}
    for line in (process / "cgroup").read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            found[2] = group
        elif "cpu" in controllers.split(","):
            found[1] = group
    return found


def words(file: Path) -> list[str]:
    """The words in that file; none where it cannot be read."""
    with contextlib.suppress(OSError):
        return file.read_text().split()
    return []


def read(group: Path) -> dict[str, float]:
    """What a group's files say: cpu_quota in CPUs (0: no limit), and cpu_shares (v1) or cpu_weight (v2)."""
    if (group / "cpu.cfs_quota_us").exists():
        quota_us, period_us = (float((group / f"cpu.cfs_{each}_us").read_text()) for each in ("quota", "period"))
        shares = float((group / "cpu.shares").read_text())
        return {"cpu_quota": max(quota_us, 0.0) / period_us, "cpu_shares": shares}
    if (group / "cpu.max").exists():
        quota, period_us = (group / "cpu.max").read_text().split()
        cpus = 0.0 if quota == "max" else float(quota) / float(period_us)
        return {"cpu_quota": cpus, "cpu_weight": float((group / "cpu.weight").read_text())}
    return {}


def read_of(pid: int) -> dict[str, float]:
    """The same of the group that a process is in; empty where it cannot be read."""
    with contextlib.suppress(OSError):
        found = hierarchy(Path("/proc") / str(pid))
        return read(found.own) if found else {}
    return {}


class Throttling(NamedTuple):
    """How often the quota of a group, or of a group above it, was enforced. periods: those in which there was work."""

    periods: int = 0
    throttled: int = 0


def above(found: Hierarchy | None) -> list[Path]:
    """Our group and all above it, as far as they are seen from here."""
    if found is None:
        return []
    return [group for group in (found.own, *found.own.parents) if group.is_relative_to(found.mount)]


def quota(found: Hierarchy | None) -> float:
    """The least of their quotas, in CPUs; 0: none has one."""
    quotas = []
    for group in above(found):
        with contextlib.suppress(OSError, ValueError):
            quotas.append(read(group).get("cpu_quota", 0.0))
    return min(filter(None, quotas), default=0.0)


def weights(found: Hierarchy | None) -> list[float]:
    """Their weights against other groups' CPU time, ours first: cpu.shares (v1) or cpu.weight (v2)."""
    known = []
    for group in above(found):
        with contextlib.suppress(OSError, ValueError):
            known += [value for name, value in read(group).items() if name in ("cpu_shares", "cpu_weight")]
    return known


def throttlings(found: Hierarchy | None) -> dict[str, Throttling]:
    """The throttling of each of them that counts it, by its path, since it was made (cpu.stat)."""
    counted = {}
    for group in above(found):
        counts = dict(zip(*[iter(words(group / "cpu.stat"))] * 2, strict=False))
        if "nr_periods" in counts:
            counted[str(group)] = Throttling(int(counts["nr_periods"]), int(counts["nr_throttled"]))
    return counted


def throttled_share(before: Mapping[str, Throttling], after: Mapping[str, Throttling]) -> float | None:
    """The largest share of a group's periods between two readings in which it was throttled; None: none is counted."""
    shares = []
    for group in before.keys() & after.keys():
        periods = after[group].periods - before[group].periods
        shares.append((after[group].throttled - before[group].throttled) / periods if periods > 0 else 0.0)
    return max(shares, default=None)
