"""netns: the embedded backend. Endpoints are network namespaces in a sandbox; no daemon, no image, no root."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.testbed import requirements
from pairlab.testbed.capture import TCPDUMP
from pairlab.testbed.cleanup.workdir import run_of
from pairlab.testbed.contracts import Backend, Layout, NetworkDriver, Progress, Site
from pairlab.testbed.endpoints import EndpointPlan, Link, pairs_of
from pairlab.testbed.host import cgroups
from pairlab.testbed.limits import cpu_list
from pairlab.testbed.netns import routes, sandbox
from pairlab.testbed.netns.networks import namespace_of
from pairlab.testbed.netns.sandbox import Sandbox, import_path
from pairlab.testbed.requirements import ROUTED, MissingRequirement, Program, lacking, missing_programs

#: The kernel's settings of IPv6.
IPV6 = Path("/proc/sys/net/ipv6")
NO_IPV6 = MissingRequirement("this kernel has no IPv6", "boot it without ipv6.disable=1, or take ip_version 4")


class NetnsSite(Site):
    """groups: the cgroups of endpoints whose CPU time is limited, by name."""

    def __init__(
        self, layout: Layout, facts: Mapping[str, Any], running: Sandbox, directory: Path, groups: Mapping[str, Path]
    ):
        super().__init__(layout, facts)
        self.sandbox = running
        self.flowgen = str(paths.flowgen())
        self.directory = str(directory)
        self._groups = groups

    def launch_options(self, endpoint: str) -> list[str]:
        limits = self.layout.limits.get(endpoint)
        options = ["--cpus", cpu_list(limits.cpus)] if limits and limits.cpus is not None else []
        return options + (["--cgroup", str(self._groups[endpoint])] if endpoint in self._groups else [])

    def limits_in_force(self) -> Mapping[str, Mapping[str, float]]:
        return {name: cgroups.read(group) for name, group in self._groups.items()}

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        self.sandbox.call("spawn", [(name, list(argv)) for name, argv in calls])

    def root_pids(self) -> Collection[int]:
        return [self.sandbox.pid]

    def port_counts(self) -> tuple[int, int] | None:
        return self.sandbox.port_counts()

    def refused_connections(self) -> int:
        return self.sandbox.call("refused_connections")

    def launch(self, endpoints: Sequence[EndpointPlan], within_s: float, pings: bool) -> list[dict[str, Any]]:
        return self.sandbox.call("launch", list(endpoints), [self.flowgen, "pause"], within_s, pings)

    def shape(self, links: Mapping[str, Link]) -> None:
        self._facts["shaping"] = self.sandbox.call("shape", dict(links))

    def route_congestion_control(self, name: str) -> None:
        self._facts[ROUTED] = self.sandbox.call("route_congestion_control", name, self.layout.endpoints[0].ip_version)

    def facts(self) -> Mapping[str, Any]:
        if "hosts" not in self._facts:  # reading takes a while, and the facts do not change
            self._facts["hosts"] = self.sandbox.call("built")
        return super().facts()


class Netns(Backend):
    """Network namespaces in a sandbox; when its first process ends, everything in it ends."""

    name = "netns"
    summary = "network namespaces in a sandbox; needs neither root nor Docker"
    endpoint = "namespace"

    ip_versions = frozenset({4, 6})

    def missing(self) -> list[MissingRequirement]:
        return [*filter(None, (sandbox.missing(), missing_flowgen())), *missing_programs(requirements.WATCHDOGS)]

    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        return [*sandbox.missing_links(driver), *missing_for(driver), *sandbox.missing_probed(driver)]

    def missing_programs(
        self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None
    ) -> list[MissingRequirement]:
        return missing_programs(programs)

    def missing_capture(self) -> list[MissingRequirement]:
        missing = missing_programs([TCPDUMP])
        if not sandbox.privileged():  # tcpdump calls setgroups(2), which our user namespaces forbid
            missing += lacking("tcpdump captures as root only", "run pairlab as root")
        return missing

    def missing_routes(self, layout: Layout) -> list[MissingRequirement]:
        if layout.endpoints[0].ip_version == 6 and routes.LOCAL in routes.tables_of(layout.driver):
            return [MissingRequirement("the kernel changes no IPv6 routes of a loopback", "take another driver")]
        return []  # all namespaces of the sandbox are ours, the loopback of `host` too

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        return {
            "limits of CPU use": missing_limits(layout),
            "shaped links": sandbox.missing_shaping(layout.links.values()),
            f"{len(layout.hosts)} hosts": missing_hosts(layout),
            "network namespaces": missing_namespaces(layout),
            "IPv6": [NO_IPV6] if layout.endpoints[0].ip_version == 6 and not IPV6.exists() else [],
        }  # launches need nothing: we may allow pings in the sandbox's namespaces

    def tool_version(self, command: Sequence[str], driver: type[NetworkDriver]) -> str:
        program, *arguments = command or ("",)
        return Program(program, "").first_line(*arguments)

    @contextlib.contextmanager
    def open(self, layout: Layout, directory: Path, progress: Progress) -> Iterator[Site]:
        directory.chmod(0o700)  # no other user needs the gates and the control socket
        groups_of_run = cgroups.groups(run_of(directory), layout.limits)
        with groups_of_run as groups, Sandbox(directory) as running:  # processes end before groups
            yield NetnsSite(layout, build(running, layout, progress), running, directory, groups)
            running.check()


def build(running: Sandbox, layout: Layout, progress: Progress) -> dict[str, Any]:
    """Builds the layout's network in that sandbox, and returns the network's facts."""
    count = len(layout.endpoints)

    def show(done: int) -> None:
        progress("bringing up", done, count)

    show(0)
    facts = running.call("build", import_path(layout.driver), layout.endpoints, layout.hosts, progress=show)
    show(count)
    return facts


def missing_limits(layout: Layout) -> list[MissingRequirement]:
    """The missing requirements of CPU limits on processes without containers."""
    missing = cgroups.missing() if any(each.cpu_quota or each.cpu_shares for each in layout.limits.values()) else None
    return [missing] if missing else []


def missing_hosts(layout: Layout) -> list[MissingRequirement]:
    """The missing requirements of a wire between hosts that are namespaces of a sandbox."""
    if len(layout.hosts) == 1:
        return []
    kinds = sandbox.missing_kinds(("bridge", "veth"), "take one host")
    return [*kinds, *sandbox.missing_uplink(layout.hosts[-1].uplink)]


def missing_namespaces(layout: Layout) -> list[MissingRequirement]:
    """Missing room for the network namespaces of the sandbox, of hosts and of endpoints."""
    of_hosts = [host.name for host in layout.hosts if len(layout.hosts) > 1]
    names = {*of_hosts, *(namespace_of(each, layout.driver, layout.hosts) for each in layout.endpoints)} - {""}
    pairs = len(pairs_of(layout.all_endpoints))
    return requirements.missing_namespaces(1 + len(names), f"{pairs} pair{'s' * (pairs != 1)}")


def missing_for(driver: type[NetworkDriver]) -> list[MissingRequirement]:
    """The driver's missing programs on this host, and the other missing requirements that it reports."""
    return [*missing_programs(driver.programs), *driver.missing()]


def missing_flowgen() -> MissingRequirement | None:
    """The requirement of flowgen, if it is not built yet."""
    return None if paths.flowgen().exists() else MissingRequirement("flowgen is not built", "make setup")
