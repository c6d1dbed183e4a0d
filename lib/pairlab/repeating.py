"""The line, or the file, that repeats a measurement: somewhere else, later, or by somebody else."""

import re
import shlex
from typing import Any

import yaml

from pairlab import experiments, paths
from pairlab.errors import BadSpec
from pairlab.measurement import resolve
from pairlab.spec import Spec

#: What papermill's -p would not take for a text: -r does.
_NOT_TEXT = re.compile(r"(?i)none|true|false|[+-]?(?:nan|inf|infinity)|[\d_.e+-]*\d[\d_.e+-]*")


def papermill_command(spec: Spec) -> str:
    """A line for a shell in the checkout, which runs the experiment's notebook into out.ipynb with these parameters.

    Only what differs from the notebook's own values is told. Raises BadSpec where the notebook has no such parameter.
    """
    notebook = experiments.notebook_of(spec.experiment)
    words = ["papermill", paths.shown(notebook), "out.ipynb"]
    for name, value in _differing(spec).items():
        raw = isinstance(value, str) and (not value or _NOT_TEXT.fullmatch(value))
        words += ["-r" if raw else "-p", name, value if isinstance(value, str) else repr(value)]
    return shlex.join(words)


def sweep_file(spec: Spec, repetitions: int = 1) -> str:
    """A sweep file (YAML) with this cell alone, for `pairlab sweep`: its repetitions up to spec.repetition's, and on.

    repetitions: how many from spec.repetition on. A sweep counts them from 0, so those before it are in it, too.
    Raises BadSpec where the experiment has no such parameter.
    """
    taken = ("backend", "seed", "repetition")
    cell = {name: value for name, value in _differing(spec).items() if name not in taken}
    told = {
        "name": f"{spec.experiment[:31]}-{resolve(spec).key[:8]}",
        "seed": spec.seed,
        "repetitions": spec.repetition + repetitions,
        "backend": spec.backend,
        "experiments": {spec.experiment: cell},
    }
    return yaml.safe_dump(told, sort_keys=False, default_flow_style=False)


def _differing(spec: Spec) -> dict[str, Any]:
    """The notebook's parameters that are to have another value than they stand there with."""
    own = experiments.defaults(spec.experiment)
    told = spec.model_dump(exclude={"experiment"})
    for name, value in told.items():
        if name not in own and value != Spec.model_fields[name].default:
            raise BadSpec(
                f"{name}: the notebook of {spec.experiment!r} has no such parameter, so it cannot repeat this"
            )
    return {name: told[name] for name in own if name in told and told[name] != own[name]}
