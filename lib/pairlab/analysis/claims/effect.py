"""An effect with its estimate, and the registry of the functions that find one in runs.

An estimator (estimators/) takes the runs of one system as run_table.reduce gives them, and the parameters of a claim.
It returns an Effect, its estimate over repetitions and which cells it used; or Each of several, all of which must be as
a claim says.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd
from pydantic import ConfigDict, TypeAdapter, ValidationError

from pairlab.errors import AnalysisError, BadInput, TooFewSamples, UnknownName
from pairlab.statistics import power
from pairlab.statistics.intervals import Student


class TooFewFlows(TooFewSamples):
    """Fewer flows than a percentile needs; repetitions_needed: how many repetitions have enough."""

    def __init__(self, why: str, repetitions_needed: int):
        super().__init__(f"{why}: measure {repetitions_needed} repetitions")
        self.repetitions_needed = repetitions_needed


class FlowsFailed(AnalysisError):
    """A completion time that an effect is of depends on flows that failed; no number of repetitions mends that."""


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

    found: on the scale on which it is taken. stands_in: a number of pairs stands in for the one that a paper states, so
    sizes cannot be compared. contrast: None where the effect is of nothing whose noise a calibration records. points:
    how many numbers of pairs, ratios or sizes it rests on, along whichever of them a claim is; 0 where along none.
    """

    found: Student
    cells: str
    notes: tuple[str, ...] = ()
    stands_in: bool = False
    contrast: Contrast | None = None
    points: int = 0

    def repetitions_needed(self, null: float, alpha: float = 0.05) -> int | None:
        """How many repetitions would show that it is not `null`: power.repetitions_needed."""
        distance = self.found.centre - float(self.found.scale.kept(null))
        return power.repetitions_needed(distance, self.found.spread, alpha=alpha)


@dataclass(frozen=True)
class Each:
    """Several effects of one claim, by name, which must hold for every one of them: at each step, with each size.

    One that is not so contradicts it. points: as of an Effect.
    """

    parts: Mapping[str, Effect]
    points: int = 0


@dataclass(frozen=True)
class Estimator:
    """A registered function, the unit of its effect, and the types of its parameters.

    varies: the settings beyond the papers (run_table.ASIDE) that it compares, and so reads whatever their value.
    """

    name: str
    unit: str
    function: Callable[..., Effect | Each]
    varies: tuple[str, ...] = ()

    def __call__(self, runs: pd.DataFrame, parameters: Mapping[str, Any]) -> Effect | Each:
        return self.function(runs, **parameters)

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Raises BadInput where a parameter is missing, unknown, or of the wrong type or value."""
        known = {
            name: parameter
            for name, parameter in inspect.signature(self.function).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        if strange := sorted(set(parameters) - set(known)):
            raise BadInput(
                f"estimator {self.name!r} has no parameter {', '.join(strange)}; there are: {', '.join(known)}"
            )
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
Function = TypeVar("Function", bound=Callable[..., Effect | Each])


def get(name: str) -> Estimator:
    """The estimator of that name. Raises UnknownName, with the choices."""
    if name not in ESTIMATORS:
        raise UnknownName(f"no estimator {name!r}; there are: {', '.join(sorted(ESTIMATORS))}")
    return ESTIMATORS[name]


def estimator(unit: str, *, varies: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """Registers a function under its name."""

    def register(function: Function) -> Function:
        ESTIMATORS[function.__name__] = Estimator(function.__name__, unit, function, varies)
        return function

    return register
