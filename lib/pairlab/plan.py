"""Sweep files, and the cells they stand for, in an order that spreads the machine's drift over all cells alike."""

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pairlab import experiments, paths, repetition, yamlfile
from pairlab.errors import BadInput, BadSpec, BadSweep
from pairlab.measurement import resolve
from pairlab.repetition import Rule, Until
from pairlab.spec import Name, Spec
from pairlab.testbed import registry

#: More is a slip of the pen: at the seconds that the shortest cell takes, they would last for days.
MOST_CELLS = 100_000


class Grid(BaseModel):
    """Cells of one experiment: of its parameters, a list is an axis and a plain value holds for all cells.

    backends: those it is for; else for any. repetitions: in how many of the sweep's it takes part, the first ones;
    until: or until an estimate is known. Without either, as the sweep says.
    """

    model_config = ConfigDict(extra="allow", strict=True)

    backends: list[Name] | None = Field(None, min_length=1)
    repetitions: int | None = Field(None, ge=1)
    until: Until | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> "Grid":
        return _with_one_rule(self)

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _as_grids(told: Any) -> list[Any]:
    """One grid may stand without a list around it."""
    grids = told if isinstance(told, list) else [told]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise PydanticCustomError("grid", "must be a mapping of parameters to values, or a list of such grids")
    return grids


def _with_one_rule(told: Any) -> Any:
    if {"repetitions", "until"} <= told.model_fields_set:
        raise PydanticCustomError("rule", "either repetitions or until says how often, not both")
    return told


class SweepFile(BaseModel):
    """A sweep as its file has it: each experiment with one grid of cells, or several.

    on_failure: whether it goes on after a cell that failed. unavailable: whether it is well done with cells skipped
    that this host cannot do.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    description: str = ""
    seed: int = Field(0, ge=0)
    repetitions: int = Field(1, ge=1, le=10000)
    until: Until | None = None
    backend: Name = "netns"
    unavailable: Literal["skip", "fail"] = "fail"
    on_failure: Literal["continue", "stop"] = "continue"
    experiments: dict[str, Annotated[list[Grid], BeforeValidator(_as_grids)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_rule(self) -> "SweepFile":
        return _with_one_rule(self)

    def rule(self, grid: Grid) -> Rule:
        """How often the cells of that grid of its are measured."""
        return grid.until or grid.repetitions or self.until or self.repetitions


def load(path: str | Path) -> SweepFile:
    """Reads and checks a sweep file. Raises BadSweep, naming the file and what is wrong in it."""
    path = Path(path)
    try:
        told = yamlfile.read(path)
    except OSError as error:
        known = ", ".join(sorted(found.name for found in paths.SWEEPS.glob("*.yaml")))
        raise BadSweep(f"{path}: {error.strerror}; sweeps/ has: {known}") from None
    except ValueError as error:
        raise BadSweep(f"{path} {error}") from None
    if not isinstance(told, dict):
        raise BadSweep(f"{path} must be a mapping with the keys {', '.join(SweepFile.model_fields)}")
    try:
        return SweepFile(**told)
    except ValidationError as error:
        raise BadSweep(f"{path}: {'; '.join(_explain(detail) for detail in error.errors())}") from None
    except TypeError as error:
        raise BadSweep(f"{path}: keys must be words: {error}") from None


def _explain(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = (Until if "until" in detail["loc"][:-1] else SweepFile).model_fields
        return f"unknown key {where!r} (there are: {', '.join(known)})"
    told = f"{detail['msg'][0].lower()}{detail['msg'][1:]}"
    return f"{where}: {told}" if where else told


def rules(sweep: SweepFile, backend: str | None = None) -> dict[Spec, Rule]:
    """Every cell, as of repetition 0, and how often it is measured.

    Raises BadSweep for a parameter or a value that an experiment does not take, and where no grid is for this backend;
    nothing is measured then.
    """
    found: dict[Spec, Rule] = {}
    count = 0
    for experiment, grids in sweep.experiments.items():
        for grid in grids:
            try:
                specs = list(_cells_of(sweep, experiment, grid, backend))
            except (BadInput, TypeError) as error:
                raise BadSweep(f"sweep {sweep.name!r}, experiment {experiment!r}: {error}") from None
            for spec in specs:
                if spec in found:
                    raise BadSweep(f"sweep {sweep.name!r} has a cell more than once: {spec}")
                found[spec] = sweep.rule(grid)
                count += repetition.most(found[spec])
            if count > MOST_CELLS:
                raise BadSweep(_too_many(f"sweep {sweep.name!r}", count))
    if not found:
        raise BadSweep(f"sweep {sweep.name!r} has no cell for backend {backend or sweep.backend!r}: see its `backends`")
    return found


def cells(sweep: SweepFile, backend: str | None = None, *, at_most: bool = False) -> list[Spec]:
    """Every cell and repetition, in the order it is measured: each block visits every cell once, shuffled by the seed.

    A cell of a grid with fewer repetitions is in the first blocks only; one that is repeated until an estimate is known
    is in the first at_least of them, or in the first at_most. Raises BadSweep as `rules`.
    """
    count_of = repetition.most if at_most else repetition.least
    often = {spec: count_of(rule) for spec, rule in rules(sweep, backend).items()}
    return [
        spec
        for number in range(max(often.values()))
        for spec in block(sweep, number, (spec for spec, count in often.items() if number < count))
    ]


def block(sweep: SweepFile, number: int, specs: Iterable[Spec]) -> list[Spec]:
    """These cells in that repetition, in the order it visits them."""
    visited = [spec.replace(repetition=number) for spec in specs]
    random.Random(f"{sweep.seed}/{number}").shuffle(visited)
    return visited


def _cells_of(sweep: SweepFile, experiment: str, grid: Grid, backend: str | None) -> Iterator[Spec]:
    """A grid's cells for this backend, as of repetition 0. Those for other backends are checked all the same."""
    for name in grid.backends or ():
        registry.backends.get(name)
    if not sweep.until and grid.repetitions and grid.repetitions > sweep.repetitions:
        raise BadSpec(f"repetitions: the sweep has {sweep.repetitions}, so that a grid cannot have {grid.repetitions}")
    for values in _combinations(sweep, grid, backend):
        spec = experiments.spec_of(experiment, values)
        if lack := repetition.lack(sweep.rule(grid), spec):
            raise BadSpec(lack)
        if grid.backends is None or spec.backend in grid.backends:
            yield resolve(spec)


def _shortened(axis: list[Any]) -> str:
    told = str(axis)
    return told if len(told) <= 200 else f"{told[:197]}..."


def _too_many(what: str, count: int) -> str:
    return f"{what} has {count:,} measurements, repetitions counted, and {MOST_CELLS:,} is the most: shorten an axis"


def _combinations(sweep: SweepFile, grid: Grid, backend: str | None) -> Iterator[dict[str, Any]]:
    parameters = grid.parameters
    for taken in ("repetition", *experiments.BESIDES):
        if taken in parameters:
            raise BadSpec(f"{taken!r} is set by the sweep, not by its grid")
    values = {"backend": sweep.backend, "seed": sweep.seed, **parameters}
    if backend:
        values["backend"] = backend
    axes = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    for name, axis in axes.items():
        if not axis or len({str(value) for value in axis}) < len(axis):
            raise BadSpec(f"{name}: an axis must list values, each once, not {_shortened(axis)}")
    count = math.prod(map(len, axes.values())) * repetition.most(sweep.rule(grid))
    if count > MOST_CELLS:  # before any of them is made
        raise BadSpec(_too_many("its grid", count))
    for combination in itertools.product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))
