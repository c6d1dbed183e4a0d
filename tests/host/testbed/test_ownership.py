"""Whether an owner lives, seen from other namespaces, after a step of the clock, and where /proc hides it.

What may live is never removed: `pairlab clean` is asked from every one of these places.
"""

import contextlib
import fcntl
import multiprocessing
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from pairlab.testbed.audit import leftovers
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.ownership import Liveness
from pairlab.testbed.cleanup.workdir import lock_of, working_directory
from pairlab.testbed.docker.daemon import connect
from pairlab.testbed.docker.reaper import LABEL
from pairlab.testbed.host import cgroups
from tests.conftest import need
from tests.support.owners import changed, ended, guards_of, owner_of

ALIVE, DEAD, UNKNOWN = Liveness.ALIVE, Liveness.DEAD, Liveness.UNKNOWN

#: What runs a command elsewhere; the clock and /proc are changed for that command only.
HERE = ()
PID_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
PID_NAMESPACE_WITH_OUTER_PROC = ("unshare", "--pid", "--fork", "--kill-child")
TIME_NAMESPACE = ("unshare", "--time", "--boottime", "1000", "--fork", "--kill-child")
CLOCK_STEP = ("unshare", "--mount", "sh", "-c")
CLOCK_STEP += (
    "mount -t tmpfs none /mnt; awk '/^btime/ { $2 += 10 } 1' /proc/stat > /mnt/stat; mount --bind /mnt/stat /proc/stat;"
    ' exec "$@"',
    "sh",
)
HIDEPID = ("unshare", "--mount", "sh", "-c")
HIDEPID += (
    "mount -t proc -o hidepid=2 proc /proc;"  # it hides nothing from who may trace, or is in group 0
    ' exec setpriv --regid=65534 --clear-groups --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace "$@"',
    "sh",
)
PLACES = {
    "here": (HERE, ALIVE, DEAD),
    "another PID namespace": (PID_NAMESPACE, UNKNOWN, UNKNOWN),
    "another PID namespace, whose /proc is ours": (PID_NAMESPACE_WITH_OUTER_PROC, UNKNOWN, UNKNOWN),
    "another time namespace": (TIME_NAMESPACE, UNKNOWN, DEAD),
    "after a step of the clock": (CLOCK_STEP, ALIVE, DEAD),
    "hidepid": (HIDEPID, UNKNOWN, DEAD),
}


def elsewhere(place, *command, **options):
    """Runs a command there; returns its output. Skips the test where this host does not let us go there."""
    if place and (os.geteuid() != 0 or not shutil.which(place[0]) or subprocess.run([*place, "true"]).returncode):
        pytest.skip("only root can make namespaces and mounts, with unshare and setpriv (util-linux)")
    return subprocess.run([*place, *command], check=True, capture_output=True, text=True, **options).stdout


def liveness_from(place, owner):
    ask = "import sys; from pairlab.testbed.cleanup import ownership; print(ownership.liveness(sys.argv[1]).value)"
    return Liveness(elsewhere(place, sys.executable, "-c", ask, owner).strip())


@pytest.mark.parametrize(("place", "of_living", "of_dead"), PLACES.values(), ids=PLACES)
def test_what_can_be_told_of_an_owner_from(place, of_living, of_dead):
    assert liveness_from(place, changed()) is of_living
    assert liveness_from(place, ended()) is of_dead


def test_ids_in_a_proc_of_an_outer_namespace_are_not_taken_for_ours():
    ask = "from pairlab.testbed.cleanup import ownership as o; print(o.liveness(o.me()).value)"
    assert elsewhere(PID_NAMESPACE_WITH_OUTER_PROC, sys.executable, "-c", ask) == "unknown\n"
    assert elsewhere(PID_NAMESPACE, sys.executable, "-c", ask) == "alive\n"


def test_an_id_that_is_used_again_is_another_process():
    _, _, start_ticks = ownership.read_stat(Path("/proc/self"))
    assert ownership.liveness(changed(start_ticks=start_ticks - 1)) is DEAD


def test_a_dead_process_that_nobody_reaped_is_dead():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        owner = owner_of(process.pid)
        assert ownership.liveness(owner) is ALIVE
        process.stdin.close()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ownership.liveness(owner) is DEAD


@pytest.mark.parametrize("owner", ["1@1700000000", "99999999@1", "0@0", "?", ""])
def test_what_names_no_owner_as_we_do_may_live(owner):
    assert ownership.liveness(owner) is UNKNOWN


def test_of_another_boot_only_what_is_on_another_host_may_live():
    owner = changed(boot=uuid.uuid4().hex)
    assert ownership.liveness(owner) is DEAD
    assert ownership.liveness(owner, remote=True) is UNKNOWN


# --- the lock


def test_a_lock_tells_what_a_name_does_not(tmp_path):
    """Of an owner in another PID namespace."""
    file, owner = tmp_path / "owner", changed(pid_namespace=1)
    assert ownership.liveness(owner, lock=file) is UNKNOWN
    with ownership.held(file):
        file.write_text(owner)
        assert ownership.liveness(owner, lock=file) is ALIVE
        assert ownership.liveness(changed(pid_namespace=2), lock=file) is UNKNOWN  # the lock is not that owner's
    assert ownership.liveness(owner, lock=file) is DEAD


def test_a_free_lock_of_an_older_pairlab_tells_nothing(tmp_path):
    (tmp_path / "owner").write_text("1@1700000000")
    assert ownership.liveness("1@1700000000", lock=tmp_path / "owner") is UNKNOWN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that is somebody else's")
def test_a_lock_of_somebody_elses_tells_nothing(tmp_path):
    file, owner = tmp_path / "owner", changed(pid_namespace=1)
    file.write_text(owner)
    os.chown(file, 65534, 65534)
    assert ownership.liveness(owner, lock=file) is UNKNOWN


def test_asking_for_a_lock_does_not_tell_others_that_it_is_held(tmp_path):
    file, owner = tmp_path / "owner", changed(pid_namespace=1)
    file.write_text(owner)
    told = set()

    def ask():
        told.update(ownership.liveness(owner, lock=file) for _ in range(200))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert told == {DEAD}


# --- pairlab clean

#: Has a working directory and a cgroup until it is told to end, and says which.
OWNER = """
import sys
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.host import cgroups
with working_directory() as directory:
    limits = {} if cgroups.missing() else {"client-0": Limits(cpu_shares=512)}
    with cgroups.groups(directory.name.removeprefix("pairlab-"), limits) as groups:
        print(directory.parent, *(each.parent for each in groups.values()), flush=True)
        sys.stdin.read()
"""


@contextlib.contextmanager
def an_owner(place=HERE, script=OWNER):
    """A process there, and what it has made."""
    elsewhere(place, "true")
    command = [*place, sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.stdin.close()


def cleaned_from(place, tmp_path, *options):
    """What `pairlab clean` says there: what it removes, and what it leaves as it cannot tell."""
    program = Path(sys.executable).with_name("pairlab")
    environment = {**os.environ, "PAIRLAB_RUNS": str(tmp_path), "DOCKER_HOST": "unix:///nonexistent"}
    told = elsewhere(place, program, "clean", *options, env=environment)
    removed = re.findall(r"^(?:removing|would remove) \w+ (.*)$", told, re.MULTILINE)
    return removed, re.findall(r"^  \w+ (.*)$", told, re.MULTILINE)


def end_with_its_guards(process):
    """As if everything of it had been killed at once; comes back when all have ended, and let go of what they held."""
    ends = [os.pidfd_open(pid) for pid in (*guards_of(process.pid), process.pid)]
    for each in ends:
        signal.pidfd_send_signal(each, signal.SIGKILL)
    process.wait()
    for each in ends:
        assert select.select([each], [], [], 60)[0], "killed, and not gone"
        os.close(each)


@pytest.mark.parametrize("place", [each[0] for each in PLACES.values()], ids=PLACES)
def test_clean_leaves_what_is_in_use_and_finds_what_is_not_from(place, tmp_path):
    with an_owner() as (process, made):
        removed, unclear = cleaned_from(place, tmp_path, "--dry-run")
        assert not set(made) & {*removed, *unclear}
        end_with_its_guards(process)
        try:
            removed, unclear = cleaned_from(place, tmp_path, "--dry-run")
            assert set(made) <= set(removed)
        finally:
            remove(made)


@pytest.mark.parametrize("place", [PID_NAMESPACE, TIME_NAMESPACE], ids=["another PID namespace", "time namespace"])
def test_clean_here_leaves_what_is_in_use_in(place, tmp_path):
    with an_owner(place) as (_, made):
        removed, unclear = cleaned_from(HERE, tmp_path, "--dry-run")
        assert not set(made) & {*removed, *unclear}


def test_clean_lists_the_cgroup_whose_owner_it_cannot_tell_and_leaves_it(tmp_path):
    if cgroups.missing():
        pytest.skip(str(cgroups.missing()))
    group = cgroups.hierarchy().base() / f"{cgroups.PREFIX}{changed(pid_namespace=1)}-x1y2z3a4"
    group.mkdir()
    try:
        removed, unclear = cleaned_from(HERE, tmp_path, "--dry-run")
        assert str(group) in unclear
        assert str(group) not in removed
    finally:
        group.rmdir()


def remove(made):
    for each in leftovers.find().dead:
        if each.what.split()[-1] in made:
            each.remove()
    assert not any(Path(each).exists() for each in made)


# --- forks

FORKS = """
import multiprocessing, sys, time
from pairlab.testbed.cleanup.workdir import working_directory
with working_directory() as directory:
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    child.start()
    print(directory.parent, child.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("with_guard", [False, True])
def test_a_forked_child_does_not_keep_the_directory_of_its_dead_parent(with_guard):
    with an_owner(script=FORKS) as (process, (directory, child)):
        try:
            if with_guard:
                end_with_its_guards(process)
                assert f"directory {directory}" in [each.what for each in leftovers.find().dead]
                remove([directory])
            else:
                process.kill()
                process.wait()
                deadline = time.monotonic() + 60
                while Path(directory).exists():
                    assert time.monotonic() < deadline, "the fork keeps the guard waiting"
                    time.sleep(0.01)
        finally:
            os.kill(int(child), signal.SIGKILL)


def test_a_fork_leaves_the_lock_with_its_parent():
    with working_directory() as directory:
        file = lock_of(directory.name.removeprefix("pairlab-"))
        child = multiprocessing.get_context("fork").Process(target=len, args=("",))
        child.start()
        child.join()
        with file.open() as opened, pytest.raises(BlockingIOError):
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)


# --- a remote daemon


@contextlib.contextmanager
def over_tcp(path):
    """An address on loopback behind which that Unix socket is."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    near, _ = server.accept()
                    threading.Thread(target=connect_to, args=(near,), daemon=True).start()

        def connect_to(near):
            with near, socket.socket(socket.AF_UNIX) as far:
                far.connect(path)
                back = threading.Thread(target=copy, args=(far, near), daemon=True)
                back.start()
                copy(near, far)
                back.join()

        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def copy(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def test_a_testbed_of_another_boot_is_dead_in_a_daemon_of_this_host_and_may_live_in_a_remote_one(monkeypatch):
    need("docker")
    if os.environ.get("DOCKER_HOST"):
        pytest.skip("needs the daemon of this host, at its usual socket")
    run = uuid.uuid4().hex[:8]
    labels = {LABEL: run, "pairlab.owner": changed(boot=uuid.uuid4().hex)}
    with contextlib.closing(connect()) as client:
        network = client.api.create_network(f"pairlab-{run}", driver="bridge", labels=labels)["Id"]
        try:
            assert f"Docker testbed {run}" in [each.what for each in leftovers.find().dead]
            with over_tcp("/var/run/docker.sock") as address:
                monkeypatch.setenv("DOCKER_HOST", address)
                found = leftovers.find()
                assert f"Docker testbed {run}" not in [each.what for each in found.dead]
                assert f"Docker testbed {run}" in found.unclear
        finally:
            client.api.remove_network(network)
