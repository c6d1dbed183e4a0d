"""Where a series of throughput values settles: the warm-up is detected, not guessed.

Pure functions over one value per interval. The warm-up is the leading intervals outside the band of the later half; the
remaining intervals must not drift.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

#: With fewer intervals, a warm-up cannot be distinguished from noise, and is not detected.
LEAST_INTERVALS = 8
#: Half the width of the band around the later half's median: robust standard deviations, or a share of the median.
BAND_DEVIATIONS, BAND_SHARE = 4.0, 0.1
#: A warm-up is not above this multiple of the later half's median: else the throughput collapsed after it.
MOST_OVER = 2.0
#: What is below this share of the most is silence, and not part of how values spread.
SILENT = 0.05
#: Of so many intervals, the band for outliers is twice as wide as of very many.
FEW = 8
#: A trend counts below this p-value; the last third may differ from the first by this share of the mean.
TREND_LEVEL, MOST_DRIFT = 0.01, 0.15
#: First and last third differ in level if they are more standard errors apart; two parts of a series, that were chosen
#: to be far apart, if they are more.
TOO_FAR, TOO_FAR_CHOSEN = 4.0, 6.0
#: A level lasts at least so many intervals; their autocorrelation counts up to this.
LEAST_LEVEL, MOST_ALIKE = 3, 0.8
#: One disturbance changes the speed twice at most; a series that changes it more often has two speeds by itself, as
#: where a scheduler moves processes.
LEAST_CHANGES = 3


@dataclass(frozen=True)
class Settling:
    """The result of `settle`.

    warmup: the number of leading intervals that are warm-up. settled: None if there were too few intervals. drift: of
    the remaining intervals, as `drift` returns it.
    """

    warmup: int = 0
    settled: bool | None = None
    drift: float | None = None


def settle(values: Sequence[float] | np.ndarray) -> Settling:
    """Detects the warm-up in a series of equally long intervals, and whether the series settled.

    values: one per interval, in any unit, in order. Settled means that at most half of them are warm-up, of a level
    that is at most MOST_OVER times the later one, and that the rest does not drift by more than MOST_DRIFT.
    Sources: Mann 1945 (the test for trend), Rousseeuw and Croux 1993 (the median absolute deviation).
    """
    series = np.asarray(values, float)
    if len(series) < LEAST_INTERVALS or not np.isfinite(series).all():
        return Settling()
    outside = _outside(series, series[len(series) // 2 :])
    warmup = int(np.argmin(outside)) if not outside.all() else len(series)
    collapsed = warmup and float(np.mean(series[:warmup])) > MOST_OVER * float(np.median(series[len(series) // 2 :]))
    if warmup > len(series) // 2 or collapsed:
        return Settling(0, False, drift(series))
    rest = series[warmup:]
    moved = drift(rest)
    return Settling(warmup, not abs(moved) > MOST_DRIFT, moved)


def outliers(values: Sequence[float]) -> float | None:
    """By what share outlying intervals, wherever they are, change the mean of the others; None: too few intervals.

    A stall of a tenth of the time makes it -0.1. Intervals are outlying as in warm-up: outside the band around the
    median of those that are not silent, which is wider where it is estimated from few intervals. In a series that goes
    to and fro between two speeds, each speed has a median and a band. Moments that are faster, with usual ones before
    and after them, are none: where one disturbance takes most of the time, what it leaves is at an end.
    """
    series = np.asarray(values, float)
    if len(series) < LEAST_INTERVALS:
        return None
    active = series > SILENT * series.max()
    usual = series.copy()
    for speed in _speeds(series, active) if active.any() else ():
        known = series[speed & active]
        outside = _outside(series, known, BAND_DEVIATIONS * (1 + FEW / len(known)))
        first, last = np.flatnonzero(~outside)[[0, -1]]
        outside[first:last] &= series[first:last] < np.median(known)
        usual[speed & outside] = np.mean(series[speed & ~outside])
    total = float(np.sum(usual))
    return float(np.sum(series)) / total - 1 if total else 0.0


def _speeds(series: np.ndarray, active: np.ndarray) -> list[np.ndarray]:
    """Which intervals are of one speed: all; or, where the series often crosses a gap wider than a band, either side.

    Each speed has LEAST_LEVEL intervals at least. What is not active is of the lower one.
    """
    rising = np.sort(series[active])[LEAST_LEVEL - 1 :][: -LEAST_LEVEL + 1]
    if len(rising) > 1:
        gaps = rising[1:] / rising[:-1] - 1
        fast = series > rising[int(np.argmax(gaps))]
        if gaps.max() > BAND_SHARE and np.count_nonzero(np.diff(fast[active])) >= LEAST_CHANGES:
            return [fast, ~fast]
    return [np.ones_like(active)]


def shift(values: Sequence[float]) -> float | None:
    """The change of level that is the clearest anywhere, as a share of the higher level; None: too few intervals.

    Of all ways to split the series in two, the one whose parts are the most standard errors apart; 0 where that may be
    chance. A fall to a third is -0.67, and a rise from a third 0.67.
    """
    series = np.asarray(values, float)
    if len(series) < LEAST_INTERVALS:
        return None
    places = range(LEAST_LEVEL, len(series) - LEAST_LEVEL + 1)
    clearest, errors_apart = max(
        ((place, _errors_apart(series[:place], series[place:])) for place in places), key=lambda found: found[1]
    )
    levels = float(np.mean(series[:clearest])), float(np.mean(series[clearest:]))
    return (levels[1] - levels[0]) / max(levels) if errors_apart > TOO_FAR_CHOSEN else 0.0


def _errors_apart(first: np.ndarray, last: np.ndarray) -> float:
    """How many standard errors the means of two parts of a series are apart, whose spread is taken to be the same."""
    apart = abs(float(np.mean(last) - np.mean(first)))
    rest = np.concatenate([first - np.mean(first), last - np.mean(last)])
    squares = float(np.sum(rest**2))
    error = sqrt(squares / (len(rest) - 2) * (1 / len(first) + 1 / len(last)) * _inflation(rest))
    return apart / error if error else float("inf") if apart else 0.0


def _inflation(rest: np.ndarray) -> float:
    """By what a variance of sums of these deviations is more than if they were independent of each other.

    Neighbouring intervals are often alike, as where the scheduler moves processes now and then: first-order
    autocorrelation (Wilks 2011, section 5.2.4).
    """
    squares = float(np.sum(rest**2))
    alike = min(max(float(np.sum(rest[1:] * rest[:-1])) / squares, 0.0), MOST_ALIKE) if squares else 0.0
    return (1 + alike) / (1 - alike)


def _outside(series: np.ndarray, usual: np.ndarray, deviations: float = BAND_DEVIATIONS) -> np.ndarray:
    """Which values are outside the band around the median of the usual ones."""
    middle = float(np.median(usual))
    deviation = 1.4826 * float(np.median(np.abs(usual - middle)))
    return np.abs(series - middle) > max(deviations * deviation, BAND_SHARE * abs(middle))


def drift(values: Sequence[float] | np.ndarray) -> float:
    """Difference between the last and the first third, as a share of the mean; 0 where it may be chance.

    It is not chance if a Mann-Kendall test finds a trend in the whole series, or if the thirds' means are more than
    TOO_FAR standard errors apart, as after a step.
    """
    series = np.asarray(values, float)
    third, mean = len(series) // 3, float(np.mean(series))
    first, last = series[:third], series[len(series) - third :]
    if not mean or third < 2:
        return 0.0
    apart = float(np.mean(last) - np.mean(first))
    is_step = third > 2 and _errors_apart(first, last) > TOO_FAR
    return apart / mean if is_step or _chance_of_trend(series) <= TREND_LEVEL else 0.0


def _chance_of_trend(series: np.ndarray) -> float:
    """The p-value of a two-sided Mann-Kendall test (normal approximation).

    Corrected for what neighbouring intervals have in common beside a straight line (Yue and Wang 2004).
    """
    earlier, later = np.triu_indices(len(series), 1)
    score = abs(np.sign(series[later] - series[earlier]).sum())
    count, steps = len(series), np.arange(len(series))
    beside = series - np.polyval(np.polyfit(steps, series, 1), steps)
    spread = sqrt(count * (count - 1) * (2 * count + 5) / 18 * _inflation(beside))
    return erfc(max(0.0, score - 1) / spread / sqrt(2))
