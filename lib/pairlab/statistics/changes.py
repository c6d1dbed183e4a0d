"""The change from one positive quantity to another in percent, with its interval and its tests.

The change is the geometric mean of ratios, so that it is the same whichever of the two is the base. If both share
blocks (model/blocks.py) their ratio is taken within each, and slow drift cancels. It is the one definition for
notebooks, claims, comparisons and calibrations.
"""

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.intervals import ALPHA, LEAST, PERCENT, POSITIVE, Student, rounding


class Change(NamedTuple):
    """A change in percent with its interval. p: of the t test of this change; p_ranks: of Mann and Whitney's test over
    all values; repetitions: of the smaller side. Interval and p are NaN from fewer than LEAST repetitions."""

    change_percent: float
    low_percent: float
    high_percent: float
    p: float
    p_ranks: float
    repetitions: int

    def differs(self) -> bool:
        """Whether the t test reports a difference, at ALPHA."""
        return self.p <= ALPHA


def change(
    first: Sequence[float], second: Sequence[float], *, paired: bool = True, confidence: float = 1 - ALPHA
) -> Change:
    """The change from the first to the second, in percent of the first. As `ratio`."""
    return described(ratio(first, second, paired=paired), first, second, confidence)


def described(found: Student, first: Sequence[float], second: Sequence[float], confidence: float = 1 - ALPHA) -> Change:
    """An estimated change, with the test of ranks over these values of each repetition."""
    same = not np.ptp([*first, *second])
    ranks = 1.0 if same else float(stats.mannwhitneyu(first, second).pvalue)
    return Change(*found.estimate(confidence)[:3], found.p(), ranks, found.n)


def ratio(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    *,
    paired: bool = True,
    resolutions: tuple[float, float] = (0.0, 0.0),
) -> Student:
    """The second over the first, of one value per repetition, on the scale PERCENT.

    paired: values at one place are of one repetition; else each side has repetitions of its own, in any number.
    resolutions: the steps in which a tool printed the values of each side, as no interval is narrower; 0: none. Values
    that never vary, of no known step, show how fine they are and not how certain: then there is no interval. Raises
    TooFewSamples if a side is empty, AnalysisError for values that are not above zero, or not in pairs.
    Source: Student 1908 and Welch 1947, on logarithms as Fleming and Wallace 1986 advise for ratios.
    """
    logs = logarithms(first), logarithms(second)
    blur = rounded(math.exp(logs[0].mean()), math.exp(logs[1].mean()), resolutions)
    if paired and len(logs[0]) != len(logs[1]):
        raise AnalysisError(f"{len(first)} values cannot be paired with {len(second)}: give both of each repetition")
    found = Student.of(logs[1] - logs[0], PERCENT) if paired else Student.of_groups(*logs, scale=PERCENT)
    known = any(np.ptp(side) for side in logs) or any(blur)
    return found.blurred(*blur) if known else replace(found, error=math.nan)


def between(
    first: Mapping[Hashable, float], second: Mapping[Hashable, float], resolutions: tuple[float, float] = (0.0, 0.0)
) -> tuple[Student, bool]:
    """`ratio` of values by block, and whether it is paired: in_common."""
    common = in_common(first, second)
    sides = [[side[label] for label in common] if common else list(side.values()) for side in (first, second)]
    return ratio(*sides, paired=common is not None, resolutions=resolutions), common is not None


def in_common(*sides: Collection[Hashable], least: int = LEAST) -> list | None:
    """The blocks within which sides are compared: the common ones, if they are `least`, or all blocks of one side.

    None if the sides are compared as independent groups: fewer blocks have no interval, while the groups may have one.
    """
    common = [label for label in sides[0] if all(label in side for side in sides[1:])]
    return common if len(common) >= max(1, min([least, *map(len, sides)])) else None


def rounded(first: float, second: float, resolutions: tuple[float, float]) -> tuple[float, float]:
    """The distances by which rounding may move the ratio of two printed values down and up, on the scale PERCENT: for
    Student.blurred."""
    (below, above), (other_below, other_above) = map(rounding, [POSITIVE] * 2, (first, second), resolutions)
    return other_below + above, other_above + below


def logarithms(values: Sequence[float] | np.ndarray, least: int = 1) -> np.ndarray:
    """The logarithms of one value per repetition. Raises TooFewSamples below `least`, AnalysisError below zero."""
    values = np.asarray(values, dtype=float)
    if values.size < least:
        raise TooFewSamples(f"{values.size} repetitions show no noise, {least} are needed: measure more")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise AnalysisError("a repetition has no value above zero: leave it out by name")
    return np.log(values)
