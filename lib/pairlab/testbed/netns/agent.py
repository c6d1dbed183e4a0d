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

from pairlab.base.error_location import located
from pairlab.errors import PairlabError
from pairlab.testbed.cleanup.workdir import remove
from pairlab.testbed.endpoints import EndpointPlan, Link
from pairlab.testbed.host.link_counters import sent_by
from pairlab.testbed.netns import neighbours, wire
from pairlab.testbed.requirements import Lack

#: Marks a message that is no answer yet, but says how far the call is.
PROGRESS = "progress"
#: Least time between two of them.
_PROGRESS_EVERY_S = 0.05


class Agent:
    """What can be called from outside; one testbed each. progress: called with how many endpoints are up."""

    def __init__(self, directory: Path | None, progress: Callable[[int], None]):
        self._directory = directory
        self._progress = progress
        self._lan = None
        self._driver = None
        self.driver_file = ""
        """Where the driver's code is; empty before it is loaded."""
        self._namespaces: dict[str, int] = {}
        self._endpoints: list[str] = []

    def kinds_there(self, kinds: Sequence[str]) -> dict[str, bool]:
        """Whether the kernel can make each of these kinds of link."""
        lan = self._open_lan({})
        return {kind: lan.has_kind(kind) for kind in kinds}

    def build(self, driver: str, endpoints: Sequence[EndpointPlan], given: Mapping[str, int] | None = None) -> dict:
        """Builds the driver's network (module:Class) and attaches the endpoints; returns the driver's facts.

        given: namespaces that exist already, as inherited descriptors; else each endpoint gets a fresh one.
        """
        module, name = driver.split(":")
        if given is None:
            self._lan = self._lan_with_fresh_namespaces([endpoint.name for endpoint in endpoints])
        else:
            for descriptor in given.values():
                os.set_inheritable(descriptor, False)  # what runs in here opens /proc/1/fd/N where it may
            self._lan = self._open_lan(dict(given))
        plugin = import_module(module)
        self.driver_file = plugin.__file__ or ""
        self._driver = getattr(plugin, name)()
        self._driver.create(self._lan)
        self._endpoints = [endpoint.name for endpoint in endpoints]
        for number, endpoint in enumerate(endpoints):
            self._driver.attach(self._lan, endpoint)
            self._progress(number // 2)  # half of its work
        self._driver.finish(self._lan)
        for number, endpoint in enumerate(endpoints, len(endpoints)):
            self._lan.configure(endpoint)
            self._progress(number // 2)
        neighbours.introduce(self._lan.namespaces, endpoints)
        return {**self._driver.facts(), "bridge_nf_call_iptables": bridge_nf_call_iptables()}

    def shape(self, links: Mapping[str, Link]) -> dict:
        """Shapes these endpoints' links; returns what was set."""
        from pairlab.testbed.netns import shaping

        return shaping.shape(self._namespaces, links)

    def lacks_shaping(self, link: Link) -> list[Lack]:
        """What is missing to shape a link so. For a sandbox of its own: leaves a rule."""
        from pairlab.testbed.netns import shaping

        return shaping.lacks(link)

    def route_congestion_control(self, name: str) -> str:
        """Sets it on the endpoints' routes, or on those of the loopback that they share; returns what is set."""
        from pairlab.testbed.netns import routes

        if self._namespaces:
            return routes.set_in(self._namespaces.values(), name)
        return routes.set_here(name, routes.LOCAL)

    def build_shared(self) -> dict:
        """Brings up loopback, which all endpoints then share."""
        self._lan = self._open_lan({})
        return {"bridge_nf_call_iptables": bridge_nf_call_iptables()}

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
        if self._driver:
            self._driver.check()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that have gone out at the driver's ports; None where it has none."""
        ports = self._driver.ports(self._endpoints) if self._driver else ()
        return sent_by(ports) if ports else None

    def _reap(self) -> None:
        """Reaps exited launchers; PID 1 adopts orphans."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def _lan_with_fresh_namespaces(self, names: Sequence[str]):
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
        return self._open_lan(dict(zip(names, made, strict=True)))

    def _open_lan(self, namespaces: dict[str, int]):
        from pairlab.testbed.netns.lan import SandboxLan
        from pairlab.testbed.netns.namespaces import without_ipv6

        if self._lan is None:
            without_ipv6()
            self._lan = SandboxLan(namespaces, self._directory)
            self._namespaces = namespaces
        return self._lan


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
            name, arguments = wire.receive(connection, wire.OF_CALLS)
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
            wire.send(connection, answer)
        except BrokenPipeError:
            return
        except TypeError as error:  # a driver's facts are no JSON
            wire.send(connection, (False, ("TestbedError", f"{name} in the sandbox: {error}")))


def main() -> None:
    directory = Path(sys.argv[2]) if sys.argv[2] else None
    try:
        os.set_inheritable(int(sys.argv[1]), False)  # traffic tools have no part in this conversation
        connection = Connection(int(sys.argv[1]))
        serve(connection, Agent(directory, _rate_limited(lambda done: wire.send(connection, (PROGRESS, done)))))
    finally:
        if directory:  # the parent and its watchdog do this too, unless they were killed
            remove(directory)
        os._exit(0)


if __name__ == "__main__":
    main()
