"""CPU cgroups of endpoints without a container: made, read, and removed whatever happens.

In both versions of cgroups(7). A testbed has one group, named after its owner and its run, in the group that this
process is in (v2: the nearest above it that hands the CPU controller down), and below that one for each endpoint. In
v2 a weight is what runc makes of Docker's shares, so that both backends ask the kernel for the same.
"""

import contextlib
import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from pairlab.errors import TestbedError
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.process_table import CONTAINER
from pairlab.testbed.cleanup.watchdog import guarded
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.host.cgroup_tree import hierarchies, hierarchy, words
from pairlab.testbed.requirements import Lack

PREFIX = "pairlab-"
PERIOD_US = 100_000
PATIENCE_S = 10.0

#: Removes the groups; tries again while the last of their processes is ending.
_REMOVE = 'n=0; while [ -e "$1" ] && [ $n -lt 300 ]; do rmdir -- "$1"/*/ "$1" || sleep 0.1 || sleep 1; n=$((n+1)); done'


def lack() -> Lack | None:
    """Why we can make no CPU cgroups here, or None."""
    found = hierarchy()
    if found is None or (found.version == 2 and "cpu" not in words(found.mount / "cgroup.controllers")):
        return Lack("no CPU controller is mounted below /sys/fs/cgroup", "mount it, or leave out cpu_quota, cpu_shares")
    if found.base():
        return None
    if os.geteuid() == 0:
        return Lack(
            "no cgroup with a CPU controller may be written here",
            f"echo +cpu > {found.mount}/cgroup.subtree_control; in a container, run on the host",
        )
    return Lack("CPU quotas and shares need a cgroup that this user may write", "run as root, or --backend docker")


@contextlib.contextmanager
def groups(run: str, limits: Mapping[str, Limits]) -> Iterator[dict[str, Path]]:
    """A group for each endpoint whose CPU time is limited, by its name; gone afterwards, however this process ends.

    Whoever enters it sees to it that no process is left in them before. Raises TestbedError.
    """
    limited = {name: each for name, each in limits.items() if each.cpu_quota or each.cpu_shares}
    if not limited:
        yield {}
        return
    found = hierarchy()
    base = found.base() if found else None
    if found is None or base is None:
        raise TestbedError(str(lack()))
    ours = base / f"{PREFIX}{ownership.me()}-{run}"
    with guarded(_REMOVE, str(ours)):
        try:
            yield {name: ours / name for name in _make(found.version, ours, limited)}
        finally:
            remove(ours)


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
    """What to write into which file of a group."""
    found = {}
    if limits.cpu_quota:
        quota_us = round(limits.cpu_quota * PERIOD_US)
        if version == 2:
            found["cpu.max"] = f"{quota_us} {PERIOD_US}"
        else:
            found |= {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}
    if limits.cpu_shares:
        found |= (
            {"cpu.weight": str(weight(limits.cpu_shares))} if version == 2 else {"cpu.shares": str(limits.cpu_shares)}
        )
    return found


def weight(shares: int) -> int:
    """A v2 weight (1 to 10000) for v1 shares (2 to 262144). Source: runc, ConvertCPUSharesToCgroupV2Value."""
    return 1 + (shares - 2) * 9999 // 262142


def remove(ours: Path) -> None:
    """Removes a testbed's groups, waiting for the last of their processes. Raises TestbedError."""
    deadline = time.monotonic() + PATIENCE_S
    while ours.exists():
        try:
            for group in (*(each for each in ours.iterdir() if each.is_dir()), ours):
                group.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"cgroup {ours} could not be removed: {error.strerror}. Its processes are in cgroup.procs;"
                    " when they have ended, `pairlab clean` removes it"
                ) from error
            time.sleep(0.01)


def remove_of_containers(identities: Collection[str]) -> None:
    """Removes the groups of Docker's containers of these ids, in every hierarchy, where nothing runs in them."""
    for folder, names, _ in os.walk("/sys/fs/cgroup", topdown=False):
        for name in names:
            if (found := CONTAINER.search(name)) and found[0] in identities:
                with contextlib.suppress(OSError):  # somebody else removes it, or only root may
                    os.rmdir(os.path.join(folder, name))


def of_testbeds() -> Iterator[tuple[Path, str, str]]:
    """Groups of this user's testbeds, wherever they are below the mounted hierarchies, each with its owner and run."""
    for mount in {mount for _, mount, _ in hierarchies()}:
        for place, names, _ in os.walk(mount):
            for name in [each for each in names if each.startswith(PREFIX) and "@" in each]:
                names.remove(name)
                group = Path(place, name)
                with contextlib.suppress(OSError):
                    if group.stat().st_uid == os.geteuid():
                        owner, _, run = name.removeprefix(PREFIX).rpartition("-")
                        yield group, owner, run
