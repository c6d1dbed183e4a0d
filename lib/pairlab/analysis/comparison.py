"""How runs that are alike in everything but one parameter differ: by how much, with its interval, and in words.

Repetitions are the unit. Where both sides have the same ones they are compared within each, as a sweep measures them,
so that slow drift of the host cancels; else as independent groups. What is smaller than the host's recorded noise
(floors.py) is not called a difference.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pairlab.analysis import comparison_words, contrasts, floors, noise
from pairlab.analysis.effects import Contrast
from pairlab.analysis.floors import Calibration, Floor
from pairlab.analysis.look import ordered
from pairlab.analysis.measures import MEASURES, summaries
from pairlab.cards import card, grid
from pairlab.collection import Runs
from pairlab.errors import AnalysisError, UnknownName
from pairlab.records import Run
from pairlab.spec import Spec

#: What tells the repetitions of a cell from each other.
REPLICATE = ("repetition", "seed")
#: What a run is judged by: it changes nothing in what is measured.
BOUNDS = ("max_skew_s", "max_foreign_cpu")
#: What `by` can be.
FIELDS = tuple(name for name in Spec.model_fields if name not in (*REPLICATE, *BOUNDS))
#: The difference that an undecided comparison is planned for, in percent.
WORTH_PERCENT = 5.0
#: From fewer repetitions than this, their own spread plans nothing.
LEAST_TO_PLAN = 3

#: Each verdict and its tone. better, worse: told apart, of the side that is not the base. undecided: the interval has
#: "no change" in it. below the noise: told apart, but by less than this host's noise. no interval: a side has one run.
VERDICTS = {"better": "good", "worse": "bad", "undecided": "", "below the noise": "", "no interval": "warn"}


class Side(NamedTuple):
    """One side: its value of the parameter, and of the measure in each repetition, in base units."""

    value: Hashable
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The geometric mean, as changes are ratios."""
        return float(np.exp(np.mean(np.log(self.values))))


@dataclass(frozen=True)
class Comparison:
    """Two sides that are alike but for the parameter `by`, and what their runs tell of the difference.

    measure: one of measures.MEASURES. alike: what both have, by the names of Spec's fields, and the host. change: of
    `other` over `base`, in percent, with its interval low to high at `confidence`, NaN where there is none. paired:
    whether repetitions were compared within each. verdict: one of VERDICTS. enough: how many repetitions would tell a
    difference of `worth` percent, None where that is not known. floor: the least difference, in percent, that this host
    tells from its noise at so many repetitions; NaN where none is recorded.
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
    confidence: float = 1 - noise.ALPHA
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> tuple[int, int]:
        """Repetitions of the other side and of the base."""
        return len(self.other.values), len(self.base.values)

    @property
    def words(self) -> str:
        """The difference in a sentence."""
        return comparison_words.sentence(self)

    def __str__(self) -> str:
        return self.words + "".join(f" [{note}]" for note in self.notes)

    def __repr__(self) -> str:
        return f"<Comparison: {self}>"

    def _repr_html_(self) -> str:
        return card(
            self.words,
            comparison_words.rows(self),
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
        return comparison_words.apart(comparison.alike, [each.alike for each in self])

    def __str__(self) -> str:
        lines = [f"{where}: {each}" if (where := self.where(each)) else str(each) for each in self]
        return "\n".join([*lines, *self.left_out])

    __repr__ = __str__  # in a terminal, the sentences are what one wants to see

    def _repr_html_(self) -> str:
        if len(self) == 1 and not self.left_out:
            return self[0]._repr_html_()
        rows = [(self.where(each), each.words, each.verdict, "; ".join(each.notes)) for each in self]
        remarks = [f"Each interval holds {self[0].confidence:.0%} by itself; nothing is corrected for their number."]
        body = grid(("where", "difference", "verdict", "notes"), rows)
        return card(f"Compared by {self[0].by}", (), body=body, note=" ".join([*remarks, *self.left_out]))


def compare(
    runs: Runs | Iterable[Run], *, by: str = "driver", measure: str | None = None, base: Hashable | None = None
) -> Comparisons:
    """Every two groups of runs that are alike in all but `by`, of which one has the value `base`.

    by: a field of Spec. measure: one of measures.MEASURES; None: the median FCT of flows with an end, of others the
    total throughput. base: the value that the others are held against; None: the field's default where it was
    measured, else the first. Runs that differ in other fields, or come from different hosts, are kept apart. What is
    not compared is told in left_out: runs that are not ok, and those without a partner.

    Raises UnknownName for another `by` or `measure`; AnalysisError, saying which fields differ, where no two are alike.
    """
    _check_names(by, measure)
    every = tuple(runs)
    counted = [run for run in every if run.status == "ok"]
    left_out = [*_not_ok(every), *_unread(runs)]
    calibrations = floors.of_runs(runs if isinstance(runs, Runs) else Runs(every, root=_root(every)))
    found, refused, alone = [], [], []
    for alike, sides in _cells(counted, by):
        start = _base(by, sides, base)
        if start is None or len(sides) < 2:
            alone += [f"{comparison_words.named(by, value)} ({comparison_words.cell(alike)})" for value in sides]
            continue
        for value in (value for value in sides if value != start):
            pair = (start, sides[start]), (value, sides[value])
            try:
                found.append(_compared(by, measure, alike, pair, calibrations))
            except AnalysisError as error:
                refused.append(str(error))
    left_out = [*refused, *left_out, *_alone(by, alone)]
    if not found:
        raise AnalysisError(" ".join(left_out) if refused else _nothing_compared(by, counted, left_out))
    return Comparisons(found, left_out)


def varied(runs: Iterable[Run]) -> dict[str, list]:
    """The fields of Spec in which these runs differ beside the repetition, and their values: what `by` can be."""
    specs = [run.spec for run in runs]
    values = {name: sorted({getattr(spec, name) for spec in specs}) for name in FIELDS}
    return {name: found for name, found in values.items() if len(found) > 1}


def _cells(runs: Sequence[Run], by: str) -> list[tuple[dict[str, Any], dict[Hashable, list[Run]]]]:
    """What the runs of a cell have in common, and its runs by the value of `by`; all in order."""
    cells: dict[tuple, dict[Hashable, list[Run]]] = {}
    for run in sorted(runs, key=lambda run: (run.spec.repetition, run.spec.seed)):
        spec = run.spec
        alike = (*((name, getattr(spec, name)) for name in FIELDS if name != by), ("host", _host(run)))
        cells.setdefault(alike, {}).setdefault(getattr(spec, by), []).append(run)
    order = ordered if by == "driver" else sorted
    return [(dict(alike), {value: sides[value] for value in order(sides)}) for alike, sides in sorted(cells.items())]


def _compared(
    by: str,
    measure: str | None,
    alike: Mapping[str, Any],
    sides: Sequence[tuple[Hashable, list[Run]]],
    calibrations: Mapping[str, Calibration],
) -> Comparison:
    """The comparison of two sides, the base first. Raises AnalysisError where one has no value, or its flows failed."""
    specs = [runs[0].spec for _, runs in sides]
    measure = measure or ("fct_median_s" if all(spec.flow_bytes for spec in specs) else "total_bps")
    told = [[(run, summaries(run).get(measure, 0.0)) for run in runs] for _, runs in sides]
    for (value, _), side in zip(sides, told, strict=True):
        if lost := [run for run, found in side if math.isnan(found)]:
            raise AnalysisError(_hangs_on_failed(comparison_words.named(by, value), measure, lost, len(side)))
    known = [[(run, found) for run, found in side if found > 0] for side in told]
    for (value, _), side in zip(sides, known, strict=True):
        if not side:
            nothing = f"has no {MEASURES[measure].told} above zero"
            raise AnalysisError(f"Not compared: {comparison_words.named(by, value)} {nothing}.")
    paired, (first, second) = _paired(*known)
    counts = [
        (value, runs, len(values), len(used))
        for (value, runs), values, used in zip(sides, known, (first, second), strict=True)
    ]
    floor = _floor(measure, specs, min(len(first), len(second)), calibrations)
    if min(len(first), len(second)) < 2:
        change, low, high = noise.percent(np.log(second).mean() - np.log(first).mean()), np.nan, np.nan
    else:
        change, low, high, *_ = (noise.compare if paired else noise.compare_groups)(first, second)
    return Comparison(
        by=by,
        measure=measure,
        base=Side(sides[0][0], first),
        other=Side(sides[1][0], second),
        alike=alike,
        change=change,
        low=low,
        high=high,
        paired=paired,
        verdict=_verdict(measure, change, low, high, floor),
        enough=_enough(first, second, paired, floor),
        floor=floor.percent if floor else np.nan,
        notes=(*_notes(by, counts, measure), *floors.not_covered(calibrations, specs, measure)),
    )


def _paired(
    first: Sequence[tuple[Run, float]], second: Sequence[tuple[Run, float]]
) -> tuple[bool, tuple[tuple[float, ...], tuple[float, ...]]]:
    """Whether the one side's repetitions are all among the other's, two at least, and the values: then of those."""
    tables = [{(run.spec.repetition, run.spec.seed): value for run, value in side} for side in (first, second)]
    common = [at for at in tables[0] if at in tables[1]]
    once = [len(table) == len(side) for table, side in zip(tables, (first, second), strict=True)]
    if all(once) and len(common) > 1 and len(common) == min(map(len, tables)):
        return True, tuple(tuple(table[at] for at in common) for table in tables)
    return False, tuple(tuple(value for _, value in side) for side in (first, second))


def _verdict(measure: str, change: float, low: float, high: float, floor: Floor | None) -> str:
    if low != low:
        return "no interval"
    if low <= 0 <= high:
        return "undecided"
    if floor and abs(np.log1p(change / 100)) < floor.effect:
        return "below the noise"
    return "worse" if (change > 0) == MEASURES[measure].less_is_better else "better"


def _floor(
    measure: str, specs: Sequence[Spec], repetitions: int, calibrations: Mapping[str, Calibration]
) -> Floor | None:
    """The higher of the sides' noise floors, each of what was calibrated under the same parameters."""
    contrast = Contrast(measure, float(np.sqrt(2)), tuple(spec.pairs for spec in specs))
    found = [
        calibrations[spec.backend].floor(contrast, spec.workload, repetitions, floors.special(spec))
        for spec in specs
        if spec.backend in calibrations
    ]
    return max(filter(None, found), key=lambda floor: floor.effect, default=None)


def _enough(first: Sequence[float], second: Sequence[float], paired: bool, floor: Floor | None) -> int | None:
    """How many repetitions would tell WORTH_PERCENT, if they spread as these do, and not less than this host's do."""
    if min(len(first), len(second)) < LEAST_TO_PLAN:
        return None
    if paired:
        spread = noise.spread(np.divide(second, first))
    else:
        spread = float(np.hypot(noise.spread(first), noise.spread(second)))
    return contrasts.repetitions_to_tell(
        float(np.log1p(WORTH_PERCENT / 100)), max(spread, floor.spread if floor else 0)
    )


def _notes(by: str, sides: Sequence[tuple[Hashable, Sequence[Run], int, int]], measure: str) -> list[str]:
    """sides: the value of `by`, its runs, those of them with a value, and those that were used."""
    found = []
    for value, runs, known, used in sides:
        name = comparison_words.named(by, value)
        if nothing := len(runs) - known:
            found.append(f"{nothing} of {len(runs)} runs of {name} have no {MEASURES[measure].told} above zero")
        if used < known:
            found.append(f"{known - used} of {known} runs of {name} are of repetitions that the other side lacks")
        if failed := sum(run.failed_flows for run in runs):
            counted = "counted as longer than all others" if MEASURES[measure].less_is_better else "counted as zero"
            found.append(f"{failed} of {sum(len(run.flows) for run in runs)} flows of {name} failed, {counted}")
    if by == "backend":
        found.append("two backends are two data paths: compared here, and never pooled")
    return found


def _hangs_on_failed(name: str, measure: str, lost: Sequence[Run], runs: int) -> str:
    """Why a side has no value that could be compared: to leave out the runs that lack it would flatter it."""
    flows = sum(len(run.flows) for run in lost)
    errors = [error for run in lost for error in run.flows.loc[run.flows["status"] != "ok", "error"]]
    first = f" (the first: {errors[0]})" if errors else ""
    return (
        f"Not compared: {len(lost)} of {runs} runs of {name} have no {MEASURES[measure].told}:"
        f" {len(errors)} of their {flows} flows failed{first}, and it hangs on how long these would have taken."
    )


def _base(by: str, sides: Mapping[Hashable, Any], base: Hashable | None) -> Hashable | None:
    """The value of `by` that the others are held against in this cell, if it is there."""
    wanted = Spec.model_fields[by].default if base is None else base
    return wanted if wanted in sides else next(iter(sides)) if base is None else None


def _not_ok(runs: Sequence[Run]) -> list[str]:
    found = []
    for status in dict.fromkeys(run.status for run in runs if run.status != "ok"):
        these = [run for run in runs if run.status == status]
        first = f"{these[0].spec} ({'; '.join(these[0].reasons)})"
        found.append(f"Left out, as {status}: {_listed(len(these), 'run')}, the first: {first}.")
    return found


def _unread(runs: Runs | Iterable[Run]) -> list[str]:
    unread = getattr(runs, "unread", ())
    return [f"Left out, as not readable: {_listed(len(unread), 'run')}, the first: {unread[0]}."] if unread else []


def _alone(by: str, alone: Sequence[str]) -> list[str]:
    """What found no partner, in a sentence."""
    if not alone:
        return []
    more = f"; and {len(alone) - 3} more" if len(alone) > 3 else ""
    return [f"Not compared, as nothing to hold it against differs in {by} alone: {'; '.join(alone[:3])}{more}."]


def _listed(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _nothing_compared(by: str, runs: Sequence[Run], left_out: Sequence[str]) -> str:
    """Why there is no comparison at all, and what to do."""
    differ = varied(runs)
    others = "; ".join(f"{name} ({', '.join(map(str, values))})" for name, values in differ.items() if name != by)
    if len(runs) < 2:
        why = f"a comparison needs two runs that are ok, and there are {len(runs)}: measure another."
    elif by not in differ:
        can = f"they differ in {others}: compare by that." if others else "they differ in the repetition only."
        why = f"all {len(runs)} runs have the same {by}, {getattr(runs[0].spec, by)}, and {can}"
    elif others:
        why = (
            f"no two of the {len(runs)} runs differ in {by} alone, but also in {others}."
            " Measure what is missing, or compare by another parameter."
        )
    else:
        why = f"none of the {len(runs)} runs can be held against another by {by}."
    if (hosts := len({_host(run) for run in runs})) > 1:
        why += f" They come from {hosts} hosts, whose numbers are not compared."
    return " ".join([why, *left_out])


def _root(runs: Iterable[Run]) -> Path | None:
    """The folder that all these runs are stored below, beside which the host's noise may be recorded."""
    roots = {run.path.parents[1] if run.path else None for run in runs}
    return roots.pop() if len(roots) == 1 else None


def _host(run: Run) -> str:
    return (run.facts.get("host") or {}).get("fingerprint", "")


def _check_names(by: str, measure: str | None) -> None:
    if by not in FIELDS:
        why = " tells repetitions apart, which are the unit" if by in REPLICATE else " is nothing that runs differ by"
        raise UnknownName(f"{by!r}{why}; there are: {', '.join(FIELDS)}")
    if measure is not None and measure not in MEASURES:
        raise UnknownName(f"no measure {measure!r}; there are: {', '.join(MEASURES)}")
