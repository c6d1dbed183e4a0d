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
#: A trend counts below this p-value; the last third may differ from the first by this share of the mean.
TREND_LEVEL, MOST_DRIFT = 0.01, 0.15
#: First and last third differ in level if they are more standard errors apart.
TOO_FAR = 4.0


@dataclass(frozen=True)
class Settling:
    """The result of `settle`.

    warmup: the number of leading intervals that are warm-up. settled: None if there were too few intervals. drift: of
    the remaining intervals, as `drift` returns it.
    """

    warmup: int = 0
    settled: bool | None = None
    drift: float | None = None


def settle(values: Sequence[float]) -> Settling:
    """Detects the warm-up in a series of equally long intervals, and whether the series settled.

    values: one per interval, in any unit, in order. Settled means that at most half of them are warm-up, and that the
    rest does not drift by more than MOST_DRIFT.
    Sources: Mann 1945 (the test for trend), Rousseeuw and Croux 1993 (the median absolute deviation).
    """
    series = np.asarray(values, float)
    if len(series) < LEAST_INTERVALS or not np.isfinite(series).all():
        return Settling()
    later = series[len(series) // 2 :]
    middle = float(np.median(later))
    deviation = 1.4826 * float(np.median(np.abs(later - middle)))
    outside = np.abs(series - middle) > max(BAND_DEVIATIONS * deviation, BAND_SHARE * abs(middle))
    warmup = int(np.argmin(outside)) if not outside.all() else len(series)
    if warmup > len(series) // 2:
        return Settling(0, False, drift(series))
    rest = series[warmup:]
    moved = drift(rest)
    return Settling(warmup, not abs(moved) > MOST_DRIFT, moved)


def drift(values: Sequence[float]) -> float:
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
