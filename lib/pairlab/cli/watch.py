"""`pairlab sweep --watch`: the sweep board on a terminal, as lines, or as JSON."""

import itertools
import sys
import time

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pairlab.base.printing import PlainConsole, echo
from pairlab.cli.terminal import NOT_DONE, UNAVAILABLE, event, out

#: The interval between reads of the store.
EVERY_S = 2.0
_COLOURS = {"ok": "green", "failed": "red", "invalid": "yellow", "skipped": "bright_black"}


def watch(file, backend, *, as_json):
    """Shows the board of the sweep (a file or name) until it is complete, and exits with the sweep's status.

    If the sweep is not running, it prints the command that resumes it; on a terminal it then waits, elsewhere it exits
    with status 1. Ctrl-C ends only the watching, with status 0.
    """
    from pairlab.batch.watcher import Watcher

    show = _as_events if as_json else _on_terminal if out.is_terminal else _in_lines
    boards = _boards(Watcher(_name(file), backend=backend), patient=show is _on_terminal)
    try:
        last = show(boards)
    except KeyboardInterrupt:
        return
    if last.complete and not last.count.done:
        sys.exit(UNAVAILABLE)
    if not last.good:
        sys.exit(NOT_DONE)


def _name(file):
    """The sweep's name, from the file if it is one."""
    from pairlab.batch import sweep_file

    is_path = file.suffix in (".yaml", ".yml") or file.is_file()
    return sweep_file.load(file).name if is_path else str(file)


def _boards(watcher, patient):
    """A board each EVERY_S, until the sweep is complete or, unless patient, not running."""
    while True:
        board = watcher.board()
        yield board
        if board.complete or not (board.running or patient):
            return
        time.sleep(EVERY_S)


def _changes(boards):
    """The boards that differ from the one before."""
    return (board for board, _ in itertools.groupby(boards))


def _as_events(boards):
    for board in _changes(boards):
        event("board", **board.as_dict())
    return board


def _in_lines(boards):
    """Prints the progress whenever the sweep starts or stops running, and a line for each result."""
    from pairlab.batch import board as render

    printed, state, sharing = set(), "", ()
    for board in _changes(boards):
        if board.state != state and not board.complete:
            echo(f"{render.title(board)}: {render.state(board)}")
            echo(f"  {render.progress(board)}")
            if advice := render.advice(board):
                echo(f"  {advice}")
        for result, line in zip(board.newest[::-1], render.results(board)[::-1], strict=True):
            if (result.key, result.measured_at) not in printed:
                echo(f"  {line}")
        names = tuple(worker.name for worker in board.workers)
        if names != sharing and names:
            echo(f"  measured by {', '.join(names)}")
            if board.start.dashboard and not sharing:
                echo(f"  Dask shows them at {board.start.dashboard}")
        sharing = names
        printed, state = {(result.key, result.measured_at) for result in board.newest}, board.state
    if board.complete:
        echo(board)
    return board


def _on_terminal(boards):
    console = PlainConsole(highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for board in boards:
            live.update(_picture(board), refresh=True)
    return board


def _picture(board):
    """The board for a terminal of any width."""
    from pairlab.batch import board as render

    heads, rows = render.parts(board)
    drivers = Table(*heads, box=None, pad_edge=False)
    for row in rows:
        drivers.add_row(*map(Text, row))
    newest = Table.grid(padding=(0, 1))
    for when, what, how, text in render.newest(board):
        newest.add_row(Text(when[11:]), Text(how, style=_COLOURS[how]), Text(f"{what}: {text}"))
    count = board.count
    lines = [render.progress(board), render.advice(board)]
    return Group(
        Text.assemble((render.title(board), "bold"), f": {render.state(board)}"),
        ProgressBar(total=count.total, completed=count.total - count.left, width=40),
        *(Text(line) for line in lines if line),
        Text(),
        drivers,
        Text(),
        *(Text(line) for line in render.sharing(board)),
        newest,
        *(Text(line, style="yellow") for line in render.troubles(board)),
    )
