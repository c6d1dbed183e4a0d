"""Correlation between the clients of a repetition, with an interval over repetitions."""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.analysis.stats import Estimate, mean_interval
from pairlab.errors import AnalysisError, TooFewSamples

#: Fewer clients than this have no correlation worth the name.
LEAST_CLIENTS = 4

#: Per method: scipy's function, the bias of its z for n values, and half the step below 1, where an exact 1 is put.
_METHODS = {
    "pearson": (stats.pearsonr, lambda r, n: r / (2 * (n - 1)), lambda n: 1e-9),
    "spearman": (stats.spearmanr, lambda r, n: 0.0, lambda n: 6 / (n**3 - n)),
    "kendall": (stats.kendalltau, lambda r, n: 0.0, lambda n: 2 / (n * (n - 1))),
}


def correlation(
    x: Sequence[float],
    y: Sequence[float],
    repetition: Sequence[Hashable],
    *,
    method: str = "pearson",
    confidence: float = 0.95,
) -> Estimate:
    """How x and y of the clients of one repetition go together, from -1 to 1, as a mean over repetitions.

    x, y: 1-D, a value per client; repetition: its label; method: pearson, spearman or kendall (tau-b). Each
    repetition gives one coefficient, which is what the papers' figures show; the mean and its Student t interval
    are taken of Fisher's z (Pearson's less its bias), so no correlation between clients is assumed away, and
    drift from one repetition to the next adds nothing. n: repetitions that have a coefficient: one with fewer than
    LEAST_CLIENTS clients, or in which x or y is the same for all, has none and is not used. Bounds are NaN from one
    repetition: its clients share a host, so an interval over them would be too narrow. An exact 1 counts as half
    a step below (1e-9 for Pearson).

    A bootstrap over repetitions is not used: below some 20 repetitions its interval is too narrow
    (`make bench` shows it), and pooled clients would mix drift with contention.
    Raises TooFewSamples where no repetition has a coefficient, AnalysisError for a value that is not finite,
    labels of another length or another method.
    Source: Fisher 1921 for z and its bias; Fieller, Hartley and Pearson 1957 for z of ranks; Field and Welsh 2007
    on resampling clusters.
    """
    if method not in _METHODS:
        raise AnalysisError(f"no correlation {method!r}; there are: {', '.join(_METHODS)}")
    columns = {"x": np.asarray(x, dtype=float), "y": np.asarray(y, dtype=float), "repetition": np.asarray(repetition)}
    if len({column.shape for column in columns.values()}) > 1:
        sizes = ", ".join(f"{name} {column.shape}" for name, column in columns.items())
        raise AnalysisError(f"x, y and the repetitions differ in length ({sizes}): give one of each per client")
    if not (np.isfinite(columns["x"]).all() and np.isfinite(columns["y"]).all()):
        raise AnalysisError("a client has no finite value: leave failed flows out by name")
    coefficient, bias, step = _METHODS[method]
    z, few, constant = [], 0, 0
    for _, clients in pd.DataFrame(columns).groupby("repetition"):
        n = len(clients)
        if n < LEAST_CLIENTS:
            few += 1
        elif np.ptp(clients["x"]) == 0 or np.ptp(clients["y"]) == 0:
            constant += 1
        else:
            found = float(coefficient(clients["x"], clients["y"]).statistic)
            limit = 1 - step(n)
            z.append(np.arctanh(np.clip(found, -limit, limit)) - bias(found, n))
    if not z:
        raise TooFewSamples(
            f"no repetition has a correlation: {few} have fewer than {LEAST_CLIENTS} clients, and in {constant} all"
            " clients have the same x or the same y. Measure more pairs, or what makes the clients differ"
        )
    mean = mean_interval(z, confidence)
    return Estimate(*map(float, np.tanh(mean[:3])), mean.n)
