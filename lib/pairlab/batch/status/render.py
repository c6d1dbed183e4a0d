"""A sweep board's sentences and tables, as plain text and as HTML."""

import shlex
from datetime import datetime
from pathlib import Path

from pairlab import paths
from pairlab.base import html_repr, schedulers
from pairlab.batch.status.values import Count, Values
from pairlab.progress.words import duration, seconds_or_more

#: The kinds of cells that are not done, in the order they are listed.
_OTHERS = ("failed", "invalid", "skipped", "left")
_BAR_CHARACTERS = 40
_TONES = {"running": "", "not running": "warn"}


def title(board: Values) -> str:
    return f"sweep {board.name} ({board.backend})"


def state(board: Values) -> str:
    """Whether it runs, since when and where."""
    return f"{board.state}, started {_start(board)}"


def cells(board: Values) -> str:
    """How many cells there are, and how many of them ended how."""
    count = board.count
    total = f"{count.total}" if board.most == count.total else f"about {count.total}, at most {board.most},"
    return f"{count.total - count.left} of {total} cells ended: {_kinds(count)}"


def time_left(board: Values) -> str:
    """About how long the rest takes; empty where nothing is left."""
    if not board.count.left:
        return ""
    pace = f", at {seconds_or_more(board.cell_s)} a cell" if board.cell_s else ""
    if len(board.workers) > 1 and board.cells_per_hour:
        pace = f", at {board.cells_per_hour:.0f} cells an hour"
    return f"about {duration(board.left_s)} to go{pace}"


def progress(board: Values) -> str:
    """How many cells ended how, and how long the rest takes."""
    left = time_left(board)
    return cells(board) + (f"; {left}" if left else "")


def advice(board: Values) -> str:
    """What to do next, where there is something to do."""
    if board.running:
        return ""
    if board.count.left:
        return f"{_last_sign(board)}; `{_command(board, retry=board.retry)}` measures the rest"
    if board.count.failed or board.count.invalid:
        return f"`{_command(board, retry=True)}` measures again what failed or was invalid"
    return ""


def parts(board: Values) -> tuple[list[str], list[list[str]]]:
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


def workers(board: Values) -> list[list[str]]:
    """Rows of those that measure it: who, what, since when, and how many cells it has measured."""
    return [[each.name, each.cell or "waits", _moment(each.since), str(each.cells)] for each in board.workers]


def sharing(board: Values) -> list[str]:
    """Who measures it and what, where several share it, a line each; and where Dask shows them."""
    if not board.workers:
        return []
    lines = [
        f"{each.name} {f'measures {each.cell}' if each.cell else 'waits'} since {_moment(each.since)},"
        f" after {each.cells} cells"
        for each in board.workers
    ]
    return [*lines, *([f"Dask shows them at {board.dashboard}"] if board.dashboard else [])]


def newest(board: Values) -> list[list[str]]:
    """Rows of the newest results: when, what, how, and what came of it."""
    return [[_moment(each.measured_at), each.cell, each.status, each.text] for each in board.newest]


def results(board: Values) -> list[str]:
    """The newest results, a line each."""
    return [f"{when}  {what}: {'' if how == 'ok' else f'{how}: '}{text}" for when, what, how, text in newest(board)]


def troubles(board: Values) -> list[str]:
    """Why cells are not done, what cannot be read, and what is not as precise as asked: a line each."""
    return [
        *(f"{each.cells} {each.status}: {each.reason}" for each in board.troubles),
        *board.damaged,
        *(f"not as precise as asked: {each}" for each in board.imprecise),
    ]


def text(board: Values) -> str:
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


def html(board: Values) -> str:
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


def _html_bar(board: Values) -> str:
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


def _start(board: Values) -> str:
    return f"{_moment(board.started_at)} by process {board.pid} on {board.host}"


def _last_sign(board: Values) -> str:
    """Of a sweep that is not running: that its process has ended, or gives no sign of life, and since when."""
    when = _moment(board.heard_at)
    if board.died:
        return f"process {board.pid} has ended; its last sign of life was at {when}"
    return f"no sign of life of process {board.pid} on {board.host} since {when}"


def _command(board: Values, *, retry: bool) -> str:
    """The command that resumes it: with its file, where that is known and still there, or else by its name."""
    words = ["pairlab", "sweep", shlex.quote(_file(board))]
    words += [] if ", " in board.backend else ["--backend", board.backend]
    words += map(shlex.quote, schedulers.options(board.scheduler, board.credentials) if board.scheduler else [])
    return " ".join([*words, *(["--retry"] if retry else [])])


def _file(board: Values) -> str:
    file = Path(board.file or paths.SWEEPS / f"{board.name}.yaml")
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)


def _moment(when: datetime) -> str:
    """In this host's time, as a clock on the wall shows it."""
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}"
