"""The parameters of runs in words: a value by its name, and what runs have in common or not."""

from collections.abc import Iterable, Mapping
from typing import Any

from pairlab.base import units
from pairlab.model.spec import Spec

#: Fields whose values say by themselves what they are.
_PLAIN = (
    *("experiment", "backend", "driver", "workload", "host", "kernel", "engine", "tool", "switch"),
    *("congestion control", "datapath"),
)
#: Fields that are named of a cell even where they have their default.
_ALWAYS = ("experiment", "backend", "workload", "driver", "pairs")


def named(field: str, value: Any) -> str:
    """A value of a field of Spec as a name: "macvlan", "20 pairs", "pinning spread"."""
    if field == "pairs":
        return f"{value} pair{'s' * (value != 1)}"
    if field == "hosts":
        return f"{value} host{'s' * (value != 1)}"
    if field == "kernel":
        return f"kernel {value}" if value else "a kernel that was not recorded"
    if field in _PLAIN and value != "":
        return str(value)
    unit = units.unit_of(field)
    name = field.removesuffix(f"_{field.split('_')[-1]}").replace("_", " ") if unit else field.replace("_", " ")
    if unit:
        text = units.with_prefix(value, unit)
        return f"{name} {text if units.read(text, unit) == value else f'{value:,g} {unit}'}"
    return f"{name} {'default' if value == '' else f'{value:g}' if isinstance(value, float) else value}"


def cell(alike: Mapping[str, Any]) -> str:
    """What runs have in common, as text: what is always named, and what is not the default."""
    return ", ".join(named(name, value) for name, value in alike.items() if name in _ALWAYS or _special(name, value))


def apart(alike: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """What sets a cell apart from others, as text; empty where nothing does."""
    return short(alike, [name for name, value in alike.items() if any(other[name] != value for other in others)])


def short(values: Mapping[str, Any], names: Iterable[str]) -> str:
    """These of the values as text, without defaults, whose values do not say what they are."""
    return ", ".join(named(name, values[name]) for name in names if name in _PLAIN or _special(name, values[name]))


def _special(name: str, value: Any) -> bool:
    """Whether a field has another value than by default; the number of pairs always counts as one."""
    return name == "pairs" or (name in Spec.model_fields and value != Spec.model_fields[name].default)
