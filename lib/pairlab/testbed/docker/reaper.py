"""The lifeline of a Docker testbed: removes the testbed when its parent asks, or when the parent has died.

It is a process in a session of its own that reads from a pipe: a line means that the parent is done; end of file
without a line means that it has died. All containers and networks of a testbed have the label pairlab.run with its id,
so nothing else is ever touched. If the lifeline is killed, its shell starts it again, or its parent does at the end.

Containers also end without it. Each waits on a FIFO in the testbed's directory that the parent and the lifeline keep
open: when both are dead, or have no daemon to ask, no process stays. That is the exception, as all containers then end
at once, and Docker may miscount a network's endpoints (moby issue 42119). Objects that only the daemon can remove are
removed when it is back: by the lifeline, which waits for DAEMON_S, as a crashed daemon is back in seconds; after that
by `pairlab clean`. A daemon that is killed while it starts a container forgets it: runc's process would keep the
network namespace and its links for good, and the shim and cgroups would stay. So the parent records each container
before it is started, and the lifeline kills its remaining processes; that takes root where the daemon is root's.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from docker.errors import APIError, NotFound

from pairlab.base.threads import run_before_flows
from pairlab.errors import PairlabError, TestbedError
from pairlab.testbed.cleanup import child_processes, workdir
from pairlab.testbed.cleanup.process_table import read_processes
from pairlab.testbed.docker.answers import required
from pairlab.testbed.docker.daemon import DOCKER_ERRORS, connect
from pairlab.testbed.host import cgroups

#: Labels of a testbed's containers and networks: the testbed's id, and its owner.
LABEL, OWNER_LABEL = "pairlab.run", "pairlab.owner"
#: The FIFO, in the testbed's directory.
FIFO = "lifeline"
#: The file with the ids of the containers made, one per line; in the same place.
MADE = "containers"
#: Removals under way at once: few, as Docker may else miscount a network's endpoints.
REMOVED_AT_ONCE = 2
#: How long a lifeline without a parent waits for a daemon to come back.
DAEMON_S = 120.0

#: Consecutive looks, 0.4 s apart, that must find nothing of a testbed whose parent died during a request.
ORPHAN_LOOKS = 5
#: How long the daemon may go on refusing.
PATIENCE_S = 20.0

#: What it prints: once it has started, and when it is done.
STARTED, REMOVED = "started", "removed"
_AGAIN_IF_KILLED = 'until "$@"; do [ $? -gt 128 ] || exit 1; done'


@contextlib.contextmanager
def lifeline(run: str, directory: Path, link: str) -> Iterator[Callable[[], object]]:
    """Removes the testbed `run`, and that link of the host, on leaving or when this process dies.

    Yields a function that waits until it has started, which takes CPU time that no measurement should have beside it.
    Raises TestbedError where cleanup was incomplete; an error of the block then says so too.
    """
    held = make_fifo(directory)
    (directory / MADE).touch(mode=0o600)

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, "-P", "-m", "pairlab.testbed.docker.reaper", run, str(directory), link]
        return subprocess.Popen(
            ["/bin/sh", "-c", _AGAIN_IF_KILLED, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=child_processes.needed_with_docker(),
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us to handle
        )

    process = start()
    assert process.stdout
    try:
        yield process.stdout.readline  # empty where it was killed
    except PairlabError as error:
        if stays := _have_removed(process, start, held, run):
            raise type(error)(f"{error}. Moreover, {stays}") from error
        raise
    except BaseException as error:
        if stays := _have_removed(process, start, held, run):
            error.add_note(stays)
        raise
    if stays := _have_removed(process, start, held, run):
        raise TestbedError(stays)


def make_fifo(directory: Path) -> int:
    """Makes the FIFO that containers wait on; returns the descriptor that keeps it open."""
    os.mkfifo(directory / FIFO)
    (directory / FIFO).chmod(0o644)  # readable for the container's user; a writer could keep it open
    return os.open(directory / FIFO, os.O_RDWR | os.O_CLOEXEC)


def note(directory: Path, container: str) -> None:
    """Records a container that is about to be started, so that the lifeline can end it without the daemon."""
    with (directory / MADE).open("a") as file:
        file.write(f"{container}\n")


def _have_removed(
    process: subprocess.Popen[str], start: Callable[[], subprocess.Popen[str]], held: int, run: str
) -> str:
    """Tells the lifeline to remove everything and waits; returns the leftovers and the reason, or an empty string."""
    os.close(held)
    for _ in range(3):
        assert process.stdin
        assert process.stdout
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("done\n")
            process.stdin.close()
        with process.stdout as output:
            answer = next((line.strip() for line in output if line.strip() != STARTED), "")
        if answer:
            break
        process = start()  # it was killed, and its shell with it
    if answer == REMOVED:
        process.wait()
        return ""
    return (
        f"cleanup of the Docker testbed was incomplete: {answer or 'its lifeline was killed repeatedly'};"
        f" docker ps --all --filter label={LABEL}={run} shows what is left, and `pairlab clean` tries again"
    )


def _explained(error: Exception) -> str:
    """Why removal failed, in a line."""
    if isinstance(error, APIError):
        hint = "A network that wrongly has active endpoints for Docker is removed when Docker is restarted"
    else:
        hint = (
            "The daemon does not answer: its containers have ended without it; the rest is removed"
            f" if it is back within {DAEMON_S:g} s"
        )
    return f"{' '.join(str(error).split())}. {hint}"


def remove(client: docker.DockerClient, run: str) -> int:
    """Removes every container and network of that testbed; returns how many there were."""
    ours = {"label": f"{LABEL}={run}"}
    containers = client.api.containers(all=True, filters=ours)
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        list(pool.map(lambda each: _remove_container(client, required(each, "Id")), containers))
    networks = client.api.networks(filters=ours)
    for network in networks:
        with contextlib.suppress(NotFound):
            client.api.remove_network(required(network, "Id"))
    return len(containers) + len(networks)


def remove_all(client: docker.DockerClient, run: str, *, orphaned: bool, made: Collection[str] = ()) -> None:
    """Removes the testbed until nothing of it is found; tries again if the daemon refuses.

    The daemon refuses, for instance, to remove a network while its last container is ending. orphaned: the parent has
    died, and the daemon may still work on its last request; so ORPHAN_LOOKS looks must find nothing, and the
    containers `made` are killed, known to the daemon or not. Raises the daemon's last refusal after PATIENCE_S, and at
    once the error of an absent daemon.
    """
    deadline, quiet = time.monotonic() + PATIENCE_S, 0
    while quiet < (ORPHAN_LOOKS if orphaned else 1):
        try:
            quiet = 0 if remove(client, run) else quiet + 1
        except APIError:
            quiet = 0
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        if orphaned:
            if quiet > 1:  # the shims of removed containers have ended by then
                _kill(made, shims=True)
                cgroups.remove_of_containers(made)
            if quiet < ORPHAN_LOOKS:
                time.sleep(0.4)


def _remove_container(client: docker.DockerClient, container: str) -> None:
    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # it is being removed already
            raise


def _kill(containers: Collection[str], *, shims: bool) -> None:
    """Kills the processes of these containers, and their shims if asked; containerd cleans up after a shim."""
    for process in read_processes().values():
        if process.container in containers and not process.zombie and (shims or not process.is_shim):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


def remove_link(name: str) -> None:
    """Removes a link of the host; none of that name is fine."""
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        for index in ipr.link_lookup(ifname=name):
            ipr.link("del", index=index)


def main() -> None:
    run, directory, link = sys.argv[1:4]
    run_before_flows(with_children=True)
    with contextlib.ExitStack() as stack:
        stack.callback(workdir.remove, Path(directory))
        if link:
            stack.callback(remove_link, link)
        noted = io.StringIO()
        with contextlib.suppress(OSError):  # removed with the parent, if we are a second lifeline
            stack.callback(os.close, os.open(f"{directory}/{FIFO}", os.O_RDWR | os.O_CLOEXEC))
            noted = stack.enter_context(open(f"{directory}/{MADE}"))
        with contextlib.suppress(OSError):
            print(STARTED, flush=True)  # noqa: T201 - its parent reads it
        orphaned = not sys.stdin.readline()
        made = set(noted.read().split())
        error = _trouble_in_removing(run, orphaned, made)
    with contextlib.suppress(OSError):  # the parent may be dead
        print(_explained(error) if error else REMOVED, flush=True)  # noqa: T201 - its parent reads it
    if error and not isinstance(error, APIError):
        _kill(made, shims=False)
        _remove_when_the_daemon_is_back(run, made)
    os._exit(0)  # not even if stdout could not be flushed


def _trouble_in_removing(run: str, orphaned: bool, made: Collection[str]) -> Exception | None:
    try:
        with contextlib.closing(connect()) as client:
            remove_all(client, run, orphaned=orphaned, made=made)
    except DOCKER_ERRORS as error:
        return error
    return None


def _remove_when_the_daemon_is_back(run: str, made: Collection[str]) -> None:
    """The daemon may still carry out earlier requests when it is back: hence orphaned."""
    deadline = time.monotonic() + DAEMON_S
    while _trouble_in_removing(run, orphaned=True, made=made) and time.monotonic() < deadline:
        time.sleep(0.5)


if __name__ == "__main__":
    main()
