"""Sweeps: many measurements from one file, in an order that spreads the machine's drift over all cells alike."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from pairlab import experiments, paths, store
from pairlab.errors import BadInput, BadSpec, BadSweep, HostBusy, PairlabError, StoreError, Unavailable
from pairlab.measurement import check, resolve
from pairlab.records import Run
from pairlab.spec import Name, Spec
from pairlab.testbed import registry

#: What a cell costs above its traffic, for the first estimate; afterwards the cells themselves tell.
OVERHEAD_S = 3.0

#: Measures one cell and returns its run, or raises why not. Another executor may send it to another host.
Executor = Callable[[Spec], Run]


class Grid(BaseModel):
    """Cells of one experiment: of its parameters, a list is an axis and a plain value holds for all cells.

    backends: those it is for; else for any. repetitions: in how many of the sweep's it takes part, the first ones.
    """

    model_config = ConfigDict(extra="allow", strict=True)

    backends: list[Name] | None = Field(None, min_length=1)
    repetitions: int | None = Field(None, ge=1)

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


def _as_grids(told: Any) -> list[Any]:
    """One grid may stand without a list around it."""
    grids = told if isinstance(told, list) else [told]
    if not grids or not all(isinstance(grid, dict) for grid in grids):
        raise PydanticCustomError("grid", "must be a mapping of parameters to values, or a list of such grids")
    return grids


class SweepFile(BaseModel):
    """A sweep as its file has it: each experiment with one grid of cells, or several."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: Name
    description: str = ""
    seed: int = Field(0, ge=0)
    repetitions: int = Field(1, ge=1, le=10000)
    backend: Name = "netns"
    unavailable: Literal["skip", "fail"] = "fail"
    experiments: dict[str, Annotated[list[Grid], BeforeValidator(_as_grids)]] = Field(min_length=1)


def load(path: str | Path) -> SweepFile:
    """Reads and checks a sweep file. Raises BadSweep, naming the file and what is wrong in it."""
    path = Path(path)
    try:
        told = yaml.safe_load(path.read_text())
    except OSError as error:
        known = ", ".join(sorted(found.name for found in paths.SWEEPS.glob("*.yaml")))
        raise BadSweep(f"{path}: {error.strerror}; sweeps/ has: {known}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: the 31st of February; not UTF-8
        raise BadSweep(f"{path} is not YAML: {' '.join(str(error).split())}") from None
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
        return f"unknown key {where!r} (there are: {', '.join(SweepFile.model_fields)})"
    return f"{where}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def cells(sweep: SweepFile, backend: str | None = None) -> list[Spec]:
    """Every cell, in the order it is measured: each repetition visits every cell once, shuffled by the seed.

    A cell of a grid with fewer repetitions is in the first of them only. Raises BadSweep for a parameter or a value
    that an experiment does not take, and where no grid is for this backend; nothing is measured then.
    """
    repetitions: dict[Spec, int] = {}
    for experiment, grids in sweep.experiments.items():
        for grid in grids:
            try:
                found = list(_cells_of(sweep, experiment, grid, backend))
            except (BadInput, TypeError) as error:
                raise BadSweep(f"sweep {sweep.name!r}, experiment {experiment!r}: {error}") from None
            for spec in found:
                if spec in repetitions:
                    raise BadSweep(f"sweep {sweep.name!r} has a cell more than once: {spec}")
                repetitions[spec] = grid.repetitions or sweep.repetitions
    if not repetitions:
        raise BadSweep(f"sweep {sweep.name!r} has no cell for backend {backend or sweep.backend!r}: see its `backends`")
    ordered = []
    for repetition in range(sweep.repetitions):
        block = [spec.replace(repetition=repetition) for spec, count in repetitions.items() if repetition < count]
        random.Random(f"{sweep.seed}/{repetition}").shuffle(block)
        ordered += block
    return ordered


def _cells_of(sweep: SweepFile, experiment: str, grid: Grid, backend: str | None) -> Iterator[Spec]:
    """A grid's cells for this backend, as of repetition 0. Those for other backends are checked all the same."""
    for name in grid.backends or ():
        registry.backends.get(name)
    if grid.repetitions and grid.repetitions > sweep.repetitions:
        raise BadSpec(f"repetitions: the sweep has {sweep.repetitions}, so that a grid cannot have {grid.repetitions}")
    for values in _combinations(sweep, grid.parameters, backend):
        spec = experiments.spec_of(experiment, values)
        if grid.backends is None or spec.backend in grid.backends:
            yield resolve(spec)


def _combinations(sweep: SweepFile, parameters: dict[str, Any], backend: str | None) -> Iterator[dict[str, Any]]:
    for taken in ("repetition", *experiments.BESIDES):
        if taken in parameters:
            raise BadSpec(f"{taken!r} is set by the sweep, not by its grid")
    values = {"backend": sweep.backend, "seed": sweep.seed, **parameters}
    if backend:
        values["backend"] = backend
    axes = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    for name, axis in axes.items():
        if not axis or len({str(value) for value in axis}) < len(axis):
            raise BadSpec(f"{name}: an axis must list values, each once, not {axis}")
    for combination in itertools.product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))


@dataclass(frozen=True)
class Report:
    """Where a sweep stands after a cell. state: done, stored (done before), invalid, failed or skipped."""

    number: int
    total: int
    spec: Spec
    state: str
    told: str
    left_s: float


@dataclass
class Tally:
    """How many cells ended how: done, skipped for each reason, and the names of those that are not done."""

    unavailable: str
    done: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    not_done: list[str] = field(default_factory=list)

    @property
    def skipped(self) -> int:
        return self.skips.total()

    @property
    def good(self) -> bool:
        """Every cell is done, but for those that this host cannot do where the sweep lets them be skipped.

        Some must be done: a sweep that only skipped has told nothing.
        """
        return self.done > 0 and not self.not_done and (self.unavailable == "skip" or not self.skipped)


def here(spec: Spec) -> Run:
    """The executor that measures on this host: papermill on the experiment's notebook."""
    values = spec.model_dump(include=set(experiments.defaults(spec.experiment)))
    return experiments.run(spec.experiment, values)


def run(
    sweep: SweepFile,
    *,
    backend: str | None = None,
    retry: bool = False,
    tell: Callable[[Report], None] = lambda report: None,
    execute: Executor = here,
) -> Tally:
    """Measures every cell that is not done yet, one after another; resumes where it was interrupted.

    retry: also those that failed or were invalid before, which are else kept and counted as not done. A cell that
    fails is kept with its reason, and the sweep goes on. tell hears of each cell. Raises BadSweep before anything is
    measured, and StoreError where runs cannot be stored.
    """
    todo = cells(sweep, backend)
    store.remember_sweep(sweep.name, todo)
    tally = Tally(sweep.unavailable)
    waiting = _waiting(todo, retry)
    costs: list[float] = []
    for number, spec in enumerate(todo, 1):
        begun = time.monotonic()
        state, told = _settle(spec, execute, retry)
        if state in ("done", "invalid", "failed"):
            costs.append(time.monotonic() - begun - _traffic_s(spec))
        if state in ("done", "stored"):
            tally.done += 1
        elif state == "skipped":
            tally.skips[told] += 1
        else:
            tally.not_done.append(f"{spec}: {told}")
        tell(Report(number, len(todo), spec, state, told, _left(waiting & set(todo[number:]), costs)))
    return tally


def _settle(spec: Spec, execute: Executor, retry: bool) -> tuple[str, str]:
    """Brings one cell to an end: what became of it, and a line about it."""
    stored = store.find(spec)
    if stored and stored.status == "ok":
        return "stored", _figures(stored)
    if stored and stored.status in ("failed", "invalid") and not retry:
        return stored.status, f"kept from before ({'; '.join(stored.reasons)})"
    try:
        _check_host(spec)
        run = execute(spec)
    except Unavailable as error:
        if not stored or (stored.status, stored.reasons) != ("skipped", (str(error),)):
            store.write(Run(spec, "skipped", (str(error),), datetime.now(UTC)))
        return "skipped", str(error)
    except (HostBusy, StoreError):  # the next cell would fare no better
        raise
    except PairlabError as error:
        now = store.find(spec)
        if now is None or (stored and now.measured_at == stored.measured_at):  # else measure() has kept it
            store.write(Run(spec, "failed", (str(error),), datetime.now(UTC)))
        return "failed", str(error)
    if run.status == "ok":
        return "done", _figures(run)
    return run.status, "; ".join(run.reasons)


def _check_host(spec: Spec) -> None:
    """Raises Unavailable where this host cannot do it: also for more cores than it has, as the cell as such is fine."""
    try:
        check(spec)
    except BadSpec as error:
        raise Unavailable(str(error)) from error


def _figures(run: Run) -> str:
    failed = f", {run.failed_flows} of {len(run.flows)} flows failed" if run.failed_flows else ""
    return f"{run.outcome}{failed}"


def _waiting(todo: list[Spec], retry: bool) -> set[Spec]:
    """The cells to be measured: without a run, or with one that is to be retried."""
    again = (None, "failed", "invalid") if retry else (None,)
    return {spec for spec in todo if store.status(spec) in again}


def _left(waiting: set[Spec], costs: list[float]) -> float:
    """Seconds still to go: traffic of the cells that wait, and what a cell has cost above it so far."""
    overhead_s = sum(costs) / len(costs) if costs else OVERHEAD_S
    return sum(_traffic_s(spec) + overhead_s for spec in waiting)


def _traffic_s(spec: Spec) -> float:
    """How long its traffic takes, as far as it is known before: flows with an end take a small part of their time."""
    return 0.0 if spec.flow_bytes else spec.total_s


def estimate_s(todo: list[Spec], *, retry: bool = False) -> float:
    """How long the cells to be measured will take, in seconds, before any has been."""
    return _left(_waiting(todo, retry), [])
