"""The host as it is, to compare before and after: what pairlab could leave behind.

Others may use pairlab on this host meanwhile. Processes of ours are known by a mark in their environment, which they
all inherit; containers and networks by pairlab's label.
"""

import contextlib
import os
import signal
import socket
import time
import uuid
from pathlib import Path

import psutil

from pairlab.testbed import owner
from pairlab.testbed.lifeline import LABEL

MARK = "PAIRLAB_TEST_SESSION"
os.environ[MARK] = uuid.uuid4().hex


def heeding_ctrl_c():
    """For a child process, before its exec: a shell has its background jobs ignore Ctrl-C, and so all they start."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def snapshot():
    """Links, working directories, cgroups, processes of ours, and Docker's containers and networks."""
    return {
        "links": set(_links()),
        "directories": set(_directories()),
        "cgroups": set(_cgroups()),
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


def _links():
    """Links of this host, but for those that Docker makes and takes with its containers and networks."""
    for _, name in socket.if_nameindex():
        if not name.startswith(("veth", "br-", "docker")):
            yield name


def _others(whose):
    """Whether this owner is a living process that is none of ours."""
    ours = {pid for pid, _ in _processes()} | {os.getpid()}
    return owner.alive(whose) and int(whose.partition("@")[0] or 0) not in ours


def _directories():
    """Working directories of pairlab's, but for other people's."""
    for path in Path("/tmp").glob("pairlab-*"):
        with contextlib.suppress(OSError):
            if _others((path / "owner").read_text()):
                continue
        yield str(path)


def _cgroups():
    """Groups of pairlab's below every mounted hierarchy, but for other people's."""
    for place, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            if name.startswith("pairlab-") and not _others(name.removeprefix("pairlab-").rpartition("-")[0]):
                yield f"{place}/{name}"


def _docker():
    """Containers and networks of pairlab's, but for other people's."""
    import docker
    from docker.errors import DockerException

    ours = {"label": LABEL}
    with contextlib.suppress(DockerException), contextlib.closing(docker.from_env(timeout=10)) as client:
        found = [(each["Names"][0], each) for each in client.api.containers(all=True, filters=ours)]
        found += [(each["Name"], each) for each in client.api.networks(filters=ours)]
        yield from (name for name, each in found if not _others(each["Labels"]["pairlab.owner"]))
