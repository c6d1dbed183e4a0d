"""What people type into a form, made into a Spec, or into errors beside the fields they belong to. No widgets here."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pairlab import experiments, quantities
from pairlab.errors import BadInput, PairlabError, Unavailable
from pairlab.measurement import check, resolve
from pairlab.spec import Spec
from pairlab.testbed.limits import limits_of

#: A form's own fields, beside the notebook's parameters.
REPETITIONS = "repetitions"
#: Where an error stands that is of no field.
WHOLE = ""
#: More in a row is what a sweep is for: it goes on where it was interrupted.
MOST_REPETITIONS = 1000
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,40}", re.ASCII)
_LABELS = {"flow_bytes": "flow size", "message_bytes": "message size", "elephant_bytes": "elephant's size"}
_LABELS |= {"cpu_quota": "CPU quota", "cpu_shares": "CPU shares", "udp_share": "UDP share", "udp_rate_bps": "UDP rate"}
_LABELS |= {"max_foreign_cpu": "max. foreign CPU", "max_skew_s": "max. skew", "fresh": "measure again"}


class Asked(NamedTuple):
    """What was asked for: a spec, or what is wrong, by field.

    repetitions: how often, from spec.repetition on. fresh: whether stored runs are measured again.
    """

    spec: Spec | None
    repetitions: int = 1
    fresh: bool = False
    errors: Mapping[str, str] = {}


def label(name: str) -> str:
    """A parameter's name for people, with its unit: duration_s is "Duration (s)"."""
    unit = quantities.unit_of(name)
    words = _LABELS.get(name) or re.sub(r"_(?:s|bytes|bps)$", "", name).replace("_", " ")
    return f"{words[0].upper()}{words[1:]}{f' ({unit})' if unit else ''}"


def shown(name: str, value: Any) -> Any:
    """A parameter's value as a field shows it; `asked` reads that back as the same."""
    if isinstance(value, bool | str):
        return value
    unit = quantities.unit_of(name)
    short = quantities.told(value, unit) if unit in ("B", "bit/s") and value >= 1000 else f"{value:g}"
    return short if quantities.read(short, unit) == value else repr(value)


def asked(experiment: str, told: Mapping[str, Any]) -> Asked:
    """Reads what stands in the fields. Builds nothing, and does not ask what this host can do: that is `lacking`.

    told: by parameter's name what was typed or chosen; what is left out has the notebook's value.
    """
    values, errors = {}, {}
    parameters = experiments.parameters(experiment)
    for name, text in told.items():
        like = 1 if name == REPETITIONS else parameters[name].default
        try:
            values[name] = _read(name, text, like)
        except ValueError as error:
            errors[name] = str(error)
    repetitions = values.pop(REPETITIONS, 1)
    if REPETITIONS not in errors and not 1 <= repetitions <= MOST_REPETITIONS:
        errors[REPETITIONS] = f"from 1 to {MOST_REPETITIONS:,}; for more, make a sweep of it"
    spec = None
    try:
        spec = experiments.spec_of(experiment, values)
        limits_of(resolve(spec))
    except BadInput as error:
        spec, errors = None, {**placed(str(error), parameters), **errors}
    return Asked(None if errors else spec, repetitions, bool(values.get("fresh")), errors)


def lacking(spec: Spec, check: Callable[[Spec], None] = check) -> dict[str, str]:
    """Why this host cannot measure that, by field, with what to do; empty: it can."""
    try:
        check(resolve(spec))
    except (BadInput, Unavailable) as error:
        return placed(str(error), experiments.parameters(spec.experiment))
    except PairlabError as error:
        return {WHOLE: f"whether this host can do it could not be found out: {error}"}
    return {}


def placed(message: str, names: Iterable[str]) -> dict[str, str]:
    """An error's message by the fields it is about: each part's own name, else the first one that it mentions."""
    names = list(names)
    found: dict[str, str] = {}
    for part in re.split(rf"; (?=(?:{'|'.join(map(re.escape, names))}): )", message) if names else [message]:
        own, colon, rest = part.partition(": ")
        name, words = (own, rest) if colon and own in names else (_mentioned(part, names), part)
        words = words.removeprefix("input ")  # what pydantic calls what was typed
        found[name] = f"{found[name]}; {words}" if name in found else words
    return found


def _mentioned(words: str, names: Iterable[str]) -> str:
    """The parameter that a sentence names first; names count as they are, and with spaces for underscores."""
    places = {}
    for name in names:
        for form in (name, name.replace("_", " ")):
            if seen := re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", words):
                places.setdefault(name, seen.start())
    return min(places, key=places.__getitem__, default=WHOLE)


def _read(name: str, text: Any, like: Any) -> Any:
    """What was typed as a value of the same type as `like`. Raises ValueError, in words."""
    if not isinstance(text, str) or isinstance(like, str):
        return text.strip() if isinstance(text, str) else text
    if isinstance(like, int) and _WHOLE_NUMBER.fullmatch(text.strip()):
        return int(text)  # not by way of a float, which has no room for a large seed
    value = quantities.read(text, quantities.unit_of(name))
    if isinstance(like, float):
        return value
    if value != int(value):
        raise ValueError(f"must be a whole number, not {text.strip()}")
    return int(value)
