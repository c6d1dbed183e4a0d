"""Where a series of throughput values has settled: warm-up is found, not guessed.

Pure functions over one value per interval. The warm-up is the run of leading intervals that lie outside the band in
which the later half lies; what remains must not drift.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

#: With fewer intervals than this, a warm-up cannot be told from noise, and is not looked for.
LEAST_INTERVALS = 8
#: The band about the later half's median: so many robust standard deviations, or this share of the median.
BAND_DEVIATIONS, BAND_SHARE = 4.0, 0.1
#: A trend counts where it is this unlikely by chance, and takes the last third this share of the mean from the first.
TREND_LEVEL, MOST_DRIFT = 0.01, 0.15
#: So many standard errors apart, first and last third are on different levels.
TOO_FAR = 4.0


@dataclass(frozen=True)
class Settling:
    """What was found. settled: None where there were too few intervals to say.

    warmup: how many leading intervals are warm-up. drift: of the rest, as `drift` tells it.
    """

    warmup: int = 0
    settled: bool | None = None
    drift: float | None = None


def settle(values: Sequence[float]) -> Settling:
    """Finds the warm-up in a series of equally long intervals, and whether it settled at all.

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
    """How much the last third lies above the first, as a share of the mean; 0 where that may be chance.

    It is none where a Mann-Kendall test finds a trend in the whole series, or where the thirds' means are further apart
    than TOO_FAR of their standard errors, as after a step.
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
    """The level at which a Mann-Kendall test, two-sided, would find a trend (normal approximation)."""
    earlier, later = np.triu_indices(len(series), 1)
    score = abs(np.sign(series[later] - series[earlier]).sum())
    spread = sqrt(len(series) * (len(series) - 1) * (2 * len(series) + 5) / 18)
    return erfc(max(0.0, score - 1) / spread / sqrt(2))
