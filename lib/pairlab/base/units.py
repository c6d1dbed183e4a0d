"""Numbers with units, as people write and read them: "5 MB", "1 Gbit/s", "500 ms"; base units inside."""

import math
import numbers
import re
from typing import Any

#: Prefixes of units, and their factors.
PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
#: By unit: what may follow a number, and its factor.
UNITS: dict[str, dict[str, float]] = {
    "": {"%": 0.01},
    "s": {"s": 1, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "min": 60, "h": 3600},
    "B": {f"{prefix}B": factor for prefix, factor in (PREFIXES | _BINARY).items()},
    "bit/s": {f"{prefix}bit/s": factor for prefix, factor in PREFIXES.items()},
    "1/s": {"/s": 1},
}
#: Endings of the names of parameters and columns, and their unit: a rate is no time.
_ENDINGS = {"_per_s": "1/s", "_s": "s", "_bytes": "B", "_bps": "bit/s"}
#: Groups of three digits may stand apart. A comma is refused: to some it is a decimal point, to others it is not.
_NUMBER = re.compile(
    r"(?P<number>[+-]?(?:\d{1,3}(?:[_ ]\d{3})+|\d*)(?:\.\d*)?(?:[eE][+-]?\d{1,3})?)\s*(?P<unit>[A-Za-zµ/%]*)"
)
#: A whole number to its last digit, which a float would round; more digits are too large for anything.
_WHOLE = re.compile(r"[+-]?(?:\d{1,3}(?:[_ ]\d{3})+|\d{1,400})")


def unit_of(name: str) -> str:
    """The unit that the name of a parameter or column ends with; empty: none."""
    return next((unit for ending, unit in _ENDINGS.items() if name.endswith(ending)), "")


def stem(name: str) -> str:
    """The name without the ending that says its unit: "requests" of requests_per_s."""
    return name.removesuffix(next((ending for ending in _ENDINGS if name.endswith(ending)), ""))


def read(text: str, unit: str = "") -> float:
    """The number in that base unit, from text such as "1e6", "5 MB", "5M", "10 ms", "5 %".

    Raises ValueError with a message for the person who wrote the text.
    """
    text = text.strip()
    if not text:
        raise ValueError("give a number" + (f" of {unit}" if unit else ""))
    found = _NUMBER.fullmatch(text)
    number, suffix = (re.sub(r"[_ ]", "", found["number"]), found["unit"]) if found else ("", "")
    try:
        value = float(number)
    except ValueError:
        point = ": write the decimal point as a dot, and thousands without a comma" if "," in text else ""
        raise ValueError(f"{_shown(text)} is not a number{point}") from None
    known = UNITS[unit] | (PREFIXES | _BINARY if unit in ("B", "bit/s") else {})  # 5M are 5 MB where bytes are meant
    if suffix and suffix not in known:
        allowed = f"use {', '.join(UNITS[unit])}" if unit else "give a number without a unit"
        raise ValueError(f"{_shown(suffix)} is not a unit of this parameter: {allowed}")
    value = value / 100 if suffix == "%" else value * known.get(suffix, 1)  # 7 % are 0.07 to the last digit
    if not math.isfinite(value):
        raise ValueError(f"{_shown(text)} is too large")
    return value


def as_kind(given: Any, kind: type, unit: str = "") -> Any:
    """What is given for a value of that kind (int, float, bool or str), as Python has it.

    Numbers are text as `read` has it, floats that are whole, numpy's numbers; truth values also "true" and "false".
    What is neither is returned as it is, for whoever checks types. Raises ValueError with a message for the person who
    wrote the text.
    """
    if type(given) is kind:
        return given
    if getattr(given, "ndim", None) == 0 and hasattr(given, "item"):  # numpy's
        given = given.item()
    if isinstance(given, bool):
        return given
    if isinstance(given, str) and kind is not str:
        text = given.strip()
        if kind is bool:
            return {"true": True, "false": False}.get(text.lower(), given)
        value = int(re.sub("[_ ]", "", text)) if kind is int and _WHOLE.fullmatch(text) else read(text, unit)
        if kind is int and value != int(value):
            raise ValueError(f"must be a whole number, not {text}")
    elif isinstance(given, numbers.Integral):
        value = int(given)
    elif isinstance(given, float):
        value = float(given)
    else:
        return given
    if kind is str:
        return str(value) if isinstance(value, int) else given
    return int(value) if kind is int and isinstance(value, float) and value.is_integer() else value


def with_prefix(value: float, unit: str, digits: int = 3) -> str:
    """The value as text with a suitable prefix: 5000000.0, "B" is "5 MB"; 0.0273, "s" is "27.3 ms"."""
    value = float(f"{value:.{digits}g}")  # first, as 999.9 MB are shown as 1 GB
    factor, name = prefix(value, unit)
    return (
        f"{value / factor:,.{digits}g} {name}" if abs(value) / factor < 10**digits else f"{value / factor:,.0f} {name}"
    )


def describe(value: float, unit: str, digits: int = 3) -> str:
    """A value with its unit, whichever it is: "27.3 ms", "12,000/s" of 1/s, "not known". digits: with prefixes."""
    if value != value:
        return "not known"
    if len(UNITS.get(unit, ())) > 1:
        return with_prefix(value, unit, digits)
    number = f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"
    return f"{number}/s" if unit == "1/s" else f"{number} {unit}".rstrip()


def prefix(value: float, unit: str) -> tuple[float, str]:
    """The factor and the name of the largest prefixed unit that leaves the value at 1 or above: 0.0273, "s" is ms."""
    steps = sorted(((factor, name) for name, factor in UNITS[unit].items() if _decimal(name, unit)), reverse=True)
    if not value:
        return 1, unit
    return next(((factor, name) for factor, name in steps if abs(value) >= factor), steps[-1])


def _decimal(name: str, unit: str) -> bool:
    return name in ("s", "ms", "µs") if unit == "s" else "i" not in name.removesuffix(unit) and name[0] != "K"


def _shown(text: str) -> str:
    return repr(text) if len(text) <= 40 else f"{text[:37]!r}..."


def none_if_nan(value: float) -> float | None:
    """The value, for JSON, which has no NaN."""
    return None if value != value else value
