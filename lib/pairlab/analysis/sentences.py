"""Sentences on estimates: the drivers with the most and the least, and the changes."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from pairlab.analysis import cell_estimates
from pairlab.analysis.output.formatting import systems
from pairlab.analysis.selection import SYSTEM

if TYPE_CHECKING:
    from pairlab.analysis.question import Answer

Sentence = Callable[["Answer"], str]


def extremes(of: str, what: str, by: Sequence[str] = ()) -> Sentence:
    """The drivers with the most and the least of some estimates, at the most pairs, over all systems.

    what: the name of the quantity; by: further columns that separate groups of drivers, beside systems.
    """

    def sentence(answer: "Answer") -> str:
        estimates = cell_estimates.at_pairs(answer[of].dropna(subset=["value"]))
        groups = [
            (names, part)
            for names, part in estimates.groupby([*SYSTEM, *by])
            if part["value"].nunique() > 1  # of equal drivers none is the highest
        ]
        if not groups:
            return ""
        sides = [
            _drivers([(names, str(part.loc[pick(part["value"]), "driver"])) for names, part in groups])
            for pick in (pd.Series.idxmax, pd.Series.idxmin)
        ]
        times = sorted(part["value"].max() / part["value"].min() for _, part in groups if part["value"].min() > 0)
        spread = f"{_range(times, '{:.3g}')} times " if times else "above "
        return f"The highest {what} is that of {sides[0]}, {spread}the lowest, of {sides[1]}."

    return sentence


def changes(of: str, what: str, factor: str = "driver", word: Callable[[Any], str] = str) -> Sentence:
    """The change of an estimate with each value of a factor: the number of cells that rise, fall, or are undecided."""

    def sentence(answer: "Answer") -> str:
        estimates = answer[of].dropna(subset=["value"])
        if estimates.empty:
            return ""
        parts = [f"{word(value)} {_moved(part)}" for value, part in estimates.groupby(factor, sort=True)]
        return f"{what}: {'; '.join(parts)}."

    return sentence


def per_system(of: str, text: Callable[[pd.DataFrame], str]) -> Sentence:
    """A clause for each system from its rows of the estimates; empty clauses are left out."""

    def sentence(answer: "Answer") -> str:
        parts = {name: text(part) for name, part in systems(answer[of]).items()}
        clauses = "; ".join(f"{name}: {part}" for name, part in parts.items() if part)
        return f"{clauses[0].upper()}{clauses[1:]}." if clauses else ""

    return sentence


def _moved(part: pd.DataFrame) -> str:
    values = sorted(part["value"])
    up, down = int((part["low"] > 0).sum()), int((part["high"] < 0).sum())
    counts = {"higher": up, "lower": down, "undecided": len(part) - up - down}
    sides = [f"{count} {word}" for word, count in counts.items() if count]
    if len(part) == 1:
        return f"{_percent(values[0])} ({sides[0].partition(' ')[2]})"
    ends = list(dict.fromkeys(_percent(each) for each in (values[0], values[-1])))
    return f"{' to '.join(ends)} ({', '.join(sides)}, of {len(part)})"


def _percent(value: float) -> str:
    return f"{value:+z.0f} %".replace("-", "−")


def _drivers(picks: Sequence[tuple[tuple, str]]) -> str:
    """The driver of each group: one name if all are the same, else each of few groups, or the counts of many."""
    counts = Counter(driver for _, driver in picks)
    if len(counts) == 1:
        return picks[0][1]
    if len(picks) <= 3:
        return ", ".join(f"{driver} in {'-'.join(map(str, names[:2]))}" for names, driver in picks)
    return ", ".join(f"{driver} ({count} of {len(picks)})" for driver, count in counts.most_common(3))


def _range(values: Sequence[float], form: str) -> str:
    low, high = form.format(values[0]), form.format(values[-1])
    return low if low == high else f"{low} to {high}"
