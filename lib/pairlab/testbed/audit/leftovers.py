"""Leftovers of dead processes' testbeds on this host. There should be none; `pairlab clean` removes them."""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pairlab.base import temporary_folder
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.ownership import Liveness
from pairlab.testbed.cleanup.workdir import PREFIX, lock_of
from pairlab.testbed.host import cgroups

LINKS = Path("/sys/class/net")
#: A directory is empty for milliseconds until it names its owner; one still empty after this time is a leftover.
NAMED_WITHIN_S = 300.0


class Leftover(NamedTuple):
    """A leftover of a dead process's testbed: its description, and the function that removes it."""

    what: str
    remove: Callable[[], None]


class Found(NamedTuple):
    """dead: leftovers of dead processes. unclear: descriptions of things whose owner may live."""

    dead: list[Leftover]
    unclear: list[str]


def find() -> Found:
    """Cgroups, containers and networks, links, temporary folders; never those of the living, or of others."""
    dead, unclear = [], []
    # Directories come last, as their locks show the owners of the rest, also to another call.
    for state, thing in (*_cgroups(), *_docker_testbeds(), *_links(), *_directories(), *_temporary_folders()):
        if state is Liveness.DEAD:
            dead.append(thing)
        elif state is Liveness.UNKNOWN:
            unclear.append(thing.what)
    return Found(dead, unclear)


def _cgroups() -> Iterator[tuple[Liveness, Leftover]]:
    for group, owner, run in cgroups.of_testbeds():
        state = ownership.liveness(owner, lock=lock_of(run))
        yield state, Leftover(f"cgroup {group}", partial(cgroups.remove, group))


def _docker_testbeds() -> Iterator[tuple[Liveness, Leftover]]:
    from pairlab.testbed.docker import daemon
    from pairlab.testbed.docker.answers import optional
    from pairlab.testbed.docker.reaper import LABEL, OWNER_LABEL, remove_all

    try:
        client = daemon.connect(20)
    except daemon.DOCKER_ERRORS as error:
        if not daemon.is_absent(error):
            yield _unknown_to(daemon.explain(error).what)
        return
    with contextlib.closing(client):
        try:
            remote = daemon.is_remote(client) or not daemon.is_here(client, client.info())
            containers = client.api.containers(all=True, filters={"label": LABEL})
            things = [*containers, *client.api.networks(filters={"label": LABEL})]
        except daemon.DOCKER_ERRORS as error:
            yield _unknown_to(daemon.explain(error).what)
            return
        labels = [optional(thing, "Labels") or {} for thing in things]
        owners = {each[LABEL]: each.get(OWNER_LABEL) or "" for each in labels if each.get(LABEL)}
        # No container survives a boot of this host: a running one is on another host, whose socket was forwarded here.
        running = {optional(each, "Labels", LABEL) for each in containers if optional(each, "State") == "running"}
        for run, owner in sorted(owners.items()):
            state = ownership.liveness(owner, lock=lock_of(run), remote=remote or run in running)
            yield state, Leftover(f"Docker testbed {run}", partial(remove_all, client, run, orphaned=False))


def _unknown_to(why: str) -> tuple[Liveness, Leftover]:
    return Liveness.UNKNOWN, Leftover(f"what Docker may have: {why}", lambda: None)


def _links() -> Iterator[tuple[Liveness, Leftover]]:
    """Parent links of Docker's macvlan networks; their ifalias names the owner."""
    from pairlab.testbed.docker.reaper import remove_link

    for link in sorted(LINKS.glob("pl*")) if os.geteuid() == 0 else ():  # only root makes any
        with contextlib.suppress(OSError):
            if "@" in (owner := (link / "ifalias").read_text().strip()):
                state = ownership.liveness(owner, lock=lock_of(link.name.removeprefix("pl")))
                yield state, Leftover(f"link {link.name}", partial(remove_link, link.name))


def _directories() -> Iterator[tuple[Liveness, Leftover]]:
    for directory in sorted(Path("/tmp").glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            if directory.lstat().st_uid == os.geteuid() and (state := _liveness_of_owner(directory)):
                what = f"directory {directory}"
                yield state, Leftover(what, partial(shutil.rmtree, directory, ignore_errors=True))


def _temporary_folders() -> Iterator[tuple[Liveness, Leftover]]:
    for folder in temporary_folder.abandoned():
        what = f"temporary folder {folder}"
        yield Liveness.DEAD, Leftover(what, partial(shutil.rmtree, folder, ignore_errors=True))


def _liveness_of_owner(directory: Path) -> Liveness | None:
    """None for a directory that only has a working directory's prefix."""
    if directory.name.startswith(temporary_folder.PREFIX):
        return None
    file = directory / "owner"
    owner = file.read_text() if file.exists() else ""
    state = ownership.liveness(owner, lock=file)
    if owner or state is Liveness.ALIVE:
        return state
    if not set(os.listdir(directory)) <= {"owner"}:
        return None
    old = time.time() - directory.stat().st_mtime > NAMED_WITHIN_S
    return Liveness.DEAD if old else Liveness.ALIVE
