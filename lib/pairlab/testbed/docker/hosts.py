"""Docker hosts: network namespaces of one sandbox, each with a Docker daemon of its own.

The daemons, their containers and their mounts are in the sandbox's namespaces and end with it. Files remain, which are
removed with the testbed's directory, and cgroups, which a watchdog removes. The user's daemon only provides the image;
its containers, networks and swarm stay unchanged.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import psutil

from pairlab.errors import TestbedError
from pairlab.testbed.cleanup.child_processes import guarded
from pairlab.testbed.cleanup.workdir import run_of
from pairlab.testbed.contracts import DockerNetwork, Layout, NetworkDriver, Progress, Site
from pairlab.testbed.docker import image
from pairlab.testbed.docker.answers import failure, required
from pairlab.testbed.docker.daemon import ANSWER_S, AT_ONCE, connect
from pairlab.testbed.docker.engine import Engine, create_network, start_all, start_workers, translated
from pairlab.testbed.docker.reaper import make_fifo
from pairlab.testbed.docker.site import DockerSite
from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan
from pairlab.testbed.host import cgroups
from pairlab.testbed.netns.backend import NetnsSite, build
from pairlab.testbed.netns.networks import on_network
from pairlab.testbed.netns.sandbox import Sandbox, import_path
from pairlab.testbed.placement import SUBNET
from pairlab.testbed.requirements import MissingRequirement, Program, lacking, missing_programs

DOCKERD, FIND = Program("dockerd", "docker.io"), Program("find", "findutils")
#: The memory of a host: its daemons, and the image, which is kept in memory.
HOST_BYTES = 400 << 20
#: How long all daemons may take to be ready.
READY_S = 60.0
#: The port by which hosts join a swarm, docker-swarm-init(1).
SWARM_PORT = 2377
#: The address in the endpoints' subnet that no endpoint gets.
GATEWAY = str(SUBNET.broadcast_address - 1)

#: Removes the containers' cgroups; tries again while their last processes are ending.
_REMOVE = """
n=0; while [ $n -lt 300 ]; do
    [ -n "$(find /sys/fs/cgroup -type d -name "$1" 2>/dev/null)" ] || break
    find /sys/fs/cgroup -depth -type d -path "*/$1*" -exec rmdir -- {} + 2>/dev/null || sleep 0.1 || sleep 1
    n=$((n+1))
done
"""


def missing(hosts: int = 1) -> list[MissingRequirement]:
    """The missing requirements of daemons for that many hosts."""
    if os.geteuid() != 0:
        return lacking("each host gets a Docker daemon of its own, which needs root", "run as root, or --backend netns")
    requirements = missing_programs([DOCKERD, FIND])
    if (free_bytes := psutil.virtual_memory().available) < 2 * hosts * HOST_BYTES:
        what = f"the daemons of {hosts} hosts need {hosts * HOST_BYTES / 1e9:.1f} GB of memory"
        requirements += lacking(
            f"{what}, and {free_bytes / 1e9:.1f} GB are free", "take fewer hosts, or --backend netns"
        )
    return requirements


@contextlib.contextmanager
def open_site(layout: Layout, directory: Path, progress: Progress) -> Iterator[Site]:
    """As Backend.open. If the driver has no containers, endpoints are processes on hosts with a running daemon."""
    bare = layout.driver.docker is not None and not layout.driver.docker.has_containers
    archive = directory.parent / "image.tar"
    with translated("the Docker testbed could not be built"), contextlib.ExitStack() as stack:
        if bare:
            groups = stack.enter_context(
                cgroups.groups(run_of(directory), layout.limits)
            )  # they end after their processes
        else:
            image_id = _save_image(archive, progress)
            stack.callback(os.close, make_fifo(directory))
        running, engines, facts = stack.enter_context(_daemons(layout, directory, progress))
        if bare:
            facts |= {**build(running, layout, progress), "containers": 0}
            yield NetnsSite(layout, facts, running, directory, groups)
        else:
            _load_image(engines, archive)
            facts["image"] = image_id
            yield _start_containers(running, engines, facts, layout, progress)
        running.check()


def _start_containers(
    running: Sandbox, engines: Sequence[Engine], facts: dict[str, Any], layout: Layout, progress: Progress
) -> Site:
    """Starts the endpoints' containers on the driver's network."""
    driver, endpoints = layout.driver, layout.endpoints
    network, fixed = _network(engines, layout)
    attached = on_network(endpoints)
    requests = [(engines[each.host], each, network, each.address if fixed else "") for each in attached]
    requests += [(engines[each.host], each, "host", "") for each in endpoints if each.uses_host_network]
    containers = start_all(requests, driver, progress)
    every = {**containers, **start_workers(engines, layout, progress)}
    pids = {name: container.engine_pid() for name, container in containers.items()}
    if driver.docker is None:
        facts |= running.call("build", import_path(driver), endpoints, layout.hosts, None, pids)
        addresses: dict[str, str] = {}
    else:
        running.call("adopt", import_path(driver), endpoints, layout.hosts, pids if driver.isolated else {})
        addresses = _addresses(engines, layout, attached, network)
    built = running.call("built")
    facts |= {"hosts": built, "bridge_nf_call_iptables": built[0]["bridge_nf_call_iptables"]}
    site = DockerSite(layout, facts, every, engines, network, fixed=fixed, sandbox=running)
    site.addresses |= addresses
    return site


@contextlib.contextmanager
def _daemons(
    layout: Layout, directory: Path, progress: Progress
) -> Iterator[tuple[Sandbox, list[Engine], dict[str, Any]]]:
    """Starts a daemon on each host; yields their sandbox, their engines, and the facts."""
    run, hosts = run_of(directory), layout.hosts
    group = cgroups.name_of(run)
    with contextlib.ExitStack() as stack:
        stack.enter_context(guarded(_REMOVE, group))
        stack.callback(_remove_groups, run)
        running = stack.enter_context(Sandbox(directory))
        facts: dict[str, Any] = {}
        if len(hosts) > 1:
            facts["underlay"] = running.call("connect", hosts)["underlay"]
        progress("starting Docker on each host", 0, len(hosts))
        places = {host.name: directory.parent / host.name for host in hosts}
        for place in places.values():
            place.mkdir(mode=0o700)
        commands = {name: _dockerd(place, group, layout.driver) for name, place in places.items()}
        running.call("start_daemons", commands, {name: str(place) for name, place in places.items()}, READY_S)
        engines = [stack.enter_context(_engine(places[host.name], run, directory, running.pid)) for host in hosts]
        facts["docker"] = engines[0].version()
        yield running, engines, facts


def _save_image(archive: Path, progress: Progress) -> str:
    """Writes the image to a file, from the user's daemon; returns its id."""
    with contextlib.closing(connect()) as client:
        image_id = image.ensure(client, progress)
        with archive.open("wb") as file:
            file.writelines(client.images.get(image.tag()).save(named=True))
    return image_id


def _load_image(engines: Sequence[Engine], archive: Path) -> None:
    """Loads the image into all daemons, in parallel, and removes the file. Raises TestbedError."""

    def load(engine: Engine) -> None:
        with archive.open("rb") as file:
            if why := next(filter(None, map(failure, engine.client.api.load_image(file))), ""):
                raise TestbedError(f"a host's Docker daemon could not load the container image: {why}")

    with ThreadPoolExecutor(len(engines)) as pool:
        list(pool.map(load, engines))
    archive.unlink()


def _dockerd(place: Path, group: str, driver: type[NetworkDriver]) -> list[str]:
    """The command of a daemon with all of its files in that folder, and its containers in that cgroup.

    Without containers, it keeps its default bridge, docker0, like the daemon of any host with Docker.
    """
    own = driver.docker or DockerNetwork()
    return [
        DOCKERD.command,
        *("--host", f"unix://{place}/docker.sock"),
        *("--data-root", f"{place}/data"),
        *("--exec-root", f"{place}/exec"),
        *("--pidfile", f"{place}/docker.pid"),
        *("--config-file", ""),
        *(("--bridge", "none") if own.has_containers else ()),
        f"--userland-proxy={'true' if own.userland_proxy else 'false'}",
        *("--cgroup-parent", f"/{group}"),
        *("--exec-opt", "native.cgroupdriver=cgroupfs"),
    ]


@contextlib.contextmanager
def _engine(place: Path, run: str, directory: Path, sandbox: int) -> Iterator[Engine]:
    client = docker.DockerClient(base_url=f"unix://{place}/docker.sock", timeout=ANSWER_S, max_pool_size=AT_ONCE)
    with contextlib.closing(client):
        yield Engine(client, run, directory, sandbox)


def _network(engines: Sequence[Engine], layout: Layout) -> tuple[str, bool]:
    """Makes the network on every host that needs it; returns its name, and whether endpoints get planned addresses."""
    driver, mtu_bytes = layout.driver, layout.mtu_bytes
    if driver.docker is not None and driver.docker.swarm:
        _form_swarm(engines, layout.hosts)
        # To Docker, an overlay's MTU is the uplink's: it subtracts the tunnel's headers itself.
        uplink_mtu_bytes = mtu_bytes + driver.overhead_bytes if mtu_bytes else 0
        return create_network(engines[0], driver, "", uplink_mtu_bytes, str(SUBNET)), False
    pools = [(engine, *_addressed(driver, host)) for engine, host in zip(engines, layout.hosts, strict=True)]
    names = [create_network(each, driver, parent, mtu_bytes, *pool) for each, parent, *pool in pools]
    return names[0], bool(pools[0][2])


def _addressed(driver: type[NetworkDriver], host: HostPlan) -> tuple[str, str, str]:
    """The parent link, subnet and gateway of the driver's network on that host; empty: none, or Docker's choice."""
    if driver.docker is not None and driver.docker.parent:
        return UPLINK, str(SUBNET), GATEWAY
    if driver.docker is not None and driver.routed:
        return "", host.subnet, host.gateway
    return "", "", ""


def _form_swarm(engines: Sequence[Engine], hosts: Sequence[HostPlan]) -> None:
    places = [f"{host.address or '127.0.0.1'}:{SWARM_PORT}" for host in hosts]
    first = engines[0].client.api
    first.init_swarm(advertise_addr=places[0], listen_addr=places[0])
    token = required(first.inspect_swarm(), "JoinTokens", "Worker")

    def join(number: int) -> None:
        api = engines[number].client.api
        if not api.join_swarm([places[0]], token, listen_addr=places[number], advertise_addr=places[number]):
            raise TestbedError(f"{hosts[number].name} could not join the swarm")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(join, range(1, len(engines))))


def _addresses(
    engines: Sequence[Engine], layout: Layout, endpoints: Sequence[EndpointPlan], network: str
) -> dict[str, str]:
    """The addresses that Docker gave to endpoints; empty if they have no links of their own."""
    addresses: dict[str, str] = {}
    for number, engine in enumerate(engines if layout.driver.has_links() else ()):
        if own := [each for each in endpoints if each.host == number]:  # else a swarm's network may not be there
            addresses |= engine.addresses(own, network)
    return addresses


def _remove_groups(run: str) -> None:
    for group, _, of_run in list(cgroups.of_testbeds()):
        if of_run == run:
            cgroups.remove(group)
