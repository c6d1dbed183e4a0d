"""Experiments: one parameterized notebook each, run by papermill, in the same way by hand, by the CLI and by sweeps."""

import ast
import difflib
import functools
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlab import paths, store
from pairlab.errors import BadSpec, MeasurementFailed, PairlabError, UnknownName
from pairlab.notebooks import execute
from pairlab.records import Run
from pairlab.spec import Spec

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


@functools.cache
def defaults(experiment: str) -> dict[str, Any]:
    """The parameters an experiment's notebook takes, with their values as it stands."""
    import papermill

    told = papermill.inspect_notebook(str(notebook_of(experiment)))
    return {name: ast.literal_eval(parameter["default"]) for name, parameter in told.items()}


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


def run(experiment: str, parameters: Mapping[str, Any]) -> Run:
    """Executes the experiment's notebook with these parameters; returns the run it stored, notebook and all.

    Parameters are checked before a kernel is started. A run that failed or was invalid is returned too: it has its
    reasons. Raises what else stopped the notebook.
    """
    from pairlab.measurement import resolve

    notebook = notebook_of(experiment)
    spec = resolve(spec_of(experiment, parameters))
    begun = datetime.now(UTC)
    with store.draft(spec) as place:
        executed = place / notebook.name
        trouble: PairlabError | None = None
        try:
            execute(notebook, executed, parameters)
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
