"""The lifeline of a docker testbed: removes all of it when told to, and when its parent is gone, however it went.

It is a process of its own, in a session of its own, that reads from a pipe: a line says that the parent is done; the
pipe's end without one, that it died. Everything of a testbed bears the label pairlab.run with the testbed's id, so
nothing else is ever touched. Killed, it is started again by the shell that it runs under, or at the end by its parent.

Containers end without it as well. Each waits for a FIFO in the testbed's directory, which the parent and the lifeline
hold open: when both are dead, or have no daemon to ask, no process stays. That is not the usual way, as all then end
at once, in which Docker may lose count of a network's ends (moby issue 42119). What only the daemon can remove is
removed when it is back: by the lifeline, which waits for DAEMON_S, as a daemon that crashed is back in seconds; then
by `pairlab clean`. A container that a daemon was starting when it was killed is forgotten by it: runc's process, which
nobody lets go, would hold its network namespace, and the links in it, for good; its shim and its cgroups would stay. So
the parent notes each container before it is started, and the lifeline ends what is left of them; root's can only root.
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
import requests
from docker.errors import APIError, DockerException, NotFound

from pairlab.errors import PairlabError, TestbedError
from pairlab.testbed import cgroups, environment, kin, workdir

LABEL = "pairlab.run"
#: The FIFO, in the testbed's directory.
FIFO = "lifeline"
#: The ids of the containers that were made, a line each; likewise.
MADE = "containers"
#: What a daemon that answers no, or not at all, raises.
DOCKER_ERRORS = (DockerException, requests.RequestException)
#: Calls to the daemon under way at once; fewer for removals, in which Docker may else lose count of a network's ends.
AT_ONCE, REMOVED_AT_ONCE = 16, 2
#: How long a daemon may take to say that it is there, and for any one call: starts wait for each other.
PING_S, ANSWER_S = 5.0, 60.0
#: How long a daemon that is not there is waited for, by a lifeline that nobody waits for.
DAEMON_S = 120.0

REMOVED = "removed"
_AGAIN_IF_KILLED = 'until "$@"; do [ $? -gt 128 ] || exit 1; done'


def connect() -> docker.DockerClient:
    """A client of the daemon. Raises DockerException within PING_S where none answers."""
    client = docker.from_env(timeout=PING_S, max_pool_size=AT_ONCE)
    client.api.timeout = ANSWER_S
    return client


@contextlib.contextmanager
def lifeline(run: str, directory: Path, link: str) -> Iterator[None]:
    """Removes the testbed `run`, and that link of the host, on leaving, through the process that also does without us.

    Raises TestbedError where it is not gone whole; an error of the block says so then, too.
    """
    os.mkfifo(directory / FIFO)
    (directory / FIFO).chmod(0o644)  # the container's user reads; who could write could keep it open
    held = os.open(directory / FIFO, os.O_RDWR | os.O_CLOEXEC)
    (directory / MADE).touch(mode=0o600)

    def start() -> subprocess.Popen:
        words = [sys.executable, "-P", "-m", "pairlab.testbed.lifeline", run, str(directory), link]
        return subprocess.Popen(
            ["/bin/sh", "-c", _AGAIN_IF_KILLED, "sh", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment.needed_with_docker(),
            cwd="/",
            start_new_session=True,  # Ctrl-C is for us to handle
        )

    process = start()
    try:
        yield
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


def note(directory: Path, container: str) -> None:
    """Has the lifeline know of a container that is about to be started, whatever becomes of the daemon."""
    with (directory / MADE).open("a") as file:
        file.write(f"{container}\n")


def _have_removed(process: subprocess.Popen, start: Callable[[], subprocess.Popen], held: int, run: str) -> str:
    """Tells the lifeline to remove it all and waits; returns what stays and why, empty: nothing."""
    os.close(held)
    for _ in range(3):
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write("done\n")
            process.stdin.close()
        if told := process.stdout.readline().strip():
            break
        process = start()  # it was killed, and its shell with it
    if told == REMOVED:
        process.wait()
        return ""
    return (
        f"the Docker testbed could not be removed whole: {told or 'its lifeline was killed, again and again'};"
        f" docker ps --all --filter label={LABEL}={run} shows what is left, and `pairlab clean` tries again"
    )


def _explained(error: Exception) -> str:
    """Why not all is removed, in a line."""
    if isinstance(error, APIError):
        hint = "A network that Docker says has active endpoints, and that has none, goes when Docker is restarted"
    else:
        hint = (
            "The daemon does not answer: its containers have ended without it, and the rest is removed"
            f" when it is back within {DAEMON_S:g} s"
        )
    return f"{' '.join(str(error).split())}. {hint}"


def remove(client: docker.DockerClient, run: str) -> int:
    """Removes every container and network of that testbed; returns how many there were."""
    ours = {"label": f"{LABEL}={run}"}
    containers = client.api.containers(all=True, filters=ours)
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as pool:
        list(pool.map(lambda container: _remove_container(client, container["Id"]), containers))
    networks = client.api.networks(filters=ours)
    for network in networks:
        with contextlib.suppress(NotFound):
            client.api.remove_network(network["Id"])
    return len(containers) + len(networks)


def remove_all(
    client: docker.DockerClient,
    run: str,
    *,
    orphaned: bool,
    made: Collection[str] = (),
    patience_s: float = 20.0,
) -> None:
    """Removes it until nothing is found any more; a daemon that refuses is asked again.

    A network, say, is refused while the last of its containers is still going. orphaned: the parent died, and the
    daemon may still be working on what it asked for last; so nothing has to be found five times in two seconds. made:
    containers of the testbed, of which nothing may run then, known to the daemon or not. Raises the daemon's last
    refusal after patience_s, and at once what a daemon that is not there raises.
    """
    deadline, quiet = time.monotonic() + patience_s, 0
    while quiet < (5 if orphaned else 1):
        try:
            quiet = 0 if remove(client, run) else quiet + 1
        except APIError:
            quiet = 0
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        if orphaned:
            if quiet > 1:  # what the daemon did remove is gone by then, with its shim
                _kill(made, shims=True)
                cgroups.remove_of_containers(made)
            time.sleep(0.4)


def _remove_container(client: docker.DockerClient, container: str) -> None:
    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # its removal is under way already
            raise


def _kill(containers: Collection[str], *, shims: bool) -> None:
    """Kills what runs in these containers, and their shims, too; containerd tidies up after a shim."""
    for process in kin.processes().values():
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
    with contextlib.ExitStack() as stack:
        stack.callback(workdir.remove, Path(directory))
        if link:
            stack.callback(remove_link, link)
        noted = io.StringIO()
        with contextlib.suppress(OSError):  # gone with the parent, if we are a second one
            stack.callback(os.close, os.open(f"{directory}/{FIFO}", os.O_RDWR | os.O_CLOEXEC))
            noted = stack.enter_context(open(f"{directory}/{MADE}"))
        orphaned = not sys.stdin.readline()
        made = set(noted.read().split())
        error = _trouble_in_removing(run, orphaned, made)
    with contextlib.suppress(OSError):  # nobody may be there to hear it
        print(_explained(error) if error else REMOVED, flush=True)
    if error and not isinstance(error, APIError):
        _kill(made, shims=False)
        _remove_when_the_daemon_is_back(run, made)
    os._exit(0)  # what could not be told is no reason to complain


def _trouble_in_removing(run: str, orphaned: bool, made: Collection[str]) -> Exception | None:
    try:
        with contextlib.closing(connect()) as client:
            remove_all(client, run, orphaned=orphaned, made=made)
    except DOCKER_ERRORS as error:
        return error
    return None


def _remove_when_the_daemon_is_back(run: str, made: Collection[str]) -> None:
    """Everything that was asked of the daemon before it went may come to be after it is back: hence orphaned."""
    deadline = time.monotonic() + DAEMON_S
    while _trouble_in_removing(run, orphaned=True, made=made) and time.monotonic() < deadline:
        time.sleep(0.5)


if __name__ == "__main__":
    main()
