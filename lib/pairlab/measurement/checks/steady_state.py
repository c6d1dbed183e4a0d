"""Whether and how a series of throughput values was steady: the warm-up, changes of level, and silence.

Pure functions over one value per interval. The warm-up is detected, not guessed: it is the leading intervals below the
band of the later half. What comes after it is a result, steady or not: a run is judged by what disturbed it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

#: With fewer intervals, a warm-up or a level cannot be distinguished from noise, and is not detected.
LEAST_INTERVALS = 8
#: Half the width of the band around the later half's median: robust standard deviations, or a share of the median.
BAND_DEVIATIONS, BAND_SHARE = 4.0, 0.1
#: What is below this share of the most is silence; where no step has so many packets, one without any may be chance.
SILENT, LEAST_PACKETS = 0.05, 20
#: A series that begins below this share of its later level, and is there for half of its time or rises all the way, has
#: not settled. What begins nearer to it has another level at first, as on a machine with two speeds: that is a result.
LEAST_BEGIN = 0.5
#: A series rises all the way if it does by this share of its mean from each third to the next.
LEAST_RISE = 0.05
#: Two parts of a series that were chosen to be far apart differ if their means are more standard errors apart.
TOO_FAR = 6.0
#: A level lasts at least so many intervals; their autocorrelation counts up to this.
LEAST_LEVEL, MOST_ALIKE = 3, 0.8


@dataclass(frozen=True)
class Settling:
    """The result of `settle`.

    warmup: the number of leading intervals that are warm-up. settled: None if there were too few intervals.
    """

    warmup: int = 0
    settled: bool | None = None


def settle(values: Sequence[float] | np.ndarray) -> Settling:
    """Detects the warm-up in a series of equally long intervals, and whether the series settled.

    values: one per interval, in any unit, in order. A beginning that is faster than the rest is no warm-up. Settled
    means that at most half of the intervals are warm-up, and that the rest does not rise all the way.
    Source: Rousseeuw and Croux 1993 (the median absolute deviation).
    """
    series = np.asarray(values, float)
    if len(series) < LEAST_INTERVALS or not np.isfinite(series).all():
        return Settling()
    later = series[len(series) // 2 :]
    middle = float(np.median(later))
    deviation = 1.4826 * float(np.median(np.abs(later - middle)))
    below = middle - series > max(BAND_DEVIATIONS * deviation, BAND_SHARE * abs(middle))
    warmup = int(np.argmin(below)) if not below.all() else len(series)
    if warmup > len(series) // 2:
        return Settling(0, not float(np.mean(series[:warmup])) < LEAST_BEGIN * middle)
    return Settling(warmup, not _rises(series[warmup:]))


def _rises(series: np.ndarray) -> bool:
    levels = [float(np.mean(each)) for each in np.array_split(series, 3)]
    rises = min(map(float, np.diff(levels))) > LEAST_RISE * float(np.mean(series))
    return rises and levels[0] < LEAST_BEGIN * levels[2]


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
    return (levels[1] - levels[0]) / max(levels) if errors_apart > TOO_FAR else 0.0


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


def silent_share(took_s: np.ndarray, packets: np.ndarray) -> float | None:
    """The share of these steps' time in which less was sent than SILENT of the busiest step's rate.

    packets: in each step. None where no step has LEAST_PACKETS.
    """
    silent = _silent(took_s, packets)
    return None if silent is None else float(took_s[silent].sum() / took_s.sum())


def longest_silence_s(took_s: np.ndarray, packets: np.ndarray) -> float:
    """The longest time, in s, of consecutive steps that were so; 0 where no step has LEAST_PACKETS."""
    longest_s = lasted_s = 0.0
    silent = _silent(took_s, packets)
    for step_s, is_silent in zip(took_s, () if silent is None else silent, strict=False):
        lasted_s = lasted_s + float(step_s) if is_silent else 0.0
        longest_s = max(longest_s, lasted_s)
    return longest_s


def _silent(took_s: np.ndarray, packets: np.ndarray) -> np.ndarray | None:
    if not len(packets) or packets.max() < LEAST_PACKETS:
        return None
    per_s = packets / took_s
    most_per_s = per_s[took_s >= np.median(took_s) / 2].max()  # two samples after a late one lie close to each other
    return per_s < SILENT * most_per_s
