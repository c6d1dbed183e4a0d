"""Progress on a terminal: bars with the current phase, its progress, and the time left."""

import sys
import time
from typing import Any

from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from pairlab.base.printing import PlainConsole
from pairlab.progress.describe import duration, status

#: Redraws of the bars per second: enough for seconds, at almost no CPU time while measuring.
_REFRESHED = 2


def bars(console: PlainConsole | None = None) -> Progress:
    """rich's bars with pairlab's columns, on a terminal only; lines printed meanwhile appear above the bars.

    console: by default stderr's. The time left of a task is as set by `expect`, or follows from the pace.
    """
    console = console or PlainConsole(stderr=True, highlight=False)
    return Progress(
        BarColumn(bar_width=20),
        TimeLeft(),
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),  # cut, not the rest
        expand=True,
        console=console,
        disable=not console.is_terminal,
        transient=True,
        refresh_per_second=_REFRESHED,
        redirect_stdout=sys.stdout.isatty(),  # else output to a file would appear on the terminal
        redirect_stderr=sys.stderr.isatty(),
    )


class Bar:
    """A Progress in a separate line of `shown`. A new phase is drawn at once, even a short one."""

    def __init__(self, shown: Progress):
        self._shown = shown
        self._task: TaskID | None = None
        self._phase = ""

    def __call__(self, phase: str, done: float, total: float) -> None:
        fields: dict[str, Any] = {"total": total or None, "description": status(phase, done, total)}
        if self._task is None:
            self._task = self._shown.add_task(**fields)
        if phase != self._phase:
            self._phase = phase
            self._shown.reset(self._task, **fields)
        self._shown.update(self._task, completed=done, **fields)

    def clear(self) -> None:
        """Removes the line, as there is no current phase."""
        if self._task is not None:
            self._shown.remove_task(self._task)
        self._task, self._phase = None, ""


def expect(shown: Progress, task: TaskID, left_s: float | None) -> None:
    """Sets the task's time left from now on, regardless of the pace so far; None: unknown."""
    shown.update(task, left_s=left_s, set_at=time.monotonic())


class TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        seconds = left_s(task, time.monotonic())
        return Text("" if seconds is None else f"{duration(seconds)} left", style="progress.remaining")


def left_s(task: Task, now: float) -> float | None:
    """Seconds left: as set by `expect` minus the time since then, otherwise by the pace so far.

    None if unknown, or if the task is finished.
    """
    if task.finished or ("left_s" in task.fields and task.fields["left_s"] is None):
        return None
    if "left_s" in task.fields:
        return max(0.0, task.fields["left_s"] - (now - task.fields["set_at"]))
    if not task.total or not task.completed or not task.elapsed:
        return None
    return task.elapsed / task.completed * (task.total - task.completed)
