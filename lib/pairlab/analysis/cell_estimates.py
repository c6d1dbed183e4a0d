"""One estimate per cell from its repetitions: means, and changes against one setting, paired by block.

All frames of estimates have the same form, so that one draw function and one table serve them all: the columns that
name the cell, then value, low, high (NaN without an interval), n (repetitions), confidence, and gap: why there is no
value, else empty.

Runs of several hosts are never pooled unseen. With the column host in `by` each host has an estimate of its own; with
over="host" hosts are the repetitions, n counts them, and the column over says so.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis.selection import SYSTEM, block_of, check_one
from pairlab.errors import AnalysisError
from pairlab.model import blocks, latencies, others
from pairlab.model.cpu_use import PARTS
from pairlab.statistics import changes as changes_of
from pairlab.statistics import components, intervals, tests
from pairlab.statistics.intervals import FROM_ONE, PERCENT, POSITIVE, SHARE, SIGNED, Scale, Student
from pairlab.store.dataset import ENVIRONMENT

#: Ways to compare two sides: within their common blocks, as independent groups, within sessions, or not at all.
BY_BLOCK, UNPAIRED, BY_SESSION, APART = "by block", "unpaired", "by session", "measured apart"
#: Of one side's measurements a larger share did not count: those that do may be the ones that went well.
ATTEMPTS = "attempts differ"
PAIRINGS = (BY_BLOCK, UNPAIRED, BY_SESSION, APART, ATTEMPTS)
COLUMNS = ("value", "low", "high", "n", "confidence", "gap")
#: A row of a frame, by column.
Row = dict[str, Any]
#: The least repetitions from which an interval of a mean nearly keeps its confidence on a machine of two speeds.
SURE_FROM = 5
#: The columns that are summed over the repetitions of a cell, if a frame has them.
_COUNTS = ("flows", "failed_flows")
#: The columns of repetitions with other bounds than rates, times and sizes, which are above zero.
_SCALES = {
    **dict.fromkeys(("jain_index", "least_over_most", "lost_share", "reordered_share", "busy", "share", *PARTS), SHARE),
    **dict.fromkeys(("client_share", "server_share", "busiest_share", "others_share", "softirq_share"), SHARE),
    **dict.fromkeys(("most_over_least", "gap_times"), FROM_ONE),
}


def scale_of(value: str) -> Scale:
    """The scale on which the interval of a column's mean stays within the quantity's bounds."""
    return _SCALES.get(value, POSITIVE)


def means(
    repetitions: pd.DataFrame, by: Sequence[str], value: str, confidence: float = 0.95, *, over: str = ""
) -> pd.DataFrame:
    """The mean of `value` over the repetitions of each cell, with its interval: intervals.mean_interval, by scale_of.

    repetitions: one row per repetition of each cell: columns of `by` and `value`; flows and failed_flows, where there,
    are added up. A cell in which a repetition has no finite value gets a gap that counts them: to leave such a
    repetition out would flatter the others. over: a column such as host: the mean is of its values' means, each of
    which counts once. Returns `by`, the counts, and COLUMNS.
    """
    counts = [name for name in _COUNTS if name in repetitions]
    rows = []
    for names, group in repetitions.groupby(list(by), sort=True):
        values = group[value].to_numpy(dtype=float)
        estimate = _mean(values, value, confidence, _units(group, over))
        rows.append([*names, *(int(group[name].sum()) for name in counts), *estimate])
    return _marked(pd.DataFrame(rows, columns=[*by, *counts, *COLUMNS]), over)


def spread(
    repetitions: pd.DataFrame, by: Sequence[str], value: str, confidence: float = 0.95, *, over: str = "host"
) -> pd.DataFrame:
    """How far hosts differ in `value` in each cell, beyond what their repetitions do: statistics/components.py.

    repetitions: as of means, with the column `over`. Returns `by` and COLUMNS, where value, low and high are the
    standard deviation between hosts and its interval, in the unit of `value`, and n counts the hosts; then mean (over
    the hosts), share (value over mean: the coefficient of variation between hosts), within (the standard deviation of
    one repetition on its host) and repetitions (of all hosts together).
    """
    rows = []
    for names, group in repetitions.groupby(list(by), sort=True):
        _check_column(group, over)
        values, hosts = group[value].to_numpy(dtype=float), group[over].to_numpy(dtype=object)
        middle, _, _, n, _, gap = _mean(values, value, confidence, hosts)
        between, within = intervals.Estimate(np.nan, np.nan, np.nan, n), np.nan
        if not gap:
            between, within = components.components([values[hosts == host] for host in np.unique(hosts)], confidence)
            gap = _no_spread(n, within, over)
        share = between.value / middle if middle else np.nan
        rows.append([*names, *between, confidence, gap, middle, share, within, len(values)])
    columns = [*by, *COLUMNS, "mean", "share", "within", "repetitions"]
    return _marked(pd.DataFrame(rows, columns=columns), over)


def changes(
    repetitions: pd.DataFrame,
    by: Sequence[str],
    value: str,
    *,
    setting: str,
    against: object,
    relative: bool = True,
    confidence: float = 0.95,
    over: str = "",
) -> pd.DataFrame:
    """How far each setting moves `value` from what it is at the setting `against`.

    Where both were measured in the same blocks they are compared within each, so that slow drift of the machine
    cancels; else all repetitions of the one with all of the other (changes.in_common). Those that were measured one
    after the other (blocks.apart) have no interval and no test: drift may be all that they differ by. A repetition
    without a finite value makes a gap, as in means. relative: the change in percent (statistics/changes.py), else the
    mean difference of shares, from -1 to 1. p is of the t test that goes with it, p_holm the same corrected over all
    changes of the system. From fewer repetitions than intervals.LEAST there is no interval and no test. over: a column
    such as host: within each host that has both, and the change is the mean of the hosts' changes, so that it does not
    matter how fast each of them is.

    repetitions: columns of `by`, `setting`, block (else repetition), `value`. Returns `by`, `setting`, COLUMNS, p,
    p_holm and pairing (one of PAIRINGS): a row for each setting but the reference; a gap says why there is no value, as
    where nothing could be compared.
    """
    rows = []
    _check_column(repetitions, over)
    for names, cell in repetitions.groupby(list(by), sort=True):
        reference = cell[cell[setting] == against]
        for other, part in cell[cell[setting] != against].groupby(setting, sort=True):
            if reference.duplicated([*filter(None, [over]), block_of(reference)]).any():
                raise AnalysisError(
                    f"{setting} {against} has several values of one repetition of {', '.join(map(str, names))}: name"
                    ' what sets them apart in `by`, or say over="host" if hosts do'
                )
            if reference.empty:
                row = no_change(confidence, f"nothing was measured with {setting} {against}")
            elif over:
                row = _change_over(over, value, reference, part, relative, confidence)
            else:
                _units(pd.concat([reference, part]), over)
                row = _change(value, reference, part, relative, confidence)
            rows.append({**dict(zip(by, names, strict=True)), setting: other, **row})
    table = _marked(pd.DataFrame(rows, columns=[*by, setting, *COLUMNS, "p", "pairing"]), over)
    return table.assign(p_holm=tests.holm_within(table, [name for name in SYSTEM if name in table] or by))


def pairing_text(frame: pd.DataFrame) -> str:
    """The pairing of these changes, for a caption."""
    kinds = {*frame["pairing"]} - {""}
    words = {unpaired(kind) for kind in kinds}
    return "partly paired" if len(words) > 1 else "".join(words) or f"paired {BY_BLOCK}"


def unpaired(pairing: str) -> str:
    """The word for a comparison that is not within blocks, one of PAIRINGS; empty if it is."""
    return "" if pairing == BY_BLOCK else UNPAIRED


def how_compared(frames: Iterable[pd.DataFrame]) -> str:
    """The number of unpaired changes, and why, as a sentence; empty if all are paired."""
    pairings = [pairing for frame in frames if "pairing" in frame for pairing in frame["pairing"] if pairing]
    counts = Counter(pairings)
    parts = []
    if counts[UNPAIRED]:
        parts.append(f"{counts[UNPAIRED]} of {len(pairings)} changes are unpaired, as no block has both of their sides")
    if counts[APART]:
        parts.append(f"{counts[APART]} have no interval, as one side was measured after the other")
    if counts[ATTEMPTS]:
        parts.append(f"{counts[ATTEMPTS]} have no interval, as of one side's measurements a larger share did not count")
    return f"{'; '.join(parts)}." if parts else ""


def few_repetitions(frames: Iterable[pd.DataFrame]) -> str:
    """The number of means over few repetitions, and how often their intervals hold, as a sentence; empty without any.

    Source: the simulation of machines with two speeds (docs/explanation/statistics.md): 78 % of three hold, 91 % of
    five.
    """
    means = [frame for frame in frames if {"low", "n"} <= {*frame} and "pairing" not in frame]
    few = sum(int((frame["low"].notna() & (frame["n"] < SURE_FROM)).sum()) for frame in means)
    if not few:
        return ""
    return (
        f"{few} intervals of means are over fewer than {SURE_FROM} repetitions: on a machine whose speed changes from"
        " run to run, some 80 % of such hold."
    )


def at_pairs(frame: pd.DataFrame, pairs: int | None = None) -> pd.DataFrame:
    """The rows of each system with that number of pairs; without such rows, or for None, with the system's most."""
    if frame.empty:
        return frame
    system = frame.groupby(list(SYSTEM))["pairs"]
    has_pairs = system.transform(lambda counts: (counts == pairs).any()).astype(bool)
    return frame[frame["pairs"] == system.transform("max").where(~has_pairs, pairs)]


def unit_of(estimates: pd.DataFrame) -> str:
    """The unit that n of a frame of estimates counts: "repetition", or "host"."""
    return str(estimates["over"].iloc[0]) if "over" in estimates and len(estimates) else "repetition"


def _marked(estimates: pd.DataFrame, over: str) -> pd.DataFrame:
    return estimates.assign(over=over) if over else estimates


def _units(frame: pd.DataFrame, over: str) -> np.ndarray | None:
    """The unit of each row, None if it is the repetition. Raises MixedHosts if several hosts would be pooled."""
    if not over:
        for name in ENVIRONMENT:
            if name in frame:
                check_one(name, frame[name])
        return None
    _check_column(frame, over)
    return frame[over].to_numpy(dtype=object)


def _check_column(frame: pd.DataFrame, over: str) -> None:
    if over and over not in frame:
        raise AnalysisError(
            f"the repetitions have no column {over}: take it along, as repetitions.table(runs, [*CELL, {over!r}])"
            ' does, of runs that were loaded with environment="all"'
        )


def resolution(what: str, values: Iterable[float] | np.ndarray) -> float:
    """The step in which a tool printed these values of repetitions, if they are latencies; else 0."""
    return latencies.step_s(values) if what.startswith("latency_") and what.endswith("_s") else 0.0


def _mean(values: np.ndarray, what: str, confidence: float, units: np.ndarray | None = None) -> list:
    unknown = int((~np.isfinite(values)).sum())
    if unknown:
        gap = f"{what} has no finite value in {unknown} of {len(values)} repetitions"
        return [np.nan, np.nan, np.nan, _count(values, units), confidence, gap]
    samples = values if units is None else intervals.by_unit(values, units)
    return [*intervals.mean_interval(samples, confidence, scale_of(what), resolution(what, values)), confidence, ""]


def pairing_of(first: Collection[Hashable], second: Collection[Hashable], paired: bool) -> str:
    """The pairing (one of PAIRINGS) of two sides, by the labels of their blocks."""
    return BY_BLOCK if paired else APART if blocks.apart(first, second) else UNPAIRED


def _change(value: str, before: pd.DataFrame, after: pd.DataFrame, relative: bool, confidence: float) -> Row:
    """The row of a change, without the cell's names."""
    first, second = (
        dict(zip(part[block_of(part)], part[value].astype(float), strict=True)) for part in (before, after)
    )
    values = [np.array(list(side.values())) for side in (first, second)]
    try:
        if relative:
            steps = resolution(value, values[0]), resolution(value, values[1])
            student, paired = changes_of.between(first, second, steps)
            if "run" in before:
                student = student.no_narrower(others.explained((before["run"], after["run"]), value))
        else:
            student, paired = _difference(first, second)
    except AnalysisError:
        return no_change(confidence, _unknown(values, relative), len(values[1]))
    unlike = "attempts" in before and before["attempts"].iloc[0].differ(after["attempts"].iloc[0])
    return change_row(student, confidence, ATTEMPTS if unlike else pairing_of(first, second, paired))


def change_row(student: Student, confidence: float, pairing: str) -> Row:
    """A change as COLUMNS, p and pairing (one of PAIRINGS), by some of which it has no interval and no test."""
    row = {**student.estimate(confidence)._asdict(), "confidence": confidence, "gap": "", "p": student.p()}
    without = dict.fromkeys(("low", "high", "p"), np.nan) if pairing in (APART, ATTEMPTS) else {}
    return row | without | {"pairing": pairing}


def no_change(confidence: float, gap: str, n: int = 0) -> Row:
    """The same where there is no change, and why."""
    return dict.fromkeys((*COLUMNS, "p"), np.nan) | {"n": n, "confidence": confidence, "gap": gap, "pairing": ""}


def _unknown(values: Sequence[np.ndarray], relative: bool) -> str:
    all_values = np.concatenate(values)
    unknown = int((~(np.isfinite(all_values) & ((all_values > 0) | (not relative)))).sum())
    return f"the change has no finite value in {unknown} of {len(all_values)} repetitions"


def _change_over(
    over: str, value: str, before: pd.DataFrame, after: pd.DataFrame, relative: bool, confidence: float
) -> Row:
    """The row of the mean change over the hosts that have both sides."""
    hosts = [name for name in before[over].unique() if (after[over] == name).any()]
    parts = [
        _change(value, before[before[over] == host], after[after[over] == host], relative, confidence) for host in hosts
    ]
    if not parts:
        return no_change(confidence, f"no {over} has both")
    if gaps := [part["gap"] for part in parts if part["gap"]]:
        return no_change(confidence, gaps[0], len(hosts))
    values = [part["value"] for part in parts]
    student = Student.of([*map(PERCENT.to_scale, values)], PERCENT) if relative else intervals.mean(values, SIGNED)
    return change_row(student, confidence, max((part["pairing"] for part in parts), key=PAIRINGS.index))


def _difference(before: Mapping[Hashable, float], after: Mapping[Hashable, float]) -> tuple[Student, bool]:
    """The mean difference of shares, within its bounds of -1 and 1 if paired; and whether it is paired."""
    common = changes_of.in_common(before, after)
    if common is not None:
        return intervals.mean([after[label] - before[label] for label in common], SIGNED), True
    if not np.isfinite([*before.values(), *after.values()]).all():
        raise AnalysisError("a repetition has no finite value")
    return Student.of_groups(list(before.values()), list(after.values())), False


def _count(values: np.ndarray, units: Sequence[Hashable] | np.ndarray | None) -> int:
    return len(values) if units is None else len(set(units))


def _no_spread(n: int, within: float, over: str) -> str:
    """Why there is no spread between hosts, in words; empty if there is one."""
    if n < 2:
        return f"one {over} has no spread between {over}s: measure on another"
    return "" if within == within else f"no {over} has two repetitions, so that its own spread is not known: repeat it"
