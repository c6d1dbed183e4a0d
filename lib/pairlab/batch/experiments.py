"""Experiments: one parameterized notebook each, run by papermill, in the same way by hand, by the CLI and by sweeps."""

import ast
import difflib
import functools
import itertools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlab import paths, store
from pairlab.base import parameters_cell, units
from pairlab.base.caller import asking
from pairlab.base.parameters_cell import Parameter
from pairlab.batch import kernels
from pairlab.batch.execute import execute
from pairlab.errors import BadInput, BadSpec, MeasurementFailed, PairlabError, UnknownName, unknown_name
from pairlab.measurement.measure import Cell, resolve
from pairlab.model.records import Run
from pairlab.model.spec import NOT_IN_SPEC, Spec
from pairlab.progress.relay import Reports
from pairlab.testbed.contracts import Progress, silent
from pairlab.testbed.host import lock


def notebooks() -> dict[str, Path]:
    """The experiments' notebooks by name: notebooks/experiments/NN-name.ipynb."""
    found = sorted(paths.EXPERIMENTS.glob("[0-9][0-9]-*.ipynb"))
    return {path.stem[3:]: path for path in found}


#: Notebooks from elsewhere on disk, by the experiment that they measure; `named` adds them.
_elsewhere: dict[str, Path] = {}


def notebook_of(experiment: str) -> Path:
    """The notebook of that experiment. Raises UnknownName."""
    known = notebooks() | _elsewhere
    if experiment not in known:
        raise UnknownName(unknown_name("experiment", experiment, known))
    return known[experiment]


def named(experiment: str, folder: Path | None = None) -> str:
    """The name of an experiment that is given by its name, or by the path of its notebook, ./mine.ipynb.

    A notebook from elsewhere is known by its experiment's name from then on, in this process. folder: where relative
    paths count from; by default the current directory. Raises BadInput where there is no such notebook, or it does not
    say which experiment it measures.
    """
    if not experiment.endswith(".ipynb"):
        return experiment
    try:
        notebook = ((folder or Path.cwd()) / Path(experiment).expanduser()).resolve()
    except RuntimeError:
        user = experiment.partition("/")[0]
        raise BadInput(f"no experiment {experiment}: this host has no user with the home {user}") from None
    for name, path in notebooks().items():
        if path.resolve() == notebook:
            return name
    name = _experiment_in(notebook)
    if _elsewhere.get(name) != notebook:
        _elsewhere[name] = notebook
        parameters.cache_clear()
    return name


def _experiment_in(notebook: Path) -> str:
    """The experiment that a notebook names where it makes its Spec: spec_from(globals(), experiment="mine")."""
    for node in itertools.chain.from_iterable(map(ast.walk, parameters_cell.syntax_trees(notebook))):
        called = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        if called in ("spec_from", "Spec"):
            for given in node.keywords:
                if given.arg == "experiment" and isinstance(given.value, ast.Constant):
                    return str(given.value.value)
    raise BadInput(
        f'{notebook} does not name its experiment: call spec_from(globals(), experiment="NAME") after its parameters'
    )


@functools.cache
def parameters(experiment: str) -> Mapping[str, Parameter]:
    """The parameters an experiment's notebook takes, by name, in its order. Raises as parameters_cell.read."""
    return parameters_cell.read(notebook_of(experiment))


def defaults(experiment: str) -> dict[str, Any]:
    """The parameters an experiment's notebook takes, with their values as it stands."""
    return {name: parameter.default for name, parameter in parameters(experiment).items()}


def spec_of(experiment: str, parameters: Mapping[str, Any]) -> Spec:
    """The Spec that the notebook makes of these parameters, its own for the others. Raises BadSpec."""
    known = defaults(experiment)
    for name in parameters:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise BadSpec(f"{experiment!r} has no parameter {name!r}{hint} (there are: {', '.join(known)})")
    values = {**known, **parameters}
    for name in NOT_IN_SPEC:
        if name in known and type(units.as_kind(values[name], type(known[name]))) is not type(known[name]):
            raise BadSpec(f"{name}: must be a {type(known[name]).__name__}, not {values[name]!r}")
    return Spec(experiment=experiment, **{name: value for name, value in values.items() if name not in NOT_IN_SPEC})


def run(
    experiment: str,
    parameters: Mapping[str, Any],
    *,
    wait: bool = True,
    attempts: int = 1,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
) -> Run:
    """Executes the experiment's notebook with these parameters; returns the run it stored, notebook and all.

    wait: for another measurement on this host to end, after saying whose it is; else HostBusy. attempts: as of
    `measure`. progress: called with each phase, in a thread of its own.

    Parameters are checked before a kernel is started, which is given numbers as the Spec has them. A run that failed
    or was invalid is returned too: it has its reasons. Raises what else stopped the notebook, and MeasurementFailed
    where it measured another Spec than its parameters make.
    """
    asked = spec_of(experiment, parameters)
    values = {
        name: units.as_kind(given, bool) if name in NOT_IN_SPEC else getattr(asked, name)
        for name, given in parameters.items()
    }
    return measure_cell(Cell(resolve(asked)), values, wait=wait, attempts=attempts, say=say, progress=progress)


def measure_cell(
    cell: Cell,
    parameters: Mapping[str, Any] | None = None,
    *,
    wait: bool = True,
    attempts: int = 1,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
) -> Run:
    """As `run`, of a cell whose parameters are known to be good; by default those that its spec has."""
    spec = cell.spec
    notebook = notebook_of(spec.experiment)
    if parameters is None:
        parameters = spec.model_dump(include=set(defaults(spec.experiment)))
    if (parameters.get("fresh") or not cell.is_done) and not cell.missing:  # which the notebook will tell, and keep
        lock.await_turn(wait, say)  # its own waiting would not be heard
    begun, trouble, reports = datetime.now(UTC), None, Reports(progress)
    with store.draft(spec) as place, asking(attempts=attempts, wait=wait):
        executed = place / notebook.name
        try:
            execute(notebook, executed, parameters, reports, imports=kernels.probing(spec))
        except PairlabError as error:
            trouble = error
        reported = reports.runs.get(spec.key)
        stored = store.read(reported[1]) if reported else None
        new = stored is not None and stored.measured_at is not None and stored.measured_at >= begun
        if new and executed.exists():
            store.attach_notebook(stored, executed)
    if trouble and not (new and stored.status in ("invalid", "failed")):
        raise trouble
    if stored is None:
        others = "; ".join(words for words, _ in reports.runs.values())
        raise MeasurementFailed(
            f"the notebook {notebook.name} ended, but measured no run of {spec}, which its parameters say: it measured"
            f" {others or 'nothing'}. Set parameters in its cell tagged 'parameters' only, and call measure with the"
            " Spec that they make"
        )
    return stored
