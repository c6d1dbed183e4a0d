"""docker: the reference backend. Containers, through the Docker SDK."""

import contextlib
import functools
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docker import DockerClient

from pairlab import paths
from pairlab.base.threads import run_in_thread
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.workdir import run_of
from pairlab.testbed.contracts import Backend, Layout, NetworkDriver, Progress, Site
from pairlab.testbed.docker import daemon, image
from pairlab.testbed.docker import hosts as docker_hosts
from pairlab.testbed.docker.answers import required
from pairlab.testbed.docker.daemon import DOCKER_ERRORS, PING_S, connect
from pairlab.testbed.docker.engine import (
    Container,
    Engine,
    create_network,
    network_namespaces,
    start_all,
    start_workers,
    translated,
)
from pairlab.testbed.docker.reaper import lifeline
from pairlab.testbed.docker.site import DockerSite, learns_neighbours
from pairlab.testbed.endpoints import pairs_of
from pairlab.testbed.host.kernel_counters import sent_by
from pairlab.testbed.netns import sandbox
from pairlab.testbed.netns.backend import (
    Netns,
    missing_flowgen,
    missing_for,
    missing_hosts,
    missing_limits,
    missing_namespaces,
)
from pairlab.testbed.netns.launching import PING_GROUP_RANGE, may_ping_here
from pairlab.testbed.netns.networks import bridge_nf_call_iptables
from pairlab.testbed.netns.sandbox import Sandbox, import_path
from pairlab.testbed.requirements import (
    WATCHDOGS,
    MissingRequirement,
    Program,
    lacking,
    missing_neighbours,
    missing_programs,
)


class Docker(Backend):
    """Docker containers on this host, on Docker's own networks or attached to ours."""

    name = "docker"
    summary = "Docker containers; needs a Docker daemon on this host"
    endpoint = "container"

    def missing(self) -> list[MissingRequirement]:
        lacks = filter(None, (daemon.missing(), missing_flowgen(), _closed_flowgen()))
        return [*lacks, *missing_programs(WATCHDOGS)]

    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        attached = driver.docker is None
        requirements = missing_for(driver) if attached else driver.missing()
        if (driver.docker is None or driver.docker.parent) and os.geteuid() != 0:
            what = "links are put into containers" if attached else "a parent link is made on the host"
            requirements += lacking(
                f"{what}, which needs root", f"run as root, or use {driver.name!r} with --backend netns"
            )
        if not (no_sandbox := sandbox.missing()):
            requirements += sandbox.missing_links(driver)
        elif attached:
            requirements.append(no_sandbox)
        return [*requirements, *(docker_hosts.missing() if _has_own_daemons(driver) else [])]

    def missing_programs(
        self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None
    ) -> list[MissingRequirement]:
        if driver is not None and _is_bare(driver):
            return Netns().missing_programs(programs)
        return [
            MissingRequirement(
                f"{each.name} is not in the image",
                f"add {each.package} to [image] packages in pairlab.toml" if each.package else "take backend 'netns'",
            )
            for each in programs
            if each.package not in image.packages()
        ]

    def missing_routes(self, layout: Layout) -> list[MissingRequirement]:
        driver = layout.driver
        if not driver.isolated and len(layout.hosts) == 1 and not _has_own_daemons(driver):
            return lacking("its endpoints use the host's own routes, which stay as they are", "take another driver")
        if os.geteuid() != 0:
            return lacking("routes of containers are set from outside, which needs root", "run as root")
        return []

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        pairs = len(pairs_of(layout.all_endpoints))
        hosts = [] if len(layout.hosts) == 1 else [*docker_hosts.missing(len(layout.hosts)), *missing_hosts(layout)]
        return {
            "limits of CPU use": _missing_controllers(layout),
            "shaped links": _missing_shaping(layout),
            f"{pairs} pairs": missing_neighbours(pairs) if learns_neighbours(layout.driver) else [],
            f"{len(layout.hosts)} hosts": hosts,
            "network namespaces": missing_namespaces(layout),
            "launches": _missing_launches(layout),
        }

    def tool_version(self, command: Sequence[str], driver: type[NetworkDriver]) -> str:
        return Netns().tool_version(command, driver) if _is_bare(driver) else ""

    def version(self) -> str:
        try:
            with contextlib.closing(connect()) as client:
                client.api.timeout = PING_S  # called with every measurement, which must not wait for a hung daemon
                return required(client.version(), "Version")
        except DOCKER_ERRORS:
            return ""

    @contextlib.contextmanager
    def open(self, layout: Layout, directory: Path, progress: Progress) -> Iterator[Site]:
        driver = layout.driver
        if len(layout.hosts) > 1 or _has_own_daemons(driver):
            with docker_hosts.open_site(layout, directory, progress) as site:
                yield site
            return
        with contextlib.ExitStack() as stack, translated("the Docker testbed could not be built"):
            client = stack.enter_context(contextlib.closing(connect()))
            image_id = image.ensure(client, progress)
            run = run_of(directory)
            parent = f"pl{run}"[:15] if driver.docker and driver.docker.parent else ""
            await_lifeline = stack.enter_context(lifeline(run, directory, parent))
            engine = Engine(client, run, directory)
            if parent:
                run_in_thread(_make_parent, parent, layout.mtu_bytes)
            network = create_network(engine, driver, parent, layout.mtu_bytes)
            containers = start_all([(engine, endpoint, network, "") for endpoint in layout.endpoints], driver, progress)
            every = {**containers, **start_workers([engine], layout, progress)}
            await_lifeline()
            facts: dict[str, Any] = {
                "image": image_id,
                "docker": engine.version(),
                "bridge_nf_call_iptables": bridge_nf_call_iptables(),
            }
            if driver.docker is None:
                running, more = stack.enter_context(_attached(containers, layout, directory))
                yield DockerSite(layout, facts | more, every, [engine], network, sandbox=running)
            else:
                counts = functools.partial(_bridge_counts, client, network, driver)
                site = DockerSite(layout, facts | dict(driver().facts()), every, [engine], network, port_counts=counts)
                site.addresses = engine.addresses(layout.endpoints, network)
                yield site
            engine.check()


def _missing_controllers(layout: Layout) -> list[MissingRequirement]:
    """The missing requirements of CPU limits: the daemon's cgroup controllers."""
    limits = layout.limits.values()
    if not limits or _is_bare(layout.driver):
        return missing_limits(layout)
    with translated("the daemon's limits could not be read"), contextlib.closing(connect()) as client:
        info = client.info()
    wanted = {
        "CPUSet": ("cpuset", any(each.cpus is not None for each in limits)),
        "CpuCfsQuota": ("cpu", any(each.cpu_quota for each in limits)),
        "CPUShares": ("cpu", any(each.cpu_shares for each in limits)),
    }
    missing = dict.fromkeys(name for key, (name, needed) in wanted.items() if needed and not info.get(key))
    remedy = "see the warnings of `docker info`; a rootless daemon needs it delegated (systemd: Delegate=cpu cpuset)"
    return [MissingRequirement(f"the Docker daemon has no cgroup controller {name!r}", remedy) for name in missing]


def _missing_shaping(layout: Layout) -> list[MissingRequirement]:
    links = layout.links.values()
    if links and os.geteuid() != 0:
        return lacking("links of containers are shaped from outside, which needs root", "run as root")
    if links and (missing := sandbox.missing()):
        return [missing]
    return sandbox.missing_shaping(links)


def _missing_launches(layout: Layout) -> list[MissingRequirement]:
    """The missing requirements of launches of containers on a network that is up."""
    driver, alone = layout.driver, len(layout.hosts) == 1
    if not layout.launched or _is_bare(driver):
        return []
    requirements = []
    if driver.docker is None and alone:
        what = f"on one host, pairlab attaches the containers of {driver.name!r} all at once"
        requirements += lacking(what, "give hosts, or take backend 'netns'")
    if os.geteuid() != 0:
        requirements += lacking("pings are sent from a container's network namespace, which needs root", "run as root")
    if not driver.isolated and alone and not may_ping_here():
        groups = " ".join(PING_GROUP_RANGE.read_text().split())
        what = f"the sysctl net.ipv4.ping_group_range ({groups}) does not let us ping"
        requirements += lacking(what, f'sudo sysctl -w net.ipv4.ping_group_range="{os.getegid()} {os.getegid()}"')
    return requirements


def _has_own_daemons(driver: type[NetworkDriver]) -> bool:
    return driver.docker is not None and driver.docker.has_own_daemons


def _is_bare(driver: type[NetworkDriver]) -> bool:
    """Whether endpoints are processes without containers, with this host's programs and privileges."""
    return driver.docker is not None and not driver.docker.has_containers


def _closed_flowgen() -> MissingRequirement | None:
    """The requirement that others, such as containers, may run flowgen: it may have been built under a strict umask."""
    file = paths.flowgen()
    if not file.exists() or file.stat().st_mode & stat.S_IXOTH:
        return None
    return MissingRequirement(
        f"{file} may be run by its owner only, and containers run as nobody", f"chmod o+rx {file}"
    )


def _make_parent(name: str, mtu_bytes: int) -> None:
    """Makes a veth pair of the host as a network's parent, not a real network card. Its ifalias names the owner.

    mtu_bytes: of both links, and so the limit for containers' links; 0: the kernel's default.
    """
    from pyroute2 import IPRoute

    with IPRoute() as ipr:
        ipr.link("add", ifname=name, kind="veth", peer=f"{name[:14]}x")
        ipr.link("set", index=socket.if_nametoindex(name), ifalias=ownership.me())
        for end in (name, f"{name[:14]}x"):
            ipr.link("set", index=socket.if_nametoindex(end), state="up", **({"mtu": mtu_bytes} if mtu_bytes else {}))


@contextlib.contextmanager
def _attached(
    containers: Mapping[str, Container], layout: Layout, directory: Path
) -> Iterator[tuple[Sandbox, dict[str, Any]]]:
    """Attaches containers without a network to the driver's network, in a sandbox; yields sandbox and facts."""
    with contextlib.ExitStack() as stack:
        namespaces = stack.enter_context(network_namespaces(containers))
        running = stack.enter_context(Sandbox(directory, inherit=list(namespaces.values())))
        facts = running.call("build", import_path(layout.driver), layout.endpoints, layout.hosts, namespaces)
        facts.pop("bridge_nf_call_iptables")  # of the sandbox, which has no iptables rules
        yield running, facts
        running.check()


def _bridge_counts(client: DockerClient, network: str, driver: type[NetworkDriver]) -> tuple[int, int] | None:
    """Bytes and packets sent at the ports of Docker's own bridge; None for other networks."""
    if not driver.docker or driver.docker.driver != "bridge":
        return None
    bridge = f"br-{required(client.api.inspect_network(network), 'Id')[:12]}"  # Docker's name for it
    try:
        return sent_by(os.listdir(f"/sys/class/net/{bridge}/brif"))
    except FileNotFoundError:  # the daemon's network namespace is not ours
        return None
