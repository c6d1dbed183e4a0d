"""How runs that are alike in everything but one parameter differ: by how much, with its interval, and in words.

Repetitions are the unit. Where both sides were measured in the same blocks they are compared within each, so that slow
drift of the host cancels; else as independent groups. What was measured one after the other, hours apart, is not told
from drift, and has no verdict. What is smaller than the host's recorded noise
(noise_floor.py) is not called a difference. Over several hosts, each has a difference of its own, found in this way,
and hosts are the unit.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from pairlab import store
from pairlab.analysis.cell_estimates import APART, ATTEMPTS, BY_SESSION, PAIRINGS, pairing_of
from pairlab.analysis.comparison import noise_floor
from pairlab.analysis.comparison.cells import (
    ENVIRONMENT,
    FIELDS,
    PLACE,
    REPLICATE,
    by_version,
    cells,
    described,
    named,
    recorded_differences,
    values_of,
    varied,
)
from pairlab.analysis.comparison.noise_floor import NoiseFloor
from pairlab.analysis.comparison.result import TARGET_PERCENT, Comparison, Comparisons, Side
from pairlab.analysis.comparison.twins import Noise
from pairlab.analysis.repetitions import Attempts
from pairlab.analysis.selection import version_of_work
from pairlab.errors import AnalysisError, BadInput, TooFewSamples, UnknownName
from pairlab.model import blocks, fct, latencies, others
from pairlab.model.metrics import PER_VERSION
from pairlab.model.records import Run
from pairlab.model.spec import Spec, value_of
from pairlab.model.summaries import QUANTILES, Measure, default_measure, measures_of, resolution, summaries
from pairlab.statistics import changes, intervals, power, quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import LEAST, PERCENT, POSITIVE, Student
from pairlab.store.dataset import Runs

#: The two that are compared, the base first: their value of `by`, and their runs.
Sides = Sequence[tuple[Hashable, Sequence[Run]]]

#: From how large a difference on, in what others took of the sides' time, a sentence says so.
WORTH_SAYING = 0.01


class _Used(NamedTuple):
    """What a comparison has of one side: its level, its runs, how many have a value, and how many of these it uses."""

    level: float
    runs: Sequence[Run]
    known: int
    used: int


class _Found(NamedTuple):
    """What two sides' runs show."""

    change: Student
    pairing: str
    sides: tuple[_Used, _Used]
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
    load the runs with environment="all". measure: one of summaries.MEASURES, or a metric that the workload declares;
    None: the median FCT of flows with an end, the median latency of transactions, of others the total throughput, and
    each metric that the workloads of both declare. base: the value that the others are held against;
    None: the field's default where it was measured, else the first. Runs that differ in other fields, or come from
    different hosts or kernels, are kept apart, unless over="host": then the two are compared within each host that has
    both, and hosts are the unit, however fast each of them is. Sides whose TCP memory or offloads were recorded as
    different are not compared (cells.py), unless these are named in `despite`; what else differs is in
    the notes. What is not compared is named in left_out: runs that are
    not ok, and those without a partner.

    Raises UnknownName for another `by`, `measure` or `over`; BadInput where hosts are both; AnalysisError, saying which
    fields differ, where no two are alike.
    """
    every = tuple(runs)
    _check_names(by, measure, every, over)
    counted = [run for run in every if run.status == "ok" and (by == "twin" or not run.spec.twin)]
    roots = {run.path.parents[1] if run.path else None for run in every}  # beside which noise may be recorded
    root = roots.pop() if len(roots) == 1 else None
    noise = Noise(runs if isinstance(runs, Runs) else Runs(every, root=root))
    found, alone, unmatched = [], [], []
    refused: Counter[str] = Counter()
    in_cells = cells(counted, by, over)
    discarded = {tuple(alike.items()): sides for alike, sides in cells(_invalid(every, by), by, over)}
    base = value_of(by, base)
    if base is not None and base not in (known := dict.fromkeys(value for _, sides in in_cells for value in sides)):
        raise BadInput(f"base: no run that is ok has {by} {base!r}; there are: {', '.join(map(str, known)) or 'none'}")
    for alike, sides in in_cells:
        start = _base(by, sides, base)
        if start is None or len(sides) < 2:
            alone += [f"{named(by, value)} ({described(alike)})" for value in sides]
            if start is not None and start == base:
                unmatched.append(f"{described(alike)}: nothing but {named(by, base)} has runs of it that are ok")
            continue
        for value in (value for value in sides if value != start):
            pair = (start, sides[start]), (value, sides[value])
            beside = discarded.get(tuple(alike.items()), {})
            attempts = [Attempts.of([*its, *beside.get(side, ())]) for side, its in pair]
            for each in [measure] if measure else _measures_of_both(pair):
                try:
                    found.append(_compared(by, each, alike, pair, attempts, noise, over, despite))
                except AnalysisError as error:
                    refused[str(error)] += 1
                    unmatched.append(f"{described(alike)}: {error}")
    left_out = [
        text if count == 1 else f"{text.removesuffix('.')}, in {count} cells."
        for text, count in reversed(refused.items())
    ]
    left_out += [*_not_counted(every, getattr(runs, "unread", ())), *getattr(runs, "elsewhere", ())]
    if alone and by != "twin":  # of most cells there is none
        more = f"; and {len(alone) - 3} more" if len(alone) > 3 else ""
        listed = "; ".join(alone[:3])
        left_out.append(f"Not compared, as nothing to hold it against differs in {by} alone: {listed}{more}.")
    if not found:
        raise AnalysisError(" ".join(left_out if refused else [_nothing_compared(by, counted), *left_out]))
    return Comparisons(found, left_out, unmatched)


def _check_names(by: str, measure: str | None, runs: Sequence[Run], over: str) -> None:
    if by not in (*FIELDS, *ENVIRONMENT):
        why = " tells repetitions apart, which are the unit" if by in REPLICATE else " is nothing that runs differ by"
        raise UnknownName(f"{by!r}{why}; there are: {', '.join((*FIELDS, *ENVIRONMENT))}")
    if measure is not None and measure not in (known := measures_of(runs)):
        raise UnknownName(f"no measure {measure!r}; there are: {', '.join(known)}")
    if over not in ("", "host"):
        raise UnknownName(f"nothing is compared over {over!r}; there is: host")
    if over == by:
        raise BadInput("hosts are what is compared, or what it is compared over: give another `by`")


def _base(by: str, sides: Mapping[Hashable, Any], base: Hashable | None) -> Hashable | None:
    """The value of `by` that the others are held against in this cell, if it is there."""
    wanted = Spec.model_fields[by].default if base is None and by in Spec.model_fields else base
    return wanted if wanted in sides else next(iter(sides)) if base is None else None


def _measures_of_both(sides: Sides) -> list[str]:
    """What two sides are compared by where nothing is asked for: what suits them, and metrics that all runs have."""
    both = [run for _, runs in sides for run in runs]
    first, *others = [[each.name for each in run.metrics] for run in both]
    return [default_measure(both), *(name for name in first if all(name in other for other in others))]


def _invalid(runs: Iterable[Run], by: str) -> list[Run]:
    return [run for run in runs if run.status == "invalid" and (by == "twin" or not run.spec.twin)]


def _compared(
    by: str,
    measure: str,
    alike: Mapping[str, Any],
    sides: Sides,
    attempts: Sequence[Attempts],
    noise: Noise,
    over: str,
    despite: Sequence[str],
) -> Comparison:
    """The comparison of two sides, the base first. Raises AnalysisError where one has no value, or its flows failed."""
    specs = [runs[0].spec for _, runs in sides]
    conditions = [] if over else recorded_differences(by, sides, despite)
    what = measures_of(run for _, runs in sides for run in runs)[measure]
    found = _over_hosts(by, measure, what, sides, despite) if over else _of_runs(by, measure, what, sides)
    change, low, high, n = found.change.estimate()
    by_side = _discarded([named(by, value) for value, _ in sides], attempts)
    first, second = attempts
    unlike = first.differ(second)
    if found.pairing == APART or unlike:
        low = high = np.nan
    # A record is of one host.
    places = {run.environment.place() for _, runs in sides for run in runs}
    floor = None if over else noise.between(measure, specs, n, lambda run: summaries(run).get(measure, 0.0), places)
    recorded = not over and not (floor and floor.by_twins)
    unmeasured = noise_floor.not_covered(noise.calibrations, specs, measure) if recorded else []
    of_both = zip(sides, found.sides, strict=True)
    base, other = (Side(value, n if over else side.used, side.level) for (value, _), side in of_both)
    return Comparison(
        by=by,
        measure=measure,
        measured=what,
        base=base,
        other=other,
        alike=alike,
        change=change,
        low=low,
        high=high,
        pairing=found.pairing,
        verdict=APART if found.pairing == APART else ATTEMPTS if unlike else _verdict(what, change, low, high, floor),
        repetitions_needed=_repetitions_needed(found.change, floor),
        floor=floor.percent if floor else np.nan,
        notes=(
            *found.notes,
            *_notes(by, measure, what, sides, found.sides),
            *filter(None, ["" if unlike else by_side]),
            *conditions,
            *unmeasured,
        ),
        unit=over or ("session" if found.pairing == BY_SESSION else "repetition"),
        found=found.change,
        attempts=by_side if unlike else "",
    )


def _of_runs(by: str, measure: str, what: Measure, sides: Sides, host: str = "") -> _Found:
    """Of runs of one host, repetitions the unit. host: its name, if it is one of several: then they are the unit."""
    names = [named(by, value) + (f" on {host}" if host else "") for value, _ in sides]
    versions = {version_of_work(run) for _, runs in sides for run in runs} - {""} if measure in PER_VERSION else ()
    if len(versions) > 1:
        raise AnalysisError(
            f"Not compared: {what.name}, by {' and '.join(by_version(versions))} of the tool: an operation is other"
            " work in each version. Measure both sides with one version."
        )
    first, second = (_known(name, measure, what, runs) for name, (_, runs) in zip(names, sides, strict=True))
    # No sweep visits two kernels in turn.
    can_alternate = by not in ENVIRONMENT or by == "label"
    paired, used = _shared(first, second, 1 if host else LEAST) if can_alternate else (False, (first, second))
    one_step, other_step = (max(resolution(run, measure) for run in runs) for runs in used)
    if measure in QUANTILES:
        change, levels = _percentiles(QUANTILES[measure], used, paired, names)
        change = change.blurred(*changes.rounded(levels[0], levels[1], (one_step, other_step)))
    else:
        values = [[summaries(run)[measure] for run in runs] for runs in used]
        change = changes.ratio(values[0], values[1], paired=paired, resolutions=(one_step, other_step))
        levels = [intervals.mean(each, POSITIVE).estimate().value for each in values]
    change = change.no_narrower(others.explained(used, measure))
    runs = [runs for _, runs in sides]
    base, other = map(_Used, levels, runs, map(len, (first, second)), map(len, used))
    of_first, of_second = ({blocks.label_of(run) for run in runs} for runs in used)
    pairing = pairing_of(of_first, of_second, paired)
    if pairing == APART and by == "label" and (by_session := _by_session(measure, used)):
        change, (of_base, of_other) = by_session
        return _Found(change, BY_SESSION, (base._replace(used=of_base), other._replace(used=of_other)))
    return _Found(change, pairing, (base, other))


def _by_session(measure: str, used: Sequence[Sequence[Run]]) -> tuple[Student, tuple[int, int]] | None:
    """The change with sessions as the samples, and how many each side has: runs at most blocks.LONGEST_S apart are one.

    What a machine drifts by between sessions is then in the error, which all sessions share (Student 1908, two samples
    of one variance). None where sessions are fewer than LEAST + 1: there is no interval.
    """
    logs = []
    for runs in used:
        sessions = blocks.sessions(runs)
        if measure in QUANTILES:
            values = [_flows(its).quantile(QUANTILES[measure]) for its in sessions]
        else:
            values = [float(np.exp(np.mean(np.log([summaries(run)[measure] for run in its])))) for its in sessions]
        logs.append(np.log(values))
    counts = len(logs[0]), len(logs[1])
    if sum(counts) <= LEAST:
        return None
    df = sum(counts) - 2
    spread = math.sqrt(sum(float(np.sum((side - side.mean()) ** 2)) for side in logs) / df)
    error = spread * math.sqrt(1 / counts[0] + 1 / counts[1])
    return Student(float(logs[1].mean() - logs[0].mean()), error, df, df + 1, PERCENT), counts


def _over_hosts(by: str, measure: str, what: Measure, sides: Sides, despite: Sequence[str]) -> _Found:
    """Of runs of several hosts, within each of those that have both sides, hosts the unit."""
    hosts: dict[str, list[list[Run]]] = {}
    kernels: dict[str, set[str]] = {}
    every = [(place, run) for place, (_, runs) in enumerate(sides) for run in runs]
    for (place, run), its in zip(every, values_of([run for _, run in every]), strict=True):
        hosts.setdefault(its["host"], [[], []])[place].append(run)
        kernels.setdefault(its["host"], set()).update({its["kernel"]} - {""} if by != "kernel" else ())
    for host, several in kernels.items():
        if len(several) > 1:
            listed = ", ".join(by_version(several))
            raise AnalysisError(f"Not compared: {host} has runs of several kernels ({listed}): take those of one.")
    values = [value for value, _ in sides]
    both = {host: its for host, its in sorted(hosts.items()) if all(its)}
    if not both:
        raise AnalysisError(f"Not compared: no host has both {' and '.join(named(by, value) for value in values)}.")
    of_hosts = {host: list(zip(values, its, strict=True)) for host, its in both.items()}
    conditions = [
        f"on {host} {text}" for host, its in of_hosts.items() for text in recorded_differences(by, its, despite)
    ]
    parts = [_of_runs(by, measure, what, its, host) for host, its in of_hosts.items()]
    change = Student.of([part.change.centre for part in parts], PERCENT)
    change = change.blurred(*np.mean([part.change.blur for part in parts], axis=0))
    percents = [PERCENT.from_scale(part.change.centre) for part in parts]
    of_each = [f"{percent:+.1f} % on {host}" for percent, host in zip(percents, both, strict=True)]
    notes = ["; ".join(of_each)]
    if lacking := len(hosts) - len(both):
        notes.append(f"{lacking} of {len(hosts)} hosts lack{'s' * (lacking == 1)} one side")
    if len(different := set().union(*kernels.values())) > 1:
        notes.append(f"the hosts have different kernels ({', '.join(by_version(different))})")
    base, other = (_together(used) for used in zip(*(part.sides for part in parts), strict=True))
    pairing = max((part.pairing for part in parts), key=PAIRINGS.index)
    return _Found(change, pairing, (base, other), (*notes, *conditions))


def _together(hosts: Sequence[_Used]) -> _Used:
    levels, runs, known, used = zip(*hosts, strict=True)
    return _Used(float(np.mean(levels)), [run for its in runs for run in its], sum(known), sum(used))


def _known(name: str, measure: str, what: Measure, runs: Sequence[Run]) -> list[Run]:
    """The runs of a side that have the measure. Raises AnalysisError where none has, or it depends on failed flows."""
    values = [summaries(run).get(measure, 0.0) for run in runs]
    lost = [run for run, value in zip(runs, values, strict=True) if math.isnan(value)]
    if lost and (measure not in QUANTILES or np.isnan(_flows(runs).quantile(QUANTILES[measure]))):
        raise AnalysisError(_depends_on_failed(name, what, lost, len(runs)))
    known = [run for run, value in zip(runs, values, strict=True) if value > 0 or math.isnan(value)]
    if not known:
        raise AnalysisError(f"Not compared: {name} has no {what.name} above zero.")
    return known


def _depends_on_failed(name: str, what: Measure, lost: Sequence[Run], runs: int) -> str:
    """Why a side has no value that could be compared: to leave out the runs that lack it would flatter it."""
    none = f"Not compared: {len(lost)} of {runs} runs of {name} have no {what.name}"
    if what.of == "launches":
        return f"{none}, as launches failed."
    columns = ["status", "error"]
    flows = pd.concat([run.columns("flows", columns)[columns] for run in lost])
    errors = flows.loc[flows["status"] != "ok", "error"].tolist()
    if errors:
        failed = f"{len(errors)} of their {len(flows)} flows failed (the first: {errors[0]})"
        return f"{none}: {failed}, and it depends on how long these would have taken."
    if what.of == "transactions":
        without = sum(latencies.lost(run.flows) or 0 for run in lost)
        return f"{none}: too few transactions tell, or it depends on those that were lost ({without:,})."
    return f"{none}."


def _shared(
    first: Sequence[Run], second: Sequence[Run], least: int
) -> tuple[bool, tuple[Sequence[Run], Sequence[Run]]]:
    """Whether the two are compared within blocks, and the runs: then those of the blocks that both have."""
    tables = [{blocks.label_of(run): run for run in side} for side in (first, second)]
    once = len(tables[0]) == len(first) and len(tables[1]) == len(second)
    several = min(map(len, tables)) >= min(2, least)
    common = changes.in_common(*tables, least=least) if once and several else None
    if not common:
        return False, (first, second)
    one, other = ([table[label] for label in common] for table in tables)
    return True, (one, other)


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
    return quantiles.percent_change(sides[0], sides[1], q, paired=paired), [side.quantile(q) for side in sides]


def _flows(runs: Sequence[Run]) -> Clusters:
    """The flows of each run, which is one repetition."""
    parts = []
    for run in runs:  # there can be millions of flows
        column = fct.column(run.spec)
        flows = store.columns(run, "flows", [column, "status"]).to_pandas()
        parts.append(np.sort(fct.of(flows, column).to_numpy()))
    labels = np.array([blocks.label_of(run) for run in runs])
    return Clusters(labels, tuple(parts))


def _verdict(what: Measure, change: float, low: float, high: float, floor: NoiseFloor | None) -> str:
    if low != low:
        return "no interval"
    if low <= 0 <= high:
        return "undecided"
    if floor and abs(np.log1p(change / 100)) < floor.effect:
        return "below the noise"
    return "worse" if (change > 0) == what.less_is_better else "better"


def _repetitions_needed(found: Student, floor: NoiseFloor | None) -> int | None:
    """How many repetitions would show TARGET_PERCENT, if they spread as these do, and not less than this host's do."""
    if found.n < LEAST:
        return None
    spread = max(found.spread, floor.spread if floor else 0)
    return power.repetitions_needed(float(np.log1p(TARGET_PERCENT / 100)), spread)


def _notes(by: str, measure: str, what: Measure, sides: Sides, used: Sequence[_Used]) -> list[str]:
    """What a reader must know: what is not used or failed, and what else differs between two environments or
    backends.
    """
    found = []
    for (value, _), side in zip(sides, used, strict=True):
        name, runs = named(by, value), len(side.runs)
        if nothing := runs - side.known:
            found.append(f"{nothing} of {runs} runs of {name} have no {what.name} above zero")
        if unused := side.known - side.used:
            found.append(f"{unused} of {side.known} runs of {name} are of blocks that the other side lacks")
        if failed := sum(run.failed_flows for run in side.runs):
            counted = "counted as longer than all others" if what.less_is_better else "counted as zero"
            flows = sum(store.length(run, "flows") for run in side.runs)
            found.append(f"{failed} of {flows} flows of {name} failed, {counted}")
        if bounds := [run for run in side.runs if measure in map(latencies.measure, others.upper_bounds(run))]:
            found.append(f"{what.name} of {len(bounds)} of {runs} runs of {name} may be the work of others alone")
        if unsteady := [run.unsteady for run in side.runs if run.unsteady]:
            found.append(f"{len(unsteady)} of {runs} runs of {name} were not steady, the first: {unsteady[0]}")
    if (explained := others.explained([side.runs for side in used], measure)) > WORTH_SAYING:
        shares = " and ".join(f"{100 * others.mean_lost(side.runs):.1f} %" for side in used)
        percent = PERCENT.from_scale(explained)
        found.append(f"others took {shares} of the sides' time, which alone may make them differ by {percent:.2g} %")
    if by == "backend":
        found.append("two backends are two data paths: compared here, and never pooled")
    names = PLACE if by == "backend" else [name for name in ENVIRONMENT if name != by] if by in ENVIRONMENT else ()
    (_, base), (_, other) = sides
    rows = values_of([*base, *other]) if names else []
    for name in names:
        if {row[name] for row in rows[: len(base)]} != {row[name] for row in rows[len(base) :]}:
            found.append(f"they differ in {name}, too")
    return found


def _discarded(names: Sequence[str], attempts: Sequence[Attempts]) -> str:
    """How many measurements of each side did not count, in words; empty where all did."""
    if not any(each.discarded for each in attempts):
        return ""
    (first, second), (name, other) = attempts, names
    of_first = f"{first.discarded} of {first.made} measurements of {name}"
    return f"{of_first} and {second.discarded} of {second.made} of {other} did not count"


def _not_counted(runs: Sequence[Run], unread: Sequence[str]) -> list[str]:
    """How many runs of each status but ok there are, and how many could not be read, with the first of each."""
    reasons: dict[str, list[str]] = {}
    for run in runs:
        if run.status != "ok":
            reasons.setdefault(run.status, []).append(f"{run.spec} ({'; '.join(run.reasons)})")
    if unread:
        reasons["not readable"] = list(unread)
    return [
        f"Left out, as {why}: {len(which)} run{'s' * (len(which) != 1)}, the first: {which[0]}."
        for why, which in reasons.items()
    ]


def _nothing_compared(by: str, runs: Sequence[Run]) -> str:
    """Why there is no comparison at all, and what to do."""
    differ = varied(runs)
    others = "; ".join(f"{name} ({', '.join(map(str, values))})" for name, values in differ.items() if name != by)
    if len(runs) < 2:
        return f"a comparison needs two runs that are ok, and there are {len(runs)}: measure another."
    if by not in differ:
        can = f"they differ in {others}: compare by that." if others else "they differ in the repetition only."
        value = values_of(runs)[0][by]
        value = "not recorded" if by in ENVIRONMENT and not value else value
        return f"all {len(runs)} runs have the same {by}, {value}, and {can}"
    if others:
        return (
            f"no two of the {len(runs)} runs differ in {by} alone, but also in {others}."
            " Measure what is missing, or compare by another parameter."
        )
    return f"none of the {len(runs)} runs can be held against another by {by}."
