"""Who measures a sweep that several workers share, and what: noted in the store, for its board."""

import time
from datetime import UTC, datetime
from typing import Any

from pairlab import store
from pairlab.batch.executors.executor import Executor
from pairlab.model.spec import Spec

#: A note is not made more often than this.
_EACH_S = 1.0


class WorkerActivity:
    """The workers of a sweep, as they begin cells, end them, wait and leave."""

    def __init__(self, sweep: str):
        self._sweep = sweep
        self._workers: dict[Executor, dict[str, Any]] = {}  # one that came back is another, of the same name
        self._changed, self._noted_at = True, -_EACH_S  # at first, that nobody does

    @property
    def at_work(self) -> int:
        """How many measure; 1 at least."""
        return max(1, sum(bool(each["cell"]) for each in self._workers.values()))

    def begins(self, worker: Executor, spec: Spec) -> None:
        """That worker begins to measure that cell."""
        self._set(worker, str(spec))

    def measured(self, worker: Executor) -> None:
        """That worker has measured its cell."""
        self._workers[worker]["cells"] += 1
        self._changed = True

    def waits(self, worker: Executor) -> None:
        """That worker has ended a block, and measures nothing until it is given another one."""
        self._set(worker, "")

    def _set(self, worker: Executor, cell: str) -> None:
        known = self._workers.setdefault(worker, {"worker": worker.name, "cells": 0})
        known.update(cell=cell, since=datetime.now(UTC).isoformat())
        self._changed = True

    def leaves(self, worker: Executor) -> None:
        """That worker measures no more."""
        self._workers.pop(worker, None)
        self._changed = True

    def note(self) -> None:
        """Notes what has changed; called more than once a second, it does nothing in between."""
        if self._changed and time.monotonic() - self._noted_at >= _EACH_S:
            store.remember_workers(self._sweep, list(self._workers.values()))
            self._changed, self._noted_at = False, time.monotonic()
