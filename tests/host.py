"""The host as it is, to compare before and after: what pairlab could leave behind."""

import contextlib
import socket
import time
from pathlib import Path

import psutil

OURS = ("flowgen", "pairlab.testbed.agent", "pairlab.testbed.lifeline", "ovs-vswitchd", "ovsdb-server")


def snapshot():
    """Links, working directories, processes of ours, and Docker's containers and networks."""
    return {
        "links": {name for _, name in socket.if_nameindex()},
        "directories": {str(path) for path in Path("/tmp").glob("pairlab-*")},
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
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(name in " ".join(words[:5]) for name in OURS):
            yield process.info["pid"], " ".join(words)[:120]


def _docker():
    import docker
    from docker.errors import DockerException

    with contextlib.suppress(DockerException), contextlib.closing(docker.from_env(timeout=10)) as client:
        yield from (each["Names"][0] for each in client.api.containers(all=True))
        yield from (each["Name"] for each in client.api.networks())
