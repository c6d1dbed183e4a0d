"""Experiments: parameterized notebooks, run by papermill in the same way by hand, by the CLI and by sweeps.

Also the command line or sweep file that repeats a measurement elsewhere or later.
"""

import functools
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlab import paths, store
from pairlab.base import parameters_cell, safe_yaml, units
from pairlab.base.caller import caller_with
from pairlab.base.parameters_cell import Parameter
from pairlab.batch import kernels
from pairlab.batch.execute import execute
from pairlab.errors import BadInput, BadSpec, MeasurementFailed, PairlabError, UnknownName, hint, unknown_name
from pairlab.measurement.measure import Cell, resolve
from pairlab.model.records import Run
from pairlab.model.spec import NOT_IN_SPEC, Spec
from pairlab.progress.relay import Reports
from pairlab.testbed.contracts import Progress, no_progress
from pairlab.testbed.host import lock

#: The template of a new experiment: the notebook of a new study.
TEMPLATE = paths.DATA / "study" / "notebooks" / "experiments" / "flooding.ipynb"


def notebooks() -> dict[str, Path]:
    """The experiments' notebooks by name, in notebooks/experiments: pairlab's own NN-name.ipynb, and the study's."""
    return {paths.notebook_name(path): path for path in paths.beside("notebooks/experiments", "*.ipynb")}


def new(name: str) -> Path:
    """Makes the first notebook of a new experiment of the study; returns the path.

    Raises BadInput for a name that is taken or invalid.
    """
    Spec(experiment=name)  # refuses invalid names
    if name in notebooks():
        raise BadInput(f"there is an experiment {name!r} already: {paths.shown(notebooks()[name])}")
    place = paths.STUDY / "notebooks" / "experiments" / f"{name}.ipynb"
    place.parent.mkdir(parents=True, exist_ok=True)
    text = TEMPLATE.read_text(encoding="utf-8").replace("What does flooding cost?", f"{name}: what is asked?")
    with open(place, "x", encoding="utf-8") as file:
        file.write(text.replace("flooding", name).replace("driver=hub", "driver=macvlan"))
    return place


#: Texts that papermill's -p would read as another type; -r keeps them as text.
_NOT_TEXT = re.compile(r"(?i)none|true|false|[+-]?(?:nan|inf|infinity)|[\d_.e+-]*\d[\d_.e+-]*")
#: Notebooks from elsewhere on disk, by experiment; `named` adds them.
_elsewhere: dict[str, Path] = {}


def notebook_of(experiment: str) -> Path:
    """The notebook of that experiment. Raises UnknownName."""
    available = notebooks() | _elsewhere
    if experiment not in available:
        raise UnknownName(unknown_name("experiment", experiment, available))
    return available[experiment]


def named(experiment: str, folder: Path | None = None) -> str:
    """The name of an experiment that is given by name or by the path of the notebook, such as ./mine.ipynb.

    From then on, this process finds a notebook from elsewhere by the experiment's name. folder: base of relative paths,
    by default the current directory. Raises BadInput where the notebook is missing or does not name an experiment.
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
    name = next(parameters_cell.texts_passed(notebook, "experiment", ("spec_from", "Spec")), "")
    if not name:
        raise BadInput(
            f'{notebook} does not name its experiment: call spec_from(globals(), experiment="NAME") after its'
            " parameters"
        )
    if _elsewhere.get(name) != notebook:
        _elsewhere[name] = notebook
        parameters.cache_clear()
    return name


@functools.cache
def title(experiment: str) -> str:
    """The experiment's subject: the notebook's heading, "Name: what is asked?"; without a heading, the name."""
    return parameters_cell.heading(notebook_of(experiment)) or experiment


@functools.cache
def parameters(experiment: str) -> Mapping[str, Parameter]:
    """The parameters of an experiment's notebook by name, in the notebook's order. Raises as parameters_cell.read."""
    return parameters_cell.read(notebook_of(experiment))


def defaults(experiment: str) -> dict[str, Any]:
    """The parameters of an experiment's notebook, with their default values."""
    return {name: parameter.default for name, parameter in parameters(experiment).items()}


def spec_of(experiment: str, parameters: Mapping[str, Any]) -> Spec:
    """The Spec that the notebook makes of these parameters and its own defaults. Raises BadSpec."""
    own = defaults(experiment)
    for name in parameters:
        if name not in own:
            raise BadSpec(f"{experiment!r} has no parameter {name!r}{hint(name, own)} (there are: {', '.join(own)})")
    values = {**own, **parameters}
    for name in NOT_IN_SPEC:
        if name in own and type(units.as_kind(values[name], type(own[name]))) is not type(own[name]):
            raise BadSpec(f"{name}: must be a {type(own[name]).__name__}, not {values[name]!r}")
    return Spec(experiment=experiment, **{name: value for name, value in values.items() if name not in NOT_IN_SPEC})


def run(experiment: str, parameters: Mapping[str, Any], **how: Any) -> Run:
    """Executes the experiment's notebook with these parameters, as `measure_cell`; returns the stored run.

    Parameters are checked before a kernel is started; the kernel gets the Spec's numbers.
    """
    spec = spec_of(experiment, parameters)
    values = {
        name: units.as_kind(given, bool) if name in NOT_IN_SPEC else getattr(spec, name)
        for name, given in parameters.items()
    }
    return measure_cell(Cell(resolve(spec)), values, **how)


def measure_cell(
    cell: Cell,
    parameters: Mapping[str, Any] | None = None,
    *,
    wait: bool = True,
    attempts: int = 1,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = no_progress,
) -> Run:
    """Executes the notebook of the cell's experiment with these parameters, by default the spec's.

    wait: for another measurement on this host to end, after naming its owner; else HostBusy. attempts: as of `measure`.
    progress: called with each phase, in a separate thread.

    Returns the stored run, with the notebook. A failed or invalid run is returned too, with reasons. Raises any other
    error of the notebook, and MeasurementFailed where the notebook measured another Spec than the parameters'.
    """
    spec = cell.spec
    notebook = notebook_of(spec.experiment)
    if parameters is None:
        parameters = spec.model_dump(include=set(defaults(spec.experiment)))
    if (parameters.get("fresh") or not cell.done) and not cell.missing:  # the notebook itself reports and stores this
        lock.await_turn(wait, say)  # messages of a wait in the notebook would not get here
    begun, trouble, reports = datetime.now(UTC), None, Reports(progress)
    with store.draft(spec) as place, caller_with(attempts=attempts, wait=wait):
        executed = place / notebook.name
        try:
            execute(notebook, executed, parameters, reports, imports=kernels.probing(spec))
        except PairlabError as error:
            trouble = error
        stored = store.read(reports.runs[spec.key][1]) if spec.key in reports.runs else None
        new = stored is not None and stored.measured_at is not None and stored.measured_at >= begun
        if stored and new and executed.exists():
            store.attach_notebook(stored, executed)
    if trouble and not (stored and new and stored.status in ("invalid", "failed")):
        raise trouble
    if stored is None:
        others = "; ".join(words for words, _ in reports.runs.values())
        raise MeasurementFailed(
            f"the notebook {notebook.name} ended, but measured no run of {spec}, which its parameters say: it measured"
            f" {others or 'nothing'}. Set parameters in its cell tagged 'parameters' only, and call measure with the"
            " Spec that they make"
        )
    return stored


def papermill_command(spec: Spec, *, fresh: bool = False) -> str:
    """A shell command that runs the experiment's notebook with these parameters from the checkout's root.

    Only parameters that differ from the notebook's defaults are given. fresh: measure even if a run is stored. Raises
    BadSpec where the notebook lacks a parameter.
    """
    words = ["papermill", paths.from_root(notebook_of(spec.experiment)), "out.ipynb"]
    for name, value in _differing(spec).items():
        raw = isinstance(value, str) and (not value or _NOT_TEXT.fullmatch(value))
        words += ["-r" if raw else "-p", name, value if isinstance(value, str) else repr(value)]
    return shlex.join([*words, *(["-p", "fresh", "True"] if fresh else [])])


def sweep_text(spec: Spec, repetitions: int = 1, several: Mapping[str, Sequence[Any]] | None = None) -> str:
    """A sweep file (YAML) with this cell, for `pairlab sweep`; `several` as in sweep_plan."""
    return safe_yaml.text(sweep_plan(spec, repetitions, several), default_flow_style=False)


def sweep_plan(spec: Spec, repetitions: int = 1, several: Mapping[str, Sequence[Any]] | None = None) -> dict[str, Any]:
    """The content of a sweep file with this cell, or with a grid over the `several` values.

    repetitions: the number of repetitions from spec.repetition on. A sweep counts from 0, so earlier repetitions are
    included. Raises BadSpec where the experiment lacks a parameter.
    """
    taken = ("backend", "seed", "repetition")
    grid = {name: value for name, value in _differing(spec).items() if name not in taken} | dict(several or {})
    key = resolve(spec).key
    mark = hashlib.sha256(json.dumps([key, several]).encode()).hexdigest() if several else key
    return {
        "name": f"{spec.experiment[:31]}-{mark[:8]}",
        "seed": spec.seed,
        "repetitions": spec.repetition + repetitions,
        "backend": spec.backend,
        "experiments": {spec.experiment: grid},
    }


def _differing(spec: Spec) -> dict[str, Any]:
    """The notebook's parameters whose values differ from its defaults."""
    own = defaults(spec.experiment)
    values = spec.model_dump(exclude={"experiment"})
    for name, value in values.items():
        if name not in own and value != Spec.model_fields[name].default:
            raise BadSpec(
                f"{name}: the notebook of {spec.experiment!r} has no such parameter, so it cannot repeat this"
            )
    return {name: values[name] for name in own if name in values and values[name] != own[name]}
