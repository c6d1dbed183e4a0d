"""One estimate per cell from its repetitions: means, and changes against one setting paired by repetition.

All frames of estimates have the same form, so that one draw function and one table serve them all: the columns that
name the cell, then value, low, high (NaN where there is no interval), n (repetitions), confidence, and gap: why there
is no value, empty where there is one.

Runs of several hosts are never pooled unseen. With the column host in `by` each host has an estimate of its own; with
over="host" hosts are the repetitions, n counts them, and the column over says so.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import pandas as pd

from pairlab.analysis.selection import SYSTEM, check_one
from pairlab.errors import AnalysisError
from pairlab.model import latencies
from pairlab.model.cpu_use import PARTS
from pairlab.statistics import changes as changes_of
from pairlab.statistics import components, intervals, tests
from pairlab.statistics.intervals import FROM_ONE, POSITIVE, SHARE, SIGNED, Scale, Student
from pairlab.store.dataset import GROUND

COLUMNS = ("value", "low", "high", "n", "confidence", "gap")
#: What is added up over the repetitions of a cell, where a frame has it.
_COUNTS = ("flows", "failed_flows")
#: The columns of repetitions that have other bounds than rates, times and sizes, which are above zero.
_SCALES = {
    **dict.fromkeys(("jain_index", "least_share", "lost_share", "reordered_share", "busy", "share", *PARTS), SHARE),
    **dict.fromkeys(("client_share", "server_share", "busiest_share", "others_share", "softirq_share"), SHARE),
    **dict.fromkeys(("ratio", "gap_times"), FROM_ONE),
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
    """How far each setting moves `value` from what it is at the setting `against`, paired by repetition.

    A sweep visits every cell once per repetition, so each repetition is compared with the same repetition of the
    reference, and slow drift of the machine cancels. A repetition without its reference is not used; one without a
    finite value makes a gap, as in means. relative: the change in percent (statistics/changes.py), else the mean
    difference of shares, from -1 to 1. p is of the t test that goes with it, p_holm the same corrected over all changes
    of the system. From fewer repetitions than intervals.LEAST there is no interval and no test. over: a column such as
    host: repetitions are paired within each host, and the change is the mean of the hosts' changes, so that it does not
    matter how fast each of them is.

    repetitions: columns of `by`, `setting`, repetition, `value`. Returns `by`, `setting`, COLUMNS, p, p_holm: a row
    for each setting but the reference; a gap says why there is no value, as where nothing could be compared.
    """
    rows = []
    _check_column(repetitions, over)
    within = [*filter(None, [over]), "repetition"]
    for names, cell in repetitions.groupby(list(by), sort=True):
        reference = cell[cell[setting] == against].set_index(within)[value].rename("before")
        for other, part in cell[cell[setting] != against].groupby(setting, sort=True):
            if reference.index.has_duplicates:
                raise AnalysisError(
                    f"{setting} {against} has several values of one repetition of {', '.join(map(str, names))}: name"
                    ' what sets them apart in `by`, or say over="host" if hosts do'
                )
            pairs = part.join(reference, on=within, how="inner")
            if pairs.empty:
                nothing = f"no repetition also has {setting} {against}"
                row = [np.nan, np.nan, np.nan, 0, confidence, nothing, np.nan]
            else:
                after, before = (pairs[name].to_numpy(dtype=float) for name in (value, "before"))
                steps = _resolution(value, before), _resolution(value, after)
                row = _change(after, before, relative, confidence, _units(pairs, over), steps)
            rows.append([*names, other, *row])
    found = _marked(pd.DataFrame(rows, columns=[*by, setting, *COLUMNS, "p"]), over)
    found["p_holm"] = np.nan
    for _, system in found.groupby([name for name in SYSTEM if name in found] or [*by]):
        found.loc[system.index, "p_holm"] = tests.holm(system["p"])
    return found


def at_pairs(frame: pd.DataFrame, pairs: int | None = None) -> pd.DataFrame:
    """Of each system the rows with that many pairs; where it has none, or for None, those with the most it has."""
    if frame.empty:
        return frame
    system = frame.groupby(list(SYSTEM))["pairs"]
    has = system.transform(lambda counts: (counts == pairs).any()).astype(bool)
    return frame[frame["pairs"] == system.transform("max").where(~has, pairs)]


def unit_of(estimates: pd.DataFrame) -> str:
    """What n of a frame of estimates counts: "repetition", or "host"."""
    return str(estimates["over"].iloc[0]) if "over" in estimates and len(estimates) else "repetition"


def _marked(estimates: pd.DataFrame, over: str) -> pd.DataFrame:
    return estimates.assign(over=over) if over else estimates


def _units(frame: pd.DataFrame, over: str) -> np.ndarray | None:
    """The unit of each row, where it is not the repetition. Raises MixedHosts where several hosts would be pooled."""
    if not over:
        for name in GROUND:
            if name in frame:
                check_one(name, frame[name])
        return None
    _check_column(frame, over)
    return frame[over].to_numpy(dtype=object)


def _check_column(frame: pd.DataFrame, over: str) -> None:
    if over and over not in frame:
        raise AnalysisError(
            f"the repetitions have no column {over}: take it along, as throughput_by_repetition(flows, also=[{over!r}])"
            ' does, of runs that were loaded with ground="all"'
        )


def _resolution(what: str, values: np.ndarray) -> float:
    """The step in which a tool printed these values of repetitions, where they are latencies; else 0."""
    return latencies.step_s(values) if what.startswith("latency_") and what.endswith("_s") else 0.0


def _mean(values: np.ndarray, what: str, confidence: float, units: np.ndarray | None = None) -> list:
    unknown = int((~np.isfinite(values)).sum())
    if unknown:
        gap = f"{what} has no finite value in {unknown} of {len(values)} repetitions"
        return [np.nan, np.nan, np.nan, _count(values, units), confidence, gap]
    samples = values if units is None else intervals.by_unit(values, units)
    return [*intervals.mean_interval(samples, confidence, scale_of(what), _resolution(what, values)), confidence, ""]


def _change(
    after: np.ndarray,
    before: np.ndarray,
    relative: bool,
    confidence: float,
    units: np.ndarray | None = None,
    steps: tuple[float, float] = (0.0, 0.0),
) -> list:
    try:
        found = (
            changes_of.ratio(before, after, units=units, resolutions=steps)
            if relative
            else _difference(before, after, units)
        )
    except AnalysisError:
        unknown = int((~(np.isfinite([before, after]).all(axis=0) & (np.min([before, after], axis=0) > 0))).sum())
        gap = f"the change has no finite value in {unknown} of {len(after)} repetitions"
        return [np.nan, np.nan, np.nan, _count(after, units), confidence, gap, np.nan]
    return [*found.estimate(confidence), confidence, "", found.p()]


def _difference(before: np.ndarray, after: np.ndarray, units: np.ndarray | None) -> Student:
    """The mean difference of shares, within its bounds of -1 and 1."""
    differences = after - before
    return intervals.mean(differences if units is None else intervals.by_unit(differences, units), SIGNED)


def _count(values: np.ndarray, units: Sequence[Hashable] | np.ndarray | None) -> int:
    return len(values) if units is None else len(set(units))


def _no_spread(n: int, within: float, over: str) -> str:
    """Why there is no spread between hosts, in words; empty where there is one."""
    if n < 2:
        return f"one {over} has no spread between {over}s: measure on another"
    return "" if within == within else f"no {over} has two repetitions, so that its own spread is not known: repeat it"
