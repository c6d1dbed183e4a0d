"""Output of commands, progress on a terminal, and the exit: errors as one line and an exit status."""

import contextlib
import errno
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
from rich.markup import escape
from rich.progress import Progress as Bars
from rich.table import Table

from pairlab.base.printing import PlainConsole, echo
from pairlab.errors import BadInput, PairlabError
from pairlab.progress import terminal
from pairlab.testbed.contracts import Progress, no_progress

out = PlainConsole(highlight=False, soft_wrap=not sys.stdout.isatty())

#: Exit statuses other than 0: failed or incomplete; wrong input; not possible on this host (a sweep: no cell of it).
NOT_DONE, WRONG_INPUT, UNAVAILABLE = 1, 2, 3


def write(text: object = "") -> None:
    out.print(str(text), markup=False)


def table(titles: Iterable[object], rows: Iterable[Sequence[str]], styles: Iterable[str] = (), title: str = "") -> None:
    """Prints a table with untruncated cells, also on a narrow terminal and in a pipe. styles: of the rows."""
    content = Table(*map(str, titles), title=title or None, title_justify="left", box=None)
    for row, style in itertools.zip_longest(rows, styles, fillvalue=""):
        content.add_row(*map(escape, row), style=style)
    PlainConsole(highlight=False, width=220).print(content)
    out.print()


def say(text: str) -> None:
    """Prints a message that is not a result, such as the cause of a wait."""
    echo(f"pairlab: {text}", err=True)


def event(kind: str, **values: Any) -> None:
    """Prints a JSON object on a line; "event" is its kind."""
    echo(json.dumps({"event": kind, **values}))


@contextlib.contextmanager
def phases() -> Iterator[Progress]:
    """A Progress with the current phase on a terminal, and no output elsewhere."""
    if not out.is_terminal:
        yield no_progress
        return
    with terminal.bars(out) as bars:
        yield terminal.Bar(bars)


class Steps:
    """Progress of many steps on a terminal: a bar for all steps and one for the current step; no output elsewhere."""

    def __init__(self, bars: Bars, total: int, noun: str, left_s: float | None):
        self._bars, self._noun = bars, noun
        self._task = bars.add_task("", total=total)
        self._part = terminal.Bar(bars)
        self.reached(0, total, left_s)

    def reached(self, done: int, total: int, left_s: float | None = None) -> None:
        """Updates the number of finished steps. left_s: seconds left; None: by the pace so far."""
        self._part.clear()
        self._bars.update(self._task, completed=done, total=total, description=f"{done} of {total} {self._noun}")
        if left_s is not None:
            terminal.expect(self._bars, self._task, left_s)

    @property
    def phase(self) -> Progress:
        return self._part if out.is_terminal else no_progress


@contextlib.contextmanager
def steps(total: int, noun: str, left_s: float | None = None) -> Iterator[Steps]:
    """Shows `total` steps on a terminal. noun: for the steps, in the plural; left_s: their estimated time, if known."""
    with terminal.bars(out) as bars:
        yield Steps(bars, total, noun, left_s)


class Group(click.Group):
    """Turns pairlab's errors into one line and an exit status."""

    def main(self, *arguments, **named):
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
                stream.reconfigure(errors="replace")  # a terminal may have no blocks, arrows or µ
        return super().main(*arguments, **named)

    def invoke(self, context):
        try:
            return super().invoke(context)
        except BadInput as error:
            fail(error, WRONG_INPUT)
        except PairlabError as error:
            fail(error, UNAVAILABLE if type(error).__name__ == "Unavailable" else NOT_DONE)
        except OSError as error:
            if error.errno == errno.EPIPE:  # `pairlab ls | head`: click handles it
                raise
            where = f"{error.filename}: " if error.filename else ""
            advice = "check the disk's free space, permissions and limits, then run the command again"
            fail(f"{where}{error.strerror or error}: {advice}", NOT_DONE)
        except KeyboardInterrupt:
            fail("interrupted: the host is clean, and finished runs are kept", 130)


def fail(why, status):
    echo(f"pairlab: {why}", err=True)
    sys.exit(status)
