"""What a comparison found: its numbers, its verdict, and both in a sentence."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pairlab.analysis.comparison.spec_text import apart, cell, named
from pairlab.base import html_repr
from pairlab.model.summaries import MEASURES, Measure
from pairlab.statistics.intervals import ALPHA

#: The difference that an undecided comparison is planned for, in percent.
WORTH_PERCENT = 5.0
#: Each verdict and its tone. better, worse: apart, of the side that is not the base. undecided: the interval has
#: "no change" in it. below the noise: apart, but by less than this host's noise. no interval: too few runs.
VERDICTS = {"better": "good", "worse": "bad", "undecided": "", "below the noise": "", "no interval": "warn"}


class Side(NamedTuple):
    """One side: its value of the parameter, how many repetitions (or hosts) it has, and the measure over all of them.

    level: in base units; of a percentile that of all flows, else the mean over repetitions; over hosts, the mean of
    what it is on each.
    """

    value: Hashable
    repetitions: int
    level: float


@dataclass(frozen=True)
class Comparison:
    """Two sides that are alike but for the parameter `by`, and what their runs show of the difference.

    measure: one of summaries.MEASURES, or a metric of the workload, which is `declared` then. alike: what both have, by
    the names of Spec's fields, and the host. change: of `other` over `base`, in percent, with its interval low to high
    at `confidence`, NaN where there is none. paired: whether repetitions were compared within each. unit: what n counts
    and the interval is over, "repetition" or "host". verdict: one of VERDICTS. enough: how many of it would show a
    difference of `worth` percent, None where that is not known. floor: the least difference, in percent, that this host
    can distinguish from its noise at so many repetitions; NaN where none is recorded, and over hosts.
    """

    by: str
    measure: str
    base: Side
    other: Side
    alike: Mapping[str, Any]
    change: float
    low: float
    high: float
    paired: bool
    verdict: str
    enough: int | None = None
    floor: float = float("nan")
    worth: float = WORTH_PERCENT
    confidence: float = 1 - ALPHA
    notes: tuple[str, ...] = ()
    declared: Measure | None = None
    unit: str = "repetition"

    @property
    def measured(self) -> Measure:
        """What the measure is: its unit, its name in words, and whether less of it is better."""
        return self.declared or MEASURES[self.measure]

    @property
    def n(self) -> tuple[int, int]:
        """Repetitions (or hosts) of the other side and of the base."""
        return self.other.repetitions, self.base.repetitions

    @property
    def words(self) -> str:
        """The difference in a sentence."""
        return sentence(self)

    def __str__(self) -> str:
        return self.words + "".join(f" [{note}]" for note in self.notes)

    def __repr__(self) -> str:
        return f"<Comparison: {self}>"

    def _repr_html_(self) -> str:
        return html_repr.summary(
            self.words,
            rows(self),
            badge=self.verdict,
            tone=VERDICTS[self.verdict],
            note="; ".join(self.notes),
        )


class Comparisons(list[Comparison]):
    """Comparisons, and what was not compared: left_out has a sentence for each reason."""

    def __init__(self, found: Iterable[Comparison], left_out: Iterable[str] = ()):
        super().__init__(found)
        self.left_out = tuple(dict.fromkeys(left_out))

    def where(self, comparison: Comparison) -> str:
        """What tells its runs from those of the other comparisons, as text; empty where nothing does."""
        return apart(comparison.alike, [each.alike for each in self])

    def __str__(self) -> str:
        lines = [f"{where}: {each}" if (where := self.where(each)) else str(each) for each in self]
        return "\n".join([*lines, *self.left_out])

    __repr__ = __str__  # in a terminal, the sentences are what one wants to see

    def _repr_html_(self) -> str:
        if len(self) == 1 and not self.left_out:
            return self[0]._repr_html_()
        rows = [(self.where(each), each.words, each.verdict, "; ".join(each.notes)) for each in self]
        remarks = [f"Each interval holds {self[0].confidence:.0%} by itself; nothing is corrected for their number."]
        body = html_repr.table(("where", "difference", "verdict", "notes"), rows)
        return html_repr.summary(f"Compared by {self[0].by}", (), body=body, note=" ".join([*remarks, *self.left_out]))


def sentence(comparison: Comparison) -> str:
    """By how much the two differ, or that they cannot be told apart, with the interval and n."""
    if comparison.verdict == "no interval":
        return _without_interval(comparison)
    digits = _digits(comparison)
    if comparison.verdict in ("better", "worse"):
        return f"{_difference(comparison, digits)}, {_interval(comparison, digits)} ({_of(comparison)})"
    text = f"{_signed(comparison.change, digits)} %, {_interval(comparison, digits, signed=True)} ({_of(comparison)})"
    return f"{_both(comparison)} cannot be told apart: {text}{_advice(comparison)}"


def rows(comparison: Comparison) -> list[tuple[str, str]]:
    """What a card lists: both sides' values with their unit, and what they have in common."""
    sides = [
        (f"{named(comparison.by, side.value)}, {comparison.measured.name}", quantity(comparison, side.level))
        for side in (comparison.other, comparison.base)
    ]
    compared = "within each repetition" if comparison.paired else "as independent groups"
    compared += " of a host, over hosts" if comparison.unit == "host" else ""
    return [*sides, ("compared", compared), ("alike in", cell(comparison.alike))]


def quantity(comparison: Comparison, value: float) -> str:
    """A value of the comparison's measure, with a unit that suits it."""
    unit = comparison.measured.unit
    if unit == "s":
        return f"{value * 1e3:.4g} ms" if value >= 1e-3 else f"{value * 1e6:.4g} µs"
    if unit != "bit/s":
        number = f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"
        return f"{number}/s" if unit == "1/s" else f"{number} {unit}".rstrip()
    return f"{value / 1e9:.4g} Gbit/s"


def _difference(comparison: Comparison, digits: int) -> str:
    """ "macvlan is 14 % faster than bridge", or "takes 14 % longer"; from twice as much on, in times.

    A few runs got what they got; that a driver is faster takes more.
    """
    single, plural, more = comparison.verdict == "no interval", comparison.by == "pairs", comparison.change > 0
    other, base = (named(comparison.by, side.value) for side in (comparison.other, comparison.base))
    times = f"{_times(comparison.change)} times as" if comparison.change >= 100 else ""
    size = f"{_number(abs(comparison.change), digits)} %"
    if comparison.measured.less_is_better:
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
    text = f"{comparison.confidence * 100:g} % interval"
    if comparison.change >= 100 and not signed:
        return f"{text} {_times(low)} to {_times(high)} times"
    if comparison.change < 0 and not signed:
        low, high = -high, -low
    return f"{text} {_number(low, digits)} to {_number(high, digits)} %"


def _without_interval(comparison: Comparison) -> str:
    other, base = comparison.n
    digits = 0 if abs(comparison.change) >= 1 else 2
    text = _difference(comparison, digits) if comparison.change else f"{_both(comparison)} got the same"
    runs = f"in {_count(other)} each" if other == base else f"in {_count(other)} against {_count(base)}"
    measure = "" if comparison.measure == "total_bps" else f" ({comparison.measured.name})"
    if comparison.unit == "host":
        return f"{text} on {_count(other, 'host')}{measure}: no interval over hosts; measure on more"
    return f"{text} {runs}{measure}: no interval; repeat it"


def _advice(comparison: Comparison) -> str:
    """What would tell them apart, as far as that is known."""
    worth = f"{comparison.worth:g} %"
    if comparison.verdict == "below the noise":
        return f"; the noise floor of this host is {_number(comparison.floor, 1)} % at so many"
    if comparison.enough is None:
        return ""
    if comparison.enough <= min(comparison.n):
        return f"; {worth} would most likely have shown"
    return f"; about {float(f'{comparison.enough:.2g}'):.0f} {comparison.unit}s would show {worth}"


def _both(comparison: Comparison) -> str:
    return " and ".join(named(comparison.by, side.value) for side in (comparison.other, comparison.base))


def _of(comparison: Comparison) -> str:
    """The measure, where it is not the one that speed goes by, and n."""
    measure = "" if comparison.measure == "total_bps" else f"{comparison.measured.name}, "
    other, base = comparison.n
    both = comparison.paired or comparison.unit == "host"
    return f"{measure}n = {other if both else f'{other} and {base}'} {comparison.unit}s"


def _count(number: int, what: str = "run") -> str:
    return f"one {what}" if number == 1 else f"{number} {what}s"


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
