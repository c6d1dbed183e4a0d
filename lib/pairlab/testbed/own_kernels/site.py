"""Endpoints on hosts with kernels of their own: what their backends have in common, and their site."""

from collections.abc import Sequence
from typing import ClassVar

from pairlab.testbed.contracts import Backend, Layout, NetworkDriver
from pairlab.testbed.host.link_recorder import LinkSamples
from pairlab.testbed.netns.backend import Netns, NetnsSite
from pairlab.testbed.netns.sandbox import Sandbox
from pairlab.testbed.requirements import MissingRequirement


class OwnKernels(Netns):
    """Hosts with kernels of their own, each with namespaces as endpoints."""

    called: ClassVar[str]
    """What messages call such hosts."""

    def missing_to_span(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        return []  # a driver that cannot is missing as such

    def missing_capture(self) -> list[MissingRequirement]:
        return Backend.missing_capture(self)

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        """Their hosts have no control groups yet, and no launches."""
        asked = {
            "limits of CPU use": any(each.cpu_quota or each.cpu_shares or each.cpus for each in layout.limits.values()),
            "interference": bool(layout.workers),
            "launches": bool(layout.launched),
        }
        lacking = MissingRequirement(f"{self.called} have none", "take backend 'netns'")
        return {what: [lacking] if is_asked else [] for what, is_asked in asked.items()}


class OwnKernelsSite(NetnsSite):
    """Endpoints on such hosts, whose agent speaks for all of them."""

    def release(self, gate: str) -> int | None:
        return self.sandbox.call("open_gate", gate)

    def clock_error_s(self) -> float:
        return self.sandbox.call("clock_error_s")

    def link_recorder(self, slots: Sequence[str], every_s: float) -> "RemoteLinkRecorder":
        return RemoteLinkRecorder(self.sandbox, slots, self.interface, every_s)

    def cpu_counts(self) -> list[str]:
        return self.sandbox.call("cpu_counts")


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
