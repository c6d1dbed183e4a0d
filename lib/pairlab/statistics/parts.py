"""The part of a difference that a cause explains: the ratio of two estimates that share their repetitions."""

import math

from pairlab.statistics.intervals import ALPHA, Estimate, Student, check_share, t_quantile


def part(some: Student, whole: Student, rest: Student, confidence: float = 1 - ALPHA) -> Estimate:
    """The share of `some` in `whole`, where `rest` is whole less some; all on one additive scale, such as logarithms.

    The share may lie below zero or above one. The three errors give the covariance of some and whole; the interval is
    Fieller's: the shares s for which some − s · whole does not differ from zero. If the whole itself does not, any
    share might be true, and all is NaN. From fewer repetitions than LEAST there is a share without an interval.
    Source: Fieller 1954.
    """
    check_share(confidence, "confidence")
    n = min(each.n for each in (some, whole, rest))
    if not all(each.known for each in (some, whole, rest)):
        return Estimate(some.centre / whole.centre if whole.centre else math.nan, math.nan, math.nan, n)
    t = t_quantile((1 + confidence) / 2, min(each.df for each in (some, whole, rest)))
    of_some, of_whole, of_rest = (each.error**2 for each in (some, whole, rest))
    covariance = (of_some + of_whole - of_rest) / 2
    # (some − s · whole)² ≤ t² · Var(some − s · whole), a quadratic in s
    square, linear = whole.centre**2 - t**2 * of_whole, some.centre * whole.centre - t**2 * covariance
    if square <= 0:
        return Estimate(math.nan, math.nan, math.nan, n)
    root = math.sqrt(max(0.0, linear**2 - square * (some.centre**2 - t**2 * of_some)))
    return Estimate(some.centre / whole.centre, (linear - root) / square, (linear + root) / square, n)
