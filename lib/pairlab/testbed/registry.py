"""Finds plugins: each */backend.py, each module of drivers/, workloads/ and pinnings/, other packages' entry points."""

import functools
import inspect
import pkgutil
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

from pairlab.base import entry_points
from pairlab.errors import UnknownName, unknown_name
from pairlab.model import spec as spec_rules
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Backend, NetworkDriver, Pinning, Workload

_FOLDER = Path(__file__).parent
Kind = TypeVar("Kind", Backend, NetworkDriver, Workload, Pinning)


class Registry(Generic[Kind]):
    """The plugins of one kind, by name."""

    def __init__(self, base: type[Kind], word: str):
        self._base = base
        self._word = word

    @functools.cached_property
    def _known(self) -> dict[str, type[Kind]]:
        modules = [import_module(name) for name in self._modules()]
        classes = [value for module in modules for value in vars(module).values()]
        classes += map(entry_points.load, entry_points.added(f"{self._word}s").values())
        found = [value for value in classes if inspect.isclass(value) and issubclass(value, self._base)]
        return {value.name: value for value in found if not inspect.isabstract(value) and value is not self._base}

    def _modules(self) -> list[str]:
        if self._word == "backend":  # each is a folder of its own, with a module of that name
            return [f"pairlab.testbed.{file.parent.name}.backend" for file in _FOLDER.glob("*/backend.py")]
        package = import_module(f"pairlab.testbed.{self._word}s")
        return [f"{package.__name__}.{found.name}" for found in pkgutil.iter_modules(package.__path__)]

    def names(self) -> list[str]:
        """Those that plugins are recorded by: without aliases."""
        return sorted(self._known)

    def meant(self, name: str) -> str:
        """The name of the plugin of which this is an alias; any other name stays as it is."""
        return name if self._is_recognised(name) else self._aliases.get(name, name)

    @functools.cached_property
    def _aliases(self) -> dict[str, str]:
        return {alias: name for name, kind in self._known.items() for alias in getattr(kind, "aliases", ())}

    def get(self, name: str) -> type[Kind]:
        """The plugin of that name or alias. Raises UnknownName, with those there are."""
        name = self.meant(name)
        if name not in self._known:
            raise UnknownName(self.unknown(name))
        return self._known[name]

    def knows(self, name: str) -> bool:
        """Whether there is such a plugin. Most are recognised without importing all others."""
        return self._is_recognised(name) or self.meant(name) in self._known

    def unknown(self, name: str, besides: Iterable[str] = ()) -> str:
        """The message for a name that no plugin has. besides: names that are valid too."""
        told = unknown_name(self._word, name, [*self.names(), *besides])
        where = entry_points.where_to_get(f"{self._word}s", name)
        return f"{told}; {where}" if where else told

    def _is_recognised(self, name: str) -> bool:
        """Whether a module or entry point is named after that plugin: not drivers/ipvlan.py, as none is called so."""
        file = name.replace("-", "_")
        if file not in self._module_names:
            point = entry_points.added(f"{self._word}s").get(name)
            return point is not None and entry_points.load(point).name == name
        if self._word == "backend":  # what they import takes long
            return True
        module = import_module(f"pairlab.testbed.{self._word}s.{file}")
        return name in (getattr(value, "name", "") for value in vars(module).values() if inspect.isclass(value))

    @functools.cached_property
    def _module_names(self) -> set[str]:
        """drivers/macvlan.py is macvlan, docker/backend.py is docker."""
        return {part for module in self._modules() for part in module.split(".")[2:]} - {"backend", f"{self._word}s"}


backends: Registry[Backend] = Registry(Backend, "backend")
drivers: Registry[NetworkDriver] = Registry(NetworkDriver, "driver")
workloads: Registry[Workload] = Registry(Workload, "workload")
pinnings: Registry[Pinning] = Registry(Pinning, "pinning")


def unknown_names(spec: Spec) -> list[str]:
    """A sentence for each name in the spec that is not a plugin's."""
    asked = (
        (backends, spec.backend, []),
        (drivers, spec.driver, []),
        (workloads, spec.workload, ["auto"]),
        (workloads, spec.background_workload, []),
        (pinnings, spec.pinning, []),
    )
    return [
        registry.unknown(name, besides)
        for registry, name, besides in asked
        if not registry.knows(name) and name not in besides
    ]


spec_rules.unknown_names = unknown_names
spec_rules.driver_meant = drivers.meant
