"""Results and their differences in words."""

from collections.abc import Sequence
from statistics import median


def beside(mine: float, others: Sequence[float]) -> str:
    centre = "its other repetition" if len(others) == 1 else f"the median of its {len(others)} other repetitions"
    return f"{apart(mine, median(others))} {centre}"


def apart(mine: float, other: float) -> str:
    """How far a value lies from another: "3.2 % below"."""
    if not other:
        return "equal to" if mine == other else "above"
    percent = 100 * (mine / other - 1)
    text = f"{abs(percent):.1f}" if abs(percent) < 9.95 else f"{abs(percent):,.0f}"
    return "equal to" if text == "0.0" else f"{text} % {'below' if percent < 0 else 'above'}"
