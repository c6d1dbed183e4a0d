"""An effect with its estimate, and the registry of the functions that find one in runs.

An estimator (estimators.py) takes the runs of one system as per_run.reduce gives them, and the parameters of a claim.
It returns an Effect: its centre and spread over repetitions, on the scale on which they are averaged, and which cells
it used.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import ConfigDict, TypeAdapter, ValidationError
from scipy import stats

from pairlab.analysis import contrasts
from pairlab.analysis.stats import Estimate
from pairlab.errors import AnalysisError, BadInput, TooFewSamples, UnknownName


class TooFewFlows(TooFewSamples):
    """Fewer flows than a percentile needs; repetitions_needed: how many repetitions have enough."""

    def __init__(self, told: str, repetitions_needed: int):
        super().__init__(f"{told}: measure {repetitions_needed} repetitions")
        self.repetitions_needed = repetitions_needed


class FlowsFailed(AnalysisError):
    """A completion time that an effect is of hangs on flows that failed; no number of repetitions mends that."""


@dataclass(frozen=True)
class Scale:
    """How values are averaged, and how the result is shown: both ways are increasing, so bounds stay bounds."""

    shown: Callable[[float], float]
    kept: Callable[[float], float]


PERCENT = Scale(lambda log: 100 * np.expm1(log), lambda percent: np.log1p(np.maximum(percent, -99.9999) / 100))
CORRELATION = Scale(np.tanh, np.arctanh)  # Fisher 1915
PLAIN = Scale(lambda value: value, lambda value: value)


@dataclass(frozen=True)
class Contrast:
    """What noise an effect inherits: it is a weighted sum of the logarithms of one summary in several cells.

    measure: the summary (measures.MEASURES). gain: the root of the sum of the squared weights, so that cells whose
    logarithms spread by s give an effect that spreads by gain * s; √2 for the ratio of two. pairs: of these cells.
    """

    measure: str
    gain: float
    pairs: tuple[int, ...]


@dataclass(frozen=True)
class Effect:
    """An estimate over repetitions, what cells it is of, and what a reader must know of them.

    centre: the estimate, on the scale on which it is taken. spread: the standard deviation, there, of what one
    repetition tells, so that the estimate's own is spread / √n; NaN from one repetition. n: repetitions. stands_in: a
    number of pairs stands in for the one that a paper tells of, so sizes cannot be compared. contrast: None where the
    effect is of nothing whose noise a calibration records.
    """

    centre: float
    spread: float
    n: int
    scale: Scale
    cells: str
    notes: tuple[str, ...] = ()
    stands_in: bool = False
    contrast: Contrast | None = None

    @classmethod
    def of(cls, values: Sequence[float], scale: Scale, cells: str, **rest: Any) -> "Effect":
        """The mean of one value per repetition, on the scale on which they are averaged."""
        values = np.asarray(values, dtype=float)
        # Equal values have no spread at all, whatever the rounding of their mean.
        spread = float(values.std(ddof=1) if np.ptp(values) else 0.0) if values.size > 1 else np.nan
        return cls(float(values.mean()), spread, int(values.size), scale, cells, **rest)

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """The effect with its Student t interval, as shown; from one repetition the bounds are NaN."""
        half = np.nan
        if self.n > 1:
            half = float(stats.t.ppf((1 + confidence) / 2, self.n - 1)) * self.spread / np.sqrt(self.n)
        bounds = (self.centre, self.centre - half, self.centre + half)
        return Estimate(*(float(self.scale.shown(bound)) for bound in bounds), self.n)

    def p(self, null: float, alternative: Literal["two-sided", "greater", "less"] = "two-sided") -> float:
        """p of the t test against an effect of `null`, as shown; NaN from one repetition."""
        distance = self.centre - float(self.scale.kept(null))
        if self.n < 2:
            return np.nan
        if not self.spread:  # t has no value: certain either way
            return (
                0.0 if {"greater": distance > 0, "less": distance < 0, "two-sided": distance != 0}[alternative] else 1.0
            )
        t = distance / (self.spread / np.sqrt(self.n))
        tails = {"greater": stats.t.sf(t, self.n - 1), "less": stats.t.cdf(t, self.n - 1)}
        return float(tails[alternative] if alternative in tails else 2 * min(tails.values()))

    def repetitions_needed(self, null: float, alpha: float = 0.05) -> int | None:
        """How many repetitions would tell it from `null`, as shown: contrasts.repetitions_to_tell."""
        return contrasts.repetitions_to_tell(self.centre - float(self.scale.kept(null)), self.spread, alpha=alpha)


@dataclass(frozen=True)
class Estimator:
    """A registered function, the unit of its effect, and the types of its parameters."""

    name: str
    unit: str
    function: Callable[..., Effect]

    def __call__(self, runs: pd.DataFrame, parameters: Mapping[str, Any]) -> Effect:
        return self.function(runs, **parameters)

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Raises BadInput where a parameter is missing, unknown, or of the wrong type or value."""
        known = {
            name: parameter
            for name, parameter in inspect.signature(self.function).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        if strange := sorted(set(parameters) - set(known)):
            told = f"estimator {self.name!r} has no parameter {', '.join(strange)}; there are: {', '.join(known)}"
            raise BadInput(told)
        if absent := [name for name in known if known[name].default is inspect.Parameter.empty]:
            absent = [name for name in absent if name not in parameters]
            if absent:
                raise BadInput(f"estimator {self.name!r} needs {', '.join(absent)}")
        for name, value in parameters.items():
            try:
                TypeAdapter(known[name].annotation, config=ConfigDict(strict=True)).validate_python(value)
            except ValidationError as error:
                raise BadInput(f"{name}: {error.errors()[0]['msg']}, not {value!r}") from None


ESTIMATORS: dict[str, Estimator] = {}


def get(name: str) -> Estimator:
    """The estimator of that name. Raises UnknownName, with the choices."""
    if name not in ESTIMATORS:
        raise UnknownName(f"no estimator {name!r}; there are: {', '.join(sorted(ESTIMATORS))}")
    return ESTIMATORS[name]


def estimator(unit: str) -> Callable[[Callable[..., Effect]], Callable[..., Effect]]:
    """Registers a function under its name."""

    def register(function: Callable[..., Effect]) -> Callable[..., Effect]:
        ESTIMATORS[function.__name__] = Estimator(function.__name__, unit, function)
        return function

    return register
