"""Calls a function on a fixed grid of times, in a thread."""

import threading
import time
from collections.abc import Callable
from typing import Self

from pairlab.base.threads import run_before_flows
from pairlab.errors import MeasurementFailed


class Ticker:
    """Calls `sample` on entering its block (a context manager), then every interval, and on leaving.

    A late call does not shift the next ones. The thread has priority over flows if permitted. If `sample` raises an
    error, it is not called again, and leaving raises MeasurementFailed.
    """

    def __init__(self, interval_s: float, sample: Callable[[], None], name: str):
        self._interval_s = interval_s
        self._sample = sample
        self._done = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._sample_until_done, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._sample()  # in this thread, so that nothing after it is missed
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._error and kind is None:
            why = f"{type(self._error).__name__}: {self._error}"
            raise MeasurementFailed(f"{self._thread.name} stopped ({why}): measure again") from self._error

    def _sample_until_done(self) -> None:
        try:
            self._sample_on_time()
        except Exception as error:  # any error: missing samples must not go unnoticed
            self._error = error

    def _sample_on_time(self) -> None:
        run_before_flows()
        begun_s, number, done = time.monotonic(), 0, False
        while not done:
            number += 1
            done = self._done.wait(max(0.0, begun_s + number * self._interval_s - time.monotonic()))
            self._sample()
