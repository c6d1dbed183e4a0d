"""What a claim is on, as it is declared (Effect), and what runs show of it (Found): an estimate over repetitions.

An effect is a quantity in one cell (`of`), set against what it is in another one (`over`): as a ratio by repetition, in
percent. Cells are told by factors, which are columns of run_table:

of         the cell: {experiment: fct, driver: ovs, pairs: 50 or most}. A list of drivers: how far these lie apart, the
           most over the least of them, whichever they are
over       what differs in the other cell: {driver: bridge}. A list is each of several cells, for all of which the claim
           must hold; null: whatever it is. `quantity` may differ, too. Without: the quantity itself, a share or r
against    what differs in both cells of a second ratio, by which the first one is divided
each       for which values of a factor it must hold: `all` that were measured, a range such as `10 to 100`, or a list
along      the factor over which the quantity changes by a straight line, both logarithmic: from the first of `pairs` to
           the last, or for each doubling of message_bytes
difference in ms, in place of a ratio

Pairs are a number, least, most, or "50 or most": 50 where measured, else the most that was; of `each` in `over`, also
`previous`: the value before, so that the claim is on each step.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pairlab.analysis.claims import run_table
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.model.spec import Spec
from pairlab.statistics import power
from pairlab.statistics.intervals import Student

#: Percentiles of the flows of all repetitions (statistics/quantiles.py): "fct_median_s", "mouse_p99_s".
_PERCENTILE = re.compile(r"(fct|mouse|elephant|smallest)_(median|p[1-9]\d?)_s")
#: Quantities that are told themselves, in their units; all others are told by ratios.
LEVELS = {
    "spearman_z": "r",
    **dict.fromkeys(("least_over_most", "fct_least_over_most", *run_table.CPU), "share"),
}
#: What tells a cell.
_FACTORS = {*run_table.SETTING, "allocation", "containers_per_core"}
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
    """The column of run_table with the times that a percentile is of, and which one it is; None of another quantity."""
    if not (found := _PERCENTILE.fullmatch(quantity)):
        return None
    which = found[2]
    return ("fcts_s" if found[1] == "fct" else f"{found[1]}_fcts_s"), 0.5 if which == "median" else int(which[1:]) / 100


class Effect(BaseModel):
    """What a claim is on: see above."""

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
        """What cannot be found, in words."""
        for name in self.quantities:
            if percentile_of(str(name)) is None and name not in run_table.QUANTITIES:
                known = ", ".join(run_table.QUANTITIES)
                yield f"no quantity {name!r}; there are: {known}, and percentiles such as fct_p99_s"
        factors = {*self.of, *self.over, *self.against, *self.each, *filter(None, [self.along])} - {"quantity"}
        if strange := sorted(factors - _FACTORS):
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
                known = (isinstance(one, int) and one >= 1) or _PAIRS.fullmatch(str(one))
                if not known and one not in (None, "previous"):
                    yield f"pairs: {one!r} is no number, least, most, or such as '50 or most'"
        for name, values in self.each.items():
            if not isinstance(values, list) and not (values == "all" or _RANGE.fullmatch(str(values))):
                yield f"each {name}: all, a range such as '10 to 100' or a list, not {values!r}"
            if name not in ("pairs", "message_bytes", "request_bytes", "pinning"):
                whole = {"containers_per_core": "previous", "flows_per_pair": 1}
                if values != "all" or self.over.get(name) != whole.get(name, ""):
                    told = " and ".join(f"{name}: all over {value}" for name, value in whole.items())
                    yield f"each is of pairs, message_bytes, request_bytes or pinning; or {told}"
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
        """The quantities of run_table that it takes."""
        beside = {"spearman_z": ("pearson_z",), "least_over_most": ("inner_least_over_most",)}.get(self.quantity, ())
        return (*((percentile_of(name) or (name,))[0] for name in self.quantities), *beside)

    @property
    def experiments(self) -> tuple[str, ...]:
        """Whose runs it reads."""
        return tuple(dict.fromkeys(cell["experiment"] for cell in (self.of, self.over) if "experiment" in cell))

    @property
    def aside(self) -> dict[str, float]:
        """What all its runs have of run_table.ASIDE: as the papers had it, where it is not named."""
        usual = {name: self.of.get(name, Spec.model_fields[name].default) for name in run_table.ASIDE}
        return {
            name: value for name, value in usual.items() if value is not None and name not in {*self.over, *self.each}
        }

    @property
    def drivers(self) -> tuple[str, ...]:
        """Those that it is on."""
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
        """As it is declared."""

        def told(cell: Mapping[str, Any]) -> str:
            return ", ".join(
                f"{name} {' and '.join(map(str, value)) if isinstance(value, list) else value}"
                for name, value in cell.items()
                if value is not None
            )

        parts = {"of": self.of, "over": self.over, "against": self.against, "for each": self.each}
        words = [f"{word} {told(cell)}" for word, cell in parts.items() if cell]
        along = [f"along {self.along}"] if self.along else []
        return "; ".join([self.quantity, *words, *along])


class TooFewFlows(TooFewSamples):
    """Fewer flows than a percentile needs; repetitions_needed: how many repetitions have enough."""

    def __init__(self, why: str, repetitions_needed: int):
        super().__init__(f"{why}: measure {repetitions_needed} repetitions")
        self.repetitions_needed = repetitions_needed


class FlowsFailed(AnalysisError):
    """A completion time that an effect is of depends on flows that failed; no number of repetitions mends that."""


@dataclass(frozen=True)
class Contrast:
    """What noise an effect inherits: it is a weighted sum of the logarithms of one summary in several cells.

    measure: the summary (measures.MEASURES). gain: the root of the sum of the squared weights, so that cells whose
    logarithms spread by s give an effect that spreads by gain * s; √2 for the ratio of two. pairs: of these cells.
    """

    measure: str
    gain: float
    pairs: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """An estimate over repetitions, what cells it is of, and what a reader must know of them.

    found: on the scale on which it is taken. uses_other_pair_count: a number of pairs stands in for the one that a
    paper states, so sizes cannot be compared. contrast: None where the effect is of nothing whose noise a calibration
    records. points: how many numbers of pairs, ratios or sizes it rests on, along whichever of them a claim is; 0 where
    along none.
    """

    found: Student
    cells: str
    notes: tuple[str, ...] = ()
    uses_other_pair_count: bool = False
    contrast: Contrast | None = None
    points: int = 0

    def repetitions_needed(self, null: float, alpha: float = 0.05) -> int | None:
        """How many repetitions would show that it is not `null`: power.repetitions_needed."""
        distance = self.found.centre - float(self.found.scale.kept(null))
        return power.repetitions_needed(distance, self.found.spread, alpha=alpha)


@dataclass(frozen=True)
class Each:
    """Several effects of one claim, by name, which must hold for every one of them: at each step, with each size.

    One that is not so contradicts it. points: as of Found.
    """

    parts: Mapping[str, Found]
    points: int = 0
