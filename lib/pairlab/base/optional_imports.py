"""Imports of what need not be installed."""

import contextlib
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any

from pairlab.errors import Unavailable


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """In the block, that module cannot be imported, unless it was imported before."""
    modules: dict[str, Any] = sys.modules
    if name in modules:
        yield
        return
    modules[name] = None  # so it is not found, says Python's reference (5.3.1, the module cache)
    try:
        yield
    finally:
        del modules[name]


def require(module: str, extra: str) -> None:
    """Raises Unavailable where that module is not installed. extra: of pairlab, which installs it."""
    if importlib.util.find_spec(module) is None:
        raise Unavailable(
            f"{module} is not installed here: pip install --editable '.[{extra}]' in the checkout installs it"
        )
