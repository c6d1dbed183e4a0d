"""Endpoints on hosts with kernels of their own, in a sandbox: no root, no KVM, no image."""

import functools

from pairlab.testbed import registry
from pairlab.testbed.contracts import NetworkDriver
from pairlab.testbed.netns.sandbox import import_path
from pairlab.testbed.own_kernels.site import OwnKernels
from pairlab.testbed.requirements import MissingRequirement
from pairlab.testbed.uml import kernel


class Uml(OwnKernels):
    """Hosts that are processes of user-mode Linux, each with namespaces as endpoints."""

    name = "uml"
    summary = "network namespaces on hosts with kernels of their own, user-mode Linux; needs no root"
    host_kind = "uml"
    called = "hosts of user-mode Linux"
    agent = "pairlab.testbed.uml.hosts"

    def missing(self) -> list[MissingRequirement]:
        return super().missing() + kernel.missing()

    def missing_driver(self, driver: type[NetworkDriver]) -> list[MissingRequirement]:
        path, known = import_path(driver), _known_drivers()
        return _missing_for(known if path in known else (path,))[path]

    def version(self) -> str:
        return f"user-mode Linux {kernel.release()}"


@functools.cache
def _missing_for(drivers: tuple[str, ...]) -> dict[str, list[MissingRequirement]]:
    """The drivers' missing requirements in a kernel booted for this probe: it differs from this machine's own."""
    return Uml.ask("missing_for_drivers", drivers)


def _known_drivers() -> tuple[str, ...]:
    kinds = (registry.drivers.get(name) for name in registry.drivers.names())
    return tuple(import_path(kind) for kind in kinds if Uml.name not in kind.absent_in)
