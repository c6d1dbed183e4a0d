"""How runs that are alike in everything but one parameter differ: by how much, with its interval, and in words.

Repetitions are the unit. Where both sides have the same ones they are compared within each, as a sweep measures them,
so that slow drift of the host cancels; else as independent groups. What is smaller than the host's recorded noise
(noise_floor.py) is not called a difference. Over several hosts, each has a difference of its own, found in this way,
and hosts are the unit.
"""

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from pairlab import store
from pairlab.analysis import selection
from pairlab.analysis.claims.effect import Contrast
from pairlab.analysis.comparison import noise_floor, recorded_conditions
from pairlab.analysis.comparison.left_out import depends_on_failed, not_ok, unread, without_partner
from pairlab.analysis.comparison.noise_floor import Calibration, NoiseFloor
from pairlab.analysis.comparison.result import WORTH_PERCENT, Comparison, Comparisons, Side
from pairlab.analysis.comparison.spec_text import cell, named
from pairlab.analysis.driver_order import ordered
from pairlab.errors import AnalysisError, BadInput, TooFewSamples, UnknownName
from pairlab.model import fct
from pairlab.model import ground as grounds
from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec, value_of
from pairlab.model.summaries import MEASURES, QUANTILES, Measure, default_measure, measures_of, resolution, summaries
from pairlab.statistics import changes, intervals, power, quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import LEAST, PERCENT, POSITIVE, Student
from pairlab.store.dataset import Runs

#: What sets the repetitions of a cell apart from each other.
REPLICATE = ("repetition", "seed")
#: What a run is judged by: it changes nothing in what is measured.
BOUNDS = ("max_skew_s", "max_foreign_cpu")
#: The fields of Spec that `by` can be.
FIELDS = tuple(name for name in Spec.model_fields if name not in (*REPLICATE, *BOUNDS))
#: What it can be of a run's ground; and what of that runs of one cell share, whatever `by` is.
GROUND = ("host", "kernel", "engine", "tool", "switch")
PLACE = ("host", "kernel")


class _Found(NamedTuple):
    """What two sides' runs show; of each side its level and its runs, how many have a value and how many were used."""

    change: Student
    paired: bool
    levels: Sequence[float]
    runs: Sequence[Sequence[Run]]
    known: Sequence[int]
    used: Sequence[int]
    notes: tuple[str, ...] = ()


def compare(
    runs: Runs | Iterable[Run],
    *,
    by: str = "driver",
    measure: str | None = None,
    base: Hashable | None = None,
    over: Literal["", "host"] = "",
    despite: Sequence[str] = (),
) -> Comparisons:
    """Every two groups of runs that are alike in all but `by`, of which one has the value `base`.

    by: a field of Spec, or of what runs were measured on: host, kernel, engine (of containers), tool, switch; for these
    load the runs with ground="all". measure: one of summaries.MEASURES, or a metric that the workload declares; None:
    the median FCT of flows with an end, the median latency of transactions, of others the total throughput, and each
    metric that the workloads of both declare. base: the value that the others are held against;
    None: the field's default where it was measured, else the first. Runs that differ in other fields, or come from
    different hosts or kernels, are kept apart, unless over="host": then the two are compared within each host that has
    both, and hosts are the unit, however fast each of them is. Sides whose TCP memory or offloads were recorded as
    different are not compared (recorded_conditions.py), unless these are named in `despite`; what else differs is in
    the notes. What is not compared is named in left_out: runs that are
    not ok, and those without a partner.

    Raises UnknownName for another `by`, `measure` or `over`; BadInput where hosts are both; AnalysisError, saying which
    fields differ, where no two are alike.
    """
    every = tuple(runs)
    _check_names(by, measure, every, over)
    counted = [run for run in every if run.status == "ok"]
    left_out = [*not_ok(every), *unread(runs), *getattr(runs, "elsewhere", ())]
    calibrations = noise_floor.of_runs(runs if isinstance(runs, Runs) else Runs(every, root=_root(every)))
    found, refused, alone = [], [], []
    cells = _cells(counted, by, over)
    base = value_of(by, base)
    if base is not None and base not in (known := dict.fromkeys(value for _, sides in cells for value in sides)):
        raise BadInput(f"base: no run that is ok has {by} {base!r}; there are: {', '.join(map(str, known)) or 'none'}")
    for alike, sides in cells:
        start = _base(by, sides, base)
        if start is None or len(sides) < 2:
            alone += [f"{named(by, value)} ({cell(alike)})" for value in sides]
            continue
        for value in (value for value in sides if value != start):
            pair = (start, sides[start]), (value, sides[value])
            for each in [measure] if measure else _measures_of_both(pair):
                try:
                    found.append(_compared(by, each, alike, pair, calibrations, over, despite))
                except AnalysisError as error:
                    refused.append(str(error))
    for text, count in Counter(refused).items():
        left_out.insert(0, text if count == 1 else f"{text.removesuffix('.')}, in {count} cells.")
    left_out += without_partner(by, alone)
    if not found:
        raise AnalysisError(" ".join(left_out) if refused else _nothing_compared(by, counted, left_out))
    return Comparisons(found, left_out)


def varied(runs: Iterable[Run]) -> dict[str, list]:
    """The fields in which these runs differ beside the repetition, and their values: what `by` can be."""
    runs = list(runs)
    specs = [run.spec for run in runs]
    values = {name: sorted({getattr(spec, name) for spec in specs}) for name in FIELDS}
    on = grounds_of(runs)
    values |= {name: sorted({on[run.ground][name] for run in runs}) for name in PLACE}
    return {name: found for name, found in values.items() if len(found) > 1}


def _cells(runs: Sequence[Run], by: str, over: str = "") -> list[tuple[dict[str, Any], dict[Hashable, list[Run]]]]:
    """What the runs of a cell have in common, and its runs by the value of `by`; all in order."""
    cells: dict[tuple, dict[Hashable, list[Run]]] = {}
    on = grounds_of(runs)
    for run in sorted(runs, key=lambda run: (run.spec.repetition, run.spec.seed)):
        values = run.spec.model_dump() | on[run.ground]
        shared = (*FIELDS, *(() if over else PLACE))
        alike = (*((name, values[name]) for name in shared if name != by), *_in_force(run, by))
        cells.setdefault(alike, {}).setdefault(values[by], []).append(run)
    order = ordered if by == "driver" else by_version if by in GROUND else sorted
    return [(dict(alike), {value: sides[value] for value in order(sides)}) for alike, sides in sorted(cells.items())]


def grounds_of(runs: Iterable[Run]) -> dict[Ground, dict[str, str]]:
    """The values of GROUND for each ground of these runs; an older run's unknown machine is taken for the known one."""
    same = grounds.same(run.ground for run in runs)
    hosts = grounds.host_names(same)
    return {
        ground: {**{name: getattr(whole, name) for name in GROUND}, "host": hosts[ground]}
        for ground, whole in same.items()
    }


def by_version(values: Iterable[str]) -> list[str]:
    """Texts in order, numbers within them by value: 6.2 before 6.18."""
    return sorted(
        values,
        key=lambda text: [
            (not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", text)
        ],
    )


def _measures_of_both(sides: Sequence[tuple[Hashable, list[Run]]]) -> list[str]:
    """What two sides are compared by where nothing is asked for: what suits them, and metrics that all runs have."""
    both = [run for _, runs in sides for run in runs]
    first, *others = [[each.name for each in run.metrics] for run in both]
    return [default_measure(both), *(name for name in first if all(name in other for other in others))]


def _compared(
    by: str,
    measure: str,
    alike: Mapping[str, Any],
    sides: Sequence[tuple[Hashable, list[Run]]],
    calibrations: Mapping[str, Calibration],
    over: str,
    despite: Sequence[str],
) -> Comparison:
    """The comparison of two sides, the base first. Raises AnalysisError where one has no value, or its flows failed."""
    specs = [runs[0].spec for _, runs in sides]
    conditions = [] if over or by in GROUND else recorded_conditions.notes(by, sides, despite)
    what = measures_of(run for _, runs in sides for run in runs)[measure]
    found = (_over_hosts if over else _of_runs)(by, measure, what, sides)
    change, low, high, n = found.change.estimate()
    floor = None if over else _floor(measure, specs, n, calibrations)  # a calibration is of one host
    unmeasured = () if over else noise_floor.not_covered(calibrations, specs, measure)
    values = [value for value, _ in sides]
    counts = list(zip(values, found.runs, found.known, found.used, strict=True))
    of_each = [n, n] if over else found.used
    base, other = (Side(*side) for side in zip(values, of_each, found.levels, strict=True))
    return Comparison(
        by=by,
        measure=measure,
        base=base,
        other=other,
        alike=alike,
        change=change,
        low=low,
        high=high,
        paired=found.paired,
        verdict=_verdict(what, change, low, high, floor),
        enough=_enough(found.change, floor),
        floor=floor.percent if floor else np.nan,
        notes=(*found.notes, *_notes(by, counts, what), *_also(by, sides), *conditions, *unmeasured),
        declared=None if measure in MEASURES else what,
        unit=over or "repetition",
    )


def _of_runs(
    by: str, measure: str, what: Measure, sides: Sequence[tuple[Hashable, Sequence[Run]]], host: str = ""
) -> _Found:
    """Of runs of one host, repetitions the unit. host: its name, if it is one of several: then they are the unit."""
    names = [named(by, value) + (f" on {host}" if host else "") for value, _ in sides]
    known = [_known(name, measure, what, runs) for name, (_, runs) in zip(names, sides, strict=True)]
    least = 1 if host else LEAST
    paired, used = _used(*known, least) if by not in GROUND else (False, known)  # no sweep visits two kernels in turn
    steps = tuple(max(resolution(run, measure) for run in runs) for runs in used)
    if measure in QUANTILES:
        found, levels = _percentiles(QUANTILES[measure], used, paired, names)
        found = found.blurred(*changes.rounded(*levels, steps))
    else:
        values = [[summaries(run)[measure] for run in runs] for runs in used]
        found = changes.ratio(*values, paired=paired, resolutions=steps)
        levels = [intervals.mean(each, POSITIVE).estimate().value for each in values]
    return _Found(found, paired, levels, [runs for _, runs in sides], [*map(len, known)], [*map(len, used)])


def _over_hosts(by: str, measure: str, what: Measure, sides: Sequence[tuple[Hashable, Sequence[Run]]]) -> _Found:
    """Of runs of several hosts, within each of those that have both sides, hosts the unit."""
    on = grounds_of(run for _, runs in sides for run in runs)
    values = [value for value, _ in sides]
    hosts: dict[str, list[list[Run]]] = {}
    kernels: dict[str, set[str]] = {}
    for place, (_, runs) in enumerate(sides):
        for run in runs:
            host, kernel = (on[run.ground][name] for name in PLACE)
            hosts.setdefault(host, [[], []])[place].append(run)
            kernels.setdefault(host, set()).update({kernel} - {""} if by != "kernel" else ())
    for host, several in kernels.items():
        if len(several) > 1:
            listed = ", ".join(by_version(several))
            raise AnalysisError(f"Not compared: {host} has runs of several kernels ({listed}): take those of one.")
    both = {host: its for host, its in sorted(hosts.items()) if all(its)}
    if not both:
        raise AnalysisError(f"Not compared: no host has both {' and '.join(named(by, value) for value in values)}.")
    parts = [_of_runs(by, measure, what, list(zip(values, its, strict=True)), host) for host, its in both.items()]
    change = Student.of([part.change.centre for part in parts], PERCENT)
    change = change.blurred(*np.mean([part.change.blur for part in parts], axis=0))
    of_each = [f"{PERCENT.shown(part.change.centre):+.1f} % on {host}" for host, part in zip(both, parts, strict=True)]
    notes = ["; ".join(of_each)]
    if lacking := len(hosts) - len(both):
        notes.append(f"{lacking} of {len(hosts)} hosts lack{'s' * (lacking == 1)} one side")
    if len(different := set().union(*kernels.values())) > 1:
        notes.append(f"the hosts have different kernels ({', '.join(by_version(different))})")
    return _Found(
        change,
        all(part.paired for part in parts),
        [float(np.mean(of)) for of in zip(*(part.levels for part in parts), strict=True)],
        [[run for its in both.values() for run in its[place]] for place in range(len(sides))],
        [sum(of) for of in zip(*(part.known for part in parts), strict=True)],
        [sum(of) for of in zip(*(part.used for part in parts), strict=True)],
        tuple(notes),
    )


def _known(name: str, measure: str, what: Measure, runs: Sequence[Run]) -> list[Run]:
    """The runs of a side that have the measure. Raises AnalysisError where none has, or it depends on failed flows."""
    values = [summaries(run).get(measure, 0.0) for run in runs]
    lost = [run for run, value in zip(runs, values, strict=True) if math.isnan(value)]
    if lost and (measure not in QUANTILES or np.isnan(_flows(runs).quantile(QUANTILES[measure]))):
        raise AnalysisError(depends_on_failed(name, what, lost, len(runs)))
    known = [run for run, value in zip(runs, values, strict=True) if value > 0 or math.isnan(value)]
    if not known:
        raise AnalysisError(f"Not compared: {name} has no {what.name} above zero.")
    return known


def _used(first: Sequence[Run], second: Sequence[Run], least: int) -> tuple[bool, tuple[list[Run], list[Run]]]:
    """Whether the two are compared within repetitions, and the runs: then those of the repetitions that both have."""
    tables = [{(run.spec.repetition, run.spec.seed): run for run in side} for side in (first, second)]
    once = all(len(table) == len(side) for table, side in zip(tables, (first, second), strict=True))
    common = changes.together(*tables, least) if once else None
    if common is None:
        return False, (list(first), list(second))
    return True, tuple([table[label] for label in common] for table in tables)


def _percentiles(
    q: float, used: Sequence[Sequence[Run]], paired: bool, names: Sequence[str]
) -> tuple[Student, list[float]]:
    """The change of a percentile of all flows, and that of each side."""
    sides = [_flows(runs) for runs in used]
    for name, side in zip(names, sides, strict=True):
        try:
            quantiles.check(side, q)
        except TooFewSamples as error:
            raise AnalysisError(f"Not compared: {name}: {error}.") from None
    return quantiles.percent_change(*sides, q, paired=paired), [side.quantile(q) for side in sides]


def _flows(runs: Sequence[Run]) -> Clusters:
    """The flows of each run, which is one repetition."""
    parts = []
    for run in runs:  # there can be millions of flows
        column = fct.column(run.spec)
        flows = store.columns(run, "flows", [column, "status"]).to_pandas()
        parts.append(np.sort(fct.of(flows, column).to_numpy()))
    labels = np.array([f"{run.spec.repetition}/{run.spec.seed}" for run in runs])
    return Clusters(labels, tuple(parts))


def _verdict(what: Measure, change: float, low: float, high: float, floor: NoiseFloor | None) -> str:
    if low != low:
        return "no interval"
    if low <= 0 <= high:
        return "undecided"
    if floor and abs(np.log1p(change / 100)) < floor.effect:
        return "below the noise"
    return "worse" if (change > 0) == what.less_is_better else "better"


def _floor(
    measure: str, specs: Sequence[Spec], repetitions: int, calibrations: Mapping[str, Calibration]
) -> NoiseFloor | None:
    """The higher of the sides' noise floors, each of what was calibrated under the same parameters."""
    contrast = Contrast(measure, float(np.sqrt(2)), tuple(spec.pairs for spec in specs))
    found = [
        calibrations[spec.backend].floor(contrast, spec.workload, repetitions, noise_floor.special(spec))
        for spec in specs
        if spec.backend in calibrations
    ]
    return max(filter(None, found), key=lambda floor: floor.effect, default=None)


def _enough(found: Student, floor: NoiseFloor | None) -> int | None:
    """How many repetitions would show WORTH_PERCENT, if they spread as these do, and not less than this host's do."""
    if found.n < LEAST:
        return None
    spread = max(found.spread, floor.spread if floor else 0)
    return power.repetitions_needed(float(np.log1p(WORTH_PERCENT / 100)), spread)


def _notes(by: str, sides: Sequence[tuple[Hashable, Sequence[Run], int, int]], what: Measure) -> list[str]:
    """sides: the value of `by`, its runs, those of them with a value, and those that were used."""
    found = []
    for value, runs, known, used in sides:
        name = named(by, value)
        if nothing := len(runs) - known:
            found.append(f"{nothing} of {len(runs)} runs of {name} have no {what.name} above zero")
        if used < known:
            found.append(f"{known - used} of {known} runs of {name} are of repetitions that the other side lacks")
        if failed := sum(run.failed_flows for run in runs):
            counted = "counted as longer than all others" if what.less_is_better else "counted as zero"
            found.append(
                f"{failed} of {sum(store.length(run, 'flows') for run in runs)} flows of {name} failed, {counted}"
            )
    if by == "backend":
        found.append("two backends are two data paths: compared here, and never pooled")
    return found


def _also(by: str, sides: Sequence[tuple[Hashable, Sequence[Run]]]) -> list[str]:
    """What else differs between two grounds that are compared by one thing in them, or between two backends."""
    if by not in (*GROUND, "backend"):
        return []
    names = [name for name in (PLACE if by == "backend" else GROUND) if name != by]
    on = grounds_of(run for _, runs in sides for run in runs)
    values = {name: [{on[run.ground][name] for run in runs} for _, runs in sides] for name in names}
    return [f"they differ in {name}, too" for name, (base, other) in values.items() if base != other]


def _base(by: str, sides: Mapping[Hashable, Any], base: Hashable | None) -> Hashable | None:
    """The value of `by` that the others are held against in this cell, if it is there."""
    wanted = Spec.model_fields[by].default if base is None and by in Spec.model_fields else base
    return wanted if wanted in sides else next(iter(sides)) if base is None else None


def _nothing_compared(by: str, runs: Sequence[Run], left_out: Sequence[str]) -> str:
    """Why there is no comparison at all, and what to do."""
    differ = varied(runs)
    others = "; ".join(f"{name} ({', '.join(map(str, values))})" for name, values in differ.items() if name != by)
    if len(runs) < 2:
        why = f"a comparison needs two runs that are ok, and there are {len(runs)}: measure another."
    elif by not in differ:
        can = f"they differ in {others}: compare by that." if others else "they differ in the repetition only."
        value = getattr(runs[0].spec, by) if by in FIELDS else grounds_of(runs)[runs[0].ground][by] or "not recorded"
        why = f"all {len(runs)} runs have the same {by}, {value}, and {can}"
    elif others:
        why = (
            f"no two of the {len(runs)} runs differ in {by} alone, but also in {others}."
            " Measure what is missing, or compare by another parameter."
        )
    else:
        why = f"none of the {len(runs)} runs can be held against another by {by}."
    return " ".join([why, *left_out])


def _root(runs: Iterable[Run]) -> Path | None:
    """The folder that all these runs are stored below, beside which the host's noise may be recorded."""
    roots = {run.path.parents[1] if run.path else None for run in runs}
    return roots.pop() if len(roots) == 1 else None


def _in_force(run: Run, by: str) -> list[tuple[str, str]]:
    """What was in force beside the spec, but what the parameter itself decides."""
    itself = {"congestion_control": "congestion control", "driver": "datapath"}.get(by)
    return [(name, value) for name, value in selection.in_force(run).items() if name != itself]


def _check_names(by: str, measure: str | None, runs: Sequence[Run], over: str) -> None:
    if by not in (*FIELDS, *GROUND):
        why = " tells repetitions apart, which are the unit" if by in REPLICATE else " is nothing that runs differ by"
        raise UnknownName(f"{by!r}{why}; there are: {', '.join((*FIELDS, *GROUND))}")
    if measure is not None and measure not in (known := measures_of(runs)):
        raise UnknownName(f"no measure {measure!r}; there are: {', '.join(known)}")
    if over not in ("", "host"):
        raise UnknownName(f"nothing is compared over {over!r}; there is: host")
    if over == by:
        raise BadInput("hosts are what is compared, or what it is compared over: give another `by`")
