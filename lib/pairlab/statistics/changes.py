"""By how much one positive quantity exceeds another: the change in percent, with its interval and its tests.

The change is the geometric mean of ratios, so that it is the same whichever of the two is the base. A sweep visits
every cell once per repetition: where both were measured in the same repetitions their ratio is taken within each, and
what drifts slowly cancels. It is the one definition for notebooks, claims, comparisons and calibrations.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.intervals import ALPHA, LEAST, PERCENT, POSITIVE, Student, by_unit, rounding


class Change(NamedTuple):
    """A change in percent with its interval. p: of the t test that goes with it; p_ranks: of Mann and Whitney's over
    all values; repetitions: of each side, at least. What LEAST repetitions are needed for is NaN from fewer."""

    change_percent: float
    low_percent: float
    high_percent: float
    p: float
    p_ranks: float
    repetitions: int

    def differs(self, alpha: float = ALPHA) -> bool:
        """Whether the t test reports a difference."""
        return self.p <= alpha


def change(
    first: Sequence[float], second: Sequence[float], *, paired: bool = True, confidence: float = 1 - ALPHA
) -> Change:
    """By how much the second exceeds the first, in percent of it. As `ratio`."""
    return described(ratio(first, second, paired=paired), first, second, confidence)


def described(found: Student, first: Sequence[float], second: Sequence[float], confidence: float = 1 - ALPHA) -> Change:
    """A change that was found, with the test of ranks over these values of each repetition."""
    same = not np.ptp([*first, *second])
    ranks = 1.0 if same else float(stats.mannwhitneyu(first, second).pvalue)
    return Change(*found.estimate(confidence)[:3], found.p(), ranks, found.n)


def ratio(
    first: Sequence[float] | np.ndarray,
    second: Sequence[float] | np.ndarray,
    *,
    paired: bool = True,
    units: Sequence[Hashable] | np.ndarray | None = None,
    resolutions: tuple[float, float] = (0.0, 0.0),
) -> Student:
    """The second over the first, of one value per repetition, on the scale PERCENT.

    paired: values at one place are of one repetition; else the two were measured in repetitions of their own, of which
    one may have more. units: of each pair its host, where hosts are the independent samples and repetitions are not.
    resolutions: the steps in which a tool printed the values of each, than which no interval is narrower; 0: none.
    Raises TooFewSamples where a side is empty, AnalysisError for values that are not above zero, or not in pairs.
    Source: Student 1908 and Welch 1947, on logarithms as Fleming and Wallace 1986 advise for ratios.
    """
    logs = logarithms(first), logarithms(second)
    blur = rounded(math.exp(logs[0].mean()), math.exp(logs[1].mean()), resolutions)
    if not paired:
        return Student.of_groups(*logs, scale=PERCENT).blurred(*blur)
    if len(logs[0]) != len(logs[1]):
        raise AnalysisError(f"{len(first)} values cannot be paired with {len(second)}: give both of each repetition")
    ratios = logs[1] - logs[0]
    return Student.of(ratios if units is None else by_unit(ratios, units), PERCENT).blurred(*blur)


def rounded(first: float, second: float, resolutions: tuple[float, float]) -> tuple[float, float]:
    """How far the ratio of two printed values may lie below and above, on the scale PERCENT: as Student.blurred."""
    (below, above), (other_below, other_above) = map(rounding, [POSITIVE] * 2, (first, second), resolutions)
    return other_below + above, other_above + below


def together(first: Mapping[Hashable, object], second: Mapping[Hashable, object], least: int = LEAST) -> list | None:
    """The repetitions within which two sides are compared; None where they are compared as independent groups.

    first, second: what was measured, by repetition. Within repetitions where `least` are common to both, or all that
    one side has (two, if so many are asked for): fewer have no interval, where the groups may have one.
    """
    common = [label for label in first if label in second]
    return common if len(common) >= max(min(2, least), min(least, len(first), len(second))) else None


def logarithms(values: Sequence[float] | np.ndarray, least: int = 1) -> np.ndarray:
    """The logarithms of one value per repetition. Raises TooFewSamples below `least`, AnalysisError below zero."""
    values = np.asarray(values, dtype=float)
    if values.size < least:
        raise TooFewSamples(f"{values.size} repetitions show no noise, {least} are needed: measure more")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise AnalysisError("a repetition has no value above zero: leave it out by name")
    return np.log(values)
