"""Components of variance: the spread between groups, such as hosts, beyond that of repetitions within a group."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.statistics.intervals import ALPHA, LEAST, Estimate, check_share


class Components(NamedTuple):
    """Standard deviations, in the unit of the values.

    between: of what the groups' own levels are, with its interval; n: groups. within: of one repetition in its group,
    pooled over all groups. NaN where it is not known: between of one group, both where no group has two repetitions.
    """

    between: Estimate
    within: float


def components(groups: Sequence[Sequence[float]], confidence: float = 1 - ALPHA) -> Components:
    """The two components of a one-way layout with random groups, by the method of moments.

    groups: the values of each group, one per repetition, in any number. Each group's mean counts once, however many
    repetitions it has, as in the mean over groups: what the means vary by, less what they would by their repetitions
    alone, is the variance between groups. Where that is not above zero it is zero, and the groups may be alike. The
    interval needs LEAST groups; it takes levels as normal, and the variance within as the same in all groups. Of groups
    that are alike, its lower bound is zero in all but (1 - confidence) / 2 of cases.
    Raises TooFewSamples where there is no group, or an empty one, AnalysisError where a value is not finite.
    Source: Searle, Casella and McCulloch 1992, chapter 3; the interval: Williams 1962, for groups of unequal numbers
    Thomas and Hultquist 1978 (both in Burdick and Graybill 1992, chapter 3 and 4).
    """
    check_share(confidence, "confidence")
    parts = [np.asarray(group, dtype=float) for group in groups]
    if not parts or not all(part.size for part in parts):
        raise TooFewSamples("a spread between groups needs a repetition of each: measure them")
    if not all(np.isfinite(part).all() for part in parts):
        raise AnalysisError("a repetition has no finite value: leave it out by name")
    count, df = len(parts), sum(part.size - 1 for part in parts)
    if not df:
        return Components(Estimate(math.nan, math.nan, math.nan, count), math.nan)
    within = sum(float(((part - part.mean()) ** 2).sum()) for part in parts) / df
    if count < 2:
        return Components(Estimate(math.nan, math.nan, math.nan, count), math.sqrt(within))
    each = count / sum(1 / part.size for part in parts)
    of_means = float(np.var([part.mean() for part in parts], ddof=1))

    def bound(share: float) -> float:
        equal = special.fdtri(count - 1, df, share)  # a quantile of the ratio of mean squares for equal groups
        of_chi2 = special.chdtri(count - 1, 1 - share) / (count - 1)
        return _root((each * of_means - within * equal) / (each * of_chi2))

    low, high = (bound((1 + side * confidence) / 2) if count >= LEAST else math.nan for side in (1, -1))
    return Components(Estimate(_root(of_means - within / each), low, high, count), math.sqrt(within))


def _root(variance: float) -> float:
    return math.sqrt(max(variance, 0.0))
