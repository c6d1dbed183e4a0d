"""CPU cgroups of endpoints without a container: created, read, and removed whatever happens.

In both versions of cgroups(7). A testbed has one group, named after its owner and its run, in this process's group
(v2: in its nearest ancestor that delegates the CPU controller), with a child for each endpoint. In v2, weights are
converted from shares as by runc for Docker, so that both backends request the same from the kernel.
"""

import contextlib
import functools
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pairlab.errors import TestbedError
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.child_processes import guarded
from pairlab.testbed.cleanup.process_table import CONTAINER
from pairlab.testbed.cleanup.workdir import PREFIX, lock_of
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.requirements import MissingRequirement


class MountPoint(NamedTuple):
    """One mount. root: the mounted folder of its file system. where: the mount point. options: of the file system."""

    root: str
    where: str
    kind: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Hierarchy:
    """The CPU controller's hierarchy: its cgroup version, its mount point, and this process's group in it."""

    version: int
    mount: Path
    own: Path

    def base(self) -> Path | None:
        """The group in which we may create groups with a CPU controller, or None."""
        if self.version == 1:
            return self.own if os.access(self.own, os.W_OK) else None
        for group in (self.own, *self.own.parents):
            if not group.is_relative_to(self.mount):
                return None
            # Moving a process needs write access to the target group and to the common ancestor.
            writable = os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)
            if writable and "cpu" in words(group / "cgroup.subtree_control"):
                return group
        return None


def hierarchy(process: Path = Path("/proc/self")) -> Hierarchy | None:
    """The CPU controller's hierarchy, as this process sees it, or None if none is mounted."""
    mounted: dict[int, tuple[Path, str]] = {}
    for version, mount, root in hierarchies():
        mounted.setdefault(version, (mount, root))
    groups = groups_of(process)
    for version in (1, 2):
        if version in mounted and version in groups:
            mount, root = mounted[version]
            inside = os.path.relpath(groups[version], root)
            own = mount if inside.startswith("..") else mount / inside
            return Hierarchy(version, mount, own)
    return None


def hierarchies(every: Iterable[MountPoint] | None = None) -> Iterator[tuple[int, Path, str]]:
    """The mounted hierarchies that may have a CPU controller: version, mount point, and mounted group.

    every: the mounts to search; None: those of this process.
    """
    for each in mounts() if every is None else every:
        if each.kind == "cgroup2":
            yield 2, Path(each.where), each.root
        elif each.kind == "cgroup" and "cpu" in each.options:
            yield 1, Path(each.where), each.root


def mounts(file: Path = Path("/proc/self/mountinfo")) -> Iterator[MountPoint]:
    """All mounts, from proc_pid_mountinfo(5).

    A source may be empty (`mount -t tmpfs "" DIR`), and names may be any bytes: single spaces separate fields.
    """
    for line in os.fsdecode(file.read_bytes()).split("\n"):
        before, _, after = line.partition(" - ")
        if after:
            root, where = map(_unescaped, before.split(" ")[3:5])
            kind, _, options = after.split(" ")[:3]
            yield MountPoint(root, where, kind, tuple(options.split(",")))


def _unescaped(field: str) -> str:
    """Decodes the kernel's octal escapes, such as \\040 for a space."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), field)


def groups_of(process: Path) -> dict[int, str]:
    """A process's groups, by version."""
    groups = {}
    for line in (process / "cgroup").read_text().splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            groups[2] = group
        elif "cpu" in controllers.split(","):
            groups[1] = group
    return groups


def freezers(groups: str) -> list[Path]:
    """The files that say whether these groups are frozen; none for a root group, which cannot be.

    groups: a process's, as the text of proc_pid_cgroup(5).
    """
    names = {"cgroup2": "cgroup.events", "cgroup": "freezer.state"}
    found = []
    for line in groups.splitlines():
        number, controllers, group = line.split(":", 2)
        kind = "cgroup2" if number == "0" else "cgroup" if "freezer" in controllers.split(",") else ""
        for each in _mounted(kind) if kind else ():
            found.append(Path(each.where, os.path.relpath(group, each.root), names[kind]))
    return [each for each in found if each.exists()]


def is_frozen(file: Path) -> bool:
    """Whether one of these files says so."""
    found = " ".join(words(file))
    return "frozen 1" in found or found in ("FREEZING", "FROZEN")


@functools.cache
def _mounted(kind: str) -> list[MountPoint]:
    """The mounts of that kind that have a freezer."""
    return [each for each in mounts() if each.kind == kind and (kind == "cgroup2" or "freezer" in each.options)]


def words(file: Path) -> list[str]:
    """The words in that file; none if it cannot be read."""
    with contextlib.suppress(OSError):
        return file.read_text().split()
    return []


def read(group: Path) -> dict[str, float]:
    """A group's settings: cpu_quota in CPUs (0: no limit), and cpu_shares (v1) or cpu_weight (v2)."""
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
    """The settings of a process's group; empty if they cannot be read."""
    with contextlib.suppress(OSError):
        groups = hierarchy(Path("/proc") / str(pid))
        return read(groups.own) if groups else {}
    return {}


class Throttling(NamedTuple):
    """Enforcements of a group's, or an ancestor's, quota. periods: those with runnable tasks; throttled: of these."""

    periods: int = 0
    throttled: int = 0


def above(tree: Hierarchy | None) -> list[Path]:
    """Our group and its visible ancestors."""
    if tree is None:
        return []
    return [group for group in (tree.own, *tree.own.parents) if group.is_relative_to(tree.mount)]


def settings_above(tree: Hierarchy | None) -> Iterator[tuple[str, float]]:
    """The readable settings of our group and its ancestors, ours first, as in `read`."""
    for group in above(tree):
        with contextlib.suppress(OSError, ValueError):
            yield from read(group).items()


def quota(tree: Hierarchy | None) -> float:
    """The smallest quota of our group and its ancestors, in CPUs; 0: none."""
    return min((value for name, value in settings_above(tree) if name == "cpu_quota" and value), default=0.0)


def weights(tree: Hierarchy | None) -> list[float]:
    """The CPU weights of our group and its ancestors, ours first: cpu.shares (v1) or cpu.weight (v2)."""
    return [value for name, value in settings_above(tree) if name != "cpu_quota"]


def throttlings(tree: Hierarchy | None) -> dict[str, Throttling]:
    """Throttling of our group and its ancestors since their creation, by path, if they count it (cpu.stat)."""
    by_group = {}
    for group in above(tree):
        counts = dict(zip(*[iter(words(group / "cpu.stat"))] * 2, strict=False))
        if "nr_periods" in counts:
            by_group[str(group)] = Throttling(int(counts["nr_periods"]), int(counts["nr_throttled"]))
    return by_group


def throttled_share(before: Mapping[str, Throttling], after: Mapping[str, Throttling]) -> float | None:
    """The largest share of throttled periods of any group between two readings; None: no counts."""
    shares = []
    for group in before.keys() & after.keys():
        periods = after[group].periods - before[group].periods
        shares.append((after[group].throttled - before[group].throttled) / periods if periods > 0 else 0.0)
    return max(shares, default=None)


PERIOD_US = 100_000
PATIENCE_S = 10.0

#: Removes the groups; retries while their last processes exit.
_REMOVE = 'n=0; while [ -e "$1" ] && [ $n -lt 300 ]; do rmdir -- "$1"/*/ "$1" || sleep 0.1 || sleep 1; n=$((n+1)); done'


def name_of(run: str) -> str:
    """The name of that testbed's group, of which this process is the owner."""
    return f"{PREFIX}{ownership.me()}-{run}"


def _owner_and_run(name: str) -> tuple[str, str]:
    owner, _, run = name.removeprefix(PREFIX).rpartition("-")
    return owner, run


def missing() -> MissingRequirement | None:
    """The requirement that is missing for CPU cgroups here, or None."""
    tree = hierarchy()
    if tree is None or (tree.version == 2 and "cpu" not in words(tree.mount / "cgroup.controllers")):
        return MissingRequirement(
            "no CPU controller is mounted below /sys/fs/cgroup", "mount it, or leave out cpu_quota, cpu_shares"
        )
    if tree.base():
        return None
    if os.geteuid() == 0:
        return MissingRequirement(
            "no cgroup with a CPU controller may be written here",
            f"echo +cpu > {tree.mount}/cgroup.subtree_control; in a container, run on the host",
        )
    return MissingRequirement(
        "CPU quotas and shares need a cgroup that this user may write", "run as root, or --backend docker"
    )


@contextlib.contextmanager
def groups(run: str, limits: Mapping[str, Limits]) -> Iterator[dict[str, Path]]:
    """A group for each endpoint with a CPU time limit, by its name; removed however this process ends.

    The caller ends all processes in them before leaving the block. Raises TestbedError.
    """
    limited = {name: each for name, each in limits.items() if each.cpu_quota or each.cpu_shares}
    if not limited:
        yield {}
        return
    tree = hierarchy()
    base = tree.base() if tree else None
    if tree is None or base is None:
        raise TestbedError(str(missing()))
    _remove_of_the_dead(base)
    ours = base / name_of(run)
    with guarded(_REMOVE, str(ours)):
        try:
            yield {name: ours / name for name in _make(tree.version, ours, limited)}
        finally:
            remove(ours)


def _remove_of_the_dead(base: Path) -> None:
    """The empty groups of testbeds here whose owners were killed together with what guarded them."""
    for group in base.glob(f"{PREFIX}*@*"):
        owner, run = _owner_and_run(group.name)
        if ownership.liveness(owner, lock=lock_of(run)) is ownership.Liveness.DEAD:
            with contextlib.suppress(OSError):  # its processes are ending, or it is another user's
                _remove_empty(group)


def _make(version: int, ours: Path, limited: Mapping[str, Limits]) -> list[str]:
    try:
        ours.mkdir()
        if version == 2:
            (ours / "cgroup.subtree_control").write_text("+cpu")
        for name, each in limited.items():
            (ours / name).mkdir()
            for file, value in settings(version, each).items():
                (ours / name / file).write_text(value)
    except OSError as error:
        raise TestbedError(
            f"the cgroup {ours} does not take these CPU limits: {error.strerror}. Is pairlab itself limited to less?"
        ) from error
    return list(limited)


def settings(version: int, limits: Limits) -> dict[str, str]:
    """The settings for a group with these limits: each file's name and text."""
    files = {}
    if limits.cpu_quota:
        quota_us = round(limits.cpu_quota * PERIOD_US)
        if version == 2:
            files["cpu.max"] = f"{quota_us} {PERIOD_US}"
        else:
            files |= {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}
    if limits.cpu_shares:
        files |= (
            {"cpu.weight": str(weight(limits.cpu_shares))} if version == 2 else {"cpu.shares": str(limits.cpu_shares)}
        )
    return files


def weight(shares: int) -> int:
    """A v2 weight (1 to 10000) for v1 shares (2 to 262144). Source: runc, ConvertCPUSharesToCgroupV2Value."""
    return 1 + (shares - 2) * 9999 // 262142


def remove(ours: Path) -> None:
    """Removes a testbed's groups, waiting for their last processes to exit. Raises TestbedError."""
    deadline = time.monotonic() + PATIENCE_S
    while ours.exists():
        try:
            _remove_empty(ours)
        except FileNotFoundError:
            continue
        except OSError as error:
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"cgroup {ours} could not be removed: {error.strerror}. Its processes are in cgroup.procs;"
                    " when they have ended, `pairlab clean` removes it"
                ) from error
            time.sleep(0.01)


def _remove_empty(group: Path) -> None:
    """Removes a group and those in it. Raises OSError where there are processes in one."""
    for each in (*(each for each in group.iterdir() if each.is_dir()), group):
        each.rmdir()


def remove_of_containers(identities: Collection[str]) -> None:
    """Removes the empty groups of the Docker containers with these ids, in every hierarchy."""
    for folder, names, _ in os.walk("/sys/fs/cgroup", topdown=False):
        for name in names:
            if (match := CONTAINER.search(name)) and match[0] in identities:
                with contextlib.suppress(OSError):  # somebody else removes it, or only root may
                    os.rmdir(os.path.join(folder, name))


def of_testbeds() -> Iterator[tuple[Path, str, str]]:
    """The groups of this user's testbeds in all mounted hierarchies, each with its owner and run."""
    for mount in {mount for _, mount, _ in hierarchies()}:
        for folder, names, _ in os.walk(mount):
            for name in [each for each in names if each.startswith(PREFIX) and "@" in each]:
                names.remove(name)
                group = Path(folder, name)
                with contextlib.suppress(OSError):
                    if group.stat().st_uid == os.geteuid():
                        yield group, *_owner_and_run(name)
