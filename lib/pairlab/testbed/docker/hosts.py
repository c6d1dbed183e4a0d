"""Docker hosts: network namespaces of one sandbox, each with a Docker daemon of its own.

The daemons, their containers and their mounts are in the sandbox's namespaces and end with it. What its end leaves are
files, which the testbed's directory is removed with, and cgroups, which a watchdog removes. The daemon of the user only
gives the image; its containers, networks and swarm stay as they are.
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
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.watchdog import guarded
from pairlab.testbed.contracts import DockerNetwork, NetworkDriver, Progress, Site
from pairlab.testbed.docker import image, networks
from pairlab.testbed.docker.daemon import ANSWER_S, AT_ONCE, connect
from pairlab.testbed.docker.engine import Engine, start_all, start_workers, translated
from pairlab.testbed.docker.launching import Launcher
from pairlab.testbed.docker.reaper import FIFO, LABEL
from pairlab.testbed.docker.site import DockerSite
from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan
from pairlab.testbed.host import cgroups
from pairlab.testbed.netns.backend import NetnsSite, build, import_path
from pairlab.testbed.netns.networks import on_network
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.placement import SUBNET
from pairlab.testbed.requirements import Lack, Program

DOCKERD = Program("dockerd", "docker.io")
#: What a host takes of the memory: its daemons, and the image, which is kept there.
HOST_BYTES = 400 << 20
#: How long all daemons may take to be ready.
READY_S = 60.0
#: The port by which hosts join a swarm, docker-swarm-init(1).
SWARM_PORT = 2377
#: The address in the endpoints' subnet that none of them gets.
GATEWAY = str(SUBNET.broadcast_address - 1)

#: Removes the cgroups of the containers; tries again while the last of their processes is ending.
_REMOVE = """
n=0; while [ $n -lt 300 ]; do
    [ -n "$(find /sys/fs/cgroup -type d -name "$1" 2>/dev/null)" ] || break
    find /sys/fs/cgroup -depth -type d -path "*/$1*" -exec rmdir -- {} + 2>/dev/null || sleep 0.1 || sleep 1
    n=$((n+1))
done
"""


def lacks(hosts: int = 1) -> list[Lack]:
    """What is missing here to run daemons for so many hosts."""
    if os.geteuid() != 0:
        return [Lack("each host gets a Docker daemon of its own, which needs root", "run as root, or --backend netns")]
    found = [*filter(None, [DOCKERD.lack()])]
    if (free_bytes := psutil.virtual_memory().available) < 2 * hosts * HOST_BYTES:
        what = f"the daemons of {hosts} hosts need {hosts * HOST_BYTES / 1e9:.1f} GB of memory"
        found.append(Lack(f"{what}, and {free_bytes / 1e9:.1f} GB are free", "take fewer hosts, or --backend netns"))
    return found


@contextlib.contextmanager
def open_site(
    endpoints: Sequence[EndpointPlan],
    driver: NetworkDriver,
    hosts: Sequence[HostPlan],
    directory: Path,
    progress: Progress,
    workers: Sequence[EndpointPlan] = (),
) -> Iterator[Site]:
    """As Backend.open. Where the driver has no containers, endpoints are processes of hosts on which a daemon runs."""
    bare = driver.docker is not None and not driver.docker.has_containers
    archive = directory.parent / "image.tar"
    with translated("the Docker testbed could not be built"), contextlib.ExitStack() as stack:
        if bare:
            limits = {each.name: each.limits for each in (*endpoints, *workers)}
            run = directory.name.removeprefix("pairlab-")
            groups = stack.enter_context(cgroups.groups(run, limits))  # they end after their processes
        else:
            image_id = _save_image(archive, progress)
            _hold_lifeline(directory, stack)
        running, engines, facts = stack.enter_context(_daemons(driver, hosts, directory, progress))
        if bare:
            facts |= {**build(running, driver, endpoints, hosts, progress), "containers": 0}
            yield NetnsSite(running, directory, endpoints, facts, driver, groups, workers)
        else:
            _load_image(engines, archive)
            facts["image"] = image_id
            yield _start_containers(running, engines, facts, driver, endpoints, hosts, progress, workers)
        running.check()


def _start_containers(
    running: Sandbox,
    engines: Sequence[Engine],
    facts: dict[str, Any],
    driver: NetworkDriver,
    endpoints: Sequence[EndpointPlan],
    hosts: Sequence[HostPlan],
    progress: Progress,
    workers: Sequence[EndpointPlan],
) -> Site:
    """Starts the endpoints' containers on the driver's network."""
    network, fixed = _network(engines, driver, hosts, endpoints[0].mtu_bytes)
    attached = on_network(endpoints)
    asked = [(engines[each.host], each, network, each.address if fixed else "") for each in attached]
    asked += [(engines[each.host], each, "host", "") for each in endpoints if each.uses_host_network]
    containers = start_all(asked, driver, progress)
    every = {**containers, **start_workers(engines, workers, driver, progress)}
    pids = {name: container.engine_pid() for name, container in containers.items()}
    if driver.docker is None:
        facts |= running.call("build", import_path(driver), endpoints, hosts, None, pids)
        addresses = {each.name: each.address for each in endpoints}
        port_counts = running.port_counts
    else:
        running.call("adopt", import_path(driver), endpoints, hosts, pids if driver.isolated else {})
        addresses = {each.name: each.address for each in endpoints} | _addresses(engines, driver, attached, network)
        port_counts = _none
    built = running.call("built")
    facts |= {"hosts": built, "bridge_nf_call_iptables": built[0]["bridge_nf_call_iptables"]}
    relays = running if driver.docker and driver.docker.userland_proxy else None
    site = DockerSite(every, endpoints, addresses, facts, driver, port_counts, [running.pid], relays, workers)
    site.underlay = running
    site.launcher = Launcher(engines, driver, network, fixed, containers, running if driver.docker is None else None)
    return site


@contextlib.contextmanager
def _daemons(
    driver: NetworkDriver, hosts: Sequence[HostPlan], directory: Path, progress: Progress
) -> Iterator[tuple[Sandbox, list[Engine], dict[str, Any]]]:
    """Starts one on each host; yields the sandbox that they are in, and what a record should say of them."""
    run = directory.name.removeprefix("pairlab-")
    group = f"{cgroups.PREFIX}{ownership.me()}-{run}"
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
        commands = {name: _dockerd(place, group, driver) for name, place in places.items()}
        running.call("start_daemons", commands, {name: str(place) for name, place in places.items()}, READY_S)
        engines = [stack.enter_context(_engine(places[host.name], run, directory, running.pid)) for host in hosts]
        facts["docker"] = engines[0].version()
        yield running, engines, facts


def _none() -> None:
    return None


def _save_image(archive: Path, progress: Progress) -> str:
    """Writes the image to a file, from the user's daemon; returns its id."""
    with contextlib.closing(connect()) as client:
        found = image.ensure(client, progress)
        with archive.open("wb") as file:
            file.writelines(client.images.get(image.tag()).save(named=True))
    return found


def _load_image(engines: Sequence[Engine], archive: Path) -> None:
    """Gives it to all daemons, at once, and removes the file."""

    def load(engine: Engine) -> None:
        with archive.open("rb") as file:
            list(engine.client.api.load_image(file))

    with ThreadPoolExecutor(len(engines)) as pool:
        list(pool.map(load, engines))
    archive.unlink()


def _hold_lifeline(directory: Path, stack: contextlib.ExitStack) -> None:
    """Makes the FIFO that containers wait on, and keeps it open."""
    os.mkfifo(directory / FIFO)
    (directory / FIFO).chmod(0o644)
    stack.callback(os.close, os.open(directory / FIFO, os.O_RDWR | os.O_CLOEXEC))


def _dockerd(place: Path, group: str, driver: NetworkDriver) -> list[str]:
    """The command of a daemon with all of its files in that folder, and its containers in that cgroup.

    Only where there will be none, it has its default bridge, docker0: it is then the daemon of any host with Docker.
    """
    own = driver.docker or DockerNetwork()
    return [
        DOCKERD.path() or "",
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
        yield Engine(client, run, directory, {LABEL: run, "pairlab.owner": ownership.me()}, sandbox)


def _network(
    engines: Sequence[Engine], driver: NetworkDriver, hosts: Sequence[HostPlan], mtu_bytes: int
) -> tuple[str, bool]:
    """Makes the network on every host that needs it; returns its name, and whether endpoints get planned addresses."""
    own = driver.docker
    if own is not None and own.swarm:
        _form_swarm(engines, hosts)
        # To Docker, an overlay's MTU is the uplink's: it subtracts the tunnel's headers itself.
        uplink_mtu_bytes = mtu_bytes + driver.overhead_bytes if mtu_bytes else 0
        return networks.create(engines[0], driver, "", uplink_mtu_bytes, str(SUBNET)), False
    asked = [(engine, *_addressed(driver, host)) for engine, host in zip(engines, hosts, strict=True)]
    names = [networks.create(each, driver, parent, mtu_bytes, *pool) for each, parent, *pool in asked]
    return names[0], bool(asked[0][2])


def _addressed(driver: NetworkDriver, host: HostPlan) -> tuple[str, str, str]:
    """The parent link, subnet and gateway of the driver's network on that host; empty: none, or what Docker chooses."""
    if driver.docker is not None and driver.docker.parent:
        return UPLINK, str(SUBNET), GATEWAY
    if driver.docker is not None and driver.routed:
        return "", host.subnet, host.gateway
    return "", "", ""


def _form_swarm(engines: Sequence[Engine], hosts: Sequence[HostPlan]) -> None:
    places = [f"{host.address or '127.0.0.1'}:{SWARM_PORT}" for host in hosts]
    first = engines[0].client.api
    first.init_swarm(advertise_addr=places[0], listen_addr=places[0])
    token = first.inspect_swarm()["JoinTokens"]["Worker"]

    def join(number: int) -> None:
        api = engines[number].client.api
        if not api.join_swarm([places[0]], token, listen_addr=places[number], advertise_addr=places[number]):
            raise TestbedError(f"{hosts[number].name} could not join the swarm")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(join, range(1, len(engines))))


def _addresses(
    engines: Sequence[Engine], driver: NetworkDriver, endpoints: Sequence[EndpointPlan], network: str
) -> dict[str, str]:
    if not driver.has_links():
        return {each.name: each.address for each in endpoints}
    found: dict[str, str] = {}
    for number, engine in enumerate(engines):
        if own := [each for each in endpoints if each.host == number]:  # else a swarm's network may not be there
            found |= networks.addresses(engine, own, network)
    return found


def _remove_groups(run: str) -> None:
    for group, _, of_run in list(cgroups.of_testbeds()):
        if of_run == run:
            cgroups.remove(group)
