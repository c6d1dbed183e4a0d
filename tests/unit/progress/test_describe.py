"""What is told of work, in words."""

import pytest

from pairlab.progress.describe import Phases, duration, extent, split, status


@pytest.mark.parametrize(
    ("phase", "done", "total", "line"),
    [
        ("bringing up", 31, 50, "bringing up 31/50"),
        ("measuring (s)", 4.2, 10, "measuring 4.2/10 s"),
        ("measuring (s)", 10.0, 10.0, "measuring 10/10 s"),
        ("taking down", 0, 0, "taking down"),
        ("waiting for process 7 of ada (python3)", 0, 0, "waiting for process 7 of ada (python3)"),
    ],
)
def test_a_phase_is_told_with_how_far_it_is_and_its_unit(phase, done, total, line):
    assert status(phase, done, total) == line


def test_a_phase_at_its_beginning_is_told_with_how_much_there_is_to_do():
    assert extent("bringing up", 50) == "bringing up (50)"
    assert extent("measuring (s)", 10) == "measuring (10 s)"
    assert extent("taking down", 0) == "taking down"


def test_what_would_do_something_to_a_terminal_is_shown_and_does_nothing():
    assert split("waiting for \x1b[2Jevil\n (s)") == ("waiting for �[2Jevil�", "s")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_have_two_units_at_most(seconds, words):
    assert duration(seconds) == words


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_in_the_end_stands_what_was_done_and_how_long_each_part_took():
    clock = Clock()
    phases = Phases(clock)
    assert not phases
    assert not phases.goes_on("bringing up")
    clock.now += 0.3
    assert phases.goes_on("bringing up")
    assert not phases.goes_on("measuring (s)")
    clock.now += 5.2
    assert not phases.goes_on("taking down")
    clock.now += 65
    assert phases.summary() == "done in 1 min 10 s: bringing up 0.3 s, measuring 5.2 s, taking down 1 min 5 s"


def test_of_work_that_was_broken_off_stands_where():
    clock = Clock()
    phases = Phases(clock)
    phases.goes_on("bringing up")
    clock.now += 1
    phases.goes_on("measuring (s)")
    clock.now += 2.14
    assert phases.summary(whole=False) == "ended after 3.1 s, while measuring"


def test_what_was_there_already_is_told_alone_and_long_names_are_cut():
    phases = Phases()
    phases.goes_on("stored already, measured 2024-05-01 12:00 UTC")
    assert phases.summary() == "stored already, measured 2024-05-01 12:…"
