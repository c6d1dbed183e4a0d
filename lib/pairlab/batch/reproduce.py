"""A command line, or a sweep file, that repeats a measurement elsewhere or later."""

import re
import shlex
from typing import Any

from pairlab import paths
from pairlab.base import safe_yaml
from pairlab.batch import experiments
from pairlab.errors import BadSpec
from pairlab.measurement.measure import resolve
from pairlab.model.spec import Spec

#: Texts that papermill's -p would read as another type; -r takes them as text.
_NOT_TEXT = re.compile(r"(?i)none|true|false|[+-]?(?:nan|inf|infinity)|[\d_.e+-]*\d[\d_.e+-]*")


def papermill_command(spec: Spec) -> str:
    """A shell command, for the checkout's root, that runs the experiment's notebook with these parameters.

    Only parameters that differ from the notebook's defaults are given. Raises BadSpec where the notebook has no such
    parameter.
    """
    notebook = experiments.notebook_of(spec.experiment)
    words = ["papermill", paths.from_root(notebook), "out.ipynb"]
    for name, value in _differing(spec).items():
        raw = isinstance(value, str) and (not value or _NOT_TEXT.fullmatch(value))
        words += ["-r" if raw else "-p", name, value if isinstance(value, str) else repr(value)]
    return shlex.join(words)


def sweep_file(spec: Spec, repetitions: int = 1) -> str:
    """A sweep file (YAML) with this cell only, for `pairlab sweep`.

    repetitions: the number of repetitions from spec.repetition on. A sweep counts them from 0, so earlier ones are
    included. Raises BadSpec where the experiment has no such parameter.
    """
    taken = ("backend", "seed", "repetition")
    cell = {name: value for name, value in _differing(spec).items() if name not in taken}
    content = {
        "name": f"{spec.experiment[:31]}-{resolve(spec).key[:8]}",
        "seed": spec.seed,
        "repetitions": spec.repetition + repetitions,
        "backend": spec.backend,
        "experiments": {spec.experiment: cell},
    }
    return safe_yaml.text(content, default_flow_style=False)


def _differing(spec: Spec) -> dict[str, Any]:
    """The notebook's parameters whose values differ from its defaults."""
    own = experiments.defaults(spec.experiment)
    values = spec.model_dump(exclude={"experiment"})
    for name, value in values.items():
        if name not in own and value != Spec.model_fields[name].default:
            raise BadSpec(
                f"{name}: the notebook of {spec.experiment!r} has no such parameter, so it cannot repeat this"
            )
    return {name: values[name] for name in own if name in values and values[name] != own[name]}
