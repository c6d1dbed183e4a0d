"""Runs functions in a thread of their own, for those that cannot run in a thread with an event loop (every kernel)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Answer = TypeVar("Answer")


def run_in_thread(function: Callable[..., Answer], *arguments: object) -> Answer:
    """Calls the function in a new thread and returns its result: pyroute2 needs a thread without an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function, *arguments).result()
