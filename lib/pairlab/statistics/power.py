"""The noise between repetitions, and the differences that a test can detect in it: pure functions.

Values are one per repetition, all above zero. Noise is a factor, so spreads are standard deviations of logarithms, and
effects are in percent.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import optimize, special, stats

from pairlab.statistics.changes import logarithms
from pairlab.statistics.intervals import ALPHA, LEAST, Student, check_share, t_quantile

#: The share of tests that are to find a true effect.
POWER = 0.8
#: No number of repetitions above this is reported: nobody would measure them.
MOST_REPETITIONS = 10_000
#: Of `simulated_power`.
_DRAWS = 4000


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation between repetitions: standard deviation over mean. Raises TooFewSamples below 2."""
    values = logarithms(values, 2)
    factors = np.exp(values - values.mean())  # without the mean, so that no unit is too large or small
    return float(factors.std(ddof=1) / factors.mean()) if np.ptp(values) else 0.0


def spread(values: Sequence[float]) -> float:
    """The standard deviation of the values' logarithms, drift of the host included."""
    logs = logarithms(values, 2)
    return float(logs.std(ddof=1)) if np.ptp(logs) else 0.0


def spread_within(found: Student) -> float:
    """The standard deviation of one value's logarithm within a repetition, where slow drift cancels.

    found: the change between two measurements in each repetition (changes.ratio, quantiles.percent_change).
    """
    return found.spread / np.sqrt(2)


def smallest_detectable(spread: float, repetitions: int, *, paired: bool = False) -> float:
    """The logarithm of the smallest effect that a two-sided t test at ALPHA finds with POWER.

    spread: of one repetition's logarithm. repetitions: of each of two independent groups; paired: of differences,
    whose spread is then the one to give. Infinite below 2 repetitions. Source: Cohen 1988.
    """
    return spread * _standardised(repetitions, paired) if repetitions > 1 else float("inf")


def simulated_power(values: Sequence[float], effect: float, repetitions: int) -> float:
    """The share of draws in which the two-sample t test finds an effect (a logarithm) planted in measured values.

    Each draw takes two groups of that many `values` with replacement, with the spread corrected for the sample's lack
    of it, and adds the effect to the second: a check of the formula for whatever distribution the values have.
    """
    logs = logarithms(values, 3)
    errors = (logs - logs.mean()) * np.sqrt(logs.size / (logs.size - 1))
    if repetitions < 2:
        return 0.0
    first, second = np.random.default_rng(0).choice(errors, size=(2, _DRAWS, repetitions))
    distance = effect + second.mean(axis=1) - first.mean(axis=1)
    error = np.sqrt((first.var(axis=1, ddof=1) + second.var(axis=1, ddof=1)) / repetitions)
    # Of draws without any spread, t is infinite, or there is no difference either.
    beyond = np.abs(distance) >= stats.t.ppf(1 - ALPHA / 2, 2 * repetitions - 2) * error
    return float(np.mean(beyond & (distance != 0)))


def most_rejections(comparisons: int) -> int:
    """The most false differences that so many tests at ALPHA report, in all but one case of a thousand.

    comparisons: of samples that are independent of each other, unlike those of one set of runs.
    """
    return int(stats.binom.ppf(0.999, comparisons, ALPHA))


def repetitions_needed(distance: float, spread: float, *, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """The repetitions that a t test needs to tell a mean at that distance from zero; LEAST at least.

    spread: the standard deviation of one repetition. None if more than MOST_REPETITIONS would be needed, or either is
    unknown. Raises AnalysisError for a power or an alpha that is no share. Source: Cohen 1988.
    """
    check_share(power, "power")
    check_share(alpha, "alpha")
    if distance == 0 or spread == 0:
        return LEAST if distance else None
    if not (np.isfinite(distance) and np.isfinite(spread)):
        return None

    def enough(n: int) -> bool:
        return _power(abs(distance) / spread, n, alpha, paired=True) >= power

    candidates = range(LEAST, MOST_REPETITIONS + 1)
    place = bisect_left(candidates, True, key=enough)
    return candidates[place] if place < len(candidates) else None


def percent(log: float) -> float:
    """A logarithm of a ratio as a change in percent."""
    return float(100 * np.expm1(log))


@cache
def _standardised(repetitions: int, paired: bool) -> float:
    """The smallest detectable effect in standard deviations."""
    least, most = 1e-6, 200.0  # about 16 at 2 repetitions
    return float(optimize.brentq(lambda effect: _power(effect, repetitions, ALPHA, paired) - POWER, least, most))


def _power(effect: float, repetitions: int, alpha: float, paired: bool) -> float:
    """The power of the t test for an effect in standard deviations. Source: Cohen 1988."""
    df, sampled = (repetitions - 1, repetitions) if paired else (2 * repetitions - 2, repetitions / 2)
    # To find the opposite sign would be no finding, so one tail at half the level. Far out, where the power is one, the
    # noncentral t distribution is at times NaN.
    power = 1 - float(special.nctdtr(df, effect * math.sqrt(sampled), t_quantile(1 - alpha / 2, df)))
    return 1.0 if math.isnan(power) else power
