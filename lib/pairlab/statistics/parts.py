"""What part of a difference something explains: the ratio of two estimates that share their repetitions."""

import math

from pairlab.statistics.intervals import ALPHA, Estimate, Student, check_share, t_quantile


def part(some: Student, whole: Student, rest: Student, confidence: float = 1 - ALPHA) -> Estimate:
    """The share of `whole` that is `some`, where `rest` is whole less some; all on one additive scale, as logarithms.

    It may lie below zero or above one. The three errors say how far some and whole vary together; the interval is
    Fieller's: the shares s for which some − s · whole does not differ from zero. Where the whole itself does not, any
    share might be true: then all is NaN. From fewer repetitions than LEAST there is a share without an interval.
    Source: Fieller 1954.
    """
    check_share(confidence, "confidence")
    n = min(each.n for each in (some, whole, rest))
    if not all(each.known for each in (some, whole, rest)):
        return Estimate(some.centre / whole.centre if whole.centre else math.nan, math.nan, math.nan, n)
    t = t_quantile((1 + confidence) / 2, min(each.df for each in (some, whole, rest)))
    of_some, of_whole, of_rest = (each.error**2 for each in (some, whole, rest))
    both = (of_some + of_whole - of_rest) / 2
    # (some − s · whole)² ≤ t² · Var(some − s · whole), a quadratic in s
    square, linear = whole.centre**2 - t**2 * of_whole, some.centre * whole.centre - t**2 * both
    if square <= 0:
        return Estimate(math.nan, math.nan, math.nan, n)
    root = math.sqrt(max(0.0, linear**2 - square * (some.centre**2 - t**2 * of_some)))
    return Estimate(some.centre / whole.centre, (linear - root) / square, (linear + root) / square, n)
