"""What testbeds of dead processes left on this host. There should be none; `pairlab clean` makes sure."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pairlab.testbed import owner
from pairlab.testbed.workdir import PREFIX


class Leftover(NamedTuple):
    """A thing of a dead process's testbed: what it is, and how to remove it."""

    what: str
    remove: Callable[[], None]


def find() -> Iterator[Leftover]:
    """Working directories in /tmp, and containers and networks, whose owner is dead. Never those of others."""
    for directory in sorted(Path("/tmp").glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            if directory.stat().st_uid == os.geteuid() and not owner.alive((directory / "owner").read_text()):
                yield Leftover(f"directory {directory}", lambda at=directory: shutil.rmtree(at, ignore_errors=True))
    yield from _docker_leftovers()


def _docker_leftovers() -> Iterator[Leftover]:
    import docker
    from docker.errors import DockerException

    from pairlab.testbed.lifeline import LABEL, remove_all

    try:
        client = docker.from_env(timeout=20)
    except DockerException:
        return  # no daemon, so nothing of a daemon's
    with contextlib.closing(client):
        things = [
            *client.api.containers(all=True, filters={"label": LABEL}),
            *client.api.networks(filters={"label": LABEL}),
        ]
        dead = {thing["Labels"][LABEL] for thing in things if not owner.alive(thing["Labels"].get("pairlab.owner", ""))}
        for run in sorted(dead):
            yield Leftover(f"Docker testbed {run}", lambda run=run: remove_all(client, run, orphaned=False))
