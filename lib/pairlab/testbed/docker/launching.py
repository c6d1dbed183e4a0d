"""Launches containers on a network that is up: create, attach, start and the first answer to a ping, each apart.

Moments of attach and start are those of the daemon's events (docker-events(1)), whose clock is CLOCK_REALTIME of this
machine. What the API's calls took is recorded beside them. Pings begin when the start has returned, as only then
Docker tells the address.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pairlab.base.threads import run_in_thread
from pairlab.errors import TestbedError
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.docker.daemon import DOCKER_ERRORS
from pairlab.testbed.docker.engine import Container, Engine, network_namespaces
from pairlab.testbed.endpoints import EndpointPlan
from pairlab.testbed.netns import neighbours
from pairlab.testbed.netns.launching.watching import Watch, allow_pings, ping_socket
from pairlab.testbed.netns.namespaces import inside
from pairlab.testbed.netns.sandbox import Sandbox

#: How long the daemon's events may come later than its answers.
EVENTS_S = 2.0


class Launcher:
    """engines: by host. network: the driver's, and fixed: whether endpoints get planned addresses there. containers:
    of the endpoints that run. attaching: the sandbox that attaches containers, where Docker does not.
    """

    def __init__(
        self,
        engines: Sequence[Engine],
        driver: NetworkDriver,
        network: str,
        fixed: bool,
        containers: Mapping[str, Container],
        attaching: Sandbox | None = None,
    ):
        self._engines = engines
        self._driver = driver
        self._network = network
        self._fixed = fixed
        self._containers = containers
        self._attaching = attaching
        self._one_at_a_time = threading.Lock()
        self._confined = engines[0].confinement()

    def launch(self, endpoints: Sequence[EndpointPlan], within_s: float, pings: bool) -> list[dict[str, Any]]:
        """As Site.launch."""
        partners = {each.name: self._containers[each.partner] for each in endpoints} if pings else {}
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(ThreadPoolExecutor(len(endpoints)))
            spaces = stack.enter_context(network_namespaces(partners))
            watch = stack.enter_context(Watch())
            events = [stack.enter_context(_events(engine)) for engine in self._engines]
            begun_ns, real_ns = time.monotonic_ns(), time.time_ns()
            until_ns = begun_ns + int(within_s * 1e9)
            made: dict[str, Container] = {}
            stack.callback(lambda: list(pool.map(self._remove, endpoints, [made.get(each.name) for each in endpoints])))
            rows = list(
                pool.map(lambda each: self._launched(each, made, spaces.get(each.name), watch, begun_ns), endpoints)
            )
            if pings:
                watch.wait([row["name"] for row in rows if row["status"] == "ok"], until_ns)
            for endpoint, row in zip(endpoints, rows, strict=True):
                if row["status"] == "ok":
                    self._conclude(row, endpoint, made[endpoint.name], events[endpoint.host], real_ns)
                    _reached(row, watch.answered_ns.get(endpoint.name), begun_ns, within_s, pings)
        return rows

    def _launched(
        self, endpoint: EndpointPlan, made: dict[str, Container], space: int | None, watch: Watch, begun_ns: int
    ) -> dict[str, Any]:
        row: dict[str, Any] = {"name": endpoint.name, "status": "ok", "error": ""}
        engine, joins = self._engines[endpoint.host], self._driver.pair_shares
        mode = f"container:{self._containers[endpoint.partner].id}" if joins else self._network
        try:
            address = endpoint.address if self._fixed else ""
            container = made[endpoint.name] = engine.create(endpoint, mode, self._confined, address)
            row["created_s"] = _since_s(begun_ns)
            container.start()
            row["started_s"] = _since_s(begun_ns)
            if self._attaching and self._driver.has_links():
                with self._one_at_a_time:
                    self._attaching.call("join", endpoint, container.engine_pid())
                row["attached_s"] = _since_s(begun_ns)
            if space is not None:
                address = self._address(endpoint, container)
                sock = run_in_thread(_ping_socket, space, address, self._attaching is None)
                watch.ping(endpoint.name, sock, address)
        except (*DOCKER_ERRORS, TestbedError, OSError) as error:
            row |= {"status": "failed", "error": str(error)}
        return row

    def _address(self, endpoint: EndpointPlan, container: Container) -> str:
        if self._attaching or not self._driver.has_links():
            return endpoint.address
        told = container.engine.client.api.inspect_container(container.id)
        return told["NetworkSettings"]["Networks"][self._network]["IPAddress"]

    def _conclude(
        self, row: dict[str, Any], endpoint: EndpointPlan, container: Container, events: "_Events", real_ns: int
    ) -> None:
        """Adds what the daemon's events say; without one of the start, it failed."""
        events.wait(container.id, "start")
        if started_ns := events.seen.get((container.id, "start")):
            row["running_s"] = (started_ns - real_ns) / 1e9
        else:
            row |= {"status": "failed", "error": f"the Docker daemon told of no start within {EVENTS_S:g} s"}
        if (connected_ns := events.seen.get((container.id, "connect"))) and "attached_s" not in row:
            row["attached_s"] = (connected_ns - real_ns) / 1e9

    def _remove(self, endpoint: EndpointPlan, container: Container | None) -> None:
        if container is None:
            return
        if self._attaching and self._driver.has_links():
            with self._one_at_a_time, contextlib.suppress(TestbedError):
                self._attaching.call("leave", endpoint)
        container.remove()


def _reached(row: dict[str, Any], answered_ns: int | None, begun_ns: int, within_s: float, pings: bool) -> None:
    if row["status"] != "ok":
        return
    if answered_ns:
        row["first_ping_s"] = (answered_ns - begun_ns) / 1e9
    elif pings:
        row |= {"status": "failed", "error": f"no ping was answered within {within_s:g} s"}
        return
    row["ready_s"] = max(row["running_s"], row.get("first_ping_s", 0.0))


def _ping_socket(space: int, address: str, learns: bool) -> socket.socket:
    """learns: whether the address's neighbour is learned, and nothing that pairlab has set."""
    with inside(space):
        if os.fstat(space).st_ino != os.stat("/proc/self/ns/net").st_ino:  # this machine's own stays as it is
            allow_pings()
            asking = ping_socket(address)
            if learns:
                neighbours.forget(address, asking)  # its last launch may have had another hardware address
            return asking
        return ping_socket(address)


class _Events:
    """The moments, in ns of CLOCK_REALTIME, of a daemon's events, by container and what happened to it."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], int] = {}
        self._changed = threading.Condition()

    def note(self, event: Mapping[str, Any]) -> None:
        actor = event.get("Actor", {})
        of_network = event.get("Type") == "network"
        container = actor.get("Attributes", {}).get("container", "") if of_network else actor.get("ID", "")
        with self._changed:
            self.seen[container, event.get("Action", "")] = event["timeNano"]
            self._changed.notify_all()

    def wait(self, container: str, action: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: (container, action) in self.seen, EVENTS_S)


@contextlib.contextmanager
def _events(engine: Engine) -> Iterator[_Events]:
    """Listens to the daemon's events."""
    found = _Events()
    stream = engine.client.api.events(decode=True, filters={"type": ["container", "network"]})

    def listen() -> None:
        with contextlib.suppress(*DOCKER_ERRORS, ValueError):
            for event in stream:
                found.note(event)

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stream.close()
        thread.join(timeout=EVENTS_S)


def _since_s(moment_ns: int) -> float:
    return (time.monotonic_ns() - moment_ns) / 1e9
