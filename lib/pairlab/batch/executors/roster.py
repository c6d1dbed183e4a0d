"""Who measures a sweep that several share, and what: noted in the store, for its board."""

import threading
import time
from datetime import UTC, datetime
from typing import Any

from pairlab import store
from pairlab.model.spec import Spec

#: A note is not made more often than this.
_EACH_S = 1.0


class Roster:
    """The workers of a sweep, as they begin cells, end them, wait and leave; for several threads."""

    def __init__(self, sweep: str):
        self._sweep = sweep
        self._workers: dict[str, dict[str, Any]] = {}
        self._changed, self._noted_at = True, -_EACH_S  # at first, that nobody does
        self._lock = threading.Lock()

    @property
    def at_work(self) -> int:
        """How many measure; 1 at least."""
        with self._lock:
            return max(1, sum(bool(each["cell"]) for each in self._workers.values()))

    def begins(self, worker: str, spec: Spec) -> None:
        """That worker begins to measure that cell."""
        self._set(worker, cell=str(spec), since=datetime.now(UTC).isoformat())

    def measured(self, worker: str) -> None:
        """That worker has measured its cell."""
        with self._lock:
            self._workers[worker]["cells"] += 1
            self._changed = True

    def waits(self, worker: str) -> None:
        """That worker has ended a block, and measures nothing until it is given another one."""
        self._set(worker, cell="", since=datetime.now(UTC).isoformat())

    def _set(self, worker: str, **values: str) -> None:
        with self._lock:
            self._workers.setdefault(worker, {"worker": worker, "cells": 0}).update(values)
            self._changed = True

    def leaves(self, worker: str) -> None:
        """That worker measures no more."""
        with self._lock:
            self._workers.pop(worker, None)
            self._changed = True

    def note(self) -> None:
        """Notes what has changed; called more than once a second, it does nothing in between."""
        with self._lock:
            if self._changed and time.monotonic() - self._noted_at >= _EACH_S:
                store.remember_workers(self._sweep, list(self._workers.values()))
                self._changed, self._noted_at = False, time.monotonic()
