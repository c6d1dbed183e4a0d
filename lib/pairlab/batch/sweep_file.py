"""Sweep files, and their cells in the order of measuring: block after block, each in random order."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from pairlab import paths
from pairlab.base import safe_yaml
from pairlab.batch import designs, experiments, stopping_rule
from pairlab.batch.blocks import of_repetition, twins
from pairlab.batch.stopping_rule import Rule, Until
from pairlab.errors import BadInput, BadSpec, BadSweep
from pairlab.measurement.measure import resolve
from pairlab.model.spec import NOT_IN_SPEC, Name, Spec, TakesNumbers
from pairlab.testbed import registry

#: A larger number is most likely a mistake: even the shortest cells would take days.
MOST_CELLS = 100_000


def _with_one_rule(grid: Any) -> Any:
    for one, other in (("repetitions", "until"), ("sample", "fraction")):
        if {one, other} <= grid.model_fields_set:
            raise PydanticCustomError("rule", f"give either {one} or {other}, not both")
    return grid


class Grid(TakesNumbers):
    """Cells of one experiment: a parameter with a list of values is an axis; a plain value holds for all cells.

    backends: the grid's backends; default: all. repetitions: the number of the sweep's repetitions that include the
    grid. until: repeat until an estimate is precise enough. Without both, the sweep's rule holds. sample: the number of
    combinations, drawn by the sweep's seed to cover each axis evenly (a Latin hypercube). fraction: the share of the
    combinations of axes with two values each (a fractional factorial design).
    """

    model_config = ConfigDict(extra="allow", strict=True)

    backends: list[Name] | None = Field(None, min_length=1)
    repetitions: int | None = Field(None, ge=1)
    until: Until | None = None
    sample: int = Field(0, ge=2, le=10000)
    fraction: Literal["1/2", "1/4", "1/8", "1/16", "1/32"] | None = None
    _one_rule = model_validator(mode="after")(_with_one_rule)

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _as_grids(content: Any) -> list[Any]:
    """The list of grids; a single grid need not be in a list."""
    grids = content if isinstance(content, list) else [content]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise PydanticCustomError("grid", "must be a mapping of parameters to values, or a list of such grids")
    return grids


class SweepFile(TakesNumbers):
    """The content of a sweep file: each experiment with one or more grids of cells.

    parameters: default values for the grids of all experiments that have the parameters. on_failure: whether the sweep
    continues after a failed cell. unavailable: whether a sweep succeeds if it skips cells that this host cannot
    measure. attempts: most measurements of a cell that other load or the machine's state makes invalid. twin: whether
    one cell of each experiment, workload and number of pairs is measured twice in each block, to show the difference
    between equals.
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
    twin: bool = False
    parameters: dict[str, Any] = Field(default_factory=dict)
    experiments: dict[str, Annotated[list[Grid], BeforeValidator(_as_grids)]] = Field(min_length=1)
    _one_rule = model_validator(mode="after")(_with_one_rule)

    #: The path that the sweep was read from.
    _file: Path | None = PrivateAttr(None)
    #: The workload that `auto` stands for, by backend, if it supports the cell; else the host decides.
    _auto: dict[str, str] = PrivateAttr(default_factory=dict)
    #: The requested number of repetitions, in place of the file's or, with True, added to them; 0: as in the file.
    _repetitions: tuple[int, bool] = PrivateAttr((0, False))
    _rules: dict[str | None, dict[Spec, Rule]] = PrivateAttr(default_factory=dict)

    def with_auto(self, auto: dict[str, str]) -> "SweepFile":
        """The same sweep, in which `auto` stands for these workloads."""
        return self._changed(auto, self._repetitions)

    def with_repetitions(self, asked: str) -> "SweepFile":
        """The same sweep with this number of repetitions ("8"), or more ("+5"); cells with `until` stay as they are."""
        number = asked.removeprefix("+")
        if not number.isascii() or not number.isdigit() or not 0 < int(number) <= 10000:
            raise BadInput(f"repetitions: {asked!r} is no number, such as 8, or +5 for five more than the file has")
        return self._changed(self._auto, (int(number), asked.startswith("+")))

    def as_written(self) -> "SweepFile":
        """The same sweep with the file's repetitions."""
        return self._changed(self._auto, (0, False))

    def _changed(self, auto: dict[str, str], repetitions: tuple[int, bool]) -> "SweepFile":
        changed = self.model_copy()
        changed._auto, changed._repetitions, changed._rules = auto, repetitions, {}
        return changed

    def uses_auto(self) -> bool:
        for experiment, grids in self.experiments.items():
            try:
                default = experiments.defaults(experiment).get("workload")
            except BadInput:  # `rules` reports it
                continue
            values = [(self.parameters | grid.parameters).get("workload", default) for grid in grids]
            if any("auto" in value if isinstance(value, list) else value == "auto" for value in values):
                return True
        return False

    def rule(self, grid: Grid) -> Rule:
        """The number of repetitions of the grid's cells."""
        rule = grid.until or grid.repetitions or self.until or self.repetitions
        number, more = self._repetitions
        return rule if not number or not isinstance(rule, int) else number + more * rule


def locate(file: Path) -> Path:
    """The path of a sweep file, given by path or by its name in sweeps/; a folder of that name is none."""
    named, is_there = paths.own_or_shipped(f"sweeps/{file}.yaml"), file.exists() and not file.is_dir()
    return named if not is_there and file.name == str(file) and named.is_file() else file


def load(path: str | Path) -> SweepFile:
    """Reads and checks a sweep file. Raises BadSweep, naming the file and the fault."""
    path = Path(path)
    try:
        content = safe_yaml.read(path)
    except OSError as error:
        names = ", ".join(dict.fromkeys(file.name for file in paths.beside("sweeps", "*.yaml")))
        raise BadSweep(f"{path}: {error.strerror}; sweeps/ has: {names}") from None
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
    """The content, with experiments' names in place of notebooks' paths, which are relative to the file's folder."""
    grids = content.get("experiments")
    if not isinstance(grids, dict):
        return content
    by_name: dict[Any, Any] = {}
    for experiment, value in grids.items():
        try:
            name = experiments.named(experiment, path.absolute().parent) if isinstance(experiment, str) else experiment
        except BadInput as error:
            raise BadSweep(f"{path}: {error}") from None
        if name in by_name:
            raise BadSweep(f"{path} has the experiment {name!r} twice, by its name and by a notebook: {experiment}")
        by_name[name] = value
    return content | {"experiments": by_name}


def _explain(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        keys = (Until if "until" in detail["loc"][:-1] else SweepFile).model_fields
        return f"unknown key {where!r} (there are: {', '.join(keys)})"
    if detail["type"] == "value_error":
        return f"{where}: {detail['ctx']['error']}"
    message = f"{detail['msg'][0].lower()}{detail['msg'][1:]}"
    return f"{where}: {message}" if where else message


def rules(sweep: SweepFile, backend: str | None = None) -> dict[Spec, Rule]:
    """Every cell, as of repetition 0, with its rule.

    Raises BadSweep, before the first measurement, for a parameter, value or name that does not exist, and if no grid is
    for this backend.
    """
    if backend not in sweep._rules:
        sweep._rules[backend] = _rules(sweep, backend)
    return sweep._rules[backend]


def _rules(sweep: SweepFile, backend: str | None) -> dict[Spec, Rule]:
    rules_of: dict[Spec, Rule] = {}
    count = 0
    if sweep.twin and (lacking := [name for name in sweep.experiments if "twin" not in experiments.defaults(name)]):
        raise BadSweep(
            f"sweep {sweep.name!r} has twin cells, and {', '.join(lacking)} has no parameter 'twin': add `twin = False`"
            " to the notebook's parameters, or leave `twin` out of the sweep"
        )
    for experiment, grids in sweep.experiments.items():
        for grid in grids:
            try:
                specs = list(_cells_of(sweep, experiment, grid, backend))
            except (BadInput, TypeError) as error:
                raise BadSweep(f"sweep {sweep.name!r}, experiment {experiment!r}: {error}") from None
            for spec in specs:
                if spec in rules_of:
                    raise BadSweep(f"sweep {sweep.name!r} has a cell more than once: {spec}")
                rules_of[spec] = sweep.rule(grid)
                count += stopping_rule.most(rules_of[spec])
            if count > MOST_CELLS:
                raise BadSweep(_too_many(f"sweep {sweep.name!r}", count))
    rules_of |= {twin: rules_of[twin.replace(twin=False)] for twin in twins(rules_of)} if sweep.twin else {}
    if not rules_of:
        raise BadSweep(
            f"sweep {sweep.name!r} has no cell for backend {backend or sweep.backend!r}: check `backends` in its grids"
        )
    return rules_of


def cells(sweep: SweepFile, backend: str | None = None, *, at_most: bool = False) -> list[Spec]:
    """Every cell and repetition, in the order of measuring.

    A cell with fewer repetitions is in the first ones only; one with `until` is in the first at_least or, with at_most,
    in the first at_most. Raises BadSweep as `rules`.
    """
    count_of = stopping_rule.most if at_most else stopping_rule.least
    return [spec for block in blocks(sweep, backend, count_of) for spec in block]


def blocks(
    sweep: SweepFile, backend: str | None = None, count_of: Callable[[Rule], int] = stopping_rule.least
) -> list[list[Spec]]:
    """The blocks of all repetitions, in the order of measuring. count_of: the number of repetitions of a rule."""
    counts = {spec: count_of(rule) for spec, rule in rules(sweep, backend).items()}
    return [
        block
        for number in range(max(counts.values()))
        for block in blocks_of(sweep, number, (spec for spec, count in counts.items() if number < count))
    ]


def blocks_of(sweep: SweepFile, number: int, specs: Iterable[Spec]) -> list[list[Spec]]:
    """The blocks of these cells in that repetition, in the order of measuring."""
    repetition = (spec.replace(repetition=number) for spec in specs)
    return of_repetition(repetition, f"{sweep.seed}/{number}")


def _cells_of(sweep: SweepFile, experiment: str, grid: Grid, backend: str | None) -> Iterator[Spec]:
    """The grid's cells for this backend, as of repetition 0. Cells for other backends are checked too."""
    for name in grid.backends or ():
        registry.backends.get(name)
    if not sweep.until and grid.repetitions and grid.repetitions > sweep.repetitions:
        raise BadSpec(f"repetitions: a grid cannot have {grid.repetitions}, as the sweep has {sweep.repetitions}")
    for taken in ("repetition", "twin", *NOT_IN_SPEC):
        if taken in sweep.parameters | grid.parameters:
            raise BadSpec(f"{taken!r} is set by the sweep, not by its grid")
    axes = _axes(sweep, experiment, grid, backend)
    for values in _combinations(grid, axes, sweep.rule(grid), sweep.seed):
        spec = experiments.spec_of(experiment, values)
        if lack := stopping_rule.lack(sweep.rule(grid), spec):
            raise BadSpec(lack)
        if grid.backends is None or spec.backend in grid.backends:
            yield resolve(spec, auto=sweep._auto.get(spec.backend, ""))


def _too_many(what: str, count: int) -> str:
    return f"{what} has {count:,} measurements, with repetitions; at most {MOST_CELLS:,} are allowed: shorten an axis"


def _for_all(sweep: SweepFile, experiment: str) -> dict[str, Any]:
    """The sweep's parameters, without those of other experiments only. One of no experiment stays, to be an error."""
    defaults = {each: experiments.defaults(each) for each in sweep.experiments}
    others = {name for names in defaults.values() for name in names} - defaults[experiment].keys()
    return {name: value for name, value in sweep.parameters.items() if name not in others}


def _axes(sweep: SweepFile, experiment: str, grid: Grid, backend: str | None) -> dict[str, list[Any]]:
    """The values of each parameter in the grid's cells."""
    of_sweep = {"backend": sweep.backend, "seed": sweep.seed}
    accepted = sweep.model_fields_set | experiments.defaults(experiment).keys()
    of_sweep = {name: value for name, value in of_sweep.items() if name in accepted}  # a notebook may lack these
    values = of_sweep | _for_all(sweep, experiment) | grid.parameters
    if backend:
        values["backend"] = backend
    axes = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    for name, axis in axes.items():
        if not axis or len({str(value) for value in axis}) < len(axis):
            text = str(axis)
            text = text if len(text) <= 200 else f"{text[:197]}..."
            raise BadSpec(f"{name}: an axis must list values, each once, not {text}")
    return axes


def _combinations(grid: Grid, axes: dict[str, list[Any]], rule: Rule, seed: int) -> Iterator[dict[str, Any]]:
    if grid.sample:
        return designs.sampled(axes, grid.sample, seed)
    if grid.fraction:
        return designs.fraction(axes, grid.fraction).combinations(axes)
    count = math.prod(map(len, axes.values())) * stopping_rule.most(rule)
    if count > MOST_CELLS:  # before the first is made
        raise BadSpec(_too_many("its grid", count))
    return (dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values()))


def fractions(sweep: SweepFile, backend: str | None = None) -> list[tuple[str, designs.Fraction]]:
    """The fractional designs of the grids for this backend, each with its experiment. Raises as `rules`."""
    rules(sweep, backend)
    return [
        (experiment, designs.fraction(_axes(sweep, experiment, grid, backend), grid.fraction))
        for experiment, grids in sweep.experiments.items()
        for grid in grids
        if grid.fraction and (grid.backends is None or (backend or sweep.backend) in grid.backends)
    ]
