"""A comparison in words: one sentence with its numbers, and the rows of its card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pairlab import quantities
from pairlab.analysis.measures import MEASURES
from pairlab.spec import Spec

if TYPE_CHECKING:
    from pairlab.analysis.comparison import Comparison

#: Fields whose values say by themselves what they are.
_PLAIN = ("experiment", "backend", "driver", "workload", "host")
#: Fields that are told of a cell even where they have their default.
_TOLD = ("experiment", "backend", "workload", "driver", "pairs")


def sentence(comparison: Comparison) -> str:
    """By how much the two differ, or that they cannot be told apart, with the interval and n."""
    if comparison.verdict == "no interval":
        return _without_interval(comparison)
    digits = _digits(comparison)
    if comparison.verdict in ("better", "worse"):
        return f"{_difference(comparison, digits)}, {_interval(comparison, digits)} ({_of(comparison)})"
    told = f"{_signed(comparison.change, digits)} %, {_interval(comparison, digits, signed=True)} ({_of(comparison)})"
    return f"{_both(comparison)} cannot be told apart: {told}{_advice(comparison)}"


def rows(comparison: Comparison) -> list[tuple[str, str]]:
    """What a card lists: both sides' means with their unit, and what they have in common."""
    sides = [
        (f"{named(comparison.by, side.value)}, {MEASURES[comparison.measure].told}", quantity(comparison, side.mean))
        for side in (comparison.other, comparison.base)
    ]
    compared = "within each repetition" if comparison.paired else "as independent groups"
    return [*sides, ("compared", compared), ("alike in", cell(comparison.alike))]


def quantity(comparison: Comparison, value: float) -> str:
    """A value of the comparison's measure, with a unit that suits it."""
    if MEASURES[comparison.measure].unit == "s":
        return f"{value * 1e3:.4g} ms"
    return f"{value / 1e9:.4g} Gbit/s"


def named(field: str, value: Any) -> str:
    """A value of a field of Spec as a name: "macvlan", "20 pairs", "pinning spread"."""
    if field == "pairs":
        return f"{value} pair{'s' * (value != 1)}"
    if field in _PLAIN and value != "":
        return str(value)
    unit = quantities.unit_of(field)
    name = field.removesuffix(f"_{field.split('_')[-1]}").replace("_", " ") if unit else field.replace("_", " ")
    if unit:
        told = quantities.told(value, unit)
        return f"{name} {told if quantities.read(told, unit) == value else f'{value:,g} {unit}'}"
    return f"{name} {'default' if value == '' else f'{value:g}' if isinstance(value, float) else value}"


def cell(alike: Mapping[str, Any]) -> str:
    """What runs have in common, as text: what is always told, and what is not as by default."""
    return ", ".join(named(name, value) for name, value in alike.items() if name in _TOLD or _special(name, value))


def apart(alike: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """What tells a cell from others, as text; empty where nothing does."""
    return short(alike, [name for name, value in alike.items() if any(other[name] != value for other in others)])


def short(values: Mapping[str, Any], names: Iterable[str]) -> str:
    """These of the values as text, without those that are as by default and would not say what they are."""
    return ", ".join(named(name, values[name]) for name in names if name in _PLAIN or _special(name, values[name]))


def _special(name: str, value: Any) -> bool:
    """Whether a field has another value than by default; the number of pairs always counts as one."""
    return name == "pairs" or (name in Spec.model_fields and value != Spec.model_fields[name].default)


def _difference(comparison: Comparison, digits: int) -> str:
    """ "macvlan is 14 % faster than bridge", or "takes 14 % longer"; from twice as much on, in times.

    One run each got what it got; that a driver is faster takes more.
    """
    single, plural, more = min(comparison.n) < 2, comparison.by == "pairs", comparison.change > 0
    other, base = (named(comparison.by, side.value) for side in (comparison.other, comparison.base))
    times = f"{_times(comparison.change)} times as" if comparison.change >= 100 else ""
    size = f"{_number(abs(comparison.change), digits)} %"
    if MEASURES[comparison.measure].less_is_better:
        verb = "took" if single else "take" if plural else "takes"
        how = f"{times} long as" if times else f"{size} longer than" if more else f"{size} less time than"
    elif single or plural:
        verb = "got" if single else "together get"
        how = f"{times} much as" if times else f"{size} {'more' if more else 'less'} than"
    else:
        verb = "is"
        how = f"{times} fast as" if times else f"{size} {'faster' if more else 'slower'} than"
    return f"{other} {verb} {how} {base}"


def _interval(comparison: Comparison, digits: int, *, signed: bool = False) -> str:
    low, high = comparison.low, comparison.high
    told = f"{comparison.confidence * 100:g} % interval"
    if comparison.change >= 100 and not signed:
        return f"{told} {_times(low)} to {_times(high)} times"
    if comparison.change < 0 and not signed:
        low, high = -high, -low
    return f"{told} {_number(low, digits)} to {_number(high, digits)} %"


def _without_interval(comparison: Comparison) -> str:
    other, base = comparison.n
    digits = 0 if abs(comparison.change) >= 1 else 2
    told = _difference(comparison, digits) if comparison.change else f"{_both(comparison)} got the same"
    runs = "in one run each" if other == base else f"in {_count(other)} against {_count(base)}"
    measure = "" if comparison.measure == "total_bps" else f" ({MEASURES[comparison.measure].told})"
    return f"{told} {runs}{measure}: no interval; repeat it"


def _advice(comparison: Comparison) -> str:
    """What would tell them apart, as far as that is known."""
    worth = f"{comparison.worth:g} %"
    if comparison.verdict == "below the noise":
        return f"; the noise floor of this host is {_number(comparison.floor, 1)} % at so many"
    if comparison.enough is None:
        return "; repeat it" if min(comparison.n) < 3 else ""
    if comparison.enough <= min(comparison.n):
        return f"; {worth} would most likely have shown"
    return f"; about {float(f'{comparison.enough:.2g}'):.0f} repetitions would tell {worth}"


def _both(comparison: Comparison) -> str:
    return " and ".join(named(comparison.by, side.value) for side in (comparison.other, comparison.base))


def _of(comparison: Comparison) -> str:
    """The measure, where it is not the one that speed goes by, and n."""
    measure = "" if comparison.measure == "total_bps" else f"{MEASURES[comparison.measure].told}, "
    other, base = comparison.n
    return f"{measure}n = {other if comparison.paired else f'{other} and {base}'} repetitions"


def _count(runs: int) -> str:
    return "one run" if runs == 1 else f"{runs} runs"


def _digits(comparison: Comparison) -> int:
    """After the point, so that the bounds differ in their last places, and one that is not zero is not shown as it."""
    width = comparison.high - comparison.low
    least = min(abs(comparison.low), abs(comparison.high))
    for digits in (0, 1):
        if width >= 4 / 10**digits and (comparison.verdict == "undecided" or least >= 0.5 / 10**digits):
            return digits
    return 2


def _signed(change: float, digits: int) -> str:
    text = _number(change, digits)
    return f"+{text}" if change > 0 and float(text) else text


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def _times(change: float) -> str:
    return f"{1 + change / 100:.{1 if change < 900 else 0}f}"
