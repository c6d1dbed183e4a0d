"""The process inside a sandbox: process 1 of its PID namespace, so that all in it ends when it does.

It is started by sandbox.Sandbox, takes calls from there over a socket, and ends, taking everything with it, when that
socket closes, however its parent came to die.
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

from pairlab.errors import PairlabError
from pairlab.testbed.contracts import EndpointPlan, Lack, Link
from pairlab.testbed.namespaces import sent_by
from pairlab.testbed.workdir import remove

#: In the place of an answer's success: it is none yet, but tells how far the call is.
NOT_YET = None
#: How far apart such tellings are at least.
_TELL_EVERY_S = 0.05


class Agent:
    """What can be called from outside; one testbed each. tell: told how many endpoints are up, while they are built."""

    def __init__(self, directory: Path | None, tell: Callable[[int], None]):
        self._directory = directory
        self._tell = tell
        self._lan = None
        self._driver = None
        self._namespaces: dict[str, int] = {}
        self._endpoints: list[str] = []

    def knows(self, kinds: Sequence[str]) -> dict[str, bool]:
        """Whether the kernel can make each of these kinds of link."""
        lan = self._open_lan({})
        return {kind: lan.knows(kind) for kind in kinds}

    def build(self, driver: str, endpoints: Sequence[EndpointPlan], given: Mapping[str, int] | None = None) -> dict:
        """Builds the driver's network (module:Class) and attaches the endpoints; returns the driver's facts.

        given: namespaces that exist already, as inherited descriptors; else each endpoint gets a fresh one.
        """
        module, name = driver.split(":")
        if given is None:
            self._lan = self._lan_with_fresh_namespaces([endpoint.name for endpoint in endpoints])
        else:
            self._lan = self._open_lan(dict(given))
        self._driver = getattr(import_module(module), name)()
        self._driver.create(self._lan)
        self._endpoints = [endpoint.name for endpoint in endpoints]
        for number, endpoint in enumerate(endpoints):
            self._driver.attach(self._lan, endpoint)
            self._tell(number // 2)  # it is half up
        self._driver.finish(self._lan)
        for number, endpoint in enumerate(endpoints, len(endpoints)):
            self._lan.configure(endpoint)
            self._tell(number // 2)
        return {**self._driver.facts(), "bridge_nf_call_iptables": bridge_nf_call_iptables()}

    def shape(self, links: Mapping[str, Link]) -> dict:
        """Shapes these endpoints' links; returns what was set."""
        from pairlab.testbed import shaping

        return shaping.shape(self._namespaces, links)

    def lacks_shaping(self, link: Link) -> list[Lack]:
        """What is missing to shape a link so. For a sandbox of its own: leaves a rule."""
        from pairlab.testbed import shaping

        return shaping.lacks(link)

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
        """Raises TestbedError where the driver's network does not stand any more."""
        self._reap()  # else one of its daemons that has ended looks as if it ran
        if self._driver:
            self._driver.check()

    def port_counts(self) -> tuple[int, int] | None:
        """Bytes and packets that have gone out at the driver's ports; None where it has none."""
        ports = self._driver.ports(self._endpoints) if self._driver else ()
        return sent_by(ports) if ports else None

    def _reap(self) -> None:
        """Takes leave of launchers that have ended: process 1 is everybody's heir."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass

    def _lan_with_fresh_namespaces(self, names: Sequence[str]):
        """The kernel makes the namespaces in one thread while the other loads pyroute2: both take about as long."""
        from pairlab.testbed.namespaces import new_namespaces

        made: list[int] = []
        trouble: list[BaseException] = []

        def make() -> None:
            try:
                made.extend(new_namespaces(len(names)))
            except BaseException as error:
                trouble.append(error)

        maker = threading.Thread(target=make)
        maker.start()
        import_module("pairlab.testbed.netlink")
        maker.join()
        if trouble:
            raise trouble[0]
        return self._open_lan(dict(zip(names, made, strict=True)))

    def _open_lan(self, namespaces: dict[str, int]):
        from pairlab.testbed.namespaces import without_ipv6
        from pairlab.testbed.netlink import Lan

        if self._lan is None:
            without_ipv6()
            self._lan = Lan(namespaces, self._directory)
            self._namespaces = namespaces
        return self._lan


def bridge_nf_call_iptables() -> int | None:
    """Whether bridged frames pass iptables in this network namespace; None without br_netfilter."""
    try:
        return int(Path("/proc/sys/net/bridge/bridge-nf-call-iptables").read_text())
    except (OSError, ValueError):
        return None


def _seldom(tell: Callable[[int], None]) -> Callable[[int], None]:
    """Passes on only what comes long enough after what was passed on before."""
    next_s = time.monotonic()

    def told(done: int) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s:
            tell(done)
            next_s = time.monotonic() + _TELL_EVERY_S

    return told


def serve(connection: Connection, agent: Agent) -> None:
    """Answers calls until the other end closes."""
    while True:
        try:
            name, arguments = connection.recv()
        except EOFError:
            return
        try:
            answer = (True, getattr(agent, name)(*arguments))
        except PairlabError as error:
            answer = (False, (type(error).__name__, str(error)))
        except Exception as error:
            answer = (False, ("TestbedError", f"{name} in the sandbox: {type(error).__name__}: {error}"))
        try:
            connection.send(answer)
        except BrokenPipeError:
            return


def main() -> None:
    directory = Path(sys.argv[2]) if sys.argv[2] else None
    try:
        connection = Connection(int(sys.argv[1]))
        serve(connection, Agent(directory, _seldom(lambda done: connection.send((NOT_YET, done)))))
    finally:
        if directory:  # the parent does this too, unless it was killed, and its guard, unless that was
            remove(directory)
        os._exit(0)


if __name__ == "__main__":
    main()
