"""One estimate per cell from its repetitions: means, and changes against one setting paired by repetition.

All frames of estimates have the same form, so that one draw function and one table serve them all: the columns that
name the cell, then value, low, high (NaN where there is no interval), n (repetitions), confidence, and gap: why there
is no value, empty where there is one.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pairlab.analysis.selection import SYSTEM
from pairlab.errors import AnalysisError
from pairlab.model.cpu_use import PARTS
from pairlab.statistics import changes as changes_of
from pairlab.statistics import intervals, tests
from pairlab.statistics.intervals import FROM_ONE, POSITIVE, SHARE, SIGNED, Scale, Student

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


def means(repetitions: pd.DataFrame, by: Sequence[str], value: str, confidence: float = 0.95) -> pd.DataFrame:
    """The mean of `value` over the repetitions of each cell, with its interval: intervals.mean_interval, by scale_of.

    repetitions: one row per repetition of each cell: columns of `by` and `value`; flows and failed_flows, where there,
    are added up. A cell in which a repetition has no finite value gets a gap that counts them: to leave such a
    repetition out would flatter the others. Returns `by`, the counts, and COLUMNS.
    """
    counts = [name for name in _COUNTS if name in repetitions]
    rows = []
    for names, group in repetitions.groupby(list(by), sort=True):
        values = group[value].to_numpy(dtype=float)
        rows.append([*names, *(int(group[name].sum()) for name in counts), *_mean(values, value, confidence)])
    return pd.DataFrame(rows, columns=[*by, *counts, *COLUMNS])


def changes(
    repetitions: pd.DataFrame,
    by: Sequence[str],
    value: str,
    *,
    setting: str,
    against: object,
    relative: bool = True,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """How far each setting moves `value` from what it is at the setting `against`, paired by repetition.

    A sweep visits every cell once per repetition, so each repetition is compared with the same repetition of the
    reference, and slow drift of the machine cancels. A repetition without its reference is not used; one without a
    finite value makes a gap, as in means. relative: the change in percent (statistics/changes.py), else the mean
    difference of shares, from -1 to 1. p is of the t test that goes with it, p_holm the same corrected over all changes
    of the system. From fewer repetitions than intervals.LEAST there is no interval and no test.

    repetitions: columns of `by`, `setting`, repetition, `value`. Returns `by`, `setting`, COLUMNS, p, p_holm: a row
    for each setting but the reference; a gap says why there is no value, as where nothing could be compared.
    """
    rows = []
    for names, cell in repetitions.groupby(list(by), sort=True):
        reference = cell[cell[setting] == against].set_index("repetition")[value]
        for other, part in cell[cell[setting] != against].groupby(setting, sort=True):
            both = part[part["repetition"].isin(reference.index)]
            pairs = both.assign(before=both["repetition"].map(reference))[[value, "before"]].astype(float)
            if pairs.empty:
                nothing = f"no repetition also has {setting} {against}"
                row = [np.nan, np.nan, np.nan, 0, confidence, nothing, np.nan]
            else:
                row = _change(pairs[value].to_numpy(), pairs["before"].to_numpy(), relative, confidence)
            rows.append([*names, other, *row])
    found = pd.DataFrame(rows, columns=[*by, setting, *COLUMNS, "p"])
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


def _mean(values: np.ndarray, what: str, confidence: float) -> list:
    unknown = int((~np.isfinite(values)).sum())
    if unknown:
        gap = f"{what} has no finite value in {unknown} of {len(values)} repetitions"
        return [np.nan, np.nan, np.nan, len(values), confidence, gap]
    return [*intervals.mean_interval(values, confidence, scale_of(what)), confidence, ""]


def _change(after: np.ndarray, before: np.ndarray, relative: bool, confidence: float) -> list:
    n = len(after)
    try:
        found = changes_of.ratio(before, after) if relative else _difference(before, after)
    except AnalysisError:
        unknown = int((~(np.isfinite([before, after]).all(axis=0) & (np.min([before, after], axis=0) > 0))).sum())
        gap = f"the change has no finite value in {unknown} of {n} repetitions"
        return [np.nan, np.nan, np.nan, n, confidence, gap, np.nan]
    return [*found.estimate(confidence), confidence, "", found.p()]


def _difference(before: np.ndarray, after: np.ndarray) -> Student:
    """The mean difference of shares, within its bounds of -1 and 1."""
    return intervals.mean(after - before, SIGNED)
