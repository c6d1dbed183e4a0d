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
    """The workers of a sweep, as they come, begin cells and leave; for several threads."""

    def __init__(self, sweep: str):
        self._sweep = sweep
        self._workers: dict[str, dict[str, Any]] = {}
        self._changed, self._noted_at = True, -_EACH_S  # at first, that nobody does
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return max(1, len(self._workers))

    def begins(self, worker: str, spec: Spec) -> None:
        """That worker begins to measure that cell, and has ended the one before."""
        with self._lock:
            ended = self._workers.get(worker, {"cells": -1})["cells"] + 1
            since = datetime.now(UTC).isoformat()
            self._workers[worker] = {"worker": worker, "cell": str(spec), "since": since, "cells": ended}
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
