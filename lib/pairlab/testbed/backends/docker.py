"""docker: the reference backend. Containers, through the Docker SDK; honours DOCKER_HOST."""

import contextlib
import functools
import os
import platform
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
from docker.types import LogConfig, Mount

from pairlab import paths
from pairlab.errors import TestbedError
from pairlab.testbed import cgroups, image, owner, sandbox
from pairlab.testbed.agent import bridge_nf_call_iptables
from pairlab.testbed.aside import aside
from pairlab.testbed.backends.netns import flowgen_lack, import_path, plan
from pairlab.testbed.contracts import Backend, Lack, Limits, Site, installed
from pairlab.testbed.lifeline import AT_ONCE, DOCKER_ERRORS, LABEL
from pairlab.testbed.limits import cpu_list
from pairlab.testbed.sandbox import Sandbox

FLOWGEN = "/pairlab/flowgen"
DIRECTORY = "/pairlab/run"
CPU_CGROUP = Path("/sys/fs/cgroup/cpu")


class DockerSite(Site):
    flowgen = FLOWGEN
    directory = DIRECTORY

    def __init__(self, client, containers, addresses, facts, isolated, limits):
        self._client = client
        self._containers = containers
        self.addresses = addresses
        self._facts = facts
        self._limits = limits
        if not isolated:
            self.interface = "lo"
            self.first_port = _free_ports(len(containers) // 2)

    def spawn(self, calls):
        def start(call):
            name, argv = call
            made = self._client.api.exec_create(self._containers[name], list(argv), stdout=False, stderr=False)
            self._client.api.exec_start(made["Id"], detach=True)

        with _translated("a process could not be started"), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(start, calls))

    def hasten(self, pid):
        # Where the kernel groups real time by cgroup (v1), a container's has none, and that of the root has.
        try:
            (CPU_CGROUP / "cgroup.procs").write_text(str(pid))
            os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
        except OSError:
            return False
        return True

    def limits_in_force(self):
        found = {}
        for name, each in self._limits.items():
            if each.cpu_quota or each.cpu_shares:
                found[name] = cgroups.read_of(_process(self._client, self._containers[name]))
        return found

    def facts(self):
        return self._facts


class Docker(Backend):
    """Docker containers on this host, on Docker's own networks or attached to ours."""

    name = "docker"
    summary = "Docker containers; needs a Docker daemon on this host"

    def lacks(self):
        missing = flowgen_lack()
        return [lack for lack in (_daemon_lack(), missing) if lack]

    def lacks_for(self, driver):
        found = [*installed(driver.programs), *driver.lacks()]
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

    def lacks_limits(self, limits):
        if not limits:
            return []
        with contextlib.closing(_client()) as client, _translated("the daemon does not say what it can limit"):
            told = client.info()
        wanted = {
            "CPUSet": ("cpuset", any(each.cpus is not None for each in limits)),
            "CpuCfsQuota": ("cpu", any(each.cpu_quota for each in limits)),
            "CPUShares": ("cpu", any(each.cpu_shares for each in limits)),
        }
        missing = dict.fromkeys(name for key, (name, asked) in wanted.items() if asked and not told.get(key))
        remedy = (
            "see the warnings of `docker info`; a rootless daemon needs it delegated (systemd: Delegate=cpu cpuset)"
        )
        return [Lack(f"the Docker daemon has no cgroup controller {name!r}", remedy) for name in missing]

    @contextlib.contextmanager
    def open(self, endpoints, driver, directory, progress, limits):
        with contextlib.ExitStack() as stack, _translated("the Docker testbed could not be built"):
            client = stack.enter_context(contextlib.closing(_client()))
            image_id = image.ensure(client, progress)
            run = directory.name.removeprefix("pairlab-")
            parent = f"pl{run}"[:15] if driver.docker and driver.docker.parent else ""
            stack.enter_context(_lifeline(run, directory, parent))
            labels = {LABEL: run, "pairlab.owner": owner.me()}
            network = _network(client, driver, run, parent, labels)
            make = functools.partial(_container, client, run, directory, labels, network, limits)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                containers = {}
                for name, container in zip(endpoints, pool.map(make, endpoints), strict=True):
                    containers[name] = container
                    progress("bringing up", len(containers), len(endpoints))
            facts = {
                "image": image_id,
                "docker": client.version()["Version"],
                "bridge_nf_call_iptables": bridge_nf_call_iptables(),
            }
            if driver.docker is None:
                addresses, more = stack.enter_context(_attached(client, containers, driver, directory))
                facts |= more
            else:
                addresses = _addresses(client, run, endpoints, network)
                facts |= driver.facts()
            yield DockerSite(client, containers, addresses, facts, driver.isolated, limits)


def _client():
    return docker.from_env(max_pool_size=AT_ONCE, timeout=120)


def _daemon_lack():
    """Why there is no Docker daemon for us, or None."""
    try:
        with contextlib.closing(docker.from_env(timeout=10)) as client:
            told = client.info()
    except DOCKER_ERRORS as error:
        if "Permission denied" in str(error):
            return Lack("the Docker daemon refuses this user", "sudo usermod -aG docker $USER, and log in again")
        where = os.environ.get("DOCKER_HOST", "/var/run/docker.sock")
        return Lack(
            f"no Docker daemon answers at {where}",
            "sudo apt-get install docker.io, and start it: sudo systemctl start docker",
        )
    if (told["Name"], told["KernelVersion"]) != (socket.gethostname(), platform.release()):
        return Lack(
            f"the Docker daemon runs on another host ({told['Name']})",
            "CPU use is measured where pairlab runs: run pairlab there",
        )
    return None


@contextlib.contextmanager
def _translated(what):
    try:
        yield
    except DOCKER_ERRORS as error:
        if "bind source path does not exist" in str(error):
            hint = "the daemon does not see our files: is it a snap's, or in a container? Use one of this host"
        else:
            hint = "does `docker info` work, and is there room on its disk?"
        raise TestbedError(f"{what}: {error}. {hint}") from error


@contextlib.contextmanager
def _lifeline(run, directory, link):
    """Removes the testbed on leaving, through the process that would also do it without us."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "pairlab.testbed.lifeline", run, str(directory), link],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        start_new_session=True,  # Ctrl-C is for us to handle
    )
    try:
        yield
    finally:
        _, told = process.communicate("done\n")
        if process.returncode:
            raise TestbedError(
                f"the Docker testbed could not be removed whole: {told.strip().splitlines()[-1:]};"
                f" docker ps --all --filter label={LABEL}={run} shows what is left, and `pairlab clean` tries again."
                " A network that Docker says has active endpoints, and that has none, goes when Docker is restarted"
            )


def _network(client, driver, run, parent, labels):
    """The network to put containers in: its name, or Docker's `host` or `none`."""
    if driver.docker is None:
        return "none"
    if driver.docker.mode != "network":
        return driver.docker.mode
    options = {}
    if parent:
        aside(_make_parent, parent)
        options["parent"] = parent
    name = f"pairlab-{run}"
    client.api.create_network(name, driver=driver.docker.driver, options=options, labels=labels)
    return name


def _make_parent(name):
    """A veth pair of the host, for macvlan to sit on: never a real network card. It bears its owner's name."""
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        ipr.link("add", ifname=name, kind="veth", peer=f"{name[:14]}x")
        ipr.link("set", index=socket.if_nametoindex(name), ifalias=owner.me())
        for end in (name, f"{name[:14]}x"):
            ipr.link("set", index=socket.if_nametoindex(end), state="up")


def _container(client, run, directory, labels, network, limits, name):
    """Creates and starts one; returns its id."""
    mounts = [
        Mount(FLOWGEN, str(paths.flowgen()), type="bind", read_only=True),
        Mount(DIRECTORY, str(directory), type="bind"),
    ]
    made = client.api.create_container(
        image.tag(),
        [FLOWGEN, "pause"],
        name=f"pairlab-{run}-{name}",
        labels=labels,
        host_config=client.api.create_host_config(
            network_mode=network,
            mounts=mounts,
            log_config=LogConfig(type=LogConfig.types.NONE),
            security_opt=["label=disable"],  # SELinux would keep our mounts from it
            cap_add=["SYS_NICE"],  # for the launcher; what it launches does not have it
            **_limited(limits.get(name, Limits())),
        ),
    )
    client.api.start(made["Id"])
    return made["Id"]


def _limited(limits):
    """Docker's words for them, which count for all that is started in the container."""
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
        return dict.fromkeys(endpoints, "127.0.0.1")
    members = client.api.inspect_network(network)["Containers"].values()
    return {each["Name"].removeprefix(f"pairlab-{run}-"): each["IPv4Address"].split("/")[0] for each in members}


@contextlib.contextmanager
def _attached(client, containers, driver, directory):
    """Links from a sandbox, where the driver's network lives, into containers that have none."""
    with contextlib.ExitStack() as stack:
        namespaces = {}
        for name, container in containers.items():
            pid = _process(client, container)
            namespaces[name] = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, namespaces[name])
        running = stack.enter_context(Sandbox(directory, inherit=list(namespaces.values())))
        plans = plan(list(containers))
        facts = running.call("build", import_path(driver), plans, namespaces)
        facts.pop("bridge_nf_call_iptables")  # of the sandbox, which has no iptables rules
        yield {each.name: each.address for each in plans}, facts


def _free_ports(count):
    """The first of `count` ports in a row that nobody uses: all containers share the host's."""
    for first in range(5201, 60000, 500):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + count):
                trial = stack.enter_context(socket.socket())
                trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                trial.bind(("0.0.0.0", port))  # taken on any address is taken
            return first
    raise TestbedError(f"no {count} free ports in a row on this host: end what uses them, or take another driver")
