"""A CDF as a line of few points, however many values it has, for figures."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pairlab.errors import AnalysisError, TooFewSamples

#: The range of quantiles that a reduced CDF keeps, and by how much it may move them.
SHOWN = (0.001, 0.999)
TOLERANCE = 1e-3


def cdf(values: Sequence[float], *, points: int = 2000, lost: int = 0) -> pd.DataFrame:
    """The empirical CDF as a line of few points: value (its unit kept) and share (0 to 1), both ascending.

    Joined by straight lines, the points make steps: at each value the share rises from that of smaller values to that
    of values no larger. Up to `points` values are all kept. Of more, values are omitted as long as no quantile from
    0.001 to 0.999 moves by more than 0.1 %; the least and the largest stay. Ten million flows leave some hundred
    points; values that lie far apart can need more than `points`, and get them. lost: the number of further values,
    larger than all of these, so that the line ends below 1. Raises TooFewSamples when empty, AnalysisError for a value
    that is not finite.
    """
    values = np.sort(_finite(values))
    if not len(values):
        raise TooFewSamples("a CDF needs at least one value, and there is none")
    return line(values, points, of=len(values) + lost)


def line(values: np.ndarray, points: int, *, of: int) -> pd.DataFrame:
    """As `cdf`, of sorted values. of: the number of all values, of which these are the least."""
    kept = np.arange(len(values)) if len(values) <= points else _thinned(values)
    return pd.DataFrame({"value": values[kept].repeat(2), "share": np.stack([kept, kept + 1], axis=1).ravel() / of})


def _finite(values: Sequence[float]) -> np.ndarray:
    values = np.asarray(values, dtype=float)
    if not np.isfinite(values).all():
        raise AnalysisError("a flow has no finite value: leave failed flows out by name (`percentiles` counts them)")
    return values


def _thinned(values: np.ndarray) -> np.ndarray:
    """The ranks of the sorted values to keep, so that straight lines between them stay within TOLERANCE.

    First, candidates by value: between two neighbours, all values lie within a third of the tolerance. Then from few
    points to more: where a line is off by more than the rest of the tolerance, the worst candidate becomes a point.
    """
    last = len(values) - 1
    candidates = _by_value(values, 0.3 * TOLERANCE)
    ends = math.floor(SHOWN[0] * last), math.ceil(SHOWN[1] * last)
    # Beyond the quantiles that are kept, a line may be off by an invisible hundredth.
    inner = (candidates >= ends[0]) & (candidates <= ends[1])
    exact = values[candidates]
    allowed = np.where(inner, 0.65 * TOLERANCE, 1e-2) * np.abs(exact)
    kept = np.unique(np.searchsorted(candidates, [0, *ends, last]))
    while True:
        off = np.abs(np.interp(candidates, candidates[kept], exact[kept]) - exact) - allowed
        worst = np.repeat(np.maximum.reduceat(off, kept), np.diff(kept, append=len(candidates)))
        more = np.flatnonzero((off > 0) & (off == worst))
        if not len(more):
            return np.union1d(candidates[kept], _steps(values, *ends))
        kept = np.sort(np.concatenate([kept, more]))  # at a kept point, a line is never off


def _steps(values: np.ndarray, first: int, last: int) -> np.ndarray:
    """The ranks on either side of each step that is too wide for a straight line, from the first to the last."""
    inner = values[first : last + 1]
    wide = first + np.flatnonzero(np.diff(inner) > 0.3 * TOLERANCE * np.abs(inner[:-1]))
    return np.union1d(wide, wide + 1)


def _by_value(values: np.ndarray, step: float) -> np.ndarray:
    """Ranks of sorted values such that two neighbouring ranks are adjacent, or their values differ by under `step`."""
    last = len(values) - 1
    below, above = np.searchsorted(values, [0, np.nextafter(0, 1)])
    ends = [0, below - 1, below, above - 1, above, math.floor(SHOWN[0] * last), math.ceil(SHOWN[1] * last), last]
    ranks = [np.array(ends)]
    for part, sign in ((values[above:], 1), (values[:below], -1)):
        if len(part):
            low, high = sorted(math.log(abs(end)) for end in (part[0], part[-1]))
            if high - low > len(part) * step:
                return np.arange(len(values))
            first = np.searchsorted(values, sign * np.exp(np.arange(low, high + step, step)))
            ranks += [first - 1, first]
    return np.unique(np.clip(np.concatenate(ranks), 0, last))
