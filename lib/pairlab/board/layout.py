"""How a sweep board shows: its sentences and tables, as plain text and as HTML."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from pairlab import cards
from pairlab.progress.words import duration, seconds_or_more

if TYPE_CHECKING:
    from pairlab.board.standing import Board, Count

#: The kinds of cells that are not done, in the order they are told.
_OTHERS = ("failed", "invalid", "skipped", "left")
_BAR_CHARACTERS = 40
_TONES = {"running": "", "not running": "warn"}


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
    return f"about {duration(board.left_s)} to go{pace}"


def standing(board: Board) -> str:
    """How many cells ended how, and how long the rest takes."""
    left = time_left(board)
    return cells(board) + (f"; {left}" if left else "")


def advice(board: Board) -> str:
    """What to do next, where there is something to do."""
    if board.running:
        return ""
    if board.count.left:
        return f"{_last_sign(board)}; `{_again(board)}` goes on with what is left"
    if board.count.failed or board.count.invalid:
        return "`pairlab sweep --retry` measures again what failed or was invalid"
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


def newest(board: Board) -> list[list[str]]:
    """Rows of the newest results: when, what, how, and what came of it."""
    return [[_moment(each.measured_at), each.cell, each.status, each.told] for each in board.newest]


def results(board: Board) -> list[str]:
    """The newest results, a line each."""
    return [f"{when}  {what}: {'' if how == 'ok' else f'{how}: '}{told}" for when, what, how, told in newest(board)]


def troubles(board: Board) -> list[str]:
    """Why cells are not done, what cannot be read, and what is not known closely enough: a line each."""
    return [
        *(f"{each.cells} {each.status}: {each.reason}" for each in board.troubles),
        *board.damaged,
        *(f"not known closely enough: {each}" for each in board.imprecise),
    ]


def text(board: Board) -> str:
    """The board in plain lines."""
    heads, rows = parts(board)
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)]
    lines = [
        f"{title(board)}: {state(board)}",
        f"{_bar(board.count)} {standing(board)}",
        *([advice(board)] if advice(board) else []),
        "",
        *(f"  {line.rstrip()}" for line in table),
        "",
        *(f"  {line}" for line in results(board)),
        *(f"  {line}" for line in troubles(board)),
    ]
    return "\n".join(lines).rstrip()


def html(board: Board) -> str:
    """The board as a card."""
    told = troubles(board)
    body = [
        _html_bar(board),
        cards.grid(*parts(board)),
        cards.grid(["newest", "cell", "status", "what came of it"], newest(board)) if board.newest else "",
        cards.grid(["what is not done, and why"], [[line] for line in told]) if told else "",
    ]
    rows = [("cells", cells(board)), ("time", time_left(board)), ("started", _start(board))]
    tone = _TONES.get(board.state, "good" if board.good else "bad")
    return cards.card(title(board), rows, badge=board.state, tone=tone, note=advice(board), body="".join(body))


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
    """Of a sweep that is not running: that nobody measures it, or that nothing is heard of who does, and since when."""
    when = _moment(board.heard_at)
    if board.died:
        return f"process {board.pid} is gone, and was last heard of at {when}"
    return f"nothing has been heard of process {board.pid} on {board.host} since {when}"


def _again(board: Board) -> str:
    """The command that it was started with, as far as it is known: its file is the one of its name in sweeps/."""
    backend = "" if ", " in board.backend else f" --backend {board.backend}"
    return f"pairlab sweep sweeps/{board.name}.yaml{backend}{' --retry' if board.retry else ''}"


def _moment(when: datetime) -> str:
    """In this host's time, as a clock on the wall shows it."""
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}"
