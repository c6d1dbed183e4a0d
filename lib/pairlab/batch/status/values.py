"""The values of a sweep board: plain, frozen, without a way to show them."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pairlab.batch.eta import succeeded
from pairlab.model.reasons import Trouble


@dataclass(frozen=True)
class Count:
    """How many cells there are to be, as far as is known, and how many ended how. left: still to be measured."""

    total: int = 0
    done: int = 0
    failed: int = 0
    invalid: int = 0
    skipped: int = 0

    @property
    def left(self) -> int:
        return self.total - self.done - self.failed - self.invalid - self.skipped

    def __add__(self, other: "Count") -> "Count":
        return Count(
            self.total + other.total,
            self.done + other.done,
            self.failed + other.failed,
            self.invalid + other.invalid,
            self.skipped + other.skipped,
        )


@dataclass(frozen=True)
class Part:
    """The cells of one experiment with one driver in one backend."""

    backend: str
    experiment: str
    driver: str
    count: Count


@dataclass(frozen=True)
class Result:
    """One cell that ended. text: its result or reason; of the newest one, also compared with the others."""

    key: str
    cell: str
    status: str
    measured_at: datetime
    text: str


@dataclass(frozen=True)
class Worker:
    """Who measures a sweep that several share: what, since when, and how many cells it has measured.

    cell: empty while it waits for what others measure.
    """

    name: str
    cell: str
    since: datetime
    cells: int


@dataclass(frozen=True)
class Values:
    """How far a sweep has come.

    count: of all cells; most: how many there can be, where cells are repeated until an estimate is precise. running:
    whether it is being measured now; died: whether its process is known to have ended before the sweep was complete.
    heard_at: the time of its latest sign of life, its start or the start of the newest result. cell_s: how long a cell
    took since the latest start, None before the second; left_s: how long the rest takes, estimated as the sweep itself
    does. newest: what ended last, the newest first. damaged: runs that cannot be read, which the sweep measures again.
    imprecise: cells whose estimate is not as precise as asked after all their repetitions. unavailable: whether the
    sweep may skip what the host lacks. retry: whether it measures again what failed or was invalid. file: its sweep
    file, if known. scheduler: Dask's, where workers share the sweep; credentials: the file by which it is reached, if
    named; workers: those that measure it now; dashboard: where Dask shows them.
    """

    name: str
    backend: str
    started_at: datetime
    host: str
    pid: int
    running: bool
    died: bool
    heard_at: datetime
    count: Count
    most: int
    cell_s: float | None
    left_s: float
    parts: tuple[Part, ...]
    newest: tuple[Result, ...]
    troubles: tuple[Trouble, ...]
    damaged: tuple[str, ...]
    imprecise: tuple[str, ...]
    unavailable: str
    retry: bool
    file: str = ""
    scheduler: str = ""
    credentials: str = ""
    workers: tuple[Worker, ...] = ()
    dashboard: str = ""

    @property
    def cells_per_hour(self) -> float | None:
        """The pace since the latest start, of all workers together."""
        return 3600 / self.cell_s if self.cell_s else None

    @property
    def complete(self) -> bool:
        """Whether no cell is left, and the sweep has ended."""
        return self.count.left == 0 and not self.running

    @property
    def state(self) -> str:
        """running, complete or not running."""
        return "complete" if self.complete else "running" if self.running else "not running"

    @property
    def good(self) -> bool:
        """Whether the sweep's own exit status is 0, if it ends like this."""
        count = self.count
        not_done = count.failed + count.invalid + count.left
        return succeeded(count.done, not_done, count.skipped, self.unavailable)

    def as_dict(self) -> dict[str, Any]:
        """For programs: the fields, and what follows from them; times as ISO 8601, durations in seconds."""
        fields = asdict(self) | {"state": self.state, "good": self.good, "cells_per_hour": self.cells_per_hour}
        fields |= {name: getattr(self, name).isoformat() for name in ("started_at", "heard_at")}
        fields["count"]["left"] = self.count.left
        for its, part in zip(fields["parts"], self.parts, strict=True):
            its["count"]["left"] = part.count.left
        for its, result in zip(fields["newest"], self.newest, strict=True):
            its["measured_at"] = result.measured_at.isoformat()
            its["told"] = its.pop("text")  # its name in the command's output
        for its, worker in zip(fields["workers"], self.workers, strict=True):
            its["since"] = worker.since.isoformat()
        return fields
