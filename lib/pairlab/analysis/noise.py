"""How much measurements of the same thing differ, and which differences can therefore be found: pure functions.

Values are one per repetition, all above zero. Noise is taken as a factor, so spreads are standard deviations of
logarithms, and effects are told in percent.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats
from statsmodels.stats.power import TTestIndPower, TTestPower

from pairlab.errors import AnalysisError, TooFewSamples

#: The level of the tests, and how often they are to find an effect that is there.
ALPHA, POWER = 0.05, 0.8


class Comparison(NamedTuple):
    """What two measurements tell of a difference.

    change_percent with its interval low_percent to high_percent: of the second over the first, from their ratios
    within repetitions, or of their geometric means. p: of the t test that goes with it; p_ranks: of Mann and Whitney's
    over all values. repetitions: of each side, at least.
    """

    change_percent: float
    low_percent: float
    high_percent: float
    p: float
    p_ranks: float
    repetitions: int

    def differs(self, alpha: float = ALPHA) -> bool:
        """Whether the test within repetitions, which the ledger uses too, reports a difference."""
        return self.p <= alpha


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation between repetitions: standard deviation over mean. Raises TooFewSamples below 2."""
    values = _logs(values, 2)
    factors = np.exp(values - values.mean())  # the mean goes out first, so that no unit is too large or small
    return float(factors.std(ddof=1) / factors.mean()) if np.ptp(values) else 0.0


def spread(values: Sequence[float]) -> float:
    """The standard deviation of the values' logarithms, drift of the host included."""
    logs = _logs(values, 2)
    return float(logs.std(ddof=1)) if np.ptp(logs) else 0.0


def spread_within(first: Sequence[float], second: Sequence[float]) -> float:
    """The standard deviation of one value's logarithm within a repetition, where what drifts slowly cancels.

    first, second: what was measured twice in each repetition.
    """
    return spread(np.exp(_ratios(first, second))) / np.sqrt(2)


def compare(first: Sequence[float], second: Sequence[float], *, confidence: float = 1 - ALPHA) -> Comparison:
    """Whether two measurements in the same repetitions differ, and by how much.

    Raises TooFewSamples below 2 repetitions, AnalysisError for values that are not above zero or not in pairs.
    Source: Student 1908 on logarithms, as contrasts.ratio_by_repetition; Mann and Whitney 1947.
    """
    ratios = _ratios(first, second)
    n, mean = ratios.size, float(ratios.mean())
    if np.ptp(ratios):
        half = float(stats.t.ppf((1 + confidence) / 2, n - 1) * stats.sem(ratios))
        p = float(stats.ttest_1samp(ratios, 0.0).pvalue)
    else:
        half, p = 0.0, 0.0 if mean else 1.0
    return Comparison(*(percent(bound) for bound in (mean, mean - half, mean + half)), p, _ranks(first, second), n)


def compare_groups(first: Sequence[float], second: Sequence[float], *, confidence: float = 1 - ALPHA) -> Comparison:
    """As `compare`, where the two were measured in repetitions of their own, of which one may have more.

    Raises TooFewSamples below 2 repetitions of one, AnalysisError for values that are not above zero.
    Source: Welch 1947 on logarithms; Mann and Whitney 1947.
    """
    sides = _logs(first, 2), _logs(second, 2)
    n, distance = min(map(len, sides)), float(sides[1].mean() - sides[0].mean())
    if any(map(np.ptp, sides)):
        found = stats.ttest_ind(sides[1], sides[0], equal_var=False)
        low, high = map(float, found.confidence_interval(confidence))
        p = float(found.pvalue)
    else:
        low, high, p = distance, distance, 0.0 if distance else 1.0
    return Comparison(*(percent(bound) for bound in (distance, low, high)), p, _ranks(first, second), n)


def smallest_detectable(spread: float, repetitions: int, *, paired: bool = False) -> float:
    """The logarithm of the smallest effect that a two-sided t test at ALPHA finds with POWER.

    spread: of one repetition's logarithm. repetitions: of each of two independent groups; paired: of differences,
    whose spread is then the one to give. Infinite below 2 repetitions. Source: Cohen 1988.
    """
    return spread * _standardised(repetitions, paired) if repetitions > 1 else float("inf")


def simulated_power(
    values: Sequence[float], effect: float, repetitions: int, *, draws: int = 4000, seed: int = 0
) -> float:
    """How often the two-sample t test finds an effect (its logarithm) planted in what was measured, from 0 to 1.

    values: those that were measured. Each draw takes two groups of so many of them with replacement, their spread
    made up for what a sample lacks of it, and the effect is added to the second: whatever the values' distribution,
    this is how the formula fares with it.
    """
    logs = _logs(values, 3)
    errors = (logs - logs.mean()) * np.sqrt(logs.size / (logs.size - 1))
    if repetitions < 2:
        return 0.0
    first, second = np.random.default_rng(seed).choice(errors, size=(2, draws, repetitions))
    distance = effect + second.mean(axis=1) - first.mean(axis=1)
    error = np.sqrt((first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / repetitions)
    # Of draws without any spread, t is infinite, or there is no difference either.
    beyond = np.abs(distance) >= stats.t.ppf(1 - ALPHA / 2, 2 * repetitions - 2) * error
    return float(np.mean(beyond & (distance != 0)))


def most_rejections(comparisons: int, *, confidence: float = 0.999) -> int:
    """The most differences that so many tests at ALPHA report where there are none, but for chance 1 - confidence.

    comparisons: of samples that are independent of each other, as those of one set of runs are not.
    """
    return int(stats.binom.ppf(confidence, comparisons, ALPHA))


def percent(log: float) -> float:
    """A logarithm of a ratio as a change in percent."""
    return float(100 * np.expm1(log))


@cache
def _standardised(repetitions: int, paired: bool) -> float:
    """The smallest detectable effect in standard deviations."""
    test = TTestPower() if paired else TTestIndPower()

    def lacks(effect: float) -> float:
        # To find the opposite sign would be no finding, so one tail at half the level.
        # Far out, where the power is one, the noncentral t distribution is at times NaN.
        return np.nan_to_num(test.power(effect, repetitions, ALPHA / 2, alternative="larger"), nan=1.0) - POWER

    return float(optimize.brentq(lacks, 1e-6, 200.0))  # at 2 repetitions it is some 16


def _ranks(first: Sequence[float], second: Sequence[float]) -> float:
    same = not np.ptp([*first, *second])
    return 1.0 if same else float(stats.mannwhitneyu(first, second).pvalue)


def _ratios(first: Sequence[float], second: Sequence[float]) -> np.ndarray:
    """The logarithms of second over first."""
    if len(first) != len(second):
        raise AnalysisError(f"{len(first)} values cannot be paired with {len(second)}: give both of each repetition")
    return _logs(second, 2) - _logs(first, 2)


def _logs(values: Sequence[float], least: int) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if values.size < least:
        raise TooFewSamples(f"{values.size} repetitions tell no noise, {least} are needed: measure more")
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise AnalysisError("a repetition has no value above zero: leave it out by name")
    return np.log(values)
