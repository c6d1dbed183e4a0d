"""Endpoints on hosts with kernels of their own, in a sandbox: no root, no KVM, no image."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

from pairlab.testbed import registry
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.contracts import Backend, Layout, NetworkDriver, Progress, Site
from pairlab.testbed.netns.backend import Netns, build
from pairlab.testbed.netns.sandbox import Sandbox, import_path
from pairlab.testbed.own_kernels.site import OwnKernelsSite
from pairlab.testbed.requirements import MissingRequirement
from pairlab.testbed.uml import kernel

AGENT = "pairlab.testbed.uml.hosts"


class Uml(Netns):
    """Hosts that are processes of user-mode Linux, each with namespaces as endpoints."""

    name = "uml"
    summary = "network namespaces on hosts with kernels of their own, user-mode Linux; needs no root"
    host_kind = "uml"

    def missing(self) -> list[MissingRequirement]:
        return super().missing() + kernel.missing()

    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        path, known = import_path(driver), _known_drivers()
        return _missing_for(known if path in known else (path,))[path]

    def missing_to_span(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        return []  # a driver that cannot is missing as such

    def missing_capture(self) -> list[MissingRequirement]:
        return Backend.missing_capture(self)

    def missing_for(self, layout: Layout) -> dict[str, list[MissingRequirement]]:
        """Its hosts have no control groups yet, and no launches."""
        asked = {
            "limits of CPU use": any(each.cpu_quota or each.cpu_shares or each.cpus for each in layout.limits.values()),
            "interference": bool(layout.workers),
            "launches": bool(layout.launched),
        }
        lacking = MissingRequirement("hosts of user-mode Linux have none", "take backend 'netns'")
        return {what: [lacking] if is_asked else [] for what, is_asked in asked.items()}

    def version(self) -> str:
        return f"user-mode Linux {kernel.release()}"

    @contextlib.contextmanager
    def open(self, layout: Layout, directory: Path, progress: Progress) -> Iterator[Site]:
        directory.chmod(0o700)
        with Sandbox(directory, agent=AGENT) as running:
            facts = build(running, layout, progress) | {self.name: self.version()}
            yield OwnKernelsSite(layout, facts, running, directory, {})
            running.check()


@functools.cache
def _missing_for(drivers: tuple[str, ...]) -> dict[str, list[MissingRequirement]]:
    """The drivers' missing requirements in a kernel booted for this probe: it differs from this machine's own."""
    with working_directory() as directory, Sandbox(directory, agent=AGENT) as running:
        return running.call("missing_for_drivers", drivers)


def _known_drivers() -> tuple[str, ...]:
    kinds = (registry.drivers.get(name) for name in registry.drivers.names())
    return tuple(import_path(kind) for kind in kinds if Uml.name not in kind.absent_in)
