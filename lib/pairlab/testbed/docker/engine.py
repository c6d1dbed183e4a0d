"""An engine: a Docker daemon that answers us, and the containers that it runs for a testbed."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.types import LogConfig, Mount

from pairlab import paths
from pairlab.errors import MeasurementFailed, TestbedError
from pairlab.testbed.cleanup import process_table
from pairlab.testbed.contracts import NetworkDriver, Progress
from pairlab.testbed.docker import image
from pairlab.testbed.docker.container_options import USER, confinement
from pairlab.testbed.docker.daemon import AT_ONCE, DOCKER_ERRORS, PING_S
from pairlab.testbed.docker.reaper import FIFO, note
from pairlab.testbed.endpoints import FIRST_PORT, EndpointPlan, Limits
from pairlab.testbed.limits import cpu_list

#: How often it is looked whether a container is gone.
_LOOK_EVERY_S = 0.01
#: How long a container may take to go once it was removed: the daemon may be busy with hundreds of others.
_GONE_WITHIN_S = 60.0
#: Where a container has pairlab's own generator and the testbed's working directory.
FLOWGEN, DIRECTORY = "/pairlab/flowgen", "/pairlab/run"

#: What to do about refusals of a daemon, by words in them; the first that is there counts.
_HINTS = {
    "address pool": "Remove the networks that nobody uses (docker network prune), or give the daemon more addresses:"
    " default-address-pools in /etc/docker/daemon.json",
    "no space left on device": "Make room on the daemon's disk: docker system df says what takes it",
    "403 Client Error": "Ask who runs the daemon, or a plugin or proxy before it",
}
_HINT = "Does `docker info` work? The daemon's log may say more: journalctl -u docker"


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raises TestbedError, naming what, where a daemon refuses or does not answer."""
    try:
        yield
    except DOCKER_ERRORS as error:
        if not isinstance(error, APIError):
            hint = "The Docker daemon stopped, or does not answer: measure again when `docker info` works"
        elif "bind source path does not exist" in str(error):
            hint = "The Docker daemon does not see our files: is it a snap's, or in a container? Use one of this host"
        else:
            hint = next((hint for words, hint in _HINTS.items() if words in str(error)), _HINT)
        raise TestbedError(f"{what}: {error}. {hint}") from error


@dataclass(frozen=True)
class Engine:
    """A daemon. run, directory: of the testbed that its containers are for. labels: of all that it makes for it.

    sandbox: the process of the sandbox that it runs in, as its process ids are that one's; 0: it runs on this host.
    """

    client: DockerClient
    run: str
    directory: Path
    labels: dict[str, str]
    sandbox: int = 0

    def start(self, endpoint: EndpointPlan, mode: str, confined: Mapping[str, Any], address: str = "") -> "Container":
        """Creates and starts the endpoint's container, as `create`."""
        made = self.create(endpoint, mode, confined, address)
        made.start()
        return made

    def create(self, endpoint: EndpointPlan, mode: str, confined: Mapping[str, Any], address: str = "") -> "Container":
        """Creates the endpoint's container. mode: its network. address: that it gets there; "": any.

        Where the plan says that it is reached at an address of its host, its port is published there, for TCP and UDP.
        """
        mounts = [
            Mount(FLOWGEN, str(paths.flowgen()), type="bind", read_only=True),
            Mount(DIRECTORY, str(self.directory), type="bind"),
        ]
        api, addressed = self.client.api, None
        port = FIRST_PORT + endpoint.pair
        published = [(port, protocol) for protocol in ("tcp", "udp") if endpoint.published]
        if address:
            configured: Any = {mode: api.create_endpoint_config(ipv4_address=address)}
            addressed = api.create_networking_config(configured)
        made = api.create_container(
            image.tag(),
            [FLOWGEN, "pause", "--lifeline", f"{DIRECTORY}/{FIFO}"],
            user=USER,
            name=f"pairlab-{self.run}-{endpoint.name}",
            labels=self.labels,
            ports=published,
            use_config_proxy=False,  # else the user's proxy, with its password, is in each container's environment
            host_config=api.create_host_config(
                network_mode=mode,
                mounts=mounts,
                log_config=LogConfig(type=LogConfig.types.NONE),
                auto_remove=True,
                port_bindings={f"{port}/{protocol}": ("0.0.0.0", port) for port, protocol in published},
                **confined,
                **_limited(endpoint.limits),
            ),
            networking_config=addressed,
        )
        note(self.directory, made["Id"])
        return Container(self, made["Id"])

    def confinement(self) -> Mapping[str, Any]:
        """What its containers may do (container_options), in the terms of create_host_config."""
        return confinement(self.client.info()["MemTotal"])

    def version(self) -> str:
        return self.client.version()["Version"]

    def check(self) -> None:
        """Raises MeasurementFailed where the daemon stopped: what containers do without it is no measurement."""
        self.client.api.timeout = PING_S
        try:
            self.client.ping()
        except DOCKER_ERRORS as error:
            raise MeasurementFailed(
                f"the Docker daemon stopped while its containers were in use: {error}. Start it, and measure again"
            ) from error


@dataclass(frozen=True)
class Container:
    """A container."""

    engine: Engine
    id: str

    def start(self) -> None:
        self.engine.client.api.start(self.id)

    def remove(self) -> None:
        """Ends and removes it, and returns when its name is free."""
        api, why = self.engine.client.api, ""
        for end in (api.kill, lambda its: api.remove_container(its, force=True)):
            try:
                end(self.id)
            except APIError as error:  # it removes itself when it has ended, perhaps just now
                why = f": {error.explanation or error}"
        deadline = time.monotonic() + _GONE_WITHIN_S
        with contextlib.suppress(NotFound):
            while api.inspect_container(self.id):
                if time.monotonic() > deadline:
                    raise TestbedError(
                        f"container {self.id[:12]} is still there {_GONE_WITHIN_S:g} s after it was removed{why}."
                        f" `docker rm --force {self.id[:12]}` says what holds it"
                    )
                time.sleep(_LOOK_EVERY_S)

    def execute(self, argv: Sequence[str]) -> None:
        """Starts a process in it, and waits for nothing."""
        api = self.engine.client.api
        made = api.exec_create(self.id, list(argv), stdout=False, stderr=False)
        api.exec_start(made["Id"], detach=True)

    def engine_pid(self) -> int:
        """Its first process, as its engine sees it."""
        return self.engine.client.api.inspect_container(self.id)["State"]["Pid"]


def start_all(
    asked: Sequence[tuple[Engine, EndpointPlan, str, str]], driver: NetworkDriver, progress: Progress
) -> dict[str, Container]:
    """Starts the container of each endpoint, many at once, as Engine.start; returns them by endpoint."""
    joins = driver.docker is not None and driver.docker.mode == "container"
    confined = asked[0][0].confinement()
    started: dict[str, Container] = {}

    def start(one: tuple[Engine, EndpointPlan, str, str]) -> Container:
        engine, endpoint, mode, address = one
        if joins and endpoint.side == "server":
            mode = f"container:{started[endpoint.partner].id}"
        return engine.start(endpoint, mode, confined, address)

    progress("bringing up", 0, len(asked))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sides = [[one for one in asked if one[1].side == side] for side in ("client", "server")]
        for part in sides if joins else (asked,):  # clients first
            for (_, endpoint, _, _), container in zip(part, pool.map(start, part), strict=True):
                started[endpoint.name] = container
                progress("bringing up", len(started), len(asked))
    return started


def start_workers(
    engines: Sequence[Engine], workers: Sequence[EndpointPlan], driver: NetworkDriver, progress: Progress
) -> dict[str, Container]:
    """Starts the container of each worker, without a network, by the engine of its host; returns them by name."""
    asked = [(engines[each.host], each, "none", "") for each in workers]
    return start_all(asked, driver, progress) if asked else {}


def pids(containers: Mapping[str, Container]) -> dict[str, int]:
    """Their first processes, as we see them, by the same names. Raises TestbedError where one has ended."""
    if not any(container.engine.sandbox for container in containers.values()):
        return {name: container.engine_pid() for name, container in containers.items()}
    every = process_table.read_processes().values()
    first = {each.container: each.pid for each in every if each.words[:2] == (FLOWGEN, "pause")}
    if ended := [name for name, container in containers.items() if container.id not in first]:
        raise TestbedError(f"the container of {ended[0]} has ended: measure again")
    return {name: first[container.id] for name, container in containers.items()}


@contextlib.contextmanager
def network_namespaces(containers: Mapping[str, Container]) -> Iterator[dict[str, int]]:
    """A descriptor of each container's network namespace, by the same names."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name, pid in pids(containers).items():
            found[name] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, found[name])
        yield found


def _limited(limits: Limits) -> dict[str, Any]:
    """Docker's options for them, which hold for all processes in the container."""
    found: dict[str, Any] = {}
    if limits.cpus is not None:
        found["cpuset_cpus"] = cpu_list(limits.cpus)
    if limits.cpu_quota:
        found["nano_cpus"] = round(limits.cpu_quota * 1e9)
    if limits.cpu_shares:
        found["cpu_shares"] = limits.cpu_shares
    return found
