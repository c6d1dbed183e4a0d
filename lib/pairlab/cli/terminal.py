"""How commands print, and show progress on a terminal."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress as Bars

from pairlab.progress import terminal
from pairlab.testbed.contracts import Progress, silent

out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())


def say(text: str) -> None:
    """Prints a message that is no result, such as what a measurement waits for."""
    beside(f"pairlab: {text}")


def beside(line: str) -> None:
    """Prints a line on stderr, above progress bars, which click.echo would overwrite."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def event(kind: str, **values: Any) -> None:
    """Prints a JSON object on a line; its "event" says what the other keys are."""
    click.echo(json.dumps({"event": kind, **values}))


@contextlib.contextmanager
def phases() -> Iterator[Progress]:
    """A Progress that shows the current phase on a terminal, and nothing elsewhere."""
    if not out.is_terminal:
        yield silent
        return
    with terminal.bars(out) as shown:
        yield terminal.Bar(shown)


class Steps:
    """Work of many steps, on a terminal: a bar for all steps and one for the current step; nothing elsewhere."""

    def __init__(self, shown: Bars, total: int, noun: str, left_s: float | None):
        self._shown, self._noun = shown, noun
        self._task = shown.add_task("", total=total)
        self._part = terminal.Bar(shown)
        self.reached(0, total, left_s)

    def reached(self, done: int, total: int, left_s: float | None = None) -> None:
        """Updates the number of finished steps. left_s: seconds left; None: estimated from the pace so far."""
        self._part.clear()
        self._shown.update(self._task, completed=done, total=total, description=f"{done} of {total} {self._noun}")
        if left_s is not None:
            terminal.expect(self._shown, self._task, left_s)

    @property
    def phase(self) -> Progress:
        """The Progress for the phases inside a step."""
        return self._part if out.is_terminal else silent


@contextlib.contextmanager
def steps(total: int, noun: str, left_s: float | None = None) -> Iterator[Steps]:
    """Shows `total` steps on a terminal. noun: what they are, in the plural; left_s: how long they take, if known."""
    with terminal.bars(out) as shown:
        yield Steps(shown, total, noun, left_s)
