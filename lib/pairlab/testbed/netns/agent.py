"""The process inside a sandbox: process 1 of the PID namespace, so that all processes of the sandbox end with it.

sandbox.Sandbox starts the agent and sends it calls over a socket. When that socket closes, for whatever reason, the
agent exits, and the sandbox ends.
"""

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.base.study_file import import_plugin
from pairlab.errors import PairlabError, TestbedError, located
from pairlab.testbed.cleanup.workdir import remove
from pairlab.testbed.endpoints import EndpointPlan, Link, Uplink
from pairlab.testbed.links.lan import Daemon, Lan, in_memory
from pairlab.testbed.links.namespaces import inside
from pairlab.testbed.netns import protocol, routes, shaping, underlay
from pairlab.testbed.netns.networks import Networks
from pairlab.testbed.requirements import MissingRequirement, lacking

#: Least time between two progress messages of a call.
_PROGRESS_EVERY_S = 0.05


class Agent(Networks):
    """The methods that can be called from outside the sandbox; one agent per testbed."""

    def __init__(self, directory: Path | None, progress: Callable[[int], None], caller: int):
        super().__init__(directory, progress, caller)
        self._daemons: list[Daemon] = []

    @functools.cached_property
    def _launching(self) -> Any:
        from pairlab.testbed.netns.launching import Launching

        return Launching(self._networks, self._namespaces, self._hosts)

    @property
    def has_daemons(self) -> bool:
        return bool(self._daemons)

    def kinds_there(self, kinds: Sequence[str]) -> dict[str, bool]:
        """Whether the kernel can make each of these kinds of link."""
        lan = Lan({}, Path())
        return {kind: lan.has_kind(kind) for kind in kinds}

    def missing_probed(self, driver: str, name: str) -> list[MissingRequirement]:
        """The kernel features that the driver (module:Class) probes for and lacks. Needs a sandbox of its own."""
        module, kind = driver.split(":")
        try:
            getattr(import_plugin(module), kind)().probe(Lan({}, Path()))
        except TestbedError as error:
            return lacking(f"this kernel refuses what it builds ({error})", f"load the modules, or leave {name!r} out")
        return []

    def start_daemons(
        self, commands: Mapping[str, Sequence[str]], directories: Mapping[str, str], within_s: float
    ) -> None:
        """Starts one daemon on each host, by the host's name; returns when all have reported readiness.

        directories: for the daemons' files, by host. `data` in each is in memory, as a disk would be slower.
        Raises TestbedError, with the last lines of the log, where a daemon ends, or is not ready in time.
        """
        in_memory(Path("/run"))  # hides the sockets and files of this host's own daemons, and leaves none
        for host, argv in commands.items():
            directory = Path(directories[host])
            (directory / "data").mkdir()
            in_memory(directory / "data")
            name = f"{os.path.basename(argv[0])} of {host}"
            with inside(self._hosts[host]) if host in self._hosts else contextlib.nullcontext():
                self._daemons.append(Daemon(name, argv, directory))
        deadline_s = time.monotonic() + within_s
        for each in self._daemons:
            each.await_ready(deadline_s, self._caller)

    def shape(self, links: Mapping[str, Link]) -> dict:
        """Shapes these endpoints' links; returns the settings in force."""
        return shaping.shape(self._namespaces, links)

    def missing_shaping(self, link: Link) -> list[MissingRequirement]:
        """The missing requirements of such a link. Needs a sandbox of its own: leaves a rule."""
        return shaping.missing(link)

    def missing_uplink(self, uplink: Uplink) -> list[MissingRequirement]:
        """The missing requirements of such an uplink. Needs a sandbox of its own: leaves the loopback shaped."""
        return underlay.missing(uplink)

    def route_congestion_control(self, name: str, ip_version: int) -> str:
        """Sets this congestion control on the routes between endpoints; returns the one in force."""
        if not self._namespaces:
            return routes.set_here(name, routes.LOCAL, ip_version)
        tables = routes.tables_of(self._networks[0].driver)
        return routes.set_in(set(self._namespaces.values()), name, tables, ip_version)

    def route_hosts(self, name: str) -> None:
        """Sets this congestion control on the hosts' own routes, for processes there that relay connections."""
        for _, lan, _ in self._networks:
            with lan.entered():
                routes.set_here(name)

    def spawn(self, calls: Sequence[tuple[str, Sequence[str]]]) -> list[int]:
        """Starts flowgen's launcher for each (endpoint, argv); it enters the endpoint's namespace itself.

        Returns the launchers' pids.
        """
        self._reap()
        null_stdin = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
        pids = []
        for endpoint, argv in calls:
            argv = list(argv)
            if endpoint in self._namespaces:
                argv[2:2] = ["--netns", f"/proc/1/fd/{self._namespaces[endpoint]}"]
            pids.append(os.posix_spawn(argv[0], argv, os.environ, file_actions=null_stdin))
        return pids

    def launch(
        self, endpoints: Sequence[EndpointPlan], argv: Sequence[str], within_s: float, pings: bool
    ) -> list[dict[str, Any]]:
        """Launches these endpoints on the networks that are up, and removes them (Launching.run)."""
        return self._launching.run(endpoints, argv, within_s, pings)

    def join(self, endpoint: EndpointPlan, pid: int) -> None:
        """Attaches an endpoint to the networks that are up. pid: of the endpoint's first process, in the sandbox."""
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            self._launching.join(endpoint, namespace)
        finally:
            os.close(namespace)

    def leave(self, endpoint: EndpointPlan) -> None:
        """Detaches an endpoint that `join` attached."""
        self._launching.detach(endpoint)

    def check(self) -> None:
        """Raises TestbedError where a daemon or the driver's network failed."""
        self._reap()  # else an exited daemon still has its entry in /proc
        for each in self._daemons:
            each.check()
        self._check_built()

    def _reap(self) -> None:
        """Reaps exited launchers; PID 1 adopts orphans."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def _rate_limited(progress: Callable[[int], None]) -> Callable[[int], None]:
    """Drops calls that follow too soon on the previous one."""
    next_s = time.monotonic()

    def limited(done: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            progress(done)
            next_s = time.monotonic() + _PROGRESS_EVERY_S

    return limited


def serve(connection: Connection, agent: Any) -> None:
    """Answers calls until the connection closes."""
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
        except TypeError as error:  # the driver's facts cannot be encoded as JSON
            protocol.send(connection, (False, ("TestbedError", f"{name} in the sandbox: {error}")))


def main(kind: Callable[[Path | None, Callable[[int], None], int], Any] = Agent) -> None:
    """kind: the agent's class."""
    directory = Path(sys.argv[2]) if sys.argv[2] else None
    os.set_inheritable(int(sys.argv[1]), False)  # traffic tools must not inherit this socket
    connection = Connection(int(sys.argv[1]))
    progress = _rate_limited(lambda done: protocol.send(connection, (protocol.PROGRESS, done)))
    agent = kind(directory, progress, connection.fileno())
    try:
        serve(connection, agent)
    finally:
        # The parent and its watchdog do this too, unless they were killed. Daemons may keep mounts in the directory.
        if directory and not agent.has_daemons:
            remove(directory)
        os._exit(0)


if __name__ == "__main__":
    main()
