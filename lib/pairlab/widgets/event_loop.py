"""Run a widget's callbacks in the event loop in which the widget was made.

JupyterLab may deliver widget events in another thread than the one that runs cells (a kernel subshell). Without this,
two threads would draw and measure at once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class InEventLoop:
    """Calls functions in the event loop that ran when this was made; without a loop, as in a script, at once."""

    def __init__(self):
        self._loop = _running()

    def __call__(self, work: Callable[[], None]) -> None:
        """Calls `work` now if this thread runs the loop, else schedules it there."""
        if self._loop is None or self._loop is _running():
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def later(self, delay_s: float, work: Callable[[], None]) -> asyncio.TimerHandle | None:
        """Calls `work` after a delay, unless cancelled; without a loop, now."""
        if self._loop is None or self._loop is not _running():
            self(work)
            return None
        return self._loop.call_later(delay_s, work)

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a coroutine as a task. Raises RuntimeError without a running loop."""
        return asyncio.get_running_loop().create_task(work)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
