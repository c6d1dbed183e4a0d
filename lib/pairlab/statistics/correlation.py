"""Correlation between the clients of a repetition, with an interval over repetitions."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.intervals import SIGNED, Student

#: Fewer clients than this have no correlation worth the name.
LEAST_CLIENTS = 4

#: Per method: scipy's function, the bias of its z for n values, and half the step below 1, where an exact 1 is put.
_METHODS = {
    "pearson": (stats.pearsonr, lambda r, n: r / (2 * (n - 1)), lambda n: 1e-9),
    "spearman": (stats.spearmanr, lambda r, n: 0.0, lambda n: 6 / (n**3 - n)),
    "kendall": (stats.kendalltau, lambda r, n: 0.0, lambda n: 2 / (n * (n - 1))),
}


def correlation(
    x: Sequence[float], y: Sequence[float], repetition: Sequence[Hashable], *, method: str = "pearson"
) -> Student:
    """How x and y of the clients of one repetition go together, from -1 to 1, as a mean over repetitions.

    x, y: 1-D, a value per client; repetition: its label; method: pearson, spearman or kendall (tau-b). Each
    repetition gives one coefficient, which is what the papers' figures show; the mean and its Student t interval
    are taken of Fisher's z (Pearson's less its bias), so no correlation between clients is assumed away, and
    drift from one repetition to the next adds nothing. n: repetitions that have a coefficient: one with fewer than
    LEAST_CLIENTS clients, or in which x or y is the same for all, has none and is not used. An exact 1 counts as half
    a step below (1e-9 for Pearson).

    A bootstrap over repetitions is not used: below some 20 repetitions its interval is too narrow
    (`make bench` shows it), and pooled clients would mix drift with contention.
    Raises TooFewSamples where no repetition has a coefficient, AnalysisError for a value that is not finite,
    labels of another length or another method.
    Source: Fisher 1921 for z and its bias; Fieller, Hartley and Pearson 1957 for z of ranks; Field and Welsh 2007
    on resampling clusters.
    """
    columns = {"x": np.asarray(x, dtype=float), "y": np.asarray(y, dtype=float), "repetition": np.asarray(repetition)}
    if len({column.shape for column in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise AnalysisError(f"x, y and the repetitions differ in length ({sizes}): give one of each per client")
    parts = [clients for _, clients in pd.DataFrame(columns).groupby("repetition")]
    found = [fisher_z(clients["x"], clients["y"], method) for clients in parts]
    z = [each for each in found if not np.isnan(each)]
    if not z:
        few = sum(len(clients) < LEAST_CLIENTS for clients in parts)
        raise TooFewSamples(
            f"no repetition has a correlation: {few} have fewer than {LEAST_CLIENTS} clients, and in"
            f" {len(parts) - few} all clients have the same x or the same y. Measure more pairs, or what makes the"
            " clients differ"
        )
    return Student.of(z, SIGNED)


def fisher_z(x: Sequence[float], y: Sequence[float], method: str = "pearson") -> float:
    """Fisher's z of x and y of the clients of one repetition; NaN where they have no correlation."""
    if method not in _METHODS:
        raise AnalysisError(f"no correlation {method!r}; there are: {', '.join(_METHODS)}")
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise AnalysisError("a client has no finite value: leave failed flows out by name")
    n = len(x)
    if n < LEAST_CLIENTS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    coefficient, bias, step = _METHODS[method]
    found, limit = float(coefficient(x, y).statistic), 1 - step(n)
    return float(np.arctanh(np.clip(found, -limit, limit)) - bias(found, n))


def leverage(x: Sequence[float], y: Sequence[float]) -> float:
    """By how much one client decides Pearson's r of a repetition: the most that r changes without one of them.

    x, y: 1-D, a value per client. From 0 to 2; NaN where there is no correlation, or too few clients are left without
    one. Where all others are alike, that client makes the correlation alone: without it, there is none, which is 0.
    Source: Cook 1977, who leaves out one observation at a time.
    """
    if np.isnan(fisher_z(x, y)) or len(x) <= LEAST_CLIENTS:
        return np.nan
    x, y = (np.asarray(side, dtype=float) - np.mean(side) for side in (x, y))
    # Of n values whose mean is 0, leaving one out takes n / (n - 1) times its own product out of a sum of products.
    more = len(x) / (len(x) - 1)
    both, alone_x, alone_y = (float(sides.sum()) - more * sides for sides in (x * y, x * x, y * y))
    known = (alone_x > 1e-9 * (x @ x)) & (alone_y > 1e-9 * (y @ y))
    without = np.divide(both, np.sqrt(np.abs(alone_x * alone_y)), out=np.zeros(len(x)), where=known)
    return float(np.abs(without - (x @ y) / np.sqrt((x @ x) * (y @ y))).max())
