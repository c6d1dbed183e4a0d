"""The lifeline of a docker testbed: removes all of it when told to, and when its parent is gone, however it went.

It is a process of its own, in a session of its own, that reads from a pipe: a line says that the parent is done; the
pipe's end without one, that it died. Everything of a testbed bears the label pairlab.run with the testbed's id, so
nothing else is ever touched.
"""

import contextlib
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import docker
import requests
from docker.errors import APIError, DockerException, NotFound

LABEL = "pairlab.run"
#: What a daemon that answers no, or not at all, raises.
DOCKER_ERRORS = (DockerException, requests.RequestException)
#: Calls to the daemon under way at once; fewer for removals, in which Docker may else lose count of a network's ends.
AT_ONCE, REMOVED_AT_ONCE = 16, 2


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


def remove_all(client: docker.DockerClient, run: str, *, orphaned: bool, patience_s: float = 20.0) -> None:
    """Removes it until nothing is found any more; a daemon that refuses or does not answer is asked again.

    A network, say, is refused while the last of its containers is still going. orphaned: the parent died, and the
    daemon may still be working on what it asked for last; so nothing has to be found five times in two seconds. Raises
    the daemon's last refusal after patience_s.
    """
    deadline, quiet = time.monotonic() + patience_s, 0
    while quiet < (5 if orphaned else 1):
        try:
            quiet = 0 if remove(client, run) else quiet + 1
        except DOCKER_ERRORS:
            quiet = 0
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        if orphaned:
            time.sleep(0.4)


def _remove_container(client: docker.DockerClient, container: str) -> None:
    try:
        client.api.remove_container(container, force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # its removal is under way already
            raise


def remove_link(name: str) -> None:
    """Removes a link of the host; none of that name is fine."""
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        for index in ipr.link_lookup(ifname=name):
            ipr.link("del", index=index)


def main() -> None:
    run, directory, link = sys.argv[1:4]
    told = sys.stdin.readline()
    try:
        with contextlib.closing(docker.from_env(max_pool_size=AT_ONCE)) as client:
            remove_all(client, run, orphaned=not told)
    finally:
        if link:
            remove_link(link)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
