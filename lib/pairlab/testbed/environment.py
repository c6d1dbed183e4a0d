"""The environment of a measurement of a spec here and now, without building anything."""

import ast
import functools
import hashlib
import inspect
import sys
import time
from pathlib import Path

from pairlab import paths
from pairlab.base.caller import caller
from pairlab.model import environment as environments
from pairlab.model.environment import Environment
from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.host import facts

#: For how long it is believed which programs there are, and of which version: packages are installed meanwhile.
BELIEVED_S = 30.0
#: Modules whose code is identified by pairlab's and Python's versions.
_NOT_PLUGINS = {"pairlab", *sys.stdlib_module_names}


def here(spec: Spec) -> Environment:
    """Host, kernel, and the versions of engine, tool and switch, as the spec's run will record them; empty: unknown.

    A tool inside a container's image is known only once the container runs. Raises UnknownName.
    """
    environment = environments.of_host(facts.host())
    versions = _versions(spec.backend, spec.hosts, spec.driver, spec.workload, int(time.monotonic() / BELIEVED_S))
    return environment._replace(**versions, code=code_of(spec), label=caller().label)


def code_of(spec: Spec) -> str:
    """8 hex digits of a hash of the code, without comments, of the plugins outside pairlab that a run of `spec` uses,
    and of workloads that the study's file declares; empty if it uses none.
    """
    plugins: list[type] = [registry.drivers.get(spec.driver), registry.pinnings.get(spec.pinning)]
    plugins += [registry.workloads.get(name) for name in (spec.workload, spec.background_workload) if name != "auto"]
    classes = {each for plugin in plugins for each in plugin.__mro__}
    foreign = [each for each in classes if each.__module__.partition(".")[0] not in _NOT_PLUGINS]
    files = sorted({file for each in foreign if (file := inspect.getsourcefile(each))})
    parts = [ast.dump(ast.parse(Path(file).read_bytes())) for file in files]
    parts += [repr(each.declared) for each in plugins if hasattr(each, "declared")]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8] if parts else ""


@functools.lru_cache(maxsize=256)
def _versions(backend: str, hosts: int, driver: str, workload: str, period: int) -> dict[str, str]:
    plugin = registry.backends.get(backend)(hosts)
    network = registry.drivers.get(driver)
    command = () if workload == "auto" else registry.workloads.get(workload).version_command(str(paths.flowgen()))
    return {
        "engine": environments.named(backend, plugin.version()),
        "tool": plugin.tool_version(command, network),
        "switch": network.version(),
    }
