"""Correlation between the clients of a repetition, with an interval over repetitions."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.intervals import SIGNED, Student

#: Fewer clients have no correlation worth the name.
LEAST_CLIENTS = 4

#: By method: scipy's function, the bias of z for n values, and half the step below 1, which replaces an exact 1.
_METHODS = {
    "pearson": (stats.pearsonr, lambda r, n: r / (2 * (n - 1)), lambda n: 1e-9),
    "spearman": (stats.spearmanr, lambda r, n: 0.0, lambda n: 6 / (n**3 - n)),
    "kendall": (stats.kendalltau, lambda r, n: 0.0, lambda n: 2 / (n * (n - 1))),
}


def correlation(
    x: Sequence[float], y: Sequence[float], repetition: Sequence[Hashable], *, method: str = "pearson"
) -> Student:
    """The correlation of x and y over the clients of one repetition, from -1 to 1, as a mean over repetitions.

    x, y: 1-D, a value per client; repetition: the client's label; method: pearson, spearman or kendall (tau-b). Each
    repetition gives one coefficient, as in the papers' figures; the mean and its Student t interval are taken of
    Fisher's z (Pearson's less its bias), so no correlation between clients is assumed away, and drift from one
    repetition to the next adds nothing. n: repetitions with a coefficient: one with fewer than LEAST_CLIENTS clients,
    or with one x or y for all, has none and is not used. An exact 1 counts as half a step below (1e-9 for Pearson).

    A bootstrap over repetitions is not used: below some 20 repetitions its interval is too narrow
    (`make bench` shows it), and pooled clients would mix drift with contention.
    Raises TooFewSamples if no repetition has a coefficient, AnalysisError for a value that is not finite, labels of
    another length or another method.
    Source: Fisher 1921 for z and its bias; Fieller, Hartley and Pearson 1957 for z of ranks; Field and Welsh 2007
    on resampling clusters.
    """
    columns = {"x": np.asarray(x, dtype=float), "y": np.asarray(y, dtype=float), "repetition": np.asarray(repetition)}
    if len({column.shape for column in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise AnalysisError(f"x, y and the repetitions differ in length ({sizes}): give one of each per client")
    parts = [clients for _, clients in pd.DataFrame(columns).groupby("repetition")]
    all_z = [fisher_z(clients["x"], clients["y"], method) for clients in parts]
    z = [each for each in all_z if not np.isnan(each)]
    if not z:
        few = sum(len(clients) < LEAST_CLIENTS for clients in parts)
        raise TooFewSamples(
            f"no repetition has a correlation: {few} have fewer than {LEAST_CLIENTS} clients, and in"
            f" {len(parts) - few} all clients have the same x or the same y. Measure more pairs, or what makes the"
            " clients differ"
        )
    return Student.of(z, SIGNED)


def fisher_z(x: Sequence[float], y: Sequence[float], method: str = "pearson") -> float:
    """Fisher's z of x and y over the clients of one repetition; NaN without a correlation."""
    if method not in _METHODS:
        raise AnalysisError(f"no correlation {method!r}; there are: {', '.join(_METHODS)}")
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise AnalysisError("a client has no finite value: leave failed flows out by name")
    n = len(x)
    if n < LEAST_CLIENTS or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.nan
    coefficient, bias, step = _METHODS[method]
    r, limit = float(coefficient(x, y).statistic), 1 - step(n)
    return float(np.arctanh(np.clip(r, -limit, limit)) - bias(r, n))


def leverage(x: Sequence[float], y: Sequence[float]) -> float:
    """The most that Pearson's r of a repetition changes without one of its clients, from 0 to 2.

    x, y: 1-D, a value per client. NaN without a correlation, or if omitting a client leaves too few. If all other
    clients are equal, one client makes the correlation: without it, r counts as 0.
    Source: Cook 1977, who leaves out one observation at a time.
    """
    if np.isnan(fisher_z(x, y)) or len(x) <= LEAST_CLIENTS:
        return np.nan
    x, y = (np.asarray(side, dtype=float) - np.mean(side) for side in (x, y))
    # For n values with mean 0, omitting one takes n / (n - 1) times its product out of a sum of products.
    more = len(x) / (len(x) - 1)
    products, alone_x, alone_y = (float(sides.sum()) - more * sides for sides in (x * y, x * x, y * y))
    varies = (alone_x > 1e-9 * (x @ x)) & (alone_y > 1e-9 * (y @ y))
    r_without = np.divide(products, np.sqrt(np.abs(alone_x * alone_y)), out=np.zeros(len(x)), where=varies)
    return float(np.abs(r_without - (x @ y) / np.sqrt((x @ x) * (y @ y))).max())
