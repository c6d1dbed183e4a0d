"""Estimates and their intervals: one class turns an error into an interval, a p-value or a plan, for all of pairlab.

The flows of one repetition share CPUs and queues, so they are not independent. Repetitions are the samples: each is
reduced to one value first, or drawn whole (quantiles.py). The result, a centre with its standard error, is a `Student`,
and every printed interval is a `Student.estimate`.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

from pairlab.errors import AnalysisError, TooFewSamples

#: From fewer repetitions there is no interval: with two, Student's t is 12.7 and the interval says nothing.
LEAST = 3
#: The level of the tests; the default confidence of intervals is 1 - ALPHA.
ALPHA = 0.05


class Estimate(NamedTuple):
    """A value, its interval, and the number of independent samples; fewer than LEAST have no bounds (NaN)."""

    value: float
    low: float
    high: float
    n: int


class Test(NamedTuple):
    """A test's outcome. p: two-sided; n: independent samples, which are repetitions, in all groups together.

    least_p: the smallest p that this many repetitions can give, or NaN where that is not known. Above alpha, the
    test cannot find a difference however large it is: more repetitions are needed, and "no difference found"
    says nothing.
    """

    statistic: float
    p: float
    n: int
    groups: int
    least_p: float = float("nan")


Test.__test__ = False  # type: ignore[attr-defined]  # pytest: not a test class


@dataclass(frozen=True)
class Scale:
    """Where the interval of a bounded quantity is taken, so that it stays within the bounds.

    to_scale: from the quantity to that scale; from_scale: back; slope: of `to_scale`, by which an error is
    carried over (the delta method). least and most: the bounds. All increase, so that bounds stay bounds.
    """

    to_scale: Callable[[float], float]
    from_scale: Callable[[float], float]
    slope: Callable[[float], float]
    least: float = -math.inf
    most: float = math.inf


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _exp(log: float) -> float:
    return math.inf if log > 700 else math.exp(log)


#: Any number.
REAL = Scale(lambda value: value, lambda value: value, lambda value: 1.0)
#: Rates, times and sizes: above zero, by the logarithm.
POSITIVE = Scale(_log, _exp, lambda value: 1 / value, 0.0)
#: Most over least: one or more, by the logarithm of the excess over one.
FROM_ONE = Scale(lambda value: _log(value - 1), lambda log: 1 + _exp(log), lambda value: 1 / (value - 1), 1.0)
#: From zero to one, by the logit.
SHARE = Scale(special.logit, special.expit, lambda value: 1 / (value * (1 - value)), 0.0, 1.0)
#: From -1 to 1, by Fisher's z: correlations, and differences of shares. Source: Fisher 1915.
SIGNED = Scale(np.arctanh, np.tanh, lambda value: 1 / (1 - value**2), -1.0, 1.0)
#: A change in percent, of the logarithm of a ratio.
PERCENT = Scale(
    lambda percent: math.log1p(max(percent, -99.9999) / 100),
    lambda log: math.inf if log > 700 else 100 * math.expm1(log),
    lambda percent: 1 / (100 + percent),
    -100.0,
)


@dataclass(frozen=True)
class Student:
    """A centre on some scale, and the standard error that Student's t makes an interval and a p-value of.

    n: repetitions. df: degrees of freedom, n - 1 unless two groups are compared. From fewer repetitions than LEAST
    there is no interval and no p-value; error and df are NaN from one. blur: how far below and above the centre the
    value may lie, on the scale, whatever the repetitions say (`blurred`, `no_narrower`).
    """

    centre: float
    error: float
    df: float
    n: int
    scale: Scale = REAL
    blur: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray, scale: Scale = REAL) -> "Student":
        """The mean of independent samples that are on the scale already, such as logarithms of ratios."""
        values = np.asarray(values, dtype=float)
        # Equal values have no spread at all, whatever the rounding of their mean.
        spread = (float(values.std(ddof=1)) if np.ptp(values) else 0.0) if values.size > 1 else math.nan
        return cls(float(values.mean()), spread / math.sqrt(values.size), values.size - 1, values.size, scale)

    @classmethod
    def of_groups(
        cls, first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray, scale: Scale = REAL
    ) -> "Student":
        """The mean of the second less that of the first, of two groups measured in repetitions of their own.

        n: repetitions of the smaller group. Source: Welch 1947.
        """
        before, after = cls.of(first), cls.of(second)
        return after.minus(before, scale)

    def plus(self, other: "Student") -> "Student":
        """The sum of two centres on one scale that are independent of each other."""
        return self.minus(replace(other, centre=-other.centre, blur=other.blur[::-1]), self.scale)

    def minus(self, other: "Student", scale: Scale) -> "Student":
        """The difference of two centres that are independent of each other. Source: Welch 1947."""
        parts = [side.error**2 for side in (self, other)]
        total = sum(parts)
        if not total > 0:  # none varies, or a side has one repetition and no error
            df = min(self.df, other.df)
        else:
            df = total**2 / sum(part**2 / side.df for part, side in zip(parts, (self, other), strict=True) if side.df)
        difference = Student(self.centre - other.centre, math.sqrt(total), df, min(self.n, other.n), scale)
        (below, above), (other_below, other_above) = self.blur, other.blur
        return replace(difference, blur=(below + other_above, above + other_below))

    def blurred(self, below: float, above: float) -> "Student":
        """The estimate from values that a tool rounded: the centre may be too high by `below`, too low by `above`.

        However many repetitions agree, the interval is no narrower, and no test finds a difference within it. The error
        is at least that of values spread evenly over one rounding step, as equal printed values may differ by that.
        Source: Sheppard 1898 for the variance of rounded values.
        """
        if not below + above > 0:
            return self
        least = (below + above) / math.sqrt(12 * self.n)
        error = self.error if math.isnan(self.error) or math.isinf(least) else max(self.error, least)
        return replace(self, error=error, blur=(below, above))

    def no_narrower(self, by: float) -> "Student":
        """The same, which cannot tell its centre from what lies so far below or above it, on the scale."""
        below, above = self.blur
        return replace(self, blur=(max(below, by), max(above, by))) if by > 0 else self

    @property
    def spread(self) -> float:
        """The standard deviation, on the scale, of one repetition's part in the centre."""
        return self.error * math.sqrt(self.n)

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.n >= LEAST and math.isfinite(self.error)

    def estimate(self, confidence: float = 1 - ALPHA) -> Estimate:
        """The two-sided interval, in the quantity's unit. Source: Student 1908."""
        check_share(confidence, "confidence")
        half = t_quantile((1 + confidence) / 2, self.df) * self.error if self.known else math.nan
        below, above = (max(half, blur) if self.known else math.nan for blur in self.blur)
        value, low, high = (float(self.scale.from_scale(self.centre + by)) for by in (0.0, -below, above))
        return Estimate(value, low, high, self.n)

    def p(self, null: float = 0.0, alternative: Literal["two-sided", "greater", "less"] = "two-sided") -> float:
        """p of the t test against `null`, in the quantity's unit; NaN without an interval."""
        distance = self.centre - float(self.scale.to_scale(null))
        if not self.known:
            return math.nan
        below, above = self.blur
        if (below or above) and -above <= distance <= below:  # indistinguishable in the tool's digits
            return 1.0
        if not self.error:  # t has no value: certain either way
            certain = {"greater": distance > 0, "less": distance < 0, "two-sided": distance != 0}
            return 0.0 if certain[alternative] else 1.0
        t = distance / self.error
        tails = {"greater": _t_share_below(-t, self.df), "less": _t_share_below(t, self.df)}
        return float(tails[alternative] if alternative in tails else 2 * min(tails.values()))


def t_quantile(share: float, df: float) -> float:
    """The quantile of Student's t, as scipy.stats', whose checks of arguments take a hundred times as long."""
    return float(special.stdtrit(df, share) if math.isfinite(df) else special.ndtri(share))


def _t_share_below(t: float, df: float) -> float:
    return float(special.stdtr(df, t) if math.isfinite(df) else special.ndtr(t))


def rounding(scale: Scale, value: float, resolution: float) -> tuple[float, float]:
    """The distances of the true value below and above a printed one rounded to `resolution`, at most, on the scale."""
    if not resolution > 0:
        return 0.0, 0.0
    half = resolution / 2 * (1 + 1e-9)  # so that two equal bounds meet despite rounding errors
    low, high = (scale.to_scale(min(max(value + by, scale.least), scale.most)) for by in (-half, half))
    return float(scale.to_scale(value) - low), float(high - scale.to_scale(value))


def mean_interval(
    values: Sequence[float] | np.ndarray,
    confidence: float = 1 - ALPHA,
    scale: Scale = REAL,
    resolution: float = 0.0,
) -> Estimate:
    """The mean of independent samples with its two-sided interval, in the unit of `values` and within their bounds.

    values: 1-D, one per repetition. From fewer than LEAST the mean is known and its interval is not: low and high are
    NaN. resolution: the step in which a tool printed the values, than which no interval is narrower; 0: none. scale: of
    the quantity; the error of the mean is carried over to it (the delta method), so that the mean stays the plain one
    and the interval stays within the bounds. With REAL it is Student's, exact for normal samples; with
    the others it is wider on the side that is farther from the bound. `make bench` shows that a 95 % interval holds
    the mean of log-normal rates and of shares near 1 in 93 to 97 % of cases, from 3 repetitions on. It is of the hours
    in which they were measured; where the speed of the machine changes from run to run, that of 3 repetitions holds it
    in 78 % (docs/explanation/statistics.md).
    Raises TooFewSamples when empty, AnalysisError when a value is not finite, or lies outside the bounds.
    Source: Student 1908; Oehlert 1992 for the delta method. The papers report means of throughput without an interval.
    """
    return mean(values, scale, resolution).estimate(confidence)


def mean(values: Sequence[float] | np.ndarray, scale: Scale = REAL, resolution: float = 0.0) -> Student:
    """As mean_interval, for any confidence."""
    values = np.asarray(values, dtype=float)
    if values.size == 0:
        raise TooFewSamples("a mean needs at least one repetition, and there is none: measure the cell")
    if not np.isfinite(values).all():
        raise AnalysisError(
            "a repetition has no finite value: count a failed flow as zero, or leave the run out by name"
        )
    if values.min() < scale.least - 1e-9 or values.max() > scale.most + 1e-9:
        raise AnalysisError(
            f"values from {values.min():g} to {values.max():g} are not within {scale.least:g} and {scale.most:g}"
        )
    plain = Student.of(values)
    if not (plain.error > 0 or resolution > 0) or not scale.least < plain.centre < scale.most:  # without a width
        return plain.blurred(*rounding(REAL, plain.centre, resolution))
    centre, error = float(scale.to_scale(plain.centre)), plain.error * scale.slope(plain.centre)
    estimate = Student(centre, error, plain.df, plain.n, scale)
    return estimate.blurred(*rounding(scale, plain.centre, resolution))


def by_unit(values: Sequence[float] | np.ndarray, units: Sequence[Hashable] | np.ndarray) -> np.ndarray:
    """The mean of each unit's values, in the order of the units: the independent samples if repetitions are not.

    values, units: 1-D, of the same length; units: the unit that each value is a repetition of, such as its host.
    """
    _, codes = np.unique(np.asarray(units), return_inverse=True)
    return np.bincount(codes, np.asarray(values, dtype=float)) / np.bincount(codes)


def no_interval(n: int, unit: str = "repetition") -> str:
    """The text in place of an interval."""
    if n >= LEAST:
        return "no interval"  # too many of its flows failed
    return f"no interval from {('no', 'one', 'two')[int(n)]} {unit}{'s' * int(n != 1)}"


def check_share(share: float, name: str) -> None:
    if not 0 < share < 1:
        raise AnalysisError(f"{name} is a share between 0 and 1, such as 0.95, not {share!r}")


def jain_index(throughputs_bps: Sequence[float] | np.ndarray) -> float:
    """Jain's fairness index: 1 when all get the same, 1/n when one gets all; NaN when nobody gets anything.

    throughputs_bps: 1-D, one per client, a failed one as zero. Raises TooFewSamples when empty.
    Source: Jain, Chiu and Hawe 1984.
    """
    values = np.asarray(throughputs_bps, dtype=float)
    if values.size == 0:
        raise TooFewSamples("fairness needs at least one client, and there is none")
    squares = values.size * float((values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else float("nan")
