"""The process inside a sandbox: process 1 of its PID namespace, so that all in it ends when it does.

It is started by sandbox.Sandbox and takes calls from there over a socket. When that socket closes, whatever its parent
died of, it ends, and everything in the sandbox with it.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.base.error_location import located
from pairlab.errors import PairlabError, TestbedError
from pairlab.testbed.cleanup.workdir import remove
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.endpoints import EndpointPlan, HostPlan, Link, Uplink
from pairlab.testbed.host.link_counters import sent_by
from pairlab.testbed.netns import neighbours, protocol
from pairlab.testbed.requirements import Lack

#: Marks a message that is no answer yet, but says how far the call is.
PROGRESS = "progress"
#: Least time between two of them.
_PROGRESS_EVERY_S = 0.05

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


class Network(NamedTuple):
    """The driver's network on one host, with the endpoints that are on it. lan: a SandboxLan."""

    driver: NetworkDriver
    lan: Any
    endpoints: Sequence[EndpointPlan]

    def port_counts(self) -> tuple[int, int] | None:
        ports = self.driver.ports([each.name for each in self.endpoints])
        with self.lan.entered():
            return sent_by(ports) if ports else None


class Agent:
    """What can be called from outside; one testbed each. progress: called with how many endpoints are up.

    caller: the descriptor that calls come from.
    """

    def __init__(self, directory: Path | None, progress: Callable[[int], None], caller: int):
        self._caller = caller
        self._directory = directory
        self._progress = progress
        self._networks: list[Network] = []
        self.driver_file = ""
        """Where the driver's code is; empty before it is loaded."""
        self._namespaces: dict[str, int] = {}
        self._hosts: dict[str, int] = {}
        self._underlay: dict = {}
        self._daemons: list[Any] = []
        self._is_built = False

    @property
    def has_daemons(self) -> bool:
        return bool(self._daemons)

    def kinds_there(self, kinds: Sequence[str]) -> dict[str, bool]:
        """Whether the kernel can make each of these kinds of link."""
        from pairlab.testbed.netns.lan import SandboxLan

        lan = SandboxLan({}, Path())
        return {kind: lan.has_kind(kind) for kind in kinds}

    def lacks_probed(self, driver: str, name: str) -> list[Lack]:
        """What the kernel lacks for what that driver tries (module:Class). For a sandbox of its own."""
        from pairlab.testbed.netns.lan import SandboxLan

        module, kind = driver.split(":")
        try:
            getattr(import_module(module), kind)().probe(SandboxLan({}, Path()))
        except TestbedError as error:
            return [Lack(f"this kernel refuses what it builds ({error})", f"load the modules, or leave {name!r} out")]
        return []

    def connect(self, hosts: Sequence[HostPlan]) -> dict:
        """Makes these hosts, of which there are several, and connects them; returns what a record should say of that.

        `build` then puts endpoints on them.
        """
        self._hosts = _fresh_namespaces([host.name for host in hosts])
        self._underlay = _connected(hosts, list(self._hosts.values()))
        return self._underlay

    def start_daemons(
        self, commands: Mapping[str, Sequence[str]], directories: Mapping[str, str], within_s: float
    ) -> None:
        """Starts one on each host, by its name; returns when all say that they are ready.

        directories: of their files. What they put into `data` there stays in memory, as a disk would take longer.
        Raises TestbedError, with its last words, where one ends, or is not ready by then.
        """
        from pairlab.testbed.launch import daemons
        from pairlab.testbed.netns.namespaces import inside

        daemons.in_memory(Path("/run"))  # they find nothing of this host's daemons there, and leave nothing
        for host, argv in commands.items():
            directory = Path(directories[host])
            (directory / "data").mkdir()
            daemons.in_memory(directory / "data")
            name = f"{os.path.basename(argv[0])} of {host}"
            with inside(self._hosts[host]) if host in self._hosts else contextlib.nullcontext():
                self._daemons.append(daemons.Daemon(name, argv, directory))
        deadline_s = time.monotonic() + within_s
        for each in self._daemons:
            each.await_ready(deadline_s, self._caller)

    def adopt(
        self, driver: str, endpoints: Sequence[EndpointPlan], hosts: Sequence[HostPlan], pids: Mapping[str, int]
    ) -> None:
        """Takes the namespaces of these processes, by endpoint, that a daemon has put on networks of its own.

        Where they leave these by a gateway, all of them, and the hosts, become permanent neighbours, as in `build`.
        """
        kind = self._kind(driver)
        self._namespaces = _namespaces_of(pids)
        self._networks = [self._network(kind, each, hosts, endpoints, self._hosts.get(each.name)) for each in hosts]
        if not kind.routed:
            return
        for _, lan, _ in self._networks:
            with lan.entered():
                lan.adopt_gateway()
        macs = neighbours.introduce(self._namespaces, endpoints)
        for _, lan, own in self._networks:
            with lan.entered():
                neighbours.know(lan.gateway_link, {each.address: macs[each.name] for each in own})

    def build(
        self,
        driver: str,
        endpoints: Sequence[EndpointPlan],
        hosts: Sequence[HostPlan],
        given: Mapping[str, int] | None = None,
        pids: Mapping[str, int] | None = None,
    ) -> dict:
        """Builds the driver's network (module:Class) on each host and attaches the endpoints; returns its facts.

        given, pids: namespaces that exist already, as inherited descriptors or those of processes in here; else fresh
        ones are made.
        """
        kind = self._kind(driver)
        if pids is not None:
            given = _namespaces_of(pids)
        apart = [host.name for host in hosts if len(hosts) > 1]
        of_endpoint = {each.name: _namespace_of(each, kind, hosts) for each in endpoints}
        if given is None:
            wanted = dict.fromkeys([*apart, *filter(None, of_endpoint.values())])
            made = self._hosts | _fresh_namespaces([name for name in wanted if name not in self._hosts])
        else:
            for descriptor in given.values():
                os.set_inheritable(descriptor, False)  # what runs in here opens /proc/1/fd/N where it may
            made = self._hosts | dict(given)
        self._namespaces = {endpoint: made[space] for endpoint, space in of_endpoint.items() if space}
        facts = dict(self._underlay) if self._hosts else _connected(hosts, [made[space] for space in apart])
        self._networks = [self._network(kind, host, hosts, endpoints, made.get(host.name)) for host in hosts]
        self._attach(endpoints)
        if kind.has_links():
            neighbours.introduce(self._namespaces, endpoints)
        with self._networks[0].lan.entered():
            facts |= self._networks[0].driver.facts()
        self._is_built = True
        return {**facts, "bridge_nf_call_iptables": bridge_nf_call_iptables()}

    def _kind(self, driver: str) -> type[NetworkDriver]:
        """The driver's class, of module:Class."""
        module, name = driver.split(":")
        plugin = import_module(module)
        self.driver_file = plugin.__file__ or ""
        return getattr(plugin, name)

    def _network(
        self,
        kind: type[NetworkDriver],
        host: HostPlan,
        hosts: Sequence[HostPlan],
        endpoints: Sequence[EndpointPlan],
        own: int | None,
    ) -> Network:
        """That host's network, with nothing in it yet. own: the descriptor of the host's namespace, if it has one."""
        from pairlab.testbed.netns.lan import SandboxLan

        directory = self._directory or Path()
        if own is not None:
            directory = directory / host.name
            directory.mkdir()
        mtu_bytes = max(endpoint.mtu_bytes for endpoint in endpoints)
        others = [each for each in hosts if each != host]
        lan = SandboxLan(self._namespaces, directory, mtu_bytes, host, others, own, self._caller)
        return Network(kind(), lan, [each for each in endpoints if each.host == host.index])

    def _attach(self, endpoints: Sequence[EndpointPlan]) -> None:
        """Builds each host's network: the driver first, with its endpoints, then what endpoints have of their own."""
        done = 0
        for driver, lan, own in self._networks:
            with lan.entered():
                if driver.routed:
                    FORWARDING.write_text("1")
                driver.create(lan)
                for endpoint in own:
                    driver.attach(lan, endpoint)
                    done += 1
                    self._progress(done // 2)  # half of its work
        for driver, lan, _ in self._networks:
            with lan.entered():
                for endpoint in endpoints:
                    if endpoint.host != lan.host.index:
                        driver.reach(lan, endpoint)
        for driver, lan, own in self._networks:
            with lan.entered():
                driver.finish(lan)
                if lan.gateway_link:
                    neighbours.know(lan.gateway_link, {endpoint.address: endpoint.mac for endpoint in own})
            for endpoint in own:
                if endpoint.name in self._namespaces:
                    lan.configure(endpoint, has_link=driver.has_links())
                done += 1
                self._progress(done // 2)

    def built(self) -> list[dict]:
        """What each host and the ends of its first pair have, as the kernel tells it, and its driver's facts.

        Ports to the other endpoints are left out: they are as those of the first.
        """
        from pairlab.testbed.netns.description import describe
        from pairlab.testbed.netns.namespaces import inside

        found = []
        for driver, lan, own in self._networks:
            shown = [each for each in own if each.pair == own[0].pair]
            with lan.entered():
                about = describe(but={each.name for each in own if each not in shown})
                about |= {"driver": dict(driver.facts() if self._is_built else driver.docker_facts(lan))}
                about |= {"bridge_nf_call_iptables": bridge_nf_call_iptables()}
            ends = []
            for each in shown:
                if each.name in self._namespaces and lan.own != self._namespaces[each.name]:
                    with inside(self._namespaces[each.name]):
                        ends.append({"name": each.name, **describe()})
                else:
                    ends.append({"name": each.name})
            found.append({"name": lan.host.name, **about, "endpoints": ends, "endpoint_count": len(own)})
        return found

    def shape(self, links: Mapping[str, Link]) -> dict:
        """Shapes these endpoints' links; returns what was set."""
        from pairlab.testbed.netns import shaping

        return shaping.shape(self._namespaces, links)

    def lacks_shaping(self, link: Link) -> list[Lack]:
        """What is missing to shape a link so. For a sandbox of its own: leaves a rule."""
        from pairlab.testbed.netns import shaping

        return shaping.lacks(link)

    def lacks_uplink(self, uplink: Uplink) -> list[Lack]:
        """What is missing to shape an uplink so. For a sandbox of its own: leaves its loopback shaped."""
        from pairlab.testbed.netns import underlay

        return underlay.lacks(uplink)

    def route_congestion_control(self, name: str) -> str:
        """Sets it on the routes by which endpoints reach each other; returns what is set."""
        from pairlab.testbed.netns import routes

        if not self._namespaces:
            return routes.set_here(name, routes.LOCAL)
        return routes.set_in(set(self._namespaces.values()), name, routes.tables_of(self._networks[0].driver))

    def route_hosts(self, name: str) -> None:
        """Sets it on the hosts' own routes, where processes on them relay connections."""
        from pairlab.testbed.netns import routes

        for _, lan, _ in self._networks:
            with lan.entered():
                routes.set_here(name)

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Starts flowgen's launcher for each (endpoint, argv); it enters the endpoint's namespace by itself."""
        self._reap()
        quiet = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        for endpoint, argv in calls:
            argv = list(argv)
            if endpoint in self._namespaces:
                argv[2:2] = ["--netns", f"/proc/1/fd/{self._namespaces[endpoint]}"]
            os.posix_spawn(argv[0], argv, os.environ, file_actions=quiet)

    def check(self) -> None:
        """Raises TestbedError where the driver's network broke."""
        self._reap()  # else an exited daemon still has its entry in /proc
        for each in self._daemons:
            each.check()
        if not self._is_built:  # a daemon provides the networks, and was just looked at
            return
        for driver, lan, _ in self._networks:
            with lan.entered():
                driver.check()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that have gone out at the driver's ports; None where it has none."""
        counts = [counted for each in self._networks if (counted := each.port_counts())]
        return (sum(sent for sent, _ in counts), sum(packets for _, packets in counts)) if counts else None

    def _reap(self) -> None:
        """Reaps exited launchers; PID 1 adopts orphans."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _namespace_of(endpoint: EndpointPlan, kind: type[NetworkDriver], hosts: Sequence[HostPlan]) -> str:
    """The name of the network namespace that the endpoint is in; empty: the sandbox's own."""
    if kind.isolated:
        return f"pair-{endpoint.pair}" if kind.pair_shares else endpoint.name
    return hosts[endpoint.host].name if len(hosts) > 1 else ""


def _namespaces_of(pids: Mapping[str, int]) -> dict[str, int]:
    """Descriptors of the network namespaces of these processes of the sandbox, by the same names."""
    return {name: os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for name, pid in pids.items()}


def _fresh_namespaces(names: Sequence[str]) -> dict[str, int]:
    """One thread makes the namespaces while the other loads pyroute2: both take about as long."""
    from pairlab.testbed.netns.namespaces import new_namespaces

    made: list[int] = []
    errors_seen: list[BaseException] = []

    def make() -> None:
        try:
            made.extend(new_namespaces(len(names)))
        except BaseException as error:
            errors_seen.append(error)

    maker = threading.Thread(target=make)
    maker.start()
    import_module("pairlab.testbed.netns.lan")
    maker.join()
    if errors_seen:
        raise errors_seen[0]
    return dict(zip(names, made, strict=True))


def _connected(hosts: Sequence[HostPlan], namespaces: Sequence[int]) -> dict:
    """Connects the hosts, where they have namespaces of their own; returns what a record should say of that."""
    from pairlab.testbed.netns.namespaces import without_ipv6

    without_ipv6()
    if not namespaces:
        return {}
    from pairlab.testbed.netns import underlay

    return {"underlay": underlay.connect(hosts, namespaces)}


def bridge_nf_call_iptables() -> int | None:
    """Whether bridged frames pass iptables in this network namespace; None without br_netfilter."""
    try:
        return int(Path("/proc/sys/net/bridge/bridge-nf-call-iptables").read_text())
    except (OSError, ValueError):
        return None


def _rate_limited(progress: Callable[[int], None]) -> Callable[[int], None]:
    """Drops calls that come too soon after the one before."""
    next_s = time.monotonic()

    def limited(done: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            progress(done)
            next_s = time.monotonic() + _PROGRESS_EVERY_S

    return limited


def serve(connection: Connection, agent: Agent) -> None:
    """Answers calls until the other end closes."""
    while True:
        try:
            name, arguments = protocol.receive(connection, protocol.OF_CALLS)
        except EOFError:
            return
        try:
            answer = (True, getattr(agent, name)(*arguments))
        except PairlabError as error:
            answer = (False, (type(error).__name__, str(error)))
        except Exception as error:
            answer = (
                False,
                ("TestbedError", f"{name} in the sandbox: {type(error).__name__}: {located(error, agent.driver_file)}"),
            )
        try:
            protocol.send(connection, answer)
        except BrokenPipeError:
            return
        except TypeError as error:  # a driver's facts are no JSON
            protocol.send(connection, (False, ("TestbedError", f"{name} in the sandbox: {error}")))


def main() -> None:
    directory = Path(sys.argv[2]) if sys.argv[2] else None
    os.set_inheritable(int(sys.argv[1]), False)  # traffic tools have no part in this conversation
    connection = Connection(int(sys.argv[1]))
    progress = _rate_limited(lambda done: protocol.send(connection, (PROGRESS, done)))
    agent = Agent(directory, progress, connection.fileno())
    try:
        serve(connection, agent)
    finally:
        # The parent and its watchdog do this too, unless they were killed. Daemons may have mounts in it until the end.
        if directory and not agent.has_daemons:
            remove(directory)
        os._exit(0)


if __name__ == "__main__":
    main()
