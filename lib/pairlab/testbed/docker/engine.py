"""An engine: a Docker daemon, and the containers that it runs for a testbed."""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from docker import DockerClient
from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool, LogConfig, Mount

from pairlab import paths
from pairlab.errors import MeasurementFailed, TestbedError
from pairlab.testbed.cleanup import ownership, process_table
from pairlab.testbed.contracts import Layout, NetworkDriver, Progress
from pairlab.testbed.docker import image
from pairlab.testbed.docker.answers import IncompleteAnswer, optional, required
from pairlab.testbed.docker.daemon import AT_ONCE, DOCKER_ERRORS, PING_S
from pairlab.testbed.docker.reaper import FIFO, LABEL, OWNER_LABEL, note
from pairlab.testbed.endpoints import FIRST_PORT, EndpointPlan, Limits
from pairlab.testbed.limits import cpu_list

#: Debian's nobody. It owns nothing, neither in the image nor on the host, and has no capability.
USER = "65534:65534"
#: Limit of processes and threads. iperf has a thread for each of up to 1000 flows: only a runaway process reaches it.
MOST_PIDS = 16384
#: The share of the host's memory for one container: no workload comes near it, and none can bring the host down.
MOST_MEMORY = 0.5
#: iperf3 keeps a buffer for each of its flows in a file there: 128 of 1 MiB at most.
TMP_BYTES = 256 << 20

#: The polling interval for a container's removal.
_LOOK_EVERY_S = 0.01
#: The time limit for a container's removal: the daemon may be busy with hundreds of others.
_GONE_WITHIN_S = 60.0
#: The mount points of flowgen and of the testbed's working directory in a container.
FLOWGEN, DIRECTORY = "/pairlab/flowgen", "/pairlab/run"

#: Remedies for a daemon's refusals, by words in the message; the first match counts.
_HINTS = {
    "address pool": "Remove the networks that nobody uses (docker network prune), or give the daemon more addresses:"
    " default-address-pools in /etc/docker/daemon.json",
    "no space left on device": "Make room on the daemon's disk: docker system df says what takes it",
    "403 Client Error": "Ask who runs the daemon, or a plugin or proxy before it",
}
_HINT = "Does `docker info` work? The daemon's log may say more: journalctl -u docker"


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Raises TestbedError, naming the failed action, where a daemon refuses or does not answer."""
    try:
        yield
    except DOCKER_ERRORS as error:
        if isinstance(error, IncompleteAnswer):
            hint = "Is it Docker Engine? `docker version` says"
        elif not isinstance(error, APIError):
            hint = "The Docker daemon stopped, or does not answer: measure again when `docker info` works"
        elif "bind source path does not exist" in str(error):
            hint = "The Docker daemon does not see our files: is it a snap's, or in a container? Use one of this host"
        else:
            hint = next((hint for words, hint in _HINTS.items() if words in str(error)), _HINT)
        raise TestbedError(f"{what}: {error}. {hint}") from error


@dataclass(frozen=True)
class Engine:
    """A daemon. run, directory: of the testbed that its containers are for.

    sandbox: the pid of the sandbox that it runs in, whose PID namespace it uses; 0: it runs on this host.
    """

    client: DockerClient
    run: str
    directory: Path
    sandbox: int = 0

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the testbed's containers and networks."""
        return {LABEL: self.run, OWNER_LABEL: ownership.me()}

    def start(self, endpoint: EndpointPlan, mode: str, address: str = "") -> "Container":
        """Creates and starts the endpoint's container, as `create`."""
        container = self.create(endpoint, mode, address)
        container.start()
        return container

    def create(self, endpoint: EndpointPlan, mode: str, address: str = "") -> "Container":
        """Creates the endpoint's container. mode: its network. address: the container's there; "": any.

        If partners reach the endpoint at its host's address (published), its port is published for TCP and UDP.
        """
        mounts = [
            Mount(FLOWGEN, str(paths.flowgen()), type="bind", read_only=True),
            Mount(DIRECTORY, str(self.directory), type="bind"),
        ]
        api, networking = self.client.api, None
        port = FIRST_PORT + endpoint.pair
        published = [(port, protocol) for protocol in ("tcp", "udp") if endpoint.published]
        if address:
            configs: Any = {mode: api.create_endpoint_config(ipv4_address=address)}
            networking = api.create_networking_config(configs)
        created = api.create_container(
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
                **_confined(),
                **_limited(endpoint.limits),
            ),
            networking_config=networking,
        )
        identity = required(created, "Id")
        note(self.directory, identity)
        return Container(self, identity)

    def addresses(self, endpoints: Sequence[EndpointPlan], network: str) -> dict[str, str]:
        """The addresses of its containers on that network, by endpoint. Raises TestbedError if one has none."""
        if network in ("host", "none"):
            return {each.name: "127.0.0.1" for each in endpoints}
        containers = optional(self.client.api.inspect_network(network), "Containers") or {}
        prefix = f"pairlab-{self.run}-"
        addresses = {
            (optional(each, "Name") or "").removeprefix(prefix): optional(each, "IPv4Address")
            for each in containers.values()
        }
        if lost := [each.name for each in endpoints if not addresses.get(each.name)]:
            raise no_address(lost[0])
        return {each.name: addresses[each.name].split("/")[0] for each in endpoints}

    def version(self) -> str:
        return required(self.client.version(), "Version")

    def check(self) -> None:
        """Raises MeasurementFailed if the daemon has stopped: a run without it is no valid measurement."""
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
        """Kills and removes the container, and returns when its name is free."""
        api, why = self.engine.client.api, ""
        for end in (api.kill, lambda container: api.remove_container(container, force=True)):
            try:
                end(self.id)
            except APIError as error:  # a container removes itself when it has ended, perhaps just now
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
        """Starts a process in the container, without waiting for it."""
        api = self.engine.client.api
        created = api.exec_create(self.id, list(argv), stdout=False, stderr=False)
        api.exec_start(required(created, "Id"), detach=True)

    def engine_pid(self) -> int:
        """The pid of the first process, in the engine's PID namespace. Raises TestbedError if it has ended."""
        if not (pid := optional(self.engine.client.api.inspect_container(self.id), "State", "Pid")):
            raise TestbedError(f"container {self.id[:12]} has ended: measure again")
        return pid


def no_address(endpoint: str) -> TestbedError:
    return TestbedError(f"Docker names no address of {endpoint}, so its container has ended: measure again")


def create_network(
    engine: Engine,
    driver: type[NetworkDriver],
    parent: str,
    mtu_bytes: int,
    subnet: str = "",
    gateway: str = "",
) -> str:
    """Makes the network of the driver's containers; returns its name, or Docker's `host` or `none`.

    parent: the network's parent link, if the driver needs one. subnet: of the containers. gateway: an address in it
    that no container gets. Empty: Docker chooses.
    """
    if driver.docker is None or driver.docker.mode == "container":
        return "none"
    if driver.docker.mode != "network":
        return driver.docker.mode
    options = {"com.docker.network.driver.mtu": str(mtu_bytes)} if mtu_bytes else {}
    options |= {**driver.docker.options, **({"parent": parent} if parent else {})}
    pools = [IPAMPool(subnet=subnet, gateway=gateway or None)] if subnet else []
    name = f"pairlab-{engine.run}"
    of_swarm: dict[str, Any] = {"attachable": True, "internal": True, "scope": "swarm"} if driver.docker.swarm else {}
    engine.client.api.create_network(
        name,
        driver=driver.docker.driver,
        options=options,
        labels=engine.labels,
        ipam=IPAMConfig(pool_configs=pools) if pools else None,
        **of_swarm,
    )
    return name


def start_all(
    requests: Sequence[tuple[Engine, EndpointPlan, str, str]], driver: type[NetworkDriver], progress: Progress
) -> dict[str, Container]:
    """Starts the endpoints' containers, AT_ONCE in parallel, as Engine.start; returns them by endpoint."""
    joins = driver.docker is not None and driver.docker.mode == "container"
    started: dict[str, Container] = {}

    def start(request: tuple[Engine, EndpointPlan, str, str]) -> Container:
        engine, endpoint, mode, address = request
        if joins and endpoint.side == "server":
            mode = f"container:{started[endpoint.partner].id}"
        return engine.start(endpoint, mode, address)

    progress("bringing up", 0, len(requests))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        sides = [[request for request in requests if request[1].side == side] for side in ("client", "server")]
        for part in sides if joins else (requests,):  # clients first
            for (_, endpoint, _, _), container in zip(part, pool.map(start, part), strict=True):
                started[endpoint.name] = container
                progress("bringing up", len(started), len(requests))
    return started


def start_workers(engines: Sequence[Engine], layout: Layout, progress: Progress) -> dict[str, Container]:
    """Starts the workers' containers, without a network, by the engine of each one's host; returns them by name."""
    requests = [(engines[each.host], each, "none", "") for each in layout.workers]
    return start_all(requests, layout.driver, progress) if requests else {}


def pids(containers: Mapping[str, Container]) -> dict[str, int]:
    """The pids of the containers' first processes on this host, by name. Raises TestbedError if one has ended."""
    if not any(container.engine.sandbox for container in containers.values()):
        return {name: container.engine_pid() for name, container in containers.items()}
    processes = process_table.read_processes().values()
    first = {each.container: each.pid for each in processes if each.words[:2] == (FLOWGEN, "pause")}
    if ended := [name for name, container in containers.items() if container.id not in first]:
        raise TestbedError(f"the container of {ended[0]} has ended: measure again")
    return {name: first[container.id] for name, container in containers.items()}


@contextlib.contextmanager
def network_namespaces(containers: Mapping[str, Container]) -> Iterator[dict[str, int]]:
    """A descriptor of each container's network namespace, by the same names."""
    with contextlib.ExitStack() as stack:
        descriptors = {}
        for name, pid in pids(containers).items():
            descriptors[name] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, descriptors[name])
        yield descriptors


def _limited(limits: Limits) -> dict[str, Any]:
    """Docker's options for these limits, which hold for all processes in the container."""
    options: dict[str, Any] = {}
    if limits.cpus is not None:
        options["cpuset_cpus"] = cpu_list(limits.cpus)
    if limits.cpu_quota:
        options["nano_cpus"] = round(limits.cpu_quota * 1e9)
    if limits.cpu_shares:
        options["cpu_shares"] = limits.cpu_shares
    return options


def _confined() -> dict[str, Any]:
    """Restricts a container to its workload. Docker's default seccomp filter stays on.

    Arguments of create_host_config. The daemon ignores limits it has no controller for.
    """
    return {
        "cap_drop": ["ALL"],
        # SELinux, if enabled, would deny the container access to our mounts.
        "security_opt": ["no-new-privileges:true", "label=disable"],
        "read_only": True,
        "tmpfs": {"/tmp": f"size={TMP_BYTES},mode=1777,noexec,nosuid,nodev"},
        "ipc_mode": "none",  # nor is there a /dev/shm to write to
        "pids_limit": MOST_PIDS,
        "mem_limit": int(psutil.virtual_memory().total * MOST_MEMORY),
    }
