"""Finds plugins: drivers, workloads, pinnings, each */backend.py, and the entry points of other packages."""

import functools
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from pairlab.base import entry_points
from pairlab.errors import UnknownName, unknown_name
from pairlab.model import spec as spec_rules
from pairlab.model.spec import Spec
from pairlab.testbed import command_workload
from pairlab.testbed.contracts import Backend, NetworkDriver, Workload
from pairlab.testbed.pinnings import Pinning

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """The plugins of one kind, by name."""

    def __init__(self, base: type, word: str):
        self._base = base
        self._word = word

    @functools.cached_property
    def _loaders(self) -> dict[str, Callable[[], type[Kind]]]:
        """Each plugin's loader, by name. Backends and entry points are listed without their slow imports."""
        points = entry_points.added(f"{self._word}s").items()
        commands = command_workload.declared() if self._word == "workload" else {}
        return (
            {name: functools.partial(entry_points.load, point) for name, point in points}
            | {name: functools.partial(lambda kind: kind, kind) for name, kind in commands.items()}
            | dict(self._own())
        )

    def _own(self) -> Iterator[tuple[str, Callable[[], type[Kind]]]]:
        if self._word == "backend":
            for file in Path(__file__).parent.glob("*/backend.py"):
                yield file.parent.name, functools.partial(self._only, f"{file.parent.name}.backend")
            return
        home = import_module(f"pairlab.testbed.{self._word}s")
        modules = [each.name for each in pkgutil.iter_modules(getattr(home, "__path__", ()), f"{self._word}s.")]
        for module in modules or [f"{self._word}s"]:
            for kind in self._defined_in(module):
                yield kind.name, functools.partial(lambda kind: kind, kind)

    def _only(self, module: str) -> type[Kind]:
        (kind,) = self._defined_in(module)
        return kind

    def _defined_in(self, module: str) -> list[Any]:
        """The plugins that a module of the testbed defines."""
        home = import_module(f"pairlab.testbed.{module}")
        classes = [each for each in vars(home).values() if inspect.isclass(each) and each.__module__ == home.__name__]
        return [each for each in classes if issubclass(each, self._base) and not inspect.isabstract(each)]

    def names(self) -> list[str]:
        """The plugins' names in records, without aliases."""
        return sorted(self._loaders)

    def meant(self, name: str) -> str:
        """The plugin's name for an alias; any other name unchanged."""
        return name if name in self._loaders else self._aliases.get(name, name)

    @functools.cached_property
    def _aliases(self) -> dict[str, str]:
        return {alias: name for name in self._loaders for alias in getattr(self.get(name), "aliases", ())}

    def get(self, name: str) -> type[Kind]:
        """The plugin of that name or alias. Raises UnknownName, listing the names."""
        if not self.knows(name):
            raise UnknownName(self.unknown(name))
        return self._loaders[self.meant(name)]()

    def knows(self, name: str) -> bool:
        """Whether there is such a plugin."""
        return self.meant(name) in self._loaders

    def unknown(self, name: str, besides: Iterable[str] = ()) -> str:
        """The message for an unknown name. besides: further valid names."""
        message = unknown_name(self._word, name, [*self.names(), *besides])
        where = entry_points.where_to_get(f"{self._word}s", name)
        return f"{message}; {where}" if where else message


backends: Registry[Backend] = Registry(Backend, "backend")
drivers: Registry[NetworkDriver] = Registry(NetworkDriver, "driver")
workloads: Registry[Workload] = Registry(Workload, "workload")
pinnings: Registry[Pinning] = Registry(Pinning, "pinning")


def unknown_names(spec: Spec) -> list[str]:
    """A sentence for each unknown plugin name in the spec."""
    names: tuple[tuple[Registry[Any], str, list[str]], ...] = (
        (backends, spec.backend, []),
        (drivers, spec.driver, []),
        (workloads, spec.workload, ["auto"]),
        (workloads, spec.background_workload, []),
        (pinnings, spec.pinning, []),
    )
    return [
        registry.unknown(name, besides)
        for registry, name, besides in names
        if not registry.knows(name) and name not in besides
    ]


spec_rules.unknown_names = unknown_names
spec_rules.driver_meant = drivers.meant
