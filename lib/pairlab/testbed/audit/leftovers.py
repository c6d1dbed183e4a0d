"""What testbeds of dead processes left on this host. There should be nothing; `pairlab clean` removes it."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.workdir import PREFIX
from pairlab.testbed.netns import cgroups

LINKS = Path("/sys/class/net")


class Leftover(NamedTuple):
    """Something of a dead process's testbed: what it is, and how to remove it."""

    what: str
    remove: Callable[[], None]


def find() -> Iterator[Leftover]:
    """Directories in /tmp, cgroups, links, containers and networks, whose owner is dead. Never those of others."""
    for directory in sorted(Path("/tmp").glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            if directory.stat().st_uid == os.geteuid() and _is_nobodys(directory):
                yield Leftover(f"directory {directory}", lambda at=directory: shutil.rmtree(at, ignore_errors=True))
    for group in cgroups.left_behind():
        yield Leftover(f"cgroup {group}", lambda at=group: cgroups.remove(at))
    yield from _docker_leftovers()
    yield from _links()


def _is_nobodys(directory: Path) -> bool:
    """Whether its owner is dead, or it names no owner although it was made more than a minute ago."""
    if (directory / "owner").exists() and (owner := (directory / "owner").read_text()):
        return not ownership.alive(owner)
    nothing_else = set(os.listdir(directory)) <= {"owner"}  # else it is somebody's, with a name like ours
    return nothing_else and time.time() - directory.stat().st_mtime > 60


def _links() -> Iterator[Leftover]:
    """Links that Docker's macvlan networks sat on; their ifalias says who made them."""
    from pairlab.testbed.docker.reaper import remove_link

    for link in sorted(LINKS.glob("pl*")) if os.geteuid() == 0 else ():  # only root makes any
        with contextlib.suppress(OSError):
            if not ownership.alive((link / "ifalias").read_text().strip()):
                yield Leftover(f"link {link.name}", lambda name=link.name: remove_link(name))


def _docker_leftovers() -> Iterator[Leftover]:
    import docker
    from docker.errors import DockerException

    from pairlab.testbed.docker.reaper import LABEL, remove_all

    try:
        client = docker.from_env(timeout=20)
    except DockerException:
        return  # no daemon, so nothing of a daemon's
    with contextlib.closing(client):
        things = [
            *client.api.containers(all=True, filters={"label": LABEL}),
            *client.api.networks(filters={"label": LABEL}),
        ]
        dead = {
            thing["Labels"][LABEL] for thing in things if not ownership.alive(thing["Labels"].get("pairlab.owner", ""))
        }
        for run in sorted(dead):
            yield Leftover(f"Docker testbed {run}", lambda run=run: remove_all(client, run, orphaned=False))
