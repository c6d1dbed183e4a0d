"""docker: the reference backend. Containers, through the Docker SDK."""

import contextlib
import functools
import os
import socket
import stat

from pairlab import paths
from pairlab.base.threads import run_in_thread
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.contracts import Backend
from pairlab.testbed.docker import daemon, image, networks
from pairlab.testbed.docker import hosts as docker_hosts
from pairlab.testbed.docker.daemon import DOCKER_ERRORS, PING_S, connect
from pairlab.testbed.docker.engine import Engine, network_namespaces, start_all, start_workers, translated
from pairlab.testbed.docker.launching import Launcher
from pairlab.testbed.docker.reaper import LABEL, lifeline
from pairlab.testbed.docker.site import DockerSite, learns_neighbours
from pairlab.testbed.host.link_counters import sent_by
from pairlab.testbed.netns import sandbox
from pairlab.testbed.netns.backend import Netns, flowgen_lack, import_path, missing_for
from pairlab.testbed.netns.launching.watching import PING_GROUP_RANGE, may_ping_here
from pairlab.testbed.netns.networks import bridge_nf_call_iptables
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import Lack, missing_neighbours


class Docker(Backend):
    """Docker containers on this host, on Docker's own networks or attached to ours."""

    name = "docker"
    summary = "Docker containers; needs a Docker daemon on this host"
    endpoint = "container"

    def lacks(self):
        return [*filter(None, (daemon.lack(), flowgen_lack(), _closed_flowgen()))]

    def lacks_for(self, driver):
        attached = driver.docker is None
        found = missing_for(driver) if attached else driver.lacks()
        if (attached or driver.docker.parent) and os.geteuid() != 0:
            what = "links are put into containers" if attached else "a parent link is made on the host"
            found.append(Lack(f"{what}, which needs root", f"run as root, or use {driver.name!r} with --backend netns"))
        if not sandbox.lack():
            found += sandbox.missing_links(driver)
        elif attached:
            found.append(sandbox.lack())
        return [*found, *(docker_hosts.lacks() if _has_own_daemons(driver) else [])]

    def lacks_hosts(self, hosts):
        if len(hosts) == 1:
            return []
        uplinks = sandbox.missing_uplink(hosts[-1].uplink)
        return [*docker_hosts.lacks(len(hosts)), *sandbox.missing_kinds(("bridge", "veth"), "take one host"), *uplinks]

    def lacks_program(self, program):
        if program.package in image.packages():
            return None
        remedy = f"add {program.package} to lib/image/packages.txt" if program.package else "take backend 'netns'"
        return Lack(f"{program.name} is not in the image", remedy)

    def lacks_programs(self, programs, driver=None):
        if driver is not None and _is_bare(driver):
            return Netns().lacks_programs(programs)
        return super().lacks_programs(programs, driver)

    def tool_version(self, workload, driver):
        return Netns().tool_version(workload, driver) if _is_bare(driver) else ""

    def version(self):
        try:
            with contextlib.closing(connect()) as client:
                client.api.timeout = PING_S  # asked beside every measurement: one that hangs is not waited for
                return client.version()["Version"]
        except DOCKER_ERRORS:
            return ""

    def lacks_limits(self, driver, limits):
        if not limits or _is_bare(driver):
            return Netns().lacks_limits(driver, limits)
        with translated("the daemon's limits could not be read"), contextlib.closing(connect()) as client:
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
        return missing_neighbours(pairs) if learns_neighbours(driver) else []

    def lacks_workers(self, workers):
        return []

    def lacks_launches(self, driver, hosts):
        if _is_bare(driver):
            return []
        found = []
        if driver.docker is None and len(hosts) == 1:
            what = f"on one host, pairlab attaches the containers of {driver.name!r} all at once"
            found.append(Lack(what, "give hosts, or take backend 'netns'"))
        if os.geteuid() != 0:
            found.append(Lack("pings are sent from a container's network namespace, which needs root", "run as root"))
        if not driver.isolated and len(hosts) == 1 and not may_ping_here():
            groups = " ".join(PING_GROUP_RANGE.read_text().split())
            what = f"the sysctl net.ipv4.ping_group_range ({groups}) does not let us ping"
            found.append(Lack(what, f'sudo sysctl -w net.ipv4.ping_group_range="{os.getegid()} {os.getegid()}"'))
        return found

    def lacks_links(self, links):
        if links and os.geteuid() != 0:
            return [Lack("links of containers are shaped from outside, which needs root", "run as root")]
        if links and (missing := sandbox.lack()):
            return [missing]
        return sandbox.missing_shaping(links)

    def lacks_routes(self, driver, hosts):
        if not driver.isolated and len(hosts) == 1 and not _has_own_daemons(driver):
            return [Lack("its endpoints use the host's own routes, which stay as they are", "take another driver")]
        if os.geteuid() != 0:
            return [Lack("routes of containers are set from outside, which needs root", "run as root")]
        return []

    @contextlib.contextmanager
    def open(self, endpoints, driver, hosts, directory, progress, workers=()):
        if len(hosts) > 1 or _has_own_daemons(driver):
            with docker_hosts.open_site(endpoints, driver, hosts, directory, progress, workers) as site:
                yield site
            return
        with contextlib.ExitStack() as stack, translated("the Docker testbed could not be built"):
            client = stack.enter_context(contextlib.closing(connect()))
            image_id = image.ensure(client, progress)
            run = directory.name.removeprefix("pairlab-")
            parent = f"pl{run}"[:15] if driver.docker and driver.docker.parent else ""
            stack.enter_context(lifeline(run, directory, parent))
            engine = Engine(client, run, directory, {LABEL: run, "pairlab.owner": ownership.me()})
            if parent:
                run_in_thread(_make_parent, parent, endpoints[0].mtu_bytes)
            network = networks.create(engine, driver, parent, endpoints[0].mtu_bytes)
            containers = start_all([(engine, endpoint, network, "") for endpoint in endpoints], driver, progress)
            every = {**containers, **start_workers([engine], workers, driver, progress)}
            facts = {
                "image": image_id,
                "docker": engine.version(),
                "bridge_nf_call_iptables": bridge_nf_call_iptables(),
            }
            roots = []
            if driver.docker is None:
                running, more = stack.enter_context(_attached(containers, endpoints, driver, hosts, directory))
                addresses = {each.name: each.address for each in endpoints}
                facts |= more
                port_counts, roots = running.port_counts, [running.pid]
            else:
                addresses = networks.addresses(engine, endpoints, network)
                facts |= driver.facts()
                port_counts = functools.partial(_bridge_counts, client, network, driver)
            site = DockerSite(every, endpoints, addresses, facts, driver, port_counts, roots, None, workers)
            if driver.docker is not None:
                site.launcher = Launcher([engine], driver, network, False, containers)
            yield site
            engine.check()


def _has_own_daemons(driver):
    return driver.docker is not None and driver.docker.has_own_daemons


def _is_bare(driver):
    """Whether endpoints are processes without containers: what these have and may do is then this host's."""
    return driver.docker is not None and not driver.docker.has_containers


def _closed_flowgen():
    """Why nobody else may run pairlab's own generator, as containers do, or None: it was built under a strict umask."""
    file = paths.flowgen()
    if not file.exists() or file.stat().st_mode & stat.S_IXOTH:
        return None
    return Lack(f"{file} may be run by its owner only, and containers run as nobody", f"chmod o+rx {file}")


def _make_parent(name, mtu_bytes):
    """A veth pair of the host, as a network's parent: never a real network card. Its ifalias names its owner.

    mtu_bytes: of its links, and so the most that containers' links can have; 0: the kernel's default.
    """
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        ipr.link("add", ifname=name, kind="veth", peer=f"{name[:14]}x")
        ipr.link("set", index=socket.if_nametoindex(name), ifalias=ownership.me())
        for end in (name, f"{name[:14]}x"):
            ipr.link("set", index=socket.if_nametoindex(end), state="up", **({"mtu": mtu_bytes} if mtu_bytes else {}))


@contextlib.contextmanager
def _attached(containers, endpoints, driver, hosts, directory):
    """Attaches containers without a network to the driver's network, in a sandbox; yields it, and its facts."""
    with contextlib.ExitStack() as stack:
        namespaces = stack.enter_context(network_namespaces(containers))
        running = stack.enter_context(Sandbox(directory, inherit=list(namespaces.values())))
        facts = running.call("build", import_path(driver), endpoints, hosts, namespaces)
        facts.pop("bridge_nf_call_iptables")  # of the sandbox, which has no iptables rules
        yield running, facts
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
