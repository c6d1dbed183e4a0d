"""Progress on a terminal: a real one, made with pty(7)."""

import io
import re
import sys

import pytest
from rich.console import Console

from pairlab.progress import terminal
from pairlab.progress.describe import status
from tests.support.screen import on_a_terminal

BAR = """
import time
from pairlab.progress import automatic
with automatic() as progress:
    progress("bringing up", 1, 2)
    print("a result")
    progress("measuring (s)", 1, 4)
    time.sleep(0.6)
    progress("[red]taking down[/] \\x1b[2J", 0, 0)
    time.sleep(0.6)
print("done")
"""


def test_a_bar_shows_the_phase_and_goes_and_what_is_printed_stays_above_it():
    shown = on_a_terminal([sys.executable, "-c", BAR])
    assert shown.status == 0
    assert any("measuring 1/4 s" in line for line in shown.drawn)
    assert any("[red]taking down[/] �[2J" in line for line in shown.drawn)
    assert shown.left == ["a result", "done"]


@pytest.mark.whole
def test_a_bar_whose_output_goes_into_a_file_leaves_it_alone(tmp_path):
    shown = on_a_terminal(["sh", "-c", 'exec "$0" -c "$1" > "$2"', sys.executable, BAR, str(tmp_path / "out")])
    assert shown.status == 0
    assert any("measuring 1/4 s" in line for line in shown.drawn)
    assert shown.left == []
    assert (tmp_path / "out").read_text() == "a result\ndone\n"


def test_a_new_phase_is_drawn_at_once_however_soon_it_is_over(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    drawn = io.StringIO()
    with terminal.bars(Console(file=drawn, force_terminal=True, width=80)) as shown:
        bar = terminal.Bar(shown)
        for phase in ("bringing up", "measuring (s)", "taking down"):
            bar(phase, 1, 4)
            assert status(phase, 1, 4) in drawn.getvalue()


LONG = """
import time
from pairlab.progress import automatic
with automatic() as progress:
    progress("waiting for " + 30 * "long", 1, 2)
    time.sleep(1.2)
"""


@pytest.mark.whole
def test_on_a_narrow_terminal_the_words_are_cut_and_the_time_left_is_not():
    shown = on_a_terminal([sys.executable, "-c", LONG], columns=50)
    bars = [line for line in shown.drawn if "long" in line]
    assert all(re.search(r"━ \d s left +waiting for long(long)*l?o?n?…$", line.rstrip()) for line in bars[-1:]), bars
    assert max(len(line.removeprefix("\x1b[2K").rstrip()) for line in bars) <= 50


class Shown:
    """rich's bars with a clock of ours."""

    def __init__(self):
        self.now = 0.0
        self.bars = terminal.bars()
        self.bars.get_time = lambda: self.now
        for task in self.bars.tasks:
            task.get_time = self.bars.get_time

    def task(self, **known):
        number = self.bars.add_task("", **known)
        (task,) = (task for task in self.bars.tasks if task.id == number)
        task._get_time = lambda: self.now
        task.start_time = self.now
        return task


def test_time_left_is_by_the_pace_so_far():
    shown = Shown()
    task = shown.task(total=50)
    assert terminal.left_s(task, shown.now) is None
    shown.now = 3.0
    shown.bars.update(task.id, completed=30)
    assert terminal.left_s(task, shown.now) == pytest.approx(2.0)
    shown.now = 6.0  # it hangs
    assert terminal.left_s(task, shown.now) == pytest.approx(4.0)


def test_time_left_that_was_told_counts_down_and_is_never_negative(monkeypatch):
    shown = Shown()
    task = shown.task(total=10)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: 1000.0)
    terminal.expect(shown.bars, task.id, 42.0)
    assert terminal.left_s(task, 1000.0) == 42
    assert terminal.left_s(task, 1030.0) == 12
    assert terminal.left_s(task, 1100.0) == 0
    assert terminal.TimeLeft().render(task).plain == "42 s left"


def test_of_what_is_finished_or_has_no_count_no_time_is_told():
    shown = Shown()
    task = shown.task(total=None)
    assert terminal.TimeLeft().render(task).plain == ""
    shown.bars.update(task.id, total=2, completed=2)
    assert terminal.left_s(task, 5.0) is None
