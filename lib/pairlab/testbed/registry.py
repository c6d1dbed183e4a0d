"""Finds plugins: every module in backends/, drivers/, workloads/ and pinnings/, and other packages' entry points."""

import functools
import inspect
import pkgutil
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Generic, TypeVar

from pairlab.errors import Unavailable, UnknownName
from pairlab.testbed.contracts import Backend, Lack, NetworkDriver, Pinning, Workload

Kind = TypeVar("Kind", Backend, NetworkDriver, Workload, Pinning)


class Registry(Generic[Kind]):
    """The plugins of one kind, by name."""

    def __init__(self, base: type[Kind], word: str):
        self._base = base
        self._word = word

    @functools.cached_property
    def _known(self) -> dict[str, type[Kind]]:
        package = import_module(f"pairlab.testbed.{self._word}s")
        modules = [
            import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
        ]
        classes = [value for module in modules for value in vars(module).values()]
        classes += [point.load() for point in metadata.entry_points(group=f"pairlab.{self._word}s")]
        found = [value for value in classes if inspect.isclass(value) and issubclass(value, self._base)]
        return {value.name: value for value in found if not inspect.isabstract(value) and value is not self._base}

    def names(self) -> list[str]:
        return sorted(self._known)

    def get(self, name: str) -> type[Kind]:
        """The plugin of that name. Raises UnknownName, with those there are."""
        if name not in self._known:
            raise UnknownName(f"no {self._word} {name!r}; there are: {', '.join(self.names())}")
        return self._known[name]


backends: Registry[Backend] = Registry(Backend, "backend")
drivers: Registry[NetworkDriver] = Registry(NetworkDriver, "driver")
workloads: Registry[Workload] = Registry(Workload, "workload")
pinnings: Registry[Pinning] = Registry(Pinning, "pinning")


def require(lacks: Sequence[Lack], what: str) -> None:
    """Raises Unavailable, naming all that is missing and how to get it, unless nothing is."""
    if lacks:
        raise Unavailable(f"{what}: {'; '.join(str(lack) for lack in lacks)}")
