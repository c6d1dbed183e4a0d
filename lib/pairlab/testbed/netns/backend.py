"""netns: the embedded backend. Endpoints are network namespaces in a sandbox; no daemon, no image, no root."""

import contextlib

from pairlab import paths
from pairlab.testbed.contracts import Backend, Site
from pairlab.testbed.endpoints import UPLINK, pairs_of
from pairlab.testbed.host import cgroup_tree, cgroups
from pairlab.testbed.limits import cpu_list
from pairlab.testbed.netns import sandbox
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import ROUTED, Lack, Program


class NetnsSite(Site):
    def __init__(self, running, directory, endpoints, facts, driver, groups, workers=()):
        self.sandbox = running
        self.flowgen = str(paths.flowgen())
        self.directory = str(directory)
        self.addresses = {each.name: each.address for each in endpoints}
        self.published = {each.name: each.published for each in endpoints if each.published}
        self.interface, self.interface_is_own = traffic_link(endpoints, driver)
        self.on_host_network = {each.name for each in endpoints if each.uses_host_network}
        self.hosts = {each.name: each.host for each in (*endpoints, *workers)}
        self._facts = facts
        self._built = None
        self._limits = {each.name: each.limits for each in (*endpoints, *workers)}
        self._groups = groups

    def launch_options(self, endpoint):
        cpus = self._limits[endpoint].cpus
        options = ["--cpus", cpu_list(cpus)] if cpus is not None else []
        return options + (["--cgroup", str(self._groups[endpoint])] if endpoint in self._groups else [])

    def limits_in_force(self):
        return {name: cgroup_tree.read(group) for name, group in self._groups.items()}

    def spawn(self, calls):
        self.sandbox.call("spawn", [(name, list(argv)) for name, argv in calls])

    def roots(self):
        return [self.sandbox.pid]

    def port_counts(self):
        return self.sandbox.port_counts()

    def refused_connections(self):
        return self.sandbox.call("refused_connections")

    def launch(self, endpoints, within_s, pings):
        return self.sandbox.call("launch", list(endpoints), [self.flowgen, "pause"], within_s, pings)

    def shape(self, links):
        self._facts = {**self._facts, "shaping": self.sandbox.call("shape", dict(links))}

    def route_congestion_control(self, name):
        self._facts = {**self._facts, ROUTED: self.sandbox.call("route_congestion_control", name)}

    def facts(self):
        if self._built is None:  # it takes the kernel a while to tell, and does not change
            self._built = self.sandbox.call("built")
        return {**self._facts, "hosts": self._built}


class Netns(Backend):
    """Network namespaces in a sandbox; when its first process ends, everything in it ends."""

    name = "netns"
    summary = "network namespaces in a sandbox; needs neither root nor Docker"
    endpoint = "namespace"

    def lacks(self):
        return [*filter(None, (sandbox.lack(), flowgen_lack()))]

    def lacks_for(self, driver):
        return [*sandbox.missing_links(driver), *missing_for(driver), *sandbox.missing_probed(driver)]

    def lacks_program(self, program):
        return program.lack()

    def tool_version(self, workload, driver):
        program, *arguments = workload.version_command(str(paths.flowgen())) or ("",)
        return Program(program, "").first_line(*arguments)

    def lacks_limits(self, driver, limits):
        missing = cgroups.lack() if any(each.cpu_quota or each.cpu_shares for each in limits) else None
        return [missing] if missing else []

    def lacks_hosts(self, hosts):
        if len(hosts) == 1:
            return []
        return [*sandbox.missing_kinds(("bridge", "veth"), "take one host"), *sandbox.missing_uplink(hosts[-1].uplink)]

    def lacks_workers(self, workers):
        return []

    def lacks_launches(self, driver, hosts):
        return []  # all its namespaces are ours, and we may let ourselves ping from them

    def lacks_links(self, links):
        return sandbox.missing_shaping(links)

    def lacks_routes(self, driver, hosts):
        return []  # all its namespaces are ours, the loopback of `host` too

    @contextlib.contextmanager
    def open(self, endpoints, driver, hosts, directory, progress, workers=()):
        directory.chmod(0o700)  # no other user needs the gates and the control socket
        run = directory.name.removeprefix("pairlab-")
        limits = {each.name: each.limits for each in (*endpoints, *workers)}
        with cgroups.groups(run, limits) as groups, Sandbox(directory) as running:  # its processes end before them
            facts = build(running, driver, endpoints, hosts, progress)
            yield NetnsSite(running, directory, endpoints, facts, driver, groups, workers)
            running.check()


def build(running, driver, endpoints, hosts, progress):
    """Builds these endpoints' network in that sandbox, and returns its facts."""

    def show(done):
        progress("bringing up", done, len(endpoints))

    show(0)
    facts = running.call("build", import_path(driver), endpoints, hosts, progress=show)
    show(len(endpoints))
    return facts


def traffic_link(endpoints, driver):
    """The link that endpoints' traffic leaves by, and where they share it whether it carries all of their traffic."""
    if driver.has_links():
        return "eth0", True
    if driver.isolated:
        return "lo", True
    crossing = {client.host != server.host for client, server in pairs_of(endpoints)}
    return (UPLINK if True in crossing else "lo"), len(crossing) == 1


def import_path(driver):
    """How the sandbox's agent finds the driver's class."""
    return f"{type(driver).__module__}:{type(driver).__qualname__}"


def missing_for(driver):
    """The programs that the driver runs on this host and does not find, and what else it says it lacks."""
    return [*filter(None, (program.lack() for program in driver.programs)), *driver.lacks()]


def flowgen_lack():
    """Whether pairlab's own generator is not built yet."""
    return None if paths.flowgen().exists() else Lack("flowgen is not built", "make setup")
