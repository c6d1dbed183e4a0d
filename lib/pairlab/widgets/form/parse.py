"""Turns the text of a form's fields into a Spec, or into one error message per field. No widgets here."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pairlab.base import units
from pairlab.batch import experiments
from pairlab.errors import BadInput, PairlabError, Unavailable
from pairlab.measurement.measure import check, resolve
from pairlab.model.spec import Spec
from pairlab.testbed import plans

#: A field of the form that is no parameter of the notebook.
REPETITIONS = "repetitions"
#: The key of errors that belong to no field.
NO_FIELD = ""
#: For more, a sweep is better: it resumes after an interruption.
MAX_REPETITIONS = 1000
#: How words of parameter names are written in a label; the suffix of a unit becomes what it measures.
_SPELLING = {"bytes": "size", "bps": "", "s": "", "cpu": "CPU", "udp": "UDP", "max": "max.", "fresh": "measure again"}


class Request(NamedTuple):
    """What a form asks for: a spec, or else errors by field.

    repetitions: number of measurements, the first with spec.repetition. fresh: measure even if stored.
    """

    spec: Spec | None
    repetitions: int = 1
    fresh: bool = False
    errors: Mapping[str, str] = {}


def label(name: str) -> str:
    """A parameter's name as a label with its unit: "Duration (s)" for duration_s, "Flow size (B)" for flow_bytes."""
    unit = units.unit_of(name)
    words = " ".join(filter(None, (_SPELLING.get(word, word) for word in name.split("_"))))
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
    for name, text in entered.items():
        like = 1 if name == REPETITIONS else parameters[name].default
        try:
            values[name] = _value(name, text, like)
        except ValueError as error:
            errors[name] = str(error)
    repetitions = values.pop(REPETITIONS, 1)
    if REPETITIONS not in errors and not 1 <= repetitions <= MAX_REPETITIONS:
        errors[REPETITIONS] = f"must be from 1 to {MAX_REPETITIONS:,}; for more, use a sweep"
    spec = None
    try:
        spec = experiments.spec_of(experiment, values)
        plans.layout(resolve(spec))
    except BadInput as error:
        spec, errors = None, {**by_field(str(error), parameters), **errors}
    return Request(None if errors else spec, repetitions, bool(values.get("fresh")), errors)


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
        name, words = (own, rest) if colon and own in names else (_mentioned(part, names), part)
        words = words.removeprefix("input ")  # pydantic's subject of the sentence
        found[name] = f"{found[name]}; {words}" if name in found else words
    return found


def _mentioned(words: str, names: Iterable[str]) -> str:
    """The parameter that a sentence names first, spelt with underscores or spaces."""
    places: dict[str, int] = {}
    for name in names:
        for form in (name, name.replace("_", " ")):
            if seen := re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", words):
                places.setdefault(name, seen.start())
    return min(places, key=places.__getitem__, default=NO_FIELD)


def _value(name: str, text: Any, like: Any) -> Any:
    """The typed text as a value of the same type as `like`. Raises ValueError with a message for the user."""
    if not isinstance(text, str) or isinstance(like, str):
        return text.strip() if isinstance(text, str) else text
    return units.as_kind(text, type(like), units.unit_of(name))
