"""The ground that a spec would be measured on here and now, without building anything."""

import functools
import time

from pairlab.model import ground as grounds
from pairlab.model.ground import Ground
from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.host import facts

#: How long versions are believed: a package may be updated while JupyterLab runs.
_BELIEVED_S = 30.0


def here(spec: Spec) -> Ground:
    """Host, kernel, and the versions of what the spec uses, as its run will record them; what is not known is empty.

    A tool inside a container's image is known only once the container runs. Raises UnknownName.
    """
    ground = grounds.of_host(facts.host())
    versions = _versions(spec.backend, spec.driver, spec.workload, int(time.monotonic() / _BELIEVED_S))
    return ground._replace(**versions)


@functools.lru_cache(maxsize=256)
def _versions(backend: str, driver: str, workload: str, period: int) -> dict[str, str]:
    plugin = registry.backends.get(backend)()
    network = registry.drivers.get(driver)
    tool = "" if workload == "auto" else plugin.tool_version(registry.workloads.get(workload), network)
    return {
        "engine": grounds.named(backend, plugin.version()),
        "tool": tool,
        "switch": network.version(),
    }
