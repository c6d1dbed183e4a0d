"""Where a widget's work is done: in the event loop that it was made in.

JupyterLab may deliver what people do to widgets in a thread beside the one that runs cells (a kernel's subshell), and
then two threads would draw and measure at once. So every callback comes home first.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Home:
    """The event loop that was running when this was made; without one, as in a script, all is done at once."""

    def __init__(self):
        self._loop = _running()

    def __call__(self, work: Callable[[], None]) -> None:
        """Does that work at home: now where we are there, else as soon as there is time."""
        if self._loop is None or self._loop is _running():
            work()
        else:
            self._loop.call_soon_threadsafe(work)

    def later(self, delay_s: float, work: Callable[[], None]) -> asyncio.TimerHandle | None:
        """Does it after a while, and can be cancelled until then; without a loop now."""
        if self._loop is None or self._loop is not _running():
            self(work)
            return None
        return self._loop.call_later(delay_s, work)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begins something that takes its time. Raises RuntimeError where there is no loop to do it in."""
        return asyncio.get_running_loop().create_task(work)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
