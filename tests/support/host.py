"""The host as it is, to compare before and after: what pairlab could leave behind.

Others may use pairlab on this host meanwhile. Processes of ours are known by a mark in their environment, which they
all inherit; containers and networks by pairlab's label.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

from pairlab.base import temporary_folder
from pairlab.testbed.cleanup import ownership, process_table
from pairlab.testbed.cleanup.process_table import SESSION
from pairlab.testbed.docker.daemon import DOCKER_ERRORS, connect, is_absent
from pairlab.testbed.docker.reaper import LABEL

MARK = SESSION
os.environ[MARK] = uuid.uuid4().hex

#: Where the programs of this environment are.
BIN = Path(sys.executable).parent

#: How long Docker may take to tell what it has: for any one answer, lifeline.connect gives it up to a minute.
TELLS_WITHIN_S = 120.0


def started(command, stderr=subprocess.PIPE):
    """A program in a session of its own, which heeds Ctrl-C; its output is text.

    A shell has its background jobs ignore Ctrl-C, and so all they start, these tests too.
    """
    return subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


#: A process that has a testbed up, with a process in each server that waits, until it is killed.
_BUILDER = """
from pairlab import Spec, open_testbed
with open_testbed(Spec(**{asked!r})) as bed:
    bed.launcher.start([(pair.server, [bed.site.flowgen, "pause"]) for pair in bed.pairs])
    print("up", flush=True)
    input()
"""


@contextlib.contextmanager
def killed_builder(spec):
    """In the block, a process of its own has this testbed up; at its end that process is killed."""
    script = _BUILDER.format(asked=spec.model_dump(exclude_defaults=True))
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        yield
        process.kill()


def snapshot():
    """Links, working directories, cgroups, processes of ours, and Docker's containers and networks."""
    processes = dict(_processes())
    ours = processes.keys() | {os.getpid()}
    return {
        "links": set(_links()),
        "directories": set(_directories(ours)),
        "cgroups": set(_cgroups(ours)),
        "processes": set(processes.items()),
        "docker": set(_docker(ours)),
    }


def difference(before):
    """What is there now and was not before."""
    now = snapshot()
    return {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}


def settled(before, within_s=60.0):
    """Whether nothing more than before is there, at the latest in a look that is begun after that time."""
    deadline = time.monotonic() + within_s
    while True:
        last = time.monotonic() > deadline
        if not difference(before):
            return True
        if last:
            return False
        time.sleep(0.05)


def _processes():
    """Processes that began during these tests, other than pytest's own and what it is running just now."""
    for pid, process in process_table.read_processes().items():
        if pid != os.getpid() and not process.zombie and process.session == os.environ[MARK]:
            yield pid, process.command[:120]


def _links():
    """Links of this host, but for those that Docker makes and takes with its containers and networks."""
    for _, name in socket.if_nameindex():
        if not name.startswith(("veth", "br-", "docker")):
            yield name


def _others(whose, ours):
    """Whether this owner is a living process, and its id none of ours."""
    return ownership.liveness(whose) is not ownership.Liveness.DEAD and int(whose.partition("@")[0] or 0) not in ours


def _directories(ours):
    """Working directories of pairlab's, but for other people's."""
    for path in Path("/tmp").glob("pairlab-*"):
        with contextlib.suppress(OSError):
            if path.stat().st_uid != os.geteuid() or temporary_folder.is_held(path):
                continue
            if _others((path / "owner").read_text(), ours):
                continue
        yield str(path)


def _cgroups(ours):
    """Groups of pairlab's below every mounted hierarchy, but for other people's."""
    for place, names, _ in os.walk("/sys/fs/cgroup"):
        for name in names:
            if name.startswith("pairlab-") and not _others(name.removeprefix("pairlab-").rpartition("-")[0], ours):
                yield f"{place}/{name}"


def _docker(ours):
    """Containers and networks of pairlab's, but for other people's; none where there is no daemon."""
    for name, labels in _labelled():
        if not _others(labels["pairlab.owner"], ours):
            yield name


def _labelled():
    """The names of pairlab's containers and networks, and their labels.

    A daemon that is busy is asked again, as that it does not answer says nothing of what it has.
    """
    ours = {"label": LABEL}
    deadline = time.monotonic() + TELLS_WITHIN_S
    while True:
        try:
            with contextlib.closing(connect()) as client:
                found = [(each["Names"][0], each["Labels"]) for each in client.api.containers(all=True, filters=ours)]
                return found + [(each["Name"], each["Labels"]) for each in client.api.networks(filters=ours)]
        except DOCKER_ERRORS as error:
            if is_absent(error):
                return []
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)
