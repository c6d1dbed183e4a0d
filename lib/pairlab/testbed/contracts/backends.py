"""What a backend is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from pairlab.testbed.contracts.networks import NetworkDriver
from pairlab.testbed.contracts.sites import Site
from pairlab.testbed.contracts.workloads import Workload
from pairlab.testbed.endpoints import EndpointPlan, HostPlan, Limits, Link
from pairlab.testbed.requirements import Lack, Program

#: Called with how far a phase is: phase, done, total (0 where there is nothing to count); seconds in tenths.
Progress = Callable[[str, float, float], None]


def silent(phase: str, done: float, total: float) -> None:
    """The Progress that shows nothing."""


class Backend(ABC):
    """Makes endpoints and takes them away again."""

    name: ClassVar[str]
    summary: ClassVar[str]
    endpoint: ClassVar[str] = "endpoint"
    """What one of its endpoints is called."""

    @abstractmethod
    def lacks(self) -> list[Lack]:
        """What this host lacks for the backend as such. Builds nothing that stays."""

    @abstractmethod
    def lacks_for(self, driver: type[NetworkDriver]) -> list[Lack]:
        """What it lacks for this driver, given the backend."""

    @abstractmethod
    def lacks_program(self, program: Program) -> Lack | None:
        """Whether this program is missing inside the backend's endpoints."""

    def lacks_programs(self, programs: Iterable[Program], driver: type[NetworkDriver] | None = None) -> list[Lack]:
        """Which of these are. driver: of the endpoints' network, where that is known."""
        return [lack for program in programs if (lack := self.lacks_program(program))]

    def version(self) -> str:
        """The version of its engine, as its sites' facts record it under the backend's name; empty: it has none."""
        return ""

    def tool_version(self, workload: type[Workload], driver: type[NetworkDriver]) -> str:
        """The version of that tool as its endpoints have it; empty where that is not known before they are up."""
        return ""

    def lacks_limits(self, driver: type[NetworkDriver], limits: Collection[Limits]) -> list[Lack]:
        """What this host lacks to hold endpoints of that driver to these limits. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} limits no CPU use", "take another backend")] if limits else []

    def lacks_pairs(self, driver: type[NetworkDriver], pairs: int) -> list[Lack]:
        """What this host lacks for so many pairs on this driver's network."""
        return []

    def lacks_hosts(self, hosts: Collection[HostPlan]) -> list[Lack]:
        """What this host lacks to play these. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} knows one host", "take backend 'netns'")] if len(hosts) > 1 else []

    def lacks_workers(self, workers: Collection[EndpointPlan]) -> list[Lack]:
        """What this host lacks to make these places for processes that use CPU time. Builds nothing that stays."""
        what = f"backend {self.name!r} has no place for processes beside the pairs"
        return [Lack(what, "leave out interference_workers")] if workers else []

    def lacks_launches(self, driver: type[NetworkDriver], hosts: Collection[HostPlan]) -> list[Lack]:
        """What this host lacks to launch endpoints on that driver's network when it is up. Builds nothing."""
        return [Lack(f"backend {self.name!r} launches nothing on a network that is up", "take another backend")]

    def lacks_links(self, links: Collection[Link]) -> list[Lack]:
        """What this host lacks to shape links like this. Builds nothing that stays."""
        return [Lack(f"backend {self.name!r} shapes no links", "take another backend")] if links else []

    def lacks_routes(self, driver: type[NetworkDriver], hosts: Collection[HostPlan]) -> list[Lack]:
        """What it lacks to set the congestion control of endpoints on that driver's network, on these hosts, by routes.

        Without that, a tool has to choose it by its own option, where it has one.
        """
        return [Lack(f"backend {self.name!r} sets no routes", "take another backend")]

    @abstractmethod
    def open(
        self,
        endpoints: Sequence[EndpointPlan],
        driver: NetworkDriver,
        hosts: Sequence[HostPlan],
        directory: Path,
        progress: Progress,
        workers: Sequence[EndpointPlan] = (),
    ) -> AbstractContextManager[Site]:
        """Brings up these endpoints on the driver's network, with their limits; removes everything on leaving.

        hosts: those that the endpoints are on, by EndpointPlan.host. workers: endpoints besides, without a network;
        none are given where `lacks_workers` says that it cannot have any.
        """
