"""docker: the reference backend. Containers, through the Docker SDK; honours DOCKER_HOST."""

import contextlib
import functools
import os
import platform
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from docker.errors import APIError
from docker.types import LogConfig, Mount

from pairlab import paths
from pairlab.base.in_thread import run_in_thread
from pairlab.errors import MeasurementFailed, TestbedError
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.contracts import Backend, Site
from pairlab.testbed.docker import image
from pairlab.testbed.docker.container_options import USER, confinement
from pairlab.testbed.docker.reaper import AT_ONCE, DOCKER_ERRORS, FIFO, LABEL, PING_S, connect, lifeline, note
from pairlab.testbed.host import cgroup_tree
from pairlab.testbed.host.link_counters import sent_by
from pairlab.testbed.limits import cpu_list
from pairlab.testbed.netns import routes, sandbox, shaping
from pairlab.testbed.netns.agent import bridge_nf_call_iptables
from pairlab.testbed.netns.backend import flowgen_lack, import_path, missing_for
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import ROUTED, Lack, missing_neighbours

FLOWGEN = "/pairlab/flowgen"
DIRECTORY = "/pairlab/run"
CPU_CGROUP = Path("/sys/fs/cgroup/cpu")


class DockerSite(Site):
    flowgen = FLOWGEN
    directory = DIRECTORY
    loopback_is_own = False

    def __init__(self, client, containers, addresses, facts, driver, limits, port_counts, roots):
        self._client = client
        self._containers = containers
        self.addresses = addresses
        self._facts = facts
        self._limits = limits
        self._port_counts = port_counts
        self._roots = roots
        self._learns_neighbours = _learns_neighbours(driver)
        if not driver.isolated:
            self.interface = "lo"
            self.first_port = _free_ports(len(containers) // 2)

    def spawn(self, calls):
        def start(call):
            name, argv = call
            made = self._client.api.exec_create(self._containers[name], list(argv), stdout=False, stderr=False)
            self._client.api.exec_start(made["Id"], detach=True)

        with _translated("a process could not be started"), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(start, calls))

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
        return list(self._containers.values())

    def port_counts(self):
        with _translated("the ports' counters could not be read"):
            return self._port_counts()

    def limits_in_force(self):
        found = {}
        with _translated("the limits in force could not be read"):
            for name, each in self._limits.items():
                if each.cpu_quota or each.cpu_shares:
                    found[name] = cgroup_tree.read_of(_process(self._client, self._containers[name]))
        return found

    def shape(self, links):
        with _translated("links could not be shaped"), contextlib.ExitStack() as stack:
            namespaces = _namespaces(self._client, {name: self._containers[name] for name in links}, stack)
            self._facts = {**self._facts, "shaping": run_in_thread(shaping.shape, namespaces, links)}

    def route_congestion_control(self, name):
        with _translated("routes could not be set"), contextlib.ExitStack() as stack:
            namespaces = _namespaces(self._client, self._containers, stack)
            self._facts = {**self._facts, ROUTED: run_in_thread(routes.set_in, namespaces.values(), name)}

    def facts(self):
        return self._facts


class Docker(Backend):
    """Docker containers on this host, on Docker's own networks or attached to ours."""

    name = "docker"
    summary = "Docker containers; needs a Docker daemon on this host"
    endpoint = "container"

    def lacks(self):
        return [*filter(None, (_daemon_lack(), flowgen_lack()))]

    def lacks_for(self, driver):
        found = missing_for(driver)
        attached = driver.docker is None
        if (attached or driver.docker.parent) and os.geteuid() != 0:
            what = "links are put into containers" if attached else "a parent link is made on the host"
            found.append(Lack(f"{what}, which needs root", f"run as root, or use {driver.name!r} with --backend netns"))
        if not sandbox.lack():
            found += sandbox.missing_links(driver)
        elif attached:
            found.append(sandbox.lack())
        return found

    def lacks_program(self, program):
        if program.package in image.packages():
            return None
        return Lack(f"{program.name} is not in the image", f"add {program.package} to lib/image/packages.txt")

    def version(self):
        try:
            with contextlib.closing(connect()) as client:
                client.api.timeout = PING_S  # asked beside every measurement: one that hangs is not waited for
                return client.version()["Version"]
        except DOCKER_ERRORS:
            return ""

    def lacks_limits(self, limits):
        if not limits:
            return []
        with contextlib.closing(connect()) as client, _translated("the daemon's limits could not be read"):
            info = client.info()
        wanted = {
            "CPUSet": ("cpuset", any(each.cpus is not None for each in limits)),
            "CpuCfsQuota": ("cpu", any(each.cpu_quota for each in limits)),
            "CPUShares": ("cpu", any(each.cpu_shares for each in limits)),
        }
        missing = dict.fromkeys(name for key, (name, asked) in wanted.items() if asked and not info.get(key))
        remedy = (
            "see the warnings of `docker info`; a rootless daemon needs it delegated (systemd: Delegate=cpu cpuset)"
        )
        return [Lack(f"the Docker daemon has no cgroup controller {name!r}", remedy) for name in missing]

    def lacks_pairs(self, driver, pairs):
        return missing_neighbours(pairs) if _learns_neighbours(driver) else []

    def lacks_links(self, links):
        if links and os.geteuid() != 0:
            return [Lack("links of containers are shaped from outside, which needs root", "run as root")]
        if links and (missing := sandbox.lack()):
            return [missing]
        return sandbox.missing_shaping(links)

    def lacks_routes(self, driver):
        if not driver.isolated:
            return [Lack("its endpoints use the host's own routes, which stay as they are", "take another driver")]
        if os.geteuid() != 0:
            return [Lack("routes of containers are set from outside, which needs root", "run as root")]
        return []

    @contextlib.contextmanager
    def open(self, endpoints, driver, directory, progress):
        with contextlib.ExitStack() as stack, _translated("the Docker testbed could not be built"):
            client = stack.enter_context(contextlib.closing(connect()))
            image_id = image.ensure(client, progress)
            run = directory.name.removeprefix("pairlab-")
            parent = f"pl{run}"[:15] if driver.docker and driver.docker.parent else ""
            stack.enter_context(lifeline(run, directory, parent))
            labels = {LABEL: run, "pairlab.owner": ownership.me()}
            network = _network(client, driver, run, parent, labels)
            confined = confinement(client.info()["MemTotal"])
            make = functools.partial(_container, client, run, directory, labels, network, confined)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                containers = {}
                for endpoint, container in zip(endpoints, pool.map(make, endpoints), strict=True):
                    containers[endpoint.name] = container
                    progress("bringing up", len(containers), len(endpoints))
            facts = {
                "image": image_id,
                "docker": client.version()["Version"],
                "bridge_nf_call_iptables": bridge_nf_call_iptables(),
            }
            roots = []
            if driver.docker is None:
                attached = _attached(client, containers, endpoints, driver, directory)
                addresses, more, running = stack.enter_context(attached)
                facts |= more
                port_counts, roots = running.port_counts, [running.pid]
            else:
                addresses = _addresses(client, run, endpoints, network)
                facts |= driver.facts()
                port_counts = functools.partial(_bridge_counts, client, network, driver)
            limits = {each.name: each.limits for each in endpoints}
            yield DockerSite(client, containers, addresses, facts, driver, limits, port_counts, roots)
            _check_daemon(client)


def _learns_neighbours(driver):
    """Whether endpoints learn their neighbours from ARP; where pairlab attaches them, their entries are permanent."""
    return driver.isolated and driver.docker is not None


def _daemon_lack():
    """Why there is no Docker daemon for us, or None."""
    try:
        with contextlib.closing(docker.from_env(timeout=10)) as client:
            info = client.info()
    except DOCKER_ERRORS as error:
        if "Permission denied" in str(error):
            return Lack("the Docker daemon refuses this user", "sudo usermod -aG docker $USER, and log in again")
        where = os.environ.get("DOCKER_HOST", "/var/run/docker.sock")
        return Lack(
            f"no Docker daemon answers at {where}",
            "sudo apt-get install docker.io, and start it: sudo systemctl start docker",
        )
    if (info["Name"], info["KernelVersion"]) != (socket.gethostname(), platform.release()):
        return Lack(
            f"the Docker daemon runs on another host ({info['Name']})",
            "CPU use is measured where pairlab runs: run pairlab there",
        )
    return None


@contextlib.contextmanager
def _translated(what):
    try:
        yield
    except DOCKER_ERRORS as error:
        if not isinstance(error, APIError):
            hint = "The Docker daemon stopped, or does not answer: measure again when `docker info` works"
        elif "bind source path does not exist" in str(error):
            hint = "The Docker daemon does not see our files: is it a snap's, or in a container? Use one of this host"
        else:
            hint = "Does `docker info` work, and has the Docker daemon disk space left?"
        raise TestbedError(f"{what}: {error}. {hint}") from error


def _check_daemon(client):
    """Raises MeasurementFailed where the daemon stopped: what containers do without it is no measurement."""
    client.api.timeout = PING_S
    try:
        client.ping()
    except DOCKER_ERRORS as error:
        raise MeasurementFailed(
            f"the Docker daemon stopped while its containers were in use: {error}. Start it, and measure again"
        ) from error


def _network(client, driver, run, parent, labels):
    """The network to put containers in: its name, or Docker's `host` or `none`."""
    if driver.docker is None:
        return "none"
    if driver.docker.mode != "network":
        return driver.docker.mode
    options = {}
    if parent:
        run_in_thread(_make_parent, parent)
        options["parent"] = parent
    name = f"pairlab-{run}"
    client.api.create_network(name, driver=driver.docker.driver, options=options, labels=labels)
    return name


def _make_parent(name):
    """A veth pair of the host, as macvlan's parent: never a real network card. Its ifalias names its owner."""
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        ipr.link("add", ifname=name, kind="veth", peer=f"{name[:14]}x")
        ipr.link("set", index=socket.if_nametoindex(name), ifalias=ownership.me())
        for end in (name, f"{name[:14]}x"):
            ipr.link("set", index=socket.if_nametoindex(end), state="up")


def _container(client, run, directory, labels, network, confined, endpoint):
    """Creates and starts one; returns its id."""
    mounts = [
        Mount(FLOWGEN, str(paths.flowgen()), type="bind", read_only=True),
        Mount(DIRECTORY, str(directory), type="bind"),
    ]
    made = client.api.create_container(
        image.tag(),
        [FLOWGEN, "pause", "--lifeline", f"{DIRECTORY}/{FIFO}"],
        user=USER,
        name=f"pairlab-{run}-{endpoint.name}",
        labels=labels,
        use_config_proxy=False,  # else the user's proxy, with its password, is in the environment of each container
        host_config=client.api.create_host_config(
            network_mode=network,
            mounts=mounts,
            log_config=LogConfig(type=LogConfig.types.NONE),
            auto_remove=True,
            **confined,
            **_limited(endpoint.limits),
        ),
    )
    note(directory, made["Id"])
    client.api.start(made["Id"])
    return made["Id"]


def _limited(limits):
    """Docker's options for them, which hold for all processes in the container."""
    found = {}
    if limits.cpus is not None:
        found["cpuset_cpus"] = cpu_list(limits.cpus)
    if limits.cpu_quota:
        found["nano_cpus"] = round(limits.cpu_quota * 1e9)
    if limits.cpu_shares:
        found["cpu_shares"] = limits.cpu_shares
    return found


def _process(client, container):
    return client.api.inspect_container(container)["State"]["Pid"]


def _addresses(client, run, endpoints, network):
    if network == "host":
        return {each.name: "127.0.0.1" for each in endpoints}
    members = client.api.inspect_network(network)["Containers"].values()
    return {each["Name"].removeprefix(f"pairlab-{run}-"): each["IPv4Address"].split("/")[0] for each in members}


def _namespaces(client, containers, stack):
    """A descriptor of each container's network namespace, by name; the stack closes them."""
    found = {}
    for name, container in containers.items():
        found[name] = os.open(f"/proc/{_process(client, container)}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, found[name])
    return found


@contextlib.contextmanager
def _attached(client, containers, endpoints, driver, directory):
    """Attaches containers without a network to the driver's network, in a sandbox."""
    with contextlib.ExitStack() as stack:
        namespaces = _namespaces(client, containers, stack)
        running = stack.enter_context(Sandbox(directory, inherit=list(namespaces.values())))
        facts = running.call("build", import_path(driver), endpoints, namespaces)
        facts.pop("bridge_nf_call_iptables")  # of the sandbox, which has no iptables rules
        yield {each.name: each.address for each in endpoints}, facts, running
        running.check()


def _bridge_counts(client, network, driver):
    """Bytes and packets sent at the ports of Docker's own bridge, where the network is one."""
    if driver.docker.driver != "bridge":
        return None
    bridge = f"br-{client.api.inspect_network(network)['Id'][:12]}"  # Docker's name for it
    try:
        return sent_by(os.listdir(f"/sys/class/net/{bridge}/brif"))
    except FileNotFoundError:  # the daemon's network namespace is not ours
        return None


def _free_ports(count):
    """The first of `count` free ports in a row: all containers share the host's."""
    for first in range(5201, 60000, 500):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                trial = stack.enter_context(socket.socket())
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(("0.0.0.0", port))  # taken on any address is taken
            return first
    raise TestbedError(f"no {count} free ports in a row on this host: stop what uses them, or take another driver")
