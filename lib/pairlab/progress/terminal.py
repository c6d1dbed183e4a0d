"""Progress on a terminal: bars with what is at work, how far it has come, and the time left."""

import contextlib
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from pairlab.progress.words import duration, status

#: How often a second bars are redrawn: often enough for seconds, at almost no cost to the machine that measures.
_REFRESHED = 2


def bars(console: Console | None = None) -> Progress:
    """rich's bars with pairlab's columns, on a terminal only; lines that are printed meanwhile appear above them.

    console: by default stderr's. `expect` sets the time left of a task; otherwise it follows from its pace.
    """
    console = console or Console(stderr=True, highlight=False)
    return Progress(
        BarColumn(bar_width=20),
        TimeLeft(),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),  # cut, not the rest
        expand=True,
        console=console,
        disable=not console.is_terminal,
        transient=True,
        refresh_per_second=_REFRESHED,
        redirect_stdout=sys.stdout.isatty(),  # else what goes into a file would come out on the terminal
        redirect_stderr=sys.stderr.isatty(),
    )


@contextlib.contextmanager
def bar() -> Iterator["Bar"]:
    """The phases of one task, one after another, in one line that is removed afterwards."""
    with bars() as shown:
        yield Bar(shown)


class Bar:
    """A Progress in a line of its own among `shown`. A new phase is drawn at once, however short it is."""

    def __init__(self, shown: Progress):
        self._shown = shown
        self._task: TaskID | None = None
        self._phase = ""

    def __call__(self, phase: str, done: float, total: float) -> None:
        words = status(phase, done, total)
        if self._task is None:
            self._task = self._shown.add_task(words, total=None)
        if phase != self._phase:
            self._phase = phase
            self._shown.reset(self._task, total=total or None, completed=done, description=words)
        self._shown.update(self._task, completed=done, total=total or None, description=words)

    def clear(self) -> None:
        """Nothing is at work; the line is removed."""
        if self._task is not None:
            self._shown.remove_task(self._task)
        self._task, self._phase = None, ""


def expect(shown: Progress, task: TaskID, left_s: float | None) -> None:
    """The task has so many seconds left from now on, whatever its pace so far; None: unknown."""
    shown.update(task, left_s=left_s, set_at=time.monotonic())


class TimeLeft(ProgressColumn):
    """The time left of a task."""

    def render(self, task: Task) -> Text:
        seconds = left_s(task, time.monotonic())
        return Text("" if seconds is None else f"{duration(seconds)} left", style="progress.remaining")


def left_s(task: Task, now: float) -> float | None:
    """Seconds left: as set by `expect`, less what has passed since, otherwise at the pace so far.

    None where neither is known, or nothing is left.
    """
    if task.finished or ("left_s" in task.fields and task.fields["left_s"] is None):
        return None
    if "left_s" in task.fields:
        return max(0.0, task.fields["left_s"] - (now - task.fields["set_at"]))
    if not task.total or not task.completed or not task.elapsed:
        return None
    return task.elapsed / task.completed * (task.total - task.completed)
