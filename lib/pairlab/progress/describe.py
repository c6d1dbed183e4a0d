"""Progress in words: a line for the current phase, and a short summary of all phases."""

import re
import time
from collections.abc import Callable, Sequence

#: Seconds are the only unit of phases; other brackets are part of a name, such as a program's.
_WITH_UNIT = re.compile(r"(.*) \((s)\)")

#: The longest name of a phase in a summary: a waiting phase names the other measurement's command.
_NAME_CHARACTERS = 40


def status(phase: str, done: float, total: float) -> str:
    """A phase's progress: "bringing up 31/50"; "measuring 4.2/10 s" of "measuring (s)"; its name if not counted."""
    name, unit = split(phase)
    return f"{name} {done:g}/{total:g} {unit}".rstrip() if total else name


def extent(phase: str, total: float) -> str:
    """A phase at its beginning: "bringing up (50)", "measuring (10 s)"."""
    name, unit = split(phase)
    return f"{name} ({f'{total:g} {unit}'.rstrip()})" if total else name


def split(phase: str) -> tuple[str, str]:
    """A phase's name, and the unit of its counts or "": ("measuring", "s") of "measuring (s)".

    Control characters are replaced: a phase may name another user's process.
    """
    phase = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in phase)
    match = _WITH_UNIT.fullmatch(phase)
    return (match[1], match[2]) if match else (phase, "")


def duration(seconds: float) -> str:
    """Seconds in at most two units, as integers: "42 s", "3 min 20 s", "2 h 5 min"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """A line for each row, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


class Phases:
    """The phases so far, with their begin."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._begun: list[tuple[str, float]] = []

    def __bool__(self) -> bool:
        return bool(self._begun)

    def goes_on(self, phase: str) -> bool:
        """Records the current phase; returns whether it is the same as before."""
        if self._begun and self._begun[-1][0] == phase:
            return True
        self._begun.append((phase, self._clock()))
        return False

    def summary(self, *, whole: bool = True) -> str:
        """The phases and their durations; if not whole, the phase at the end."""
        now = self._clock()
        names = [_short(split(phase)[0]) for phase, _ in self._begun]
        moments = [begun for _, begun in self._begun]
        took_s = now - moments[0]
        if not whole:
            return f"ended after {seconds_or_more(took_s)}, while {names[-1]}"
        if len(names) == 1:
            return names[0]
        each = zip(names, moments, [*moments[1:], now], strict=True)
        parts = ", ".join(f"{name} {seconds_or_more(end - begun)}" for name, begun, end in each)
        return f"done in {seconds_or_more(took_s)}: {parts}"


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[: _NAME_CHARACTERS - 1]}…"


def seconds_or_more(seconds: float) -> str:
    """As duration, with tenths below a minute: "4.2 s"."""
    return f"{seconds:.1f} s" if seconds < 60 else duration(seconds)
