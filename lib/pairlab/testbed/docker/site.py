"""The site of a Docker testbed: containers that are up."""

import contextlib
import os
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pairlab.base.threads import run_in_thread
from pairlab.errors import TestbedError
from pairlab.testbed.cleanup.process_table import read_processes
from pairlab.testbed.contracts import NetworkDriver, Site
from pairlab.testbed.docker.daemon import AT_ONCE
from pairlab.testbed.docker.engine import DIRECTORY, FLOWGEN, Container, network_namespaces, pids, translated
from pairlab.testbed.docker.launching import Launcher
from pairlab.testbed.endpoints import EndpointPlan
from pairlab.testbed.host import cgroup_tree, kernel_room
from pairlab.testbed.netns import routes, shaping
from pairlab.testbed.netns.backend import traffic_link
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import ROUTED

CPU_CGROUP = Path("/sys/fs/cgroup/cpu")
#: Programs that do what Docker is asked for.
ENGINE = ("dockerd", "containerd")


class DockerSite(Site):
    """containers: by endpoint, the workers' too. addresses: by endpoint. port_counts, roots: as Site's.

    workers: endpoints without a network. relays: the sandbox of hosts on which processes relay traffic; None: there
    are no such.
    """

    flowgen = FLOWGEN
    directory = DIRECTORY
    underlay: Sandbox | None = None
    """Where the hosts are, if they are no machines."""
    launcher: Launcher | None = None
    """What launches further endpoints, where they can be."""

    def __init__(
        self,
        containers: Mapping[str, Container],
        endpoints: Sequence[EndpointPlan],
        addresses: Mapping[str, str],
        facts: Mapping[str, Any],
        driver: NetworkDriver,
        port_counts: Callable[[], tuple[int, int] | None],
        roots: Collection[int],
        relays: Sandbox | None = None,
        workers: Sequence[EndpointPlan] = (),
    ):
        self._containers = containers
        self.addresses = addresses
        self.published = {each.name: each.published for each in endpoints if each.published}
        self.on_host_network = {each.name for each in endpoints if each.uses_host_network}
        self.hosts = {each.name: each.host for each in (*endpoints, *workers)}
        self._facts = facts
        self._limits = {each.name: each.limits for each in (*endpoints, *workers)}
        self._port_counts = port_counts
        self._roots = roots
        self._relays = relays
        self._tables = routes.tables_of(driver)
        self._learns_neighbours = learns_neighbours(driver)
        self.interface, self.interface_is_own = traffic_link(endpoints, driver)
        if not driver.isolated and not any(self.hosts.values()):
            self.interface_is_own = False  # it is this host's own loopback
            self.first_port = _free_ports(len(endpoints))

    def launch(self, endpoints, within_s, pings):
        if self.launcher is None:
            return super().launch(endpoints, within_s, pings)
        with translated("containers could not be launched"):
            return self.launcher.launch(endpoints, within_s, pings)

    def spawn(self, calls):
        with translated("a process could not be started"), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda call: self._containers[call[0]].execute(call[1]), calls))

    def grant_realtime(self, pid):
        # With RT_GROUP_SCHED (cgroup v1), a container's cgroup has no real-time budget; the root's has.
        try:
            (CPU_CGROUP / "cgroup.procs").write_text(str(pid))
            os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        except OSError:
            return False
        return True

    def neighbour_options(self, address):
        return ["--resolve", address] if self._learns_neighbours else []

    def roots(self):
        return self._roots

    def marks(self):
        return [container.id for container in self._containers.values()]

    def engine(self):
        found = [pid for pid, each in read_processes().items() if each.words and Path(each.words[0]).name in ENGINE]
        return [1, *found]  # shims have no other parent

    def port_counts(self):
        with translated("the ports' counters could not be read"):
            return self._port_counts()

    def refused_connections(self):
        return self.underlay.call("refused_connections") if self.underlay else kernel_room.refused_connections()

    def limits_in_force(self):
        limited = {
            name: self._containers[name] for name, each in self._limits.items() if each.cpu_quota or each.cpu_shares
        }
        with translated("the limits in force could not be read"):
            return {name: cgroup_tree.read_of(pid) for name, pid in pids(limited).items()}

    def shape(self, links):
        shaped = {name: self._containers[name] for name in links}
        with translated("links could not be shaped"), network_namespaces(shaped) as namespaces:
            self._facts = {**self._facts, "shaping": run_in_thread(shaping.shape, namespaces, links)}

    def route_congestion_control(self, name):
        connected = {name: each for name, each in self._containers.items() if name in self.addresses}
        with translated("routes could not be set"), network_namespaces(connected) as namespaces:
            set_there = run_in_thread(routes.set_in, namespaces.values(), name, self._tables)
            self._facts = {**self._facts, ROUTED: set_there}
        if self._relays:
            self._relays.call("route_hosts", name)

    def facts(self):
        return self._facts


def learns_neighbours(driver: type[NetworkDriver] | NetworkDriver) -> bool:
    """Whether endpoints learn their neighbours from ARP.

    Where pairlab attaches them, or knows their gateway, their entries are permanent.
    """
    return driver.has_links() and driver.docker is not None and not driver.routed


def _free_ports(count: int) -> int:
    """The first of `count` free ports in a row: all containers share the host's."""
    for first in range(5201, 60000, 500):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                trial = stack.enter_context(socket.socket())
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(("0.0.0.0", port))  # taken on any address is taken
            return first
    raise TestbedError(f"no {count} free ports in a row on this host: stop what uses them, or take another driver")
