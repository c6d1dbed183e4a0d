"""Sweep files, and their cells in an order that spreads drift of the machine evenly over all cells."""

import itertools
import math
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pairlab import paths
from pairlab.base import safe_yaml
from pairlab.batch import experiments, stopping_rule
from pairlab.batch.stopping_rule import Rule, Until
from pairlab.errors import BadInput, BadSpec, BadSweep
from pairlab.measurement.measure import resolve
from pairlab.model.spec import NOT_IN_SPEC, Name, Spec, TakesNumbers
from pairlab.testbed import registry

#: More is most likely a mistake: even with the shortest cells they would take days.
MOST_CELLS = 100_000


class Grid(TakesNumbers):
    """Cells of one experiment: a parameter with a list of values is an axis; a plain value holds for all cells.

    backends: the backends that the grid is for; default: all. repetitions: the number of the sweep's repetitions that
    it takes part in. until: repeat until an estimate is precise enough. Without both, the sweep's rule holds.
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


def _as_grids(content: Any) -> list[Any]:
    """A single grid need not be in a list."""
    grids = content if isinstance(content, list) else [content]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise PydanticCustomError("grid", "must be a mapping of parameters to values, or a list of such grids")
    return grids


def _with_one_rule(grid: Any) -> Any:
    if {"repetitions", "until"} <= grid.model_fields_set:
        raise PydanticCustomError("rule", "give either repetitions or until, not both")
    return grid


class SweepFile(TakesNumbers):
    """The content of a sweep file: each experiment with one or more grids of cells.

    parameters: values of parameters for all grids that give no others, of experiments that have them. on_failure:
    whether the sweep continues after a failed cell. unavailable: whether a sweep succeeds if cells are skipped that
    this host cannot measure. attempts: how often a cell is measured at most, if other load or the machine's state made
    it invalid.
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
    attempts: int = Field(3, ge=1, le=100)
    parameters: dict[str, Any] = Field(default_factory=dict)
    experiments: dict[str, Annotated[list[Grid], BeforeValidator(_as_grids)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_rule(self) -> "SweepFile":
        return _with_one_rule(self)

    _file: Path | None = PrivateAttr(None)
    _rules: dict[str | None, dict[Spec, Rule]] = PrivateAttr(default_factory=dict)
    _auto: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def file(self) -> Path | None:
        """Where it was read."""
        return self._file

    @property
    def auto(self) -> dict[str, str]:
        """By backend, the workload that `auto` stands for where it can do what is asked; else the host decides."""
        return self._auto

    def with_auto(self, auto: dict[str, str]) -> "SweepFile":
        """The same sweep, in which `auto` stands for these workloads."""
        changed = self.model_copy()
        changed._auto, changed._rules = auto, {}
        return changed

    def uses_auto(self) -> bool:
        """Whether the workload of some cell is `auto`."""
        for experiment, grids in self.experiments.items():
            try:
                default = experiments.defaults(experiment).get("workload")
            except BadInput:  # which `rules` says
                continue
            values = [(self.parameters | grid.parameters).get("workload", default) for grid in grids]
            if any("auto" in value if isinstance(value, list) else value == "auto" for value in values):
                return True
        return False

    def rule(self, grid: Grid) -> Rule:
        """How often the cells of that grid are measured."""
        return grid.until or grid.repetitions or self.until or self.repetitions


def locate(file: Path) -> Path:
    """The path of a sweep file, given as a path or by the name of one in sweeps/."""
    named = paths.SWEEPS / f"{file}.yaml"
    return named if not file.exists() and file.name == str(file) and named.is_file() else file


def load(path: str | Path) -> SweepFile:
    """Reads and checks a sweep file. Raises BadSweep, naming the file and what is wrong in it."""
    path = Path(path)
    try:
        content = safe_yaml.read(path)
    except OSError as error:
        known = ", ".join(sorted(found.name for found in paths.SWEEPS.glob("*.yaml")))
        raise BadSweep(f"{path}: {error.strerror}; sweeps/ has: {known}") from None
    except ValueError as error:
        raise BadSweep(f"{path} {error}") from None
    if not isinstance(content, dict):
        raise BadSweep(f"{path} must be a mapping with the keys {', '.join(SweepFile.model_fields)}")
    content = _with_names(content, path)
    try:
        sweep = SweepFile(**content)
        sweep._file = path.absolute()
        return sweep
    except ValidationError as error:
        raise BadSweep(f"{path}: {'; '.join(_explain(detail) for detail in error.errors())}") from None
    except TypeError as error:
        raise BadSweep(f"{path}: keys must be words: {error}") from None


def _with_names(content: dict[Any, Any], path: Path) -> dict[Any, Any]:
    """The file's content, with the names of experiments that it gives as paths of notebooks, from its own folder."""
    grids = content.get("experiments")
    if not isinstance(grids, dict):
        return content
    found: dict[Any, Any] = {}
    for experiment, value in grids.items():
        try:
            name = experiments.named(experiment, path.absolute().parent) if isinstance(experiment, str) else experiment
        except BadInput as error:
            raise BadSweep(f"{path}: {error}") from None
        if name in found:
            raise BadSweep(f"{path} has the experiment {name!r} twice, by its name and by a notebook: {experiment}")
        found[name] = value
    return content | {"experiments": found}


def _explain(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        known = (Until if "until" in detail["loc"][:-1] else SweepFile).model_fields
        return f"unknown key {where!r} (there are: {', '.join(known)})"
    if detail["type"] == "value_error":
        return f"{where}: {detail['ctx']['error']}"
    message = f"{detail['msg'][0].lower()}{detail['msg'][1:]}"
    return f"{where}: {message}" if where else message


def rules(sweep: SweepFile, backend: str | None = None) -> dict[Spec, Rule]:
    """Every cell, as of repetition 0, and how often it is measured.

    Raises BadSweep, before anything is measured, for a parameter, a value or a name that does not exist, and if no grid
    is for this backend.
    """
    if backend not in sweep._rules:
        sweep._rules[backend] = _rules(sweep, backend)
    return sweep._rules[backend]


def _rules(sweep: SweepFile, backend: str | None) -> dict[Spec, Rule]:
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
                count += stopping_rule.most(found[spec])
            if count > MOST_CELLS:
                raise BadSweep(_too_many(f"sweep {sweep.name!r}", count))
    if not found:
        what = f"sweep {sweep.name!r} has no cell for backend {backend or sweep.backend!r}"
        raise BadSweep(f"{what}: check `backends` in its grids")
    return found


def cells(sweep: SweepFile, backend: str | None = None, *, at_most: bool = False) -> list[Spec]:
    """Every cell and repetition, in the order of measuring: each block has every cell once, shuffled by the seed.

    A cell with fewer repetitions is in the first blocks only; one that is repeated until an estimate is precise enough
    is in the first at_least blocks, or, with at_most, in the first at_most. Raises BadSweep as `rules`.
    """
    count_of = stopping_rule.most if at_most else stopping_rule.least
    often = {spec: count_of(rule) for spec, rule in rules(sweep, backend).items()}
    return [
        spec
        for number in range(max(often.values()))
        for spec in block(sweep, number, (spec for spec, count in often.items() if number < count))
    ]


def block(sweep: SweepFile, number: int, specs: Iterable[Spec]) -> list[Spec]:
    """These cells in that repetition, in the order of measuring."""
    visited = [spec.replace(repetition=number) for spec in specs]
    random.Random(f"{sweep.seed}/{number}").shuffle(visited)
    return visited


def _cells_of(sweep: SweepFile, experiment: str, grid: Grid, backend: str | None) -> Iterator[Spec]:
    """A grid's cells for this backend, as of repetition 0. Cells for other backends are checked too."""
    for name in grid.backends or ():
        registry.backends.get(name)
    if not sweep.until and grid.repetitions and grid.repetitions > sweep.repetitions:
        raise BadSpec(f"repetitions: a grid cannot have {grid.repetitions}, as the sweep has {sweep.repetitions}")
    for taken in ("repetition", *NOT_IN_SPEC):
        if taken in sweep.parameters | grid.parameters:
            raise BadSpec(f"{taken!r} is set by the sweep, not by its grid")
    of_all = {"backend": sweep.backend, "seed": sweep.seed}
    known = sweep.model_fields_set | experiments.defaults(experiment).keys()
    of_all = {name: value for name, value in of_all.items() if name in known}  # a notebook need not have them
    for values in _combinations(grid, of_all | _for_all(sweep, experiment), backend, sweep.rule(grid)):
        spec = experiments.spec_of(experiment, values)
        if lack := stopping_rule.lack(sweep.rule(grid), spec):
            raise BadSpec(lack)
        if grid.backends is None or spec.backend in grid.backends:
            yield resolve(spec, auto=sweep.auto.get(spec.backend, ""))


def _shortened(axis: list[Any]) -> str:
    text = str(axis)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _too_many(what: str, count: int) -> str:
    return f"{what} has {count:,} measurements, with repetitions; at most {MOST_CELLS:,} are allowed: shorten an axis"


def _for_all(sweep: SweepFile, experiment: str) -> dict[str, Any]:
    """The sweep's parameters that the experiment has, and those that none of its experiments has, which is an error."""
    known = {each: experiments.defaults(each) for each in sweep.experiments}
    others = {name for its in known.values() for name in its} - known[experiment].keys()
    return {name: value for name, value in sweep.parameters.items() if name not in others}


def _combinations(grid: Grid, of_all: dict[str, Any], backend: str | None, rule: Rule) -> Iterator[dict[str, Any]]:
    values = of_all | grid.parameters
    if backend:
        values["backend"] = backend
    axes = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    for name, axis in axes.items():
        if not axis or len({str(value) for value in axis}) < len(axis):
            raise BadSpec(f"{name}: an axis must list values, each once, not {_shortened(axis)}")
    count = math.prod(map(len, axes.values())) * stopping_rule.most(rule)
    if count > MOST_CELLS:  # before any of them is made
        raise BadSpec(_too_many("its grid", count))
    for combination in itertools.product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))
