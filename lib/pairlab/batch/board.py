"""A sweep board: how far a sweep has come; in sentences and tables, as plain text, and as HTML in a notebook."""

import json
import operator
import shlex
from dataclasses import asdict, astuple, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pairlab import paths
from pairlab.base import html_repr, schedulers
from pairlab.batch.eta import succeeded
from pairlab.model.reasons import Trouble
from pairlab.progress.words import duration, seconds_or_more

#: The kinds of cells that are not done, in the order they are listed.
_OTHERS = ("failed", "invalid", "skipped", "left")
_BAR_CHARACTERS = 40
_TONES = {"running": "", "not running": "warn"}


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
class Board:
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
        for its, count in zip(
            (fields, *fields["parts"]), (self.count, *(each.count for each in self.parts)), strict=True
        ):
            its["count"]["left"] = count.left
        for its in fields["newest"]:
            its["told"] = its.pop("text")  # its name in the command's output
        return json.loads(json.dumps(fields, default=datetime.isoformat))

    def __str__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return html(self)


def title(board: Board) -> str:
    return f"sweep {board.name} ({board.backend})"


def state(board: Board) -> str:
    """Whether it runs, since when and where."""
    return f"{board.state}, started {_start(board)}"


def cells(board: Board) -> str:
    """How many cells there are, and how many of them ended how."""
    count = board.count
    total = f"{count.total}" if board.most == count.total else f"about {count.total}, at most {board.most},"
    return f"{count.total - count.left} of {total} cells ended: {_kinds(count)}"


def time_left(board: Board) -> str:
    """About how long the rest takes; empty where nothing is left."""
    if not board.count.left:
        return ""
    pace = f", at {seconds_or_more(board.cell_s)} a cell" if board.cell_s else ""
    if len(board.workers) > 1 and board.cells_per_hour:
        pace = f", at {board.cells_per_hour:.0f} cells an hour"
    return f"about {duration(board.left_s)} to go{pace}"


def progress(board: Board) -> str:
    """How many cells ended how, and how long the rest takes."""
    left = time_left(board)
    return cells(board) + (f"; {left}" if left else "")


def advice(board: Board) -> str:
    """What to do next, where there is something to do."""
    if board.running:
        return ""
    if board.count.left:
        return f"{_last_sign(board)}; `{_command(board, retry=board.retry)}` measures the rest"
    if board.count.failed or board.count.invalid:
        return f"`{_command(board, retry=True)}` measures again what failed or was invalid"
    return ""


def parts(board: Board) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of the table of experiments and drivers; a backend has a column where there are several."""
    several = len({part.backend for part in board.parts}) > 1
    heads = [*(["backend"] if several else []), "experiment", "driver", "cells", "done", *_OTHERS]
    rows = [
        [
            *([part.backend] if several else []),
            part.experiment,
            part.driver,
            str(part.count.total),
            str(part.count.done),
            *(str(getattr(part.count, kind) or "") for kind in _OTHERS),
        ]
        for part in board.parts
    ]
    return heads, rows


def workers(board: Board) -> list[list[str]]:
    """Rows of those that measure it: who, what, since when, and how many cells it has measured."""
    return [[each.name, each.cell or "waits", _moment(each.since), str(each.cells)] for each in board.workers]


def sharing(board: Board) -> list[str]:
    """Who measures it and what, where several share it, a line each; and where Dask shows them."""
    if not board.workers:
        return []
    lines = [
        f"{each.name} {f'measures {each.cell}' if each.cell else 'waits'} since {_moment(each.since)},"
        f" after {each.cells} cells"
        for each in board.workers
    ]
    return [*lines, *([f"Dask shows them at {board.dashboard}"] if board.dashboard else [])]


def newest(board: Board) -> list[list[str]]:
    """Rows of the newest results: when, what, how, and what came of it."""
    return [[_moment(each.measured_at), each.cell, each.status, each.text] for each in board.newest]


def results(board: Board) -> list[str]:
    """The newest results, a line each."""
    return [f"{when}  {what}: {'' if how == 'ok' else f'{how}: '}{text}" for when, what, how, text in newest(board)]


def troubles(board: Board) -> list[str]:
    """Why cells are not done, what cannot be read, and what is not as precise as asked: a line each."""
    return [
        *(f"{each.cells} {each.status}: {each.reason}" for each in board.troubles),
        *board.damaged,
        *(f"not as precise as asked: {each}" for each in board.imprecise),
    ]


def text(board: Board) -> str:
    """The board in plain lines."""
    heads, rows = parts(board)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    lines = [
        f"{title(board)}: {state(board)}",
        f"{_bar(board.count)} {progress(board)}",
        *([advice(board)] if advice(board) else []),
        "",
        *(f"  {line.rstrip()}" for line in table),
        "",
        *(f"  {line}" for line in sharing(board)),
        *(f"  {line}" for line in results(board)),
        *(f"  {line}" for line in troubles(board)),
    ]
    return "\n".join(lines).rstrip()


def html(board: Board) -> str:
    """The board as a card."""
    lines = troubles(board)
    body = [
        _html_bar(board),
        html_repr.table(*parts(board)),
        html_repr.table(["worker", "measures", "since", "cells measured"], workers(board)) if board.workers else "",
        html_repr.table(["newest", "cell", "status", "result"], newest(board)) if board.newest else "",
        html_repr.table(["not done, and why"], [[line] for line in lines]) if lines else "",
    ]
    rows = [("cells", cells(board)), ("time", time_left(board)), ("started", _start(board))]
    rows += [("Dask's dashboard", board.dashboard)] if board.workers and board.dashboard else []
    tone = _TONES.get(board.state, "good" if board.good else "bad")
    return html_repr.summary(title(board), rows, badge=board.state, tone=tone, note=advice(board), body="".join(body))


def share(count: Count) -> float:
    """The share of the cells that have ended."""
    return (count.total - count.left) / count.total if count.total else 1.0


def _html_bar(board: Board) -> str:
    ended, total = board.count.total - board.count.left, board.count.total
    return (
        f'<div role="progressbar" aria-label="cells of the sweep that have ended" aria-valuemin="0"'
        f' aria-valuemax="{total}" aria-valuenow="{ended}" style="margin: 0.5em 0; height: 0.6em;'
        ' border: 1px solid var(--jp-border-color1, #888); border-radius: 3px; overflow: hidden">'
        f'<div style="width: {100 * share(board.count):.1f}%; height: 100%;'
        ' background: var(--jp-brand-color1, #1976d2)"></div></div>'
    )


def _bar(count: Count) -> str:
    full = int(_BAR_CHARACTERS * share(count))
    return f"[{'#' * full}{'.' * (_BAR_CHARACTERS - full)}]"


def _kinds(count: Count) -> str:
    others = [f"{number} {kind}" for kind in _OTHERS if (number := getattr(count, kind))]
    return ", ".join([f"{count.done} done", *others])


def _start(board: Board) -> str:
    return f"{_moment(board.started_at)} by process {board.pid} on {board.host}"


def _last_sign(board: Board) -> str:
    """Of a sweep that is not running: that its process has ended, or gives no sign of life, and since when."""
    when = _moment(board.heard_at)
    if board.died:
        return f"process {board.pid} has ended; its last sign of life was at {when}"
    return f"no sign of life of process {board.pid} on {board.host} since {when}"


def _command(board: Board, *, retry: bool) -> str:
    """The command that resumes it: with its file, where that is known and still there, or else by its name."""
    words = ["pairlab", "sweep", shlex.quote(_file(board))]
    words += [] if ", " in board.backend else ["--backend", board.backend]
    words += map(shlex.quote, schedulers.options(board.scheduler, board.credentials) if board.scheduler else [])
    return " ".join([*words, *(["--retry"] if retry else [])])


def _file(board: Board) -> str:
    file = Path(board.file or paths.SWEEPS / f"{board.name}.yaml")
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def _moment(when: datetime) -> str:
    """In this host's time, as a clock on the wall shows it."""
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}"
