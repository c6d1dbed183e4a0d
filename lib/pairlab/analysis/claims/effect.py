"""The effect of a claim, as declared (Effect), and its estimate over repetitions (Found).

An effect is a quantity in one cell (`of`) against that in another cell (`over`): a ratio by repetition, in percent.
Cells are given by factors, which are columns of run_table:

of         the cell: {experiment: fct, driver: ovs, pairs: 50 or most}. A list of drivers: the most over the least of
           them, whichever they are
over       the factors that differ in the other cell: {driver: bridge}. A list: several cells, for all of which the
           claim must hold; null: any value. `quantity` may differ, too. Without: the quantity itself, a share or r
against    the factors that differ in both cells of a second ratio, by which the first one is divided
each       the values of a factor for which the claim must hold: `all` that were measured, a range such as `10 to 100`,
           or a list
along      the factor of a straight line, both logarithmic: the change from the first of `pairs` to the last, or for
           each doubling of message_bytes
difference in ms, in place of a ratio

Pairs are a number, least, most, or "50 or most": 50 if measured, else the most that was; in `over`, a factor of `each`
may also be `previous`: the value before, so that the claim is on each step.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pairlab.analysis.claims import run_table
from pairlab.analysis.repetitions import QUANTITIES
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.model.spec import Spec
from pairlab.statistics import power
from pairlab.statistics.intervals import Student

#: Percentiles of the flows of all repetitions (statistics/quantiles.py): "fct_median_s", "mouse_p99_s".
_PERCENTILE = re.compile(r"(fct|mouse|elephant|smallest)_(median|p[1-9]\d?)_s")
#: Quantities that are reported themselves, in these units; all others as ratios.
LEVELS = {
    "spearman_z": "r",
    **dict.fromkeys(
        ("least_over_most", "fct_least_over_most", "busy", "busiest_share", "usr", "sys", "softirq"), "share"
    ),
}
#: The factors that may name a cell.
_FACTORS = {*run_table.SETTING, "allocation", "containers_per_core", *Spec.model_fields} - {"repetition", "twin"}
_PAIRS = re.compile(r"(\d+ or )?(least|most)")
_RANGE = re.compile(r"\d+ to \d+")

Cell = dict[str, Any]


def _value(value: Any) -> Any:
    several = value if isinstance(value, list) and value else [value]
    if not all(each is None or isinstance(each, bool | int | float | str) for each in several):
        raise ValueError(f"a factor has a value or a list of them, not {value!r}")
    return value


Value = Annotated[Any, AfterValidator(_value)]


def percentile_of(quantity: str) -> tuple[str, float] | None:
    """The column of run_table with a percentile's times, and its share; None for another quantity."""
    if not (match := _PERCENTILE.fullmatch(quantity)):
        return None
    flows, name = match.groups()
    return ("fcts_s" if flows == "fct" else f"{flows}_fcts_s"), 0.5 if name == "median" else int(name[1:]) / 100


class Effect(BaseModel):
    """The effect of a claim: see above."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    quantity: str = "total_bps"
    of: Mapping[str, Value]
    over: Mapping[str, Value] = {}
    against: Mapping[str, Value] = {}
    each: Annotated[Mapping[str, Value], Field(max_length=1)] = {}
    along: str = ""
    difference: bool = False

    @model_validator(mode="after")
    def _of_what_there_is(self):
        if wrong := next(self._wrong(), None):
            raise ValueError(wrong)
        return self

    def _wrong(self) -> Iterator[str]:
        """The errors of the declaration, in words."""
        for name in self.quantities:
            if percentile_of(str(name)) is None and name not in QUANTITIES:
                names = ", ".join(QUANTITIES)
                yield f"no quantity {name!r}; there are: {names}, and percentiles such as fct_p99_s"
        if strange := sorted(self.factors - _FACTORS):
            yield f"no factor {', '.join(strange)}; there are: {', '.join(sorted(_FACTORS))}"
        if not all(isinstance(cell.get("experiment", name), str) for name, cell in (("", self.over), (None, self.of))):
            yield "`of` needs the experiment whose runs are read, by its name"
        if self.along not in ("", "pairs", "message_bytes"):
            yield f"an effect is along pairs or message_bytes, not {self.along}"
        lists = [name for name, value in self.of.items() if isinstance(value, list)]
        if lists != ["driver"] * (len(lists) and bool(self.over)) and not (lists == ["pairs"] == [self.along]):
            yield "a list in `of` is of drivers, with what they are set `over`, or of the pairs that a line is along"
        if sum(isinstance(value, list) for value in self.over.values()) > 1:
            yield "`over` has one list at most"
        for name, value in self.over.items():
            if value == "previous" and name not in self.each:
                yield f"{name}: previous is the one before of `each`"
        for pairs in (cell.get("pairs") for cell in (self.of, self.over, self.against)):
            for one in pairs if isinstance(pairs, list) else [pairs]:
                is_valid = (isinstance(one, int) and one >= 1) or _PAIRS.fullmatch(str(one))
                if not is_valid and one not in (None, "previous"):
                    yield f"pairs: {one!r} is no number, least, most, or such as '50 or most'"
        for name, values in self.each.items():
            if not isinstance(values, list) and not (values == "all" or _RANGE.fullmatch(str(values))):
                yield f"each {name}: all, a range such as '10 to 100' or a list, not {values!r}"
            if name not in ("pairs", "message_bytes", "request_bytes", "pinning"):
                whole = {"containers_per_core": "previous", "flows_per_pair": 1}
                if values != "all" or self.over.get(name) != whole.get(name, ""):
                    others = " and ".join(f"{name}: all over {value}" for name, value in whole.items())
                    yield f"each is of pairs, message_bytes, request_bytes or pinning; or {others}"
        if self.difference and not self.quantity.endswith("_s"):
            yield f"a difference is in ms, and {self.quantity} is no time"
        if not self.over and not self.along and self.quantity not in LEVELS:
            yield f"{self.quantity} itself decides nothing: say with `over` what it is set against"

    @property
    def quantities(self) -> tuple[str, ...]:
        other = self.over.get("quantity", [])
        return (self.quantity, *(other if isinstance(other, list) else [other]))

    @property
    def columns(self) -> tuple[str, ...]:
        """The quantities of run_table that the effect reads."""
        beside = {"spearman_z": ("pearson_z",), "least_over_most": ("inner_least_over_most",)}.get(self.quantity, ())
        return (*((percentile_of(name) or (name,))[0] for name in self.quantities), *beside)

    @property
    def experiments(self) -> tuple[str, ...]:
        """The experiments whose runs the effect reads."""
        return tuple(dict.fromkeys(cell["experiment"] for cell in (self.of, self.over) if "experiment" in cell))

    @property
    def aside(self) -> dict[str, float]:
        """The values of run_table.FACTORS_BESIDE_PAPERS in all runs of the effect; unnamed ones as in the papers."""
        usual = {name: self.of.get(name, Spec.model_fields[name].default) for name in run_table.FACTORS_BESIDE_PAPERS}
        return {
            name: value for name, value in usual.items() if value is not None and name not in {*self.over, *self.each}
        }

    @property
    def factors(self) -> frozenset[str]:
        """The factors that the effect names."""
        named = {*self.of, *self.over, *self.against, *self.each, *filter(None, [self.along])}
        return frozenset(named - {"quantity"})

    @property
    def fields_beyond(self) -> frozenset[str]:
        """The fields of Spec that the effect names and run_table.SETTING lacks."""
        return frozenset(self.factors & {*Spec.model_fields} - {*run_table.SETTING})

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers that the effect names."""
        named = [cell["driver"] for cell in (self.of, self.over) if "driver" in cell]
        return tuple(dict.fromkeys(name for one in named for name in (one if isinstance(one, list) else [one])))

    @property
    def unit(self) -> str:
        if self.difference:
            return "ms"
        if not self.over and not self.along:
            return LEVELS[self.quantity]
        return "times" if isinstance(self.of.get("driver"), list) and percentile_of(self.quantity) else "%"

    def __str__(self) -> str:
        """The declaration in words."""

        def in_words(cell: Mapping[str, Any]) -> str:
            return ", ".join(
                f"{name} {' and '.join(map(str, value)) if isinstance(value, list) else value}"
                for name, value in cell.items()
                if value is not None
            )

        parts = {"of": self.of, "over": self.over, "against": self.against, "for each": self.each}
        words = [f"{word} {in_words(cell)}" for word, cell in parts.items() if cell]
        along = [f"along {self.along}"] if self.along else []
        return "; ".join([self.quantity, *words, *along])


class Undecidable(AnalysisError):
    """A reason why an effect cannot be decided; repetitions_needed: the number that would mend this, if any."""

    reason = ""
    repetitions_needed: int | None = None


class TooFewFlows(Undecidable, TooFewSamples):
    """Fewer flows than a percentile needs; repetitions_needed: the number that has enough."""

    reason = "too few flows"

    def __init__(self, why: str, repetitions_needed: int):
        super().__init__(f"{why}: measure {repetitions_needed} repetitions")
        self.repetitions_needed = repetitions_needed


class FlowsFailed(Undecidable):
    """A completion time of an effect depends on failed flows; no number of repetitions mends that."""

    reason = "flows failed"


class MeasuredApart(Undecidable):
    """The cells of an effect were measured one after the other, so that it may be nothing but drift of the machine."""

    reason = "measured apart"


class AttemptsDiffer(Undecidable):
    """Of the measurements of one cell of an effect a larger share did not count: those that do may be a choice."""

    reason = "attempts differ"


@dataclass(frozen=True)
class Contrast:
    """The noise that an effect inherits as a weighted sum of the logarithms of one quantity in several cells.

    quantity: one of repetitions.QUANTITIES, or a percentile. measure: the summary (summaries.MEASURES) whose noise a
    calibration records; empty: none. gain: the root of the sum of the squared weights, so that cells whose logarithms
    spread by s give an effect that spreads by gain * s; √2 for the ratio of two. pairs: of these cells.
    """

    measure: str
    gain: float
    pairs: tuple[int, ...]
    quantity: str = ""


@dataclass(frozen=True)
class Found:
    """An estimate over repetitions, with the text of its cells and notes for the reader.

    found: the estimate, on its scale. uses_other_pair_count: another number of pairs stands in for the paper's, so
    sizes cannot be compared. contrast: None if the effect is no sum of logarithms. points: how many numbers of pairs,
    ratios or sizes the effect rests on, along whichever of them the claim is; 0 if along none.
    """

    found: Student
    cells: str
    notes: tuple[str, ...] = ()
    uses_other_pair_count: bool = False
    contrast: Contrast | None = None
    points: int = 0

    def repetitions_needed(self, null: float, alpha: float = 0.05) -> int | None:
        """The number of repetitions that would show a difference from `null`: power.repetitions_needed."""
        distance = self.found.centre - float(self.found.scale.to_scale(null))
        return power.repetitions_needed(distance, self.found.spread, alpha=alpha)


@dataclass(frozen=True)
class AllOf:
    """Several effects of one claim, by name, for all of which it must hold: at each step, with each size.

    One effect can contradict the claim. points: as of Found.
    """

    parts: Mapping[str, Found]
    points: int = 0
