"""Endpoints on hosts with kernels of their own: what their backends have in common, and their site."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.contracts import Backend, Layout, NetworkDriver, Progress, Site
from pairlab.testbed.host.link_recorder import LinkSamples
from pairlab.testbed.netns.backend import Netns, NetnsSite, build
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import MissingRequirement, lacking


class OwnKernelsSite(NetnsSite):
    """Endpoints on such hosts, whose agent speaks for all of them."""

    def __init__(self, layout: Layout, *given: Any):
        super().__init__(layout, *given)
        if layout.workers:
            self.sandbox.call("place", {each.name: each.host for each in layout.workers})

    def release(self, gate: str) -> int | None:
        return self.sandbox.call("open_gate", gate)

    def clock_error_s(self) -> float:
        return self.sandbox.call("clock_error_s")

    def link_recorder(self, slots: Sequence[str], every_s: float) -> "RemoteLinkRecorder":
        return RemoteLinkRecorder(self.sandbox, slots, self.interface, every_s)

    def used_s(self, slots: Sequence[str]) -> list[float] | None:
        return self.sandbox.call("used_s", list(slots))

    def cpu_counts(self) -> list[str]:
        return self.sandbox.call("cpu_counts")


class OwnKernels(Netns):
    """Hosts with kernels of their own, each with namespaces as endpoints."""

    called: ClassVar[str]
    """What messages call such hosts."""
    agent: ClassVar[str]
    """The module that speaks for them, in a sandbox."""
    confined: ClassVar[bool] = True
    """Whether they are in that sandbox."""
    site: ClassVar[type[OwnKernelsSite]] = OwnKernelsSite

    def missing_to_span(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        return []  # a driver that cannot is missing as such

    def missing_capture(self) -> list[MissingRequirement]:
        return Backend.missing_capture(self)

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        return {
            "limits of CPU use": self._missing_limits(layout),
            "launches": self._missing_launches(layout),
        }

    def _missing_launches(self, layout: Layout) -> list[MissingRequirement]:
        host_of = {each.name: each.host for each in layout.all_endpoints}
        if all(host_of.get(each.partner, each.host) == each.host for each in layout.launched):
            return []
        return lacking(
            f"{self.called} launch what is pinged on the same host only", "take placement same-host, or backend 'netns'"
        )

    def _missing_limits(self, layout: Layout) -> list[MissingRequirement]:
        return self._lacking() if layout.limits else []

    def _lacking(self) -> list[MissingRequirement]:
        return lacking(f"{self.called} have none", "take backend 'netns'")

    @classmethod
    def ask(cls, name: str, *arguments: Any) -> Any:
        """The answer to one call, of hosts that are there for it only."""
        with working_directory() as directory, cls._running(directory) as running:
            return running.call(name, *arguments)

    @classmethod
    def _running(cls, directory: Path) -> Sandbox:
        return Sandbox(directory, agent=cls.agent, confined=cls.confined)

    @contextlib.contextmanager
    def open(self, layout: Layout, directory: Path, progress: Progress) -> Iterator[Site]:
        directory.chmod(0o700)
        with self._running(directory) as running:
            facts = build(running, layout, progress) | {self.name: self.version()}
            yield self.site(layout, facts, running, directory, {})
            running.check()


class RemoteLinkRecorder:
    """A LinkRecorder in each of the hosts, for the processes there."""

    def __init__(self, running: Sandbox, slots: Sequence[str], interface: str, every_s: float):
        self._sandbox, self._slots, self._how = running, list(slots), (interface, every_s)
        self._name = slots[0]
        self.samples = LinkSamples()

    def __enter__(self) -> None:
        self._sandbox.call("begin_links", self._name, self._slots, *self._how)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:  # else there may be nobody to ask
            self.samples = LinkSamples(*self._sandbox.call("end_links", self._name, self._slots))
