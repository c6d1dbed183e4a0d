"""Imports of a library without something that it imports only where that is installed."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


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
