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
#: What is below this share of the most is silence, which tells nothing of how values spread.
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
    median of those that are not silent, which is wider where few intervals tell how wide it is.
    """
    series = np.asarray(values, float)
    if len(series) < LEAST_INTERVALS:
        return None
    active = series[series > SILENT * series.max()]
    usual = series[~_outside(series, active, BAND_DEVIATIONS * (1 + FEW / len(series)))] if len(active) else active
    mean = float(np.mean(usual)) if len(usual) else 0.0
    return float(np.mean(series)) / mean - 1 if mean else 0.0


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
    """How many standard errors the means of two parts of a series are apart, whose spread is taken to be the same.

    Neighbouring intervals are often alike, as where the scheduler moves processes now and then; then the error is
    larger, by the first-order autocorrelation within the parts (Wilks 2011, section 5.2.4).
    """
    apart = abs(float(np.mean(last) - np.mean(first)))
    rest = np.concatenate([first - np.mean(first), last - np.mean(last)])
    squares = float(np.sum(rest**2))
    alike = min(max(float(np.sum(rest[1:] * rest[:-1])) / squares, 0.0), MOST_ALIKE) if squares else 0.0
    error = sqrt(squares / (len(rest) - 2) * (1 / len(first) + 1 / len(last)) * (1 + alike) / (1 - alike))
    return apart / error if error else float("inf") if apart else 0.0


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
    error = sqrt((np.var(first, ddof=1) + np.var(last, ddof=1)) / third)
    if _chance_of_trend(series) > TREND_LEVEL and not (third > 2 and abs(apart) > TOO_FAR * error):
        return 0.0
    return apart / mean


def _chance_of_trend(series: np.ndarray) -> float:
    """The p-value of a two-sided Mann-Kendall test (normal approximation)."""
    earlier, later = np.triu_indices(len(series), 1)
    score = abs(np.sign(series[later] - series[earlier]).sum())
    spread = sqrt(len(series) * (len(series) - 1) * (2 * len(series) + 5) / 18)
    return erfc(max(0.0, score - 1) / spread / sqrt(2))
