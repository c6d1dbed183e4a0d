"""Calls that cannot be made where an event loop runs, as one does in every Jupyter kernel."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def aside(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Calls it in a thread of its own and returns its answer: pyroute2 runs an event loop of its own, in its thread."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()
