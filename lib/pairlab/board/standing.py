"""What a sweep board tells: plain values, frozen."""

from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pairlab.board import layout
from pairlab.course import well_done


@dataclass(frozen=True)
class Count:
    """How many cells there are to be, as far as is known, and how many ended how. left: those still to be measured."""

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
    """One cell that ended. told: what came of it, in words; of the newest one, also against the others."""

    key: str
    cell: str
    status: str
    measured_at: datetime
    told: str


@dataclass(frozen=True)
class Trouble:
    """Why cells are not done: so many have that status for the same reason, figures aside; reason is the newest's."""

    cells: int
    status: str
    reason: str


@dataclass(frozen=True)
class Board:
    """Where a sweep stands.

    count: of all cells; most: how many there can be, where cells are repeated until an estimate is known. running:
    whether it is being measured now; died: whether it is known that it is not, and was not brought to its end.
    heard_at: when it was last heard of, its start or the begin of the newest result. cell_s: how long a cell took
    since the latest start, missing before the second; left_s: how long the rest takes, by the same reckoning as the
    sweep's own. newest: what ended last, the newest first. damaged: runs that cannot be read, which the sweep measures
    again. imprecise: cells whose estimate is not known closely enough after all their repetitions. unavailable:
    whether the sweep may skip what the host lacks. retry: whether it was started to measure again what was spoilt.
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

    @classmethod
    def of(cls, name: str, *, backend: str | None = None, root: str | Path | None = None) -> "Board":
        """The board of the sweep of that name, in one backend or in all it was started in.

        root: the folder of runs, by default runs/. Raises NoRuns for a sweep that was never started there, StoreError.
        """
        from pairlab.board.watching import Watcher

        return Watcher(name, backend=backend, root=root).board()

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
        return well_done(count.done, not_done, count.skipped, self.unavailable)

    def as_dict(self) -> dict[str, Any]:
        """For programs: the fields, and what follows from them; times as ISO 8601, durations in seconds."""
        told = asdict(self) | {"state": self.state, "good": self.good}
        told |= {name: getattr(self, name).isoformat() for name in ("started_at", "heard_at")}
        told["count"]["left"] = self.count.left
        for mine, part in zip(told["parts"], self.parts, strict=True):
            mine["count"]["left"] = part.count.left
        for mine, result in zip(told["newest"], self.newest, strict=True):
            mine["measured_at"] = result.measured_at.isoformat()
        return told

    def __str__(self) -> str:
        return layout.text(self)

    def _repr_html_(self) -> str:
        return layout.html(self)
