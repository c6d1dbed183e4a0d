"""Experiments: one parameterized notebook each, run by papermill, in the same way by hand, by the CLI and by sweeps."""

import ast
import difflib
import functools
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from pairlab import paths, store
from pairlab.errors import BadSpec, MeasurementFailed, PairlabError, UnknownName
from pairlab.notebooks import execute, papermill_path
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.testbed import hostlock
from pairlab.testbed.contracts import Progress, silent

#: A notebook's parameters that say how to measure, not what.
BESIDES = ("fresh",)


def notebooks() -> dict[str, Path]:
    """The experiments' notebooks by name: notebooks/experiments/NN-name.ipynb."""
    found = sorted(paths.EXPERIMENTS.glob("[0-9][0-9]-*.ipynb"))
    return {path.stem[3:]: path for path in found}


def notebook_of(experiment: str) -> Path:
    known = notebooks()
    if experiment not in known:
        raise UnknownName(f"no experiment {experiment!r}; there are: {', '.join(known)}")
    return known[experiment]


def spec_from(namespace: Mapping[str, Any], *, experiment: str) -> Spec:
    """The Spec that a notebook's parameters make up; call it with globals() right after the parameters' cell.

    Every plain literal in the namespace counts as a parameter, so that a misspelt one, which papermill would only
    warn of, is refused; so does whatever has a parameter's name. Raises BadSpec.
    """
    plain = (str, int, float, bool)
    given = {
        name: value
        for name, value in namespace.items()
        if (isinstance(value, plain) or name in Spec.model_fields) and not name.startswith("_") and name not in BESIDES
    }
    return Spec(experiment=experiment, **given)


class Parameter(NamedTuple):
    """A parameter as its notebook has it: the value there, and what the comment behind it says, unit and all."""

    default: Any
    meaning: str


@functools.cache
def parameters(experiment: str) -> Mapping[str, Parameter]:
    """The parameters an experiment's notebook takes, by name, in its order."""
    import papermill

    told = papermill.inspect_notebook(papermill_path(notebook_of(experiment)))
    return {name: Parameter(ast.literal_eval(each["default"]), each["help"]) for name, each in told.items()}


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
    for name in BESIDES:
        if name in known and type(values[name]) is not type(known[name]):
            raise BadSpec(f"{name}: must be a {type(known[name]).__name__}, not {values[name]!r}")
    return Spec(experiment=experiment, **{name: value for name, value in values.items() if name not in BESIDES})


def run(
    experiment: str,
    parameters: Mapping[str, Any],
    *,
    wait: bool = True,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
) -> Run:
    """Executes the experiment's notebook with these parameters; returns the run it stored, notebook and all.

    wait: for another measurement on this host to end, after saying whose it is; else HostBusy. progress: hears of each
    phase, in a thread of its own.

    Parameters are checked before a kernel is started. A run that failed or was invalid is returned too: it has its
    reasons. Raises what else stopped the notebook.
    """
    from pairlab.measurement import resolve

    notebook = notebook_of(experiment)
    spec = resolve(spec_of(experiment, parameters))
    if parameters.get("fresh") or store.status(spec) != "ok":
        _await_turn(spec, wait, say)
    begun = datetime.now(UTC)
    with store.draft(spec) as place, hostlock.told_whether_to(wait):
        executed = place / notebook.name
        trouble: PairlabError | None = None
        try:
            execute(notebook, executed, parameters, progress)
        except PairlabError as error:
            trouble = error
        stored = store.find(spec)
        new = bool(stored and stored.measured_at and stored.measured_at >= begun)
        if new and executed.exists():
            store.attach_notebook(stored, executed)
    if trouble and not (new and stored.status in ("invalid", "failed")):
        raise trouble
    if stored is None:
        raise MeasurementFailed(f"the notebook {notebook.name} ended well, but stored no run of {spec}")
    return stored


def _await_turn(spec: Spec, wait: bool, say: Callable[[str], None]) -> None:
    """Waits for other measurements on this host; the notebook's own waiting would not be heard."""
    from pairlab.measurement import check

    try:
        check(spec)
    except PairlabError:
        return  # which the notebook will tell, and keep
    hostlock.await_turn(wait, say)
