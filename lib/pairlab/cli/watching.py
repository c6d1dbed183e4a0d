"""`pairlab sweep --watch`: the sweep board on a terminal, in lines, or for programs."""

import itertools
import sys
import time

import click
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pairlab.cli.group import NOT_DONE, UNAVAILABLE
from pairlab.cli.terminal import event, out

#: How often the store is looked at.
EVERY_S = 2.0
_COLOURS = {"ok": "green", "failed": "red", "invalid": "yellow", "skipped": "bright_black"}


def watch(told, backend, *, as_json):
    """Shows the board of the sweep of that file or name until it is complete, and ends with the sweep's own status.

    Of a sweep that dies meanwhile, it says how to go on. On a terminal it waits for somebody to do so; elsewhere nobody
    may read it, and it ends with status 1. Ctrl-C ends the watching alone, with status 0.
    """
    from pairlab.board import Watcher

    show = _as_events if as_json else _on_terminal if out.is_terminal else _in_lines
    boards = _boards(Watcher(_name(told), backend=backend), patient=show is _on_terminal)
    try:
        last = show(boards)
    except KeyboardInterrupt:
        return
    if last.complete and not last.count.done:
        sys.exit(UNAVAILABLE)
    if not last.good:
        sys.exit(NOT_DONE)


def _name(told):
    """The sweep's name: of the file, where it is one, else as it was told."""
    from pairlab import plan

    return plan.load(told).name if told.suffix in (".yaml", ".yml") or told.is_file() else str(told)


def _boards(watcher, patient):
    """The board as often as it is to be shown; the last is complete, or, unless patient, of a sweep that has died."""
    ran = False
    while True:
        board = watcher.board()
        yield board
        if board.complete or (ran and board.died and not patient):  # else it may be about to begin
            return
        ran = ran or board.running
        time.sleep(EVERY_S)


def _changes(boards):
    """The boards that tell something new."""
    return (board for board, _ in itertools.groupby(boards))


def _as_events(boards):
    for board in _changes(boards):
        event("board", **board.as_dict())
    return board


def _in_lines(boards):
    """Where the sweep stands, whenever it begins or ends to be measured, and a line for each result."""
    from pairlab.board import layout

    seen, state = set(), ""
    for board in _changes(boards):
        if board.state != state and not board.complete:
            click.echo(f"{layout.title(board)}: {layout.state(board)}")
            click.echo(f"  {layout.standing(board)}")
            if advice := layout.advice(board):
                click.echo(f"  {advice}")
        for result, line in zip(board.newest[::-1], layout.results(board)[::-1], strict=True):
            if (result.key, result.measured_at) not in seen:
                click.echo(f"  {line}")
        seen, state = {(result.key, result.measured_at) for result in board.newest}, board.state
    if board.complete:
        click.echo(board)
    return board


def _on_terminal(boards):
    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for board in boards:
            live.update(_picture(board), refresh=True)
    return board


def _picture(board):
    """The board for a terminal of any width."""
    from pairlab.board import layout

    heads, rows = layout.parts(board)
    drivers = Table(*heads, box=None, pad_edge=False)
    for row in rows:
        drivers.add_row(*map(Text, row))
    newest = Table.grid(padding=(0, 1))
    for when, what, how, told in layout.newest(board):
        newest.add_row(Text(when[11:]), Text(how, style=_COLOURS[how]), Text(f"{what}: {told}"))
    count = board.count
    lines = [layout.standing(board), layout.advice(board)]
    return Group(
        Text.assemble((layout.title(board), "bold"), f": {layout.state(board)}"),
        ProgressBar(total=count.total, completed=count.total - count.left, width=40),
        *(Text(line) for line in lines if line),
        Text(),
        drivers,
        Text(),
        newest,
        *(Text(line, style="yellow") for line in layout.troubles(board)),
    )
