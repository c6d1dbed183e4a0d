"""What commands print with, and how they show on a terminal what is at work."""

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
    """A word beside the results, such as whom a measurement waits for."""
    beside(f"pairlab: {text}")


def beside(line: str) -> None:
    """A line on stderr, above the bars where there are any: click.echo would write past them, into their place."""
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def event(kind: str, **told: Any) -> None:
    """One line for programs: a JSON object, whose "event" says what the others are."""
    click.echo(json.dumps({"event": kind, **told}))


@contextlib.contextmanager
def phases() -> Iterator[Progress]:
    """A Progress that shows what is at work on a terminal, and nothing elsewhere."""
    if not out.is_terminal:
        yield silent
        return
    with terminal.bars(out) as shown:
        yield terminal.Bar(shown)


class Steps:
    """Work of many steps, on a terminal: a bar for all of it, and one for what is at work; nothing elsewhere."""

    def __init__(self, shown: Bars, total: int, noun: str, left_s: float | None):
        self._shown, self._noun = shown, noun
        self._task = shown.add_task("", total=total)
        self._part = terminal.Bar(shown)
        self.reached(0, total, left_s)

    def reached(self, done: int, total: int, left_s: float | None = None) -> None:
        """So many steps are done. left_s: seconds still to go; None: by the pace so far."""
        self._part.clear()
        self._shown.update(self._task, completed=done, total=total, description=f"{done} of {total} {self._noun}")
        if left_s is not None:
            terminal.expect(self._shown, self._task, left_s)

    @property
    def phase(self) -> Progress:
        """Hears of the phases inside a step."""
        return self._part if out.is_terminal else silent


@contextlib.contextmanager
def steps(total: int, noun: str, left_s: float | None = None) -> Iterator[Steps]:
    """Shows `total` steps on a terminal. noun: what they are, in the plural; left_s: how long they take, if known."""
    with terminal.bars(out) as shown:
        yield Steps(shown, total, noun, left_s)
