"""The site of a Docker testbed: containers that are up, and launches of further ones.

A launch has four phases: create, attach, start and the first echo reply. The times of attach and start are those of the
daemon's events (docker-events(1)), by this machine's CLOCK_REALTIME. The durations of the API calls are recorded too.
Pings begin when the start call has returned, as Docker gives the address only then.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pairlab.base.threads import run_in_thread
from pairlab.errors import TestbedError
from pairlab.testbed.cleanup.process_table import read_processes
from pairlab.testbed.contracts import Layout, NetworkDriver, Site
from pairlab.testbed.docker.answers import optional
from pairlab.testbed.docker.daemon import AT_ONCE, DOCKER_ERRORS
from pairlab.testbed.docker.engine import (
    DIRECTORY,
    FLOWGEN,
    Container,
    Engine,
    network_namespaces,
    no_address,
    pids,
    translated,
)
from pairlab.testbed.endpoints import EndpointPlan, Link
from pairlab.testbed.host import cgroups, kernel_counters
from pairlab.testbed.links.namespaces import inside
from pairlab.testbed.netns import neighbours, routes, shaping
from pairlab.testbed.netns.launching import Watch, allow_pings, conclude, ping_socket, since_s
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import ROUTED

#: How long the daemon's events may lag behind its answers.
EVENTS_S = 2.0
CPU_CGROUP = Path("/sys/fs/cgroup/cpu")
#: The programs of a Docker daemon.
ENGINE = ("dockerd", "containerd")


class DockerSite(Site):
    """containers: by endpoint, the workers' too. engines: by host. port_counts: as Site's.

    network: the driver's, by its name in Docker. fixed: whether endpoints get their planned addresses there. sandbox:
    the one that contains the hosts, or that attaches containers in place of Docker; None: neither.
    """

    flowgen = FLOWGEN
    directory = DIRECTORY

    def __init__(
        self,
        layout: Layout,
        facts: Mapping[str, Any],
        containers: Mapping[str, Container],
        engines: Sequence[Engine],
        network: str,
        *,
        fixed: bool = False,
        sandbox: Sandbox | None = None,
        port_counts: Callable[[], tuple[int, int] | None] | None = None,
    ):
        super().__init__(layout, facts)
        self.engines = engines
        self._containers = containers
        self._network = network
        self._fixed = fixed
        self._sandbox = sandbox
        self._attaching = sandbox if layout.driver.docker is None else None
        self._hosts = sandbox if engines[0].sandbox else None
        self._port_counts = self._attaching.port_counts if self._attaching else port_counts
        self._one_at_a_time = threading.Lock()
        if not layout.driver.isolated and not any(self.hosts.values()):
            self.interface_is_own = False  # it is this host's own loopback
            self.first_port = _free_ports(len(layout.endpoints))

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        with translated("a process could not be started"), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda call: self._containers[call[0]].execute(call[1]), calls))

    def grant_realtime(self, pid: int) -> bool:
        # With RT_GROUP_SCHED (cgroup v1), a container's cgroup has no real-time budget; the root's has.
        try:
            (CPU_CGROUP / "cgroup.procs").write_text(str(pid))
            os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        except OSError:
            return False
        return True

    def neighbour_options(self, address: str) -> list[str]:
        return ["--resolve", address] if learns_neighbours(self.layout.driver) else []

    def root_pids(self) -> Collection[int]:
        return [self._sandbox.pid] if self._sandbox else []

    def process_marks(self) -> Collection[str]:
        return [container.id for container in self._containers.values()]

    def engine(self) -> Collection[int]:
        daemons = [pid for pid, each in read_processes().items() if each.words and Path(each.words[0]).name in ENGINE]
        return [1, *daemons]  # 1 is the parent of the shims

    def port_counts(self) -> tuple[int, int] | None:
        with translated("the ports' counters could not be read"):
            return self._port_counts() if self._port_counts else None

    def refused_connections(self) -> int:
        return self._hosts.call("refused_connections") if self._hosts else kernel_counters.refused_connections()

    def limits_in_force(self) -> Mapping[str, Mapping[str, float]]:
        limits = self.layout.limits.items()
        limited = {name: self._containers[name] for name, each in limits if each.cpu_quota or each.cpu_shares}
        with translated("the limits in force could not be read"):
            return {name: cgroups.read_of(pid) for name, pid in pids(limited).items()}

    def shape(self, links: Mapping[str, Link]) -> None:
        shaped = {name: self._containers[name] for name in links}
        with translated("links could not be shaped"), network_namespaces(shaped) as namespaces:
            self._facts["shaping"] = run_in_thread(shaping.shape, namespaces, links)

    def route_congestion_control(self, name: str) -> None:
        driver = self.layout.driver
        connected = {name: each for name, each in self._containers.items() if name in self.addresses}
        with translated("routes could not be set"), network_namespaces(connected) as namespaces:
            self._facts[ROUTED] = run_in_thread(routes.set_in, namespaces.values(), name, routes.tables_of(driver))
        if self._hosts and driver.docker and driver.docker.userland_proxy:  # there, processes relay connections
            self._hosts.call("route_hosts", name)

    def launch(self, endpoints: Sequence[EndpointPlan], within_s: float, pings: bool) -> list[dict[str, Any]]:
        with translated("containers could not be launched"), contextlib.ExitStack() as stack:
            partners = {each.name: self._containers[each.partner] for each in endpoints} if pings else {}
            pool = stack.enter_context(ThreadPoolExecutor(len(endpoints)))
            namespaces = stack.enter_context(network_namespaces(partners))
            watch = stack.enter_context(Watch())
            events = [stack.enter_context(_events(engine)) for engine in self.engines]
            begun_ns, real_ns = time.monotonic_ns(), time.time_ns()
            until_ns = begun_ns + int(within_s * 1e9)
            created: dict[str, Container] = {}
            stack.callback(
                lambda: list(pool.map(self._remove, endpoints, [created.get(each.name) for each in endpoints]))
            )
            rows = list(
                pool.map(
                    lambda each: self._launched(each, created, namespaces.get(each.name), watch, begun_ns), endpoints
                )
            )
            if pings:
                watch.wait([row["name"] for row in rows if row["status"] == "ok"], until_ns)
            for endpoint, row in zip(endpoints, rows, strict=True):
                if row["status"] == "ok":
                    self._note_events(row, endpoint, created[endpoint.name], events[endpoint.host], real_ns)
                    conclude(row, watch, begun_ns, within_s, pings)
        return rows

    def _launched(
        self, endpoint: EndpointPlan, created: dict[str, Container], namespace: int | None, watch: Watch, begun_ns: int
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"name": endpoint.name, "status": "ok", "error": ""}
        engine, joins = self.engines[endpoint.host], self.layout.driver.pair_shares_namespace
        mode = f"container:{self._containers[endpoint.partner].id}" if joins else self._network
        try:
            address = endpoint.address if self._fixed else ""
            container = created[endpoint.name] = engine.create(endpoint, mode, address)
            row["created_s"] = since_s(begun_ns)
            container.start()
            row["started_s"] = since_s(begun_ns)
            if self._attaching and self.layout.driver.has_links():
                with self._one_at_a_time:
                    self._attaching.call("join", endpoint, container.engine_pid())
                row["attached_s"] = since_s(begun_ns)
            if namespace is not None:
                address = self._address(endpoint, container)
                sock = run_in_thread(_ping_socket, namespace, address, self._attaching is None)
                watch.ping(endpoint.name, sock, address)
        except (*DOCKER_ERRORS, TestbedError, OSError) as error:
            row |= {"status": "failed", "error": str(error)}
        return row

    def _address(self, endpoint: EndpointPlan, container: Container) -> str:
        if self._attaching or not self.layout.driver.has_links():
            return endpoint.address
        inspected = container.engine.client.api.inspect_container(container.id)
        if not (address := optional(inspected, "NetworkSettings", "Networks", self._network, "IPAddress")):
            raise no_address(endpoint.name)
        return address

    def _note_events(
        self, row: dict[str, Any], endpoint: EndpointPlan, container: Container, events: "_Events", real_ns: int
    ) -> None:
        """Adds the times of the daemon's events to a launch's row; without a start event, the launch failed."""
        events.wait(container.id, "start")
        if started_ns := events.seen.get((container.id, "start")):
            row["running_s"] = (started_ns - real_ns) / 1e9
        else:
            row |= {"status": "failed", "error": f"the Docker daemon reported no start within {EVENTS_S:g} s"}
        if (connected_ns := events.seen.get((container.id, "connect"))) and "attached_s" not in row:
            row["attached_s"] = (connected_ns - real_ns) / 1e9

    def _remove(self, endpoint: EndpointPlan, container: Container | None) -> None:
        if container is None:
            return
        if self._attaching and self.layout.driver.has_links():
            with self._one_at_a_time, contextlib.suppress(TestbedError):
                self._attaching.call("leave", endpoint)
        container.remove()


def learns_neighbours(driver: type[NetworkDriver]) -> bool:
    """Whether endpoints learn their neighbours by ARP.

    Entries are permanent if pairlab attaches the endpoints, or knows their gateway.
    """
    return driver.has_links() and driver.docker is not None and not driver.routed


def _free_ports(count: int) -> int:
    """The first of `count` consecutive free ports: all containers share the host's."""
    for first in range(5201, 60000, 500):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                sock = stack.enter_context(socket.socket())
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                sock.bind(("0.0.0.0", port))  # fails if the port is in use on any address
            return first
    raise TestbedError(f"no {count} free ports in a row on this host: stop what uses them, or take another driver")


def _ping_socket(namespace: int, address: str, learns: bool) -> socket.socket:
    """learns: whether the address's neighbour is learned by ARP, not set by pairlab."""
    with inside(namespace):
        if os.fstat(namespace).st_ino != os.stat("/proc/self/ns/net").st_ino:  # not this machine's own namespace
            allow_pings()
            sock = ping_socket(address)
            if learns:
                neighbours.delete(address, sock)  # its last launch may have had another hardware address
            return sock
        return ping_socket(address)


class _Events:
    """The times, in ns of CLOCK_REALTIME, of a daemon's events, by container and action."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], int] = {}
        self._changed = threading.Condition()

    def note(self, event: Mapping[str, Any]) -> None:
        of_network = optional(event, "Type") == "network"
        container = optional(event, "Actor", *(("Attributes", "container") if of_network else ("ID",)))
        action, time_ns = optional(event, "Action"), optional(event, "timeNano")
        with self._changed:
            if container and action and time_ns:
                self.seen[container, action] = time_ns
            self._changed.notify_all()

    def wait(self, container: str, action: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: (container, action) in self.seen, EVENTS_S)


@contextlib.contextmanager
def _events(engine: Engine) -> Iterator[_Events]:
    """Listens to the daemon's events."""
    events = _Events()
    stream = engine.client.api.events(decode=True, filters={"type": ["container", "network"]})

    def listen() -> None:
        with contextlib.suppress(*DOCKER_ERRORS, ValueError):
            for event in stream:
                events.note(event)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield events
    finally:
        stream.close()
        thread.join(timeout=EVENTS_S)
