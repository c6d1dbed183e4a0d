"""What a comparison found: its numbers, its verdict, and both in a sentence."""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pairlab.analysis.cell_estimates import APART, ATTEMPTS, BY_BLOCK, UNPAIRED, unpaired
from pairlab.analysis.comparison.cells import apart, described, named
from pairlab.base import html_repr, units
from pairlab.model.summaries import Measure
from pairlab.statistics import tests
from pairlab.statistics.intervals import ALPHA, Student

#: The difference that an undecided comparison is planned for, in percent.
TARGET_PERCENT = 5.0
#: Each verdict and its tone. better, worse: apart, of the side that is not the base. undecided: the interval has "no
#: change" in it. measured apart: one side after the other, so that drift may be all that they differ by. below the
#: noise: apart, but by less than this host's noise. no interval: too few runs. attempts differ: of one side's
#: measurements a larger share did not count, so that what is left may be a choice.
VERDICTS = {
    "better": "good",
    "worse": "bad",
    "undecided": "",
    "below the noise": "",
    "no interval": "warn",
    APART: "warn",
    ATTEMPTS: "warn",
}
_ONE_AFTER_THE_OTHER = "the machine's drift may be all of it; measure both in one sweep, or in turn"
_WHAT_COUNTED = (
    "those that count may be the ones that went well; find out why the others do not, and measure both sides again"
)
#: How often an interval has the true value in it.
CONFIDENCE = 1 - ALPHA


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

    measure: one of summaries.MEASURES, or a metric of the workload; measured: what it is. alike: what both have, by the
    names of Spec's fields, and the host. change: of `other` over `base`, in percent, with its interval low to high at
    CONFIDENCE, NaN where there is none. pairing: one of cell_estimates.PAIRINGS. unit: what n counts and the interval
    is over, "repetition", "session" or "host". verdict: one of VERDICTS. repetitions_needed: how many would show a
    difference of TARGET_PERCENT, None where that is not known. floor: the least difference, in percent, that this host
    can distinguish from its noise at so many repetitions; NaN where none is recorded, and over hosts. found: the
    change as it is tested. attempts: how many measurements of each side did not count, in words, where that differs.
    """

    by: str
    measure: str
    measured: Measure
    base: Side
    other: Side
    alike: Mapping[str, Any]
    change: float
    low: float
    high: float
    pairing: str
    verdict: str
    repetitions_needed: int | None
    floor: float
    notes: tuple[str, ...]
    unit: str
    found: Student | None = field(default=None, compare=False, repr=False)
    attempts: str = ""

    @property
    def n(self) -> tuple[int, int]:
        """Repetitions (or hosts) of the other side and of the base."""
        return self.other.repetitions, self.base.repetitions

    @property
    def names(self) -> tuple[str, str]:
        """The other side and the base."""
        return named(self.by, self.other.value), named(self.by, self.base.value)

    @property
    def words(self) -> str:
        """By how much the two differ, or that they cannot be told apart, with the interval, n, and whether unpaired."""
        if self.verdict == "no interval":
            return self._without_interval()
        if self.verdict == APART:
            return f"{self._difference(self._digits())}, and they were measured apart: {_ONE_AFTER_THE_OTHER}"
        if self.verdict == ATTEMPTS:
            return f"{self._difference(self._digits())}, and {self.attempts}: {_WHAT_COUNTED}"
        digits = self._digits()
        # The measure is named where it is not the one that speed goes by.
        measure = "" if self.measure == "total_bps" else f"{self.measured.name}, "
        n = self.n[0] if self.pairing == BY_BLOCK or self.unit == "host" else f"{self.n[0]} and {self.n[1]}"
        word = unpaired(self.pairing)
        pairing = f"{word}{' on each host' if self.unit == 'host' else ''}, " if word else ""
        of = f"({measure}{pairing}n = {n} {self.unit}s)"
        if self.verdict in ("better", "worse"):
            return f"{self._difference(digits)}, {self._interval(digits)} {of}"
        change = _number(self.change, digits)
        sign = "+" if self.change > 0 and float(change) else ""
        text = f"{sign}{change} %, {self._interval(digits, signed=True)} {of}"
        return f"{' and '.join(self.names)} cannot be told apart: {text}{self._advice()}"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """What a card lists: both sides' values with their unit, and what they have in common."""
        levels = [units.describe(side.level, self.measured.unit, 4) for side in (self.other, self.base)]
        compared = {BY_BLOCK: "within each block", UNPAIRED: "as independent groups"}.get(self.pairing, self.pairing)
        compared += " of a host, over hosts" if self.unit == "host" else ""
        sides = [(f"{name}, {self.measured.name}", level) for name, level in zip(self.names, levels, strict=True)]
        return [*sides, ("compared", compared), ("alike in", described(self.alike))]

    def __str__(self) -> str:
        return self.words + "".join(f" [{note}]" for note in self.notes)

    def __repr__(self) -> str:
        return f"<Comparison: {self}>"

    def _repr_html_(self) -> str:
        tone, note = VERDICTS[self.verdict], "; ".join(self.notes)
        return html_repr.summary(self.words, self.rows, badge=self.verdict, tone=tone, note=note)

    def _difference(self, digits: int) -> str:
        """ "macvlan is 14 % faster than bridge", or "takes 14 % longer"; from twice as much on, in times.

        A few runs got what they got; that a driver is faster takes more.
        """
        single, plural, more = self.verdict in ("no interval", APART, ATTEMPTS), self.by == "pairs", self.change > 0
        times = f"{_times(self.change)} times as" if self.change >= 100 else ""
        size = f"{_number(abs(self.change), digits)} %"
        if self.measured.less_is_better:
            verb = "took" if single else "take" if plural else "takes"
            how = f"{times} long as" if times else f"{size} longer than" if more else f"{size} less time than"
        elif single or plural:
            verb = "got" if single else "together get"
            how = f"{times} much as" if times else f"{size} {'more' if more else 'less'} than"
        else:
            verb = "is"
            how = f"{times} fast as" if times else f"{size} {'faster' if more else 'slower'} than"
        other, base = self.names
        return f"{other} {verb} {how} {base}"

    def _interval(self, digits: int, *, signed: bool = False) -> str:
        low, high = self.low, self.high
        text = f"{CONFIDENCE * 100:g} % interval"
        if self.change >= 100 and not signed:
            return f"{text} {_times(low)} to {_times(high)} times"
        if self.change < 0 and not signed:
            low, high = -high, -low
        return f"{text} {_number(low, digits)} to {_number(high, digits)} %"

    def _without_interval(self) -> str:
        other, base = self.n
        digits = 0 if abs(self.change) >= 1 else 2
        text = self._difference(digits) if self.change else f"{' and '.join(self.names)} got the same"
        runs = f"in {_count(other)} each" if other == base else f"in {_count(other)} against {_count(base)}"
        measure = "" if self.measure == "total_bps" else f" ({self.measured.name})"
        if self.unit == "host":
            return f"{text} on {_count(other, 'host')}{measure}: no interval over hosts; measure on more"
        return f"{text} {runs}{measure}: no interval; repeat it"

    def _advice(self) -> str:
        """What would tell them apart, as far as that is known."""
        worth = f"{TARGET_PERCENT:g} %"
        if self.verdict == "below the noise":
            return f"; the noise floor of this host is {_number(self.floor, 1)} % at so many"
        if self.repetitions_needed is None:
            return ""
        if self.repetitions_needed <= min(self.n):
            return f"; {worth} would most likely have shown"
        return f"; about {float(f'{self.repetitions_needed:.2g}'):.0f} {self.unit}s would show {worth}"

    def _digits(self) -> int:
        """Decimals, so that the bounds differ in their last places, and one that is not zero is not shown as it."""
        width, least = self.high - self.low, min(abs(self.low), abs(self.high))
        for digits in (0, 1):
            if width >= 4 / 10**digits and (self.verdict == "undecided" or least >= 0.5 / 10**digits):
                return digits
        return 2


class Comparisons(list[Comparison]):
    """Comparisons, and what was not compared: left_out has a sentence for each reason.

    unmatched: the cells that the base has and that are compared with nothing, in words, with the reason.
    """

    def __init__(self, found: Iterable[Comparison], left_out: Iterable[str] = (), unmatched: Iterable[str] = ()):
        super().__init__(found)
        self.left_out, self.unmatched = tuple(dict.fromkeys(left_out)), tuple(unmatched)

    @property
    def p_holm(self) -> list[float]:
        """p of each difference, after Holm's correction for their number; NaN without an interval."""
        return list(
            tests.holm([each.found.p() if each.found and math.isfinite(each.low) else math.nan for each in self])
        )

    @property
    def _alike(self) -> str:
        """What all runs that are compared have in common."""
        first, *others = [each.alike for each in self]
        common = {name: value for name, value in first.items() if all(other[name] == value for other in others)}
        return f"All: {described(common)}."

    @property
    def _after_holm(self) -> str:
        """How many of the differences are left after the correction; empty of a single comparison, or without any."""
        different = [p for each, p in zip(self, self.p_holm, strict=True) if each.verdict in ("better", "worse")]
        if len(self) == 1 or not different:
            return ""
        left = sum(p <= ALPHA for p in different)
        some = f"{left} of {len(different)} difference{'s' * (len(different) != 1)}"
        return f"After Holm's correction for {len(self)} comparisons, {some} {'is' if left == 1 else 'are'} left."

    def where(self, comparison: Comparison) -> str:
        """What tells its runs from those of the other comparisons, as text; empty where nothing does."""
        return apart(comparison.alike, [each.alike for each in self])

    def __str__(self) -> str:
        lines = [f"{where}: {each}" if (where := self.where(each)) else str(each) for each in self]
        return "\n".join(filter(None, [*lines, self._alike, self._after_holm, *self.left_out]))

    __repr__ = __str__  # in a terminal, the sentences are what one wants to see

    def _repr_html_(self) -> str:
        if len(self) == 1 and not self.left_out:
            return self[0]._repr_html_()
        rows = [(self.where(each), each.words, each.verdict, "; ".join(each.notes)) for each in self]
        remarks = filter(None, [f"Each interval holds {CONFIDENCE:.0%} by itself.", self._after_holm])
        body = html_repr.table(("where", "difference", "verdict", "notes"), rows)
        return html_repr.summary(f"Compared by {self[0].by}", (), body=body, note=" ".join([*remarks, *self.left_out]))


def _count(number: int, what: str = "run") -> str:
    return f"one {what}" if number == 1 else f"{number} {what}s"


def _number(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text.replace("-", "−")


def _times(change: float) -> str:
    return f"{1 + change / 100:.{1 if change < 900 else 0}f}"
