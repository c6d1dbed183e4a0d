"""netns: the embedded backend. A container is a bare network namespace in a sandbox; no daemon, no image, no root."""

import contextlib
import ipaddress

from pairlab import paths
from pairlab.testbed import cgroups, sandbox
from pairlab.testbed.contracts import Backend, EndpointPlan, Lack, Site, installed
from pairlab.testbed.limits import cpu_list
from pairlab.testbed.sandbox import Sandbox

SUBNET = ipaddress.IPv4Network("10.77.0.0/16")


class NetnsSite(Site):
    def __init__(self, running, directory, addresses, facts, isolated, limits, groups):
        self.sandbox = running
        self.flowgen = str(paths.flowgen())
        self.directory = str(directory)
        self.addresses = addresses
        self.interface = "eth0" if isolated else "lo"
        self._facts = facts
        self._limits = limits
        self._groups = groups

    def launch_options(self, endpoint):
        cpus = self._limits[endpoint].cpus if endpoint in self._limits else None
        options = ["--cpus", cpu_list(cpus)] if cpus is not None else []
        return options + (["--cgroup", str(self._groups[endpoint])] if endpoint in self._groups else [])

    def limits_in_force(self):
        return {name: cgroups.read(group) for name, group in self._groups.items()}

    def spawn(self, calls):
        self.sandbox.call("spawn", [(name, list(argv)) for name, argv in calls])

    def port_counts(self):
        return self.sandbox.call("port_counts")

    def shape(self, links):
        self._facts = {**self._facts, "shaping": self.sandbox.call("shape", dict(links))}

    def facts(self):
        return self._facts


class Netns(Backend):
    """Network namespaces in a sandbox process that takes everything with it when it dies."""

    name = "netns"
    summary = "network namespaces in a sandbox; needs neither root nor Docker"
    endpoint = "namespace"
    administers = True

    def lacks(self):
        return [found for found in (sandbox.lack(), flowgen_lack()) if found]

    def lacks_for(self, driver):
        return [*sandbox.missing_links(driver), *installed(driver.programs), *driver.lacks()]

    def lacks_program(self, program):
        return program.lack()

    def lacks_limits(self, limits):
        missing = cgroups.lack() if any(each.cpu_quota or each.cpu_shares for each in limits) else None
        return [missing] if missing else []

    def lacks_links(self, links):
        return [lack for link in dict.fromkeys(links) for lack in sandbox.missing_shaping(link)]

    @contextlib.contextmanager
    def open(self, endpoints, driver, directory, progress, limits):
        def told(done):
            progress("bringing up", done, len(endpoints))

        told(0)
        directory.chmod(0o700)  # all that run here are we: no other user has business with gates and control socket
        run = directory.name.removeprefix("pairlab-")
        with cgroups.groups(run, limits) as groups, Sandbox(directory) as running:  # its processes end before them
            if driver.isolated:
                plans = plan(endpoints)
                facts = running.call("build", import_path(driver), plans, told=told)
                addresses = {each.name: each.address for each in plans}
            else:
                facts = running.call("build_shared")
                addresses = dict.fromkeys(endpoints, "127.0.0.1")
            told(len(endpoints))
            yield NetnsSite(running, directory, addresses, facts, driver.isolated, limits, groups)
            running.check()


def plan(names):
    """An address for each endpoint, in the order of the names."""
    hosts = SUBNET.hosts()
    return [EndpointPlan(name, str(next(hosts)), SUBNET.prefixlen) for name in names]


def import_path(driver):
    """How the sandbox's agent finds the driver's class again."""
    return f"{type(driver).__module__}:{type(driver).__qualname__}"


def flowgen_lack():
    """The generator comes with pairlab, but has to be built."""
    return None if paths.flowgen().exists() else Lack("flowgen is not built", "make setup")
