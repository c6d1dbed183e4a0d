"""A sweep board: the progress of a sweep in sentences and tables, as plain text, and as HTML in a notebook."""

import json
import operator
import shlex
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.base import html_repr, schedulers
from pairlab.batch.executors.workers import WorkerState
from pairlab.batch.schedule import succeeded
from pairlab.batch.sweep_manifest import Manifest
from pairlab.model.reasons import Trouble
from pairlab.progress.describe import columns, duration, seconds_or_more

#: The kinds of cells that are not done, in the order of listing.
_OTHERS = ("failed", "invalid", "skipped", "left")
_BAR_CHARACTERS = 40
_TONES = {"running": "", "not running": "warn"}


@dataclass(frozen=True)
class Count:
    """The expected number of cells, and the number that ended in each way. left: still to be measured."""

    total: int = 0
    done: int = 0
    failed: int = 0
    invalid: int = 0
    skipped: int = 0

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.invalid + self.skipped

    @property
    def left(self) -> int:
        return self.total - self.ended

    @property
    def share(self) -> float:
        """Share of cells that have ended."""
        return self.ended / self.total if self.total else 1.0

    def __add__(self, other: "Count") -> "Count":
        return Count(*map(operator.add, astuple(self), astuple(other)))


@dataclass(frozen=True)
class Part:
    """The cells of one experiment with one driver in one backend."""

    backend: str
    experiment: str
    driver: str
    count: Count


@dataclass(frozen=True)
class Result:
    """A cell that ended. text: the result or reason; for the newest cell, also a comparison with the others."""

    key: str
    cell: str
    status: str
    measured_at: datetime
    text: str


@dataclass(frozen=True)
class Board:
    """The progress of a sweep.

    start: the latest. count: of all cells; most: the largest possible number, where cells are repeated until an
    estimate is precise. running: whether the sweep is measuring now; died: whether its process certainly ended before
    the sweep was complete. heard_at: time of the latest sign of life: the start, or that of the newest result.
    cell_s: mean time of a cell since the latest start, None before the second cell; left_s: time of the rest, by the
    sweep's own estimate. newest: the latest results, the newest first. damaged: unreadable runs, which the sweep
    measures again. imprecise: cells whose estimate is less precise than requested after all repetitions. workers: of a
    shared sweep, the current ones.
    """

    name: str
    backend: str
    start: Manifest
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
    running: bool = False
    died: bool = False
    workers: tuple[WorkerState, ...] = ()

    @property
    def cells_per_hour(self) -> float | None:
        """The pace of all workers together since the latest start."""
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
        """Whether the sweep's exit status is 0 if it ends in this state."""
        count = self.count
        return succeeded(count.done, count.failed + count.invalid + count.left, count.skipped, self.start.unavailable)

    def as_dict(self) -> dict[str, Any]:
        """The fields and derived values, for programs; times as ISO 8601, durations in seconds."""
        start = self.start.model_dump(exclude={"at", "cells", "environment", "auto"}) | {"started_at": self.start.at}
        more = {"state": self.state, "good": self.good, "cells_per_hour": self.cells_per_hour}
        fields = {name: value for name, value in vars(self).items() if name != "start"}
        return json.loads(json.dumps(fields | start | more, default=_plain))

    def __str__(self) -> str:
        names, rows = parts(self)
        full = int(_BAR_CHARACTERS * self.count.share)
        lines = [
            f"{title(self)}: {state(self)}",
            f"[{'#' * full}{'.' * (_BAR_CHARACTERS - full)}] {progress(self)}",
            *([advice(self)] if advice(self) else []),
            "",
            *(f"  {line}" for line in columns([names, *rows])),
            "",
            *(f"  {line}" for line in (*sharing(self), *results(self), *troubles(self))),
        ]
        return "\n".join(lines).rstrip()

    def _repr_html_(self) -> str:
        tables = [
            (*parts(self),),
            (["worker", "measures", "since", "cells measured"], workers(self)),
            (["newest", "cell", "status", "result"], newest(self)),
            (["not done, and why"], [[line] for line in troubles(self)]),
        ]
        rows = [("cells", cells(self)), ("time", time_left(self)), ("started", _start(self))]
        rows += [("Dask's dashboard", self.start.dashboard)] if self.workers else []
        tone = _TONES.get(self.state, "good" if self.good else "bad")
        body = _html_bar(self.count) + "".join(html_repr.table(*each) for each in tables if each[1])
        return html_repr.summary(title(self), rows, badge=self.state, tone=tone, note=advice(self), body=body)


def _plain(value: Any) -> Any:
    """A board's value as a JSON type."""
    if isinstance(value, datetime):
        return value.isoformat()
    fields = dict(vars(value))
    if isinstance(value, Count):
        fields["left"] = value.left
    return fields


def title(board: Board) -> str:
    return f"sweep {board.name} ({board.backend})"


def state(board: Board) -> str:
    """Whether the sweep runs, and the time and host of its start."""
    return f"{board.state}, started {_start(board)}"


def cells(board: Board) -> str:
    """The number of cells, and the number that ended in each way."""
    count = board.count
    total = f"{count.total}" if board.most == count.total else f"about {count.total}, at most {board.most},"
    others = (f", {number} {kind}" for kind in _OTHERS if (number := getattr(count, kind)))
    return f"{count.ended} of {total} cells ended: {count.done} done{''.join(others)}"


def time_left(board: Board) -> str:
    """The estimated time of the rest; empty if no cell is left."""
    if not board.count.left:
        return ""
    pace = f", at {seconds_or_more(board.cell_s)} a cell" if board.cell_s else ""
    if len(board.workers) > 1 and board.cells_per_hour:
        pace = f", at {board.cells_per_hour:.0f} cells an hour"
    return f"about {duration(board.left_s)} to go{pace}"


def progress(board: Board) -> str:
    """The number of cells that ended in each way, and the time of the rest."""
    return "; ".join(filter(None, [cells(board), time_left(board)]))


def advice(board: Board) -> str:
    """The next step for the user; empty if there is none."""
    if board.running:
        return ""
    if board.count.left:
        return f"{_last_sign(board)}; {_way_on(board, retry=board.start.retry)} measures the rest"
    if board.count.failed or board.count.invalid:
        return f"{_way_on(board, retry=True)} measures again what failed or was invalid"
    return ""


def parts(board: Board) -> tuple[list[str], list[list[str]]]:
    """Column names and rows of the table of experiments and drivers; with the backend if there are several."""
    first = 0 if len({part.backend for part in board.parts}) > 1 else 1
    names = ["backend", "experiment", "driver", "cells", "done", *_OTHERS]
    rows = [
        [part.backend, part.experiment, part.driver, str(part.count.total), str(part.count.done)]
        + [str(getattr(part.count, kind) or "") for kind in _OTHERS]
        for part in board.parts
    ]
    return names[first:], [row[first:] for row in rows]


def workers(board: Board) -> list[list[str]]:
    """Rows of the workers: name, current cell, since when, and number of cells measured."""
    return [[each.name, each.cell or "idle", _moment(each.since), str(each.cells)] for each in board.workers]


def sharing(board: Board) -> list[str]:
    """A line for each worker of a shared sweep, with the current cell; and the address of Dask's dashboard."""
    lines = [
        f"{each.name} {f'measures {each.cell}' if each.cell else 'is idle'} since {_moment(each.since)},"
        f" after {each.cells} cells"
        for each in board.workers
    ]
    return [*lines, f"Dask shows them at {board.start.dashboard}"] if lines and board.start.dashboard else lines


def newest(board: Board) -> list[list[str]]:
    """Rows of the newest results: time, cell, status and text."""
    return [[_moment(each.measured_at), each.cell, each.status, each.text] for each in board.newest]


def results(board: Board) -> list[str]:
    """The newest results, a line each."""
    return [f"{when}  {what}: {'' if how == 'ok' else f'{how}: '}{text}" for when, what, how, text in newest(board)]


def troubles(board: Board) -> list[str]:
    """A line for each reason of cells that are not done, each unreadable run, and each imprecise estimate."""
    return [
        *(f"{each.cells} {each.status}: {each.reason}" for each in board.troubles),
        *board.damaged,
        *(f"not as precise as asked: {each}" for each in board.imprecise),
    ]


def _html_bar(count: Count) -> str:
    return (
        f'<div role="progressbar" aria-label="cells of the sweep that have ended" aria-valuemin="0"'
        f' aria-valuemax="{count.total}" aria-valuenow="{count.ended}" style="margin: 0.5em 0; height: 0.6em;'
        ' border: 1px solid var(--jp-border-color1, #888); border-radius: 3px; overflow: hidden">'
        f'<div style="width: {100 * count.share:.1f}%; height: 100%;'
        ' background: var(--jp-brand-color1, #1976d2)"></div></div>'
    )


def _start(board: Board) -> str:
    return f"{_moment(board.start.at)} by process {board.start.pid} on {board.start.host}"


def _last_sign(board: Board) -> str:
    """The last sign of life of a sweep that is not running, and whether its process has ended."""
    when = _moment(board.heard_at)
    if board.died:
        return f"process {board.start.pid} has ended; its last sign of life was at {when}"
    return f"no sign of life of process {board.start.pid} on {board.start.host} since {when}"


def _way_on(board: Board, *, retry: bool) -> str:
    """The command that resumes the sweep; the button of a notebook, where its plan is in no file."""
    start = board.start
    if start.file and start.file.startswith("/dev/fd/"):
        return "Go on"
    file = Path(start.file or paths.own_or_shipped(f"sweeps/{board.name}.yaml"))
    words = ["pairlab", "sweep", str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)]
    words += [] if ", " in board.backend else ["--backend", board.backend]
    words += ["--label", start.ground.label] if start.ground.label else []
    words += schedulers.options(start.scheduler, start.credentials) if start.scheduler else []
    return f"`{shlex.join([*words, *(['--retry'] if retry else [])])}`"


def _moment(when: datetime) -> str:
    """The local time, in text."""
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}"
