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
from docker.errors import APIError, NotFound

LABEL = "pairlab.run"
#: Calls to the daemon under way at once.
AT_ONCE = 16


def remove(client: docker.DockerClient, run: str) -> int:
    """Removes every container and network of that testbed; returns how many there were."""
    ours = {"label": f"{LABEL}={run}"}
    containers = client.api.containers(all=True, filters=ours)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda container: _remove_container(client, container["Id"]), containers))
    networks = client.api.networks(filters=ours)
    for network in networks:
        with contextlib.suppress(NotFound):
            client.api.remove_network(network["Id"])
    return len(containers) + len(networks)


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
            found = remove(client, run)
            # A parent that died may have left a request that the daemon is still working on.
            while not told and found:
                time.sleep(0.5)
                found = remove(client, run)
    finally:
        if link:
            remove_link(link)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
