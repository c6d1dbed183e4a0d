"""The host as it is, to compare before and after: what pairlab could leave behind.

Others may use pairlab on this host meanwhile. Processes of ours are known by a mark in their environment, which they
all inherit; containers and networks by pairlab's label.
"""

import contextlib
import os
import socket
import time
import uuid
from pathlib import Path

import psutil

from pairlab.testbed import owner
from pairlab.testbed.lifeline import LABEL

MARK = "PAIRLAB_TEST_SESSION"
os.environ[MARK] = uuid.uuid4().hex


def snapshot():
    """Links, working directories, processes of ours, and Docker's containers and networks."""
    return {
        "links": {name for _, name in socket.if_nameindex()},
        "directories": set(_directories()),
        "processes": set(_processes()),
        "docker": set(_docker()),
    }


def difference(before):
    """What is there now and was not before."""
    now = snapshot()
    return {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}


def settled(before, within_s=5.0):
    """Whether nothing more than before is there, at the latest after that time."""
    deadline = time.monotonic() + within_s
    while difference(before):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _processes():
    """Processes that began during these tests, other than pytest's own and what it is running just now."""
    tests = psutil.Process()
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        with contextlib.suppress(psutil.Error):
            if process.pid == tests.pid or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get(MARK) == os.environ[MARK]:
                yield process.pid, " ".join(process.info["cmdline"] or [])[:120]


def _directories():
    """Working directories of pairlab's, but for those of living processes that are none of ours."""
    ours = {pid for pid, _ in _processes()} | {os.getpid()}
    for path in Path("/tmp").glob("pairlab-*"):
        with contextlib.suppress(OSError):
            whose = (path / "owner").read_text()
            if owner.alive(whose) and int(whose.partition("@")[0]) not in ours:
                continue
        yield str(path)


def _docker():
    import docker
    from docker.errors import DockerException

    with contextlib.suppress(DockerException), contextlib.closing(docker.from_env(timeout=10)) as client:
        yield from (each["Names"][0] for each in client.api.containers(all=True, filters={"label": LABEL}))
        yield from (each["Name"] for each in client.api.networks(filters={"label": LABEL}))
