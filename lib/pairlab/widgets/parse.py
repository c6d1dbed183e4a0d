"""Turns the text of a form's fields into a Spec, or into one error message per field. No widgets here."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pairlab.base import units
from pairlab.base.parameters_cell import Parameter
from pairlab.batch import experiments
from pairlab.errors import BadInput, PairlabError, Unavailable, hint
from pairlab.measurement.measure import check, resolve
from pairlab.model.spec import Spec
from pairlab.testbed import plans

#: Fields of the form that are no parameters of the notebook.
REPETITIONS, SEVERAL = "repetitions", "several"
#: The key of errors that belong to no field.
NO_FIELD = ""
#: For more, a sweep is better: it resumes after an interruption.
MAX_REPETITIONS = 1000
#: Of a grid that a form asks for: a field of a form is no place to plan more.
MAX_CELLS = 1000
#: What is decided for all cells of a grid, above it.
_FOR_ALL = ("backend", "experiment", "seed", "repetition", "fresh")
#: How words of parameter names are written in a label.
_SPELLING = {
    "cpu": "CPU",
    "cpus": "CPUs",
    "udp": "UDP",
    "mtu": "MTU",
    "max": "max.",
    "fresh": "measure again",
    "several": "several values",
}


class Request(NamedTuple):
    """What a form asks for: a spec, or else errors by field.

    repetitions: number of measurements, the first with spec.repetition. fresh: measure even if stored. several: by
    parameter the values of a grid, of which every combination is measured; cells: their specs.
    """

    spec: Spec | None
    repetitions: int = 1
    fresh: bool = False
    errors: Mapping[str, str] = {}
    several: Mapping[str, Sequence[Any]] = {}
    cells: Sequence[Spec] = ()


def label(name: str) -> str:
    """A parameter's name as a label with its unit: "Duration (s)" for duration_s, "Flow size (B)" for flow_bytes."""
    unit = units.unit_of(name)
    words = " ".join(_SPELLING.get(word, word) for word in units.stem(name).split("_")) + " size" * (unit == "B")
    return f"{words[0].upper()}{words[1:]}{f' ({unit})' if unit else ''}"


def as_text(name: str, value: Any) -> Any:
    """A parameter's value as its field shows it; `read` turns that back into the same value."""
    if isinstance(value, bool | str):
        return value
    unit = units.unit_of(name)
    short = units.with_prefix(value, unit) if unit in ("B", "bit/s") and value >= 1000 else f"{value:g}"
    return short if units.read(short, unit) == value else repr(value)


def read(experiment: str, entered: Mapping[str, Any]) -> Request:
    """Reads the fields. Builds nothing, and does not check what this host can do: `host_errors` does.

    entered: what was typed or chosen, by parameter; a parameter that is left out has the notebook's value.
    """
    values, errors = {}, {}
    parameters = experiments.parameters(experiment)
    entered = dict(entered)
    several: dict[str, list[Any]] = {}
    in_fields = []
    try:
        several = _several(entered.pop(SEVERAL, ""), parameters)
    except ValueError as error:
        errors[SEVERAL] = str(error)
    for name, text in entered.items():
        like = 1 if name == REPETITIONS else parameters[name].default
        try:
            listed = [_value(name, each, like) for each in _listed(name, text, like)]
        except ValueError as error:
            errors[name] = str(error)
            continue
        values[name] = listed[0]
        if len(listed) > 1:
            several[name] = listed
            in_fields.append(name)
    if (count := math.prod(map(len, several.values()))) > MAX_CELLS:
        errors[SEVERAL] = f"these are {count:,} cells; for more than {MAX_CELLS:,}, write a sweep file"
    repetitions = values.pop(REPETITIONS, 1)
    if REPETITIONS not in errors and not 1 <= repetitions <= MAX_REPETITIONS:
        errors[REPETITIONS] = f"must be from 1 to {MAX_REPETITIONS:,}; for more, use a sweep"
    spec = None
    try:
        spec = experiments.spec_of(experiment, values)
        plans.layout(resolve(spec))
    except BadInput as error:
        spec, errors = None, {**by_field(str(error), parameters), **errors}
    cells: list[Spec] = []
    if spec and several and SEVERAL not in errors:
        try:
            for each in itertools.product(*several.values()):
                cell = experiments.spec_of(experiment, values | dict(zip(several, each, strict=True)))
                cells.append(resolve(cell))
                plans.layout(cells[-1])
        except BadInput as error:
            said = by_field(str(error), in_fields).items()
            errors |= {name: text for name, text in said if name} or {SEVERAL: str(error)}
    return Request(None if errors else spec, repetitions, bool(values.get("fresh")), errors, several, cells)


def _listed(name: str, text: Any, like: Any) -> list[Any]:
    """The values in a field, "1, 5, 10" as a grid of them: "1,5" might be meant as 1.5 where it is no whole number."""
    if name in (*_FOR_ALL, REPETITIONS) or not isinstance(text, str) or isinstance(like, str | bool):
        return [text]
    return re.split(r",\s*" if isinstance(like, int) else r",\s+", text.strip())


def _several(text: str, parameters: Mapping[str, Parameter]) -> dict[str, list[Any]]:
    """The values by parameter of "driver=bridge,macvlan pairs=1,5". Raises ValueError with a message for the user."""
    found: dict[str, list[Any]] = {}
    for part in re.split(r"\s+(?=\w+=)", text.strip()) if text.strip() else []:
        name, given, values = part.partition("=")
        if not given or name not in parameters or name in _FOR_ALL:
            known = [each for each in parameters if each not in _FOR_ALL]
            raise ValueError(f"{part!r} names no parameter of a grid{hint(name, known)}: write driver=bridge,macvlan")
        found[name] = [_value(name, each.strip(), parameters[name].default) for each in values.split(",")]
    return found


def host_errors(spec: Spec, check: Callable[[Spec], object] = check) -> dict[str, str]:
    """Why this host cannot measure that, by field, with what to do; empty where it can."""
    try:
        check(resolve(spec))
    except (BadInput, Unavailable) as error:
        return by_field(str(error), experiments.parameters(spec.experiment))
    except PairlabError as error:
        return {NO_FIELD: f"could not check whether this host can measure this: {error}"}
    return {}


def by_field(message: str, names: Iterable[str]) -> dict[str, str]:
    """An error message split by field: each part belongs to the field that it begins with, or else mentions first."""
    names = list(names)
    found: dict[str, str] = {}
    for part in re.split(rf"; (?=(?:{'|'.join(map(re.escape, names))}): )", message) if names else [message]:
        own, colon, rest = part.partition(": ")
        name, text = (own, rest) if colon and own in names else (_mentioned(part, names), part)
        text = text.removeprefix("input ")  # pydantic's subject of the sentence
        found[name] = f"{found[name]}; {text}" if name in found else text
    return found


def _mentioned(text: str, names: Iterable[str]) -> str:
    """The parameter that a sentence names first, spelt with underscores or spaces."""
    places: dict[str, int] = {}
    for name in names:
        for form in (name, name.replace("_", " ")):
            if seen := re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", text):
                places.setdefault(name, seen.start())
    return min(places, key=places.__getitem__, default=NO_FIELD)


def _value(name: str, text: Any, like: Any) -> Any:
    """The typed text as a value of the same type as `like`. Raises ValueError with a message for the user."""
    if not isinstance(text, str) or isinstance(like, str):
        return text.strip() if isinstance(text, str) else text
    return units.as_kind(text, type(like), units.unit_of(name))
