"""The process inside a sandbox: process 1 of its PID namespace, so that all in it ends when it does.

It is started by sandbox.Sandbox and takes calls from there over a socket. When that socket closes, whatever its parent
died of, it ends, and everything in the sandbox with it.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pairlab.base.error_location import located
from pairlab.errors import PairlabError, TestbedError
from pairlab.testbed.cleanup.workdir import remove
from pairlab.testbed.endpoints import EndpointPlan, Link, Uplink
from pairlab.testbed.netns import protocol
from pairlab.testbed.netns.lan import SandboxLan
from pairlab.testbed.netns.namespaces import inside
from pairlab.testbed.netns.networks import Networks
from pairlab.testbed.requirements import Lack

#: Least time between two messages that say how far a call is.
_PROGRESS_EVERY_S = 0.05


class Agent(Networks):
    """What can be called from outside; one testbed each."""

    def __init__(self, directory: Path | None, progress: Callable[[int], None], caller: int):
        super().__init__(directory, progress, caller)
        self._daemons: list[Any] = []
        self._launching: Any = None

    @property
    def has_daemons(self) -> bool:
        return bool(self._daemons)

    def kinds_there(self, kinds: Sequence[str]) -> dict[str, bool]:
        """Whether the kernel can make each of these kinds of link."""
        lan = SandboxLan({}, Path())
        return {kind: lan.has_kind(kind) for kind in kinds}

    def lacks_probed(self, driver: str, name: str) -> list[Lack]:
        """What the kernel lacks for what that driver tries (module:Class). For a sandbox of its own."""
        module, kind = driver.split(":")
        try:
            getattr(import_module(module), kind)().probe(SandboxLan({}, Path()))
        except TestbedError as error:
            return [Lack(f"this kernel refuses what it builds ({error})", f"load the modules, or leave {name!r} out")]
        return []

    def start_daemons(
        self, commands: Mapping[str, Sequence[str]], directories: Mapping[str, str], within_s: float
    ) -> None:
        """Starts one on each host, by its name; returns when all say that they are ready.

        directories: of their files. What they put into `data` there stays in memory, as a disk would take longer.
        Raises TestbedError, with its last words, where one ends, or is not ready by then.
        """
        from pairlab.testbed.launch import daemons

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

    def launch(
        self, endpoints: Sequence[EndpointPlan], argv: Sequence[str], within_s: float, pings: bool
    ) -> list[dict[str, Any]]:
        """Launches these on the networks that are up, and removes them: as launching/in_sandbox.py has it."""
        from pairlab.testbed.netns.launching.in_sandbox import Launching

        self._launching = self._launching or Launching(self._networks, self._namespaces, self._hosts)
        return self._launching.run(endpoints, argv, within_s, pings)

    def join(self, endpoint: EndpointPlan, pid: int) -> None:
        """Attaches one endpoint, whose first process in here this is, to the networks that are up."""
        from pairlab.testbed.netns.launching.in_sandbox import Launching

        self._launching = self._launching or Launching(self._networks, self._namespaces, self._hosts)
        space = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            self._launching.join(endpoint, space)
        finally:
            os.close(space)

    def leave(self, endpoint: EndpointPlan) -> None:
        """Removes what `join` made."""
        self._launching.detach(endpoint)

    def check(self) -> None:
        """Raises TestbedError where the driver's network broke."""
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
    progress = _rate_limited(lambda done: protocol.send(connection, (protocol.PROGRESS, done)))
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
