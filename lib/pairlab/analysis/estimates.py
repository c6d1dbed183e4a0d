"""One estimate per cell from its repetitions: means, and changes against one setting paired by repetition.

All frames of estimates have the same form, so that one draw function and one table serve them all: the columns that
name the cell, then value, low, high (NaN where there is no interval), n (repetitions), confidence, and gap: why there
is no value, empty where there is one.
"""

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats as tests
from statsmodels.stats.multitest import multipletests

from pairlab.analysis.stats import SYSTEM, mean_interval

COLUMNS = ("value", "low", "high", "n", "confidence", "gap")
#: What is added up over the repetitions of a cell, where a frame has it.
_COUNTS = ("flows", "failed_flows")


def means(repetitions: pd.DataFrame, by: Sequence[str], value: str, confidence: float = 0.95) -> pd.DataFrame:
    """The mean of `value` over the repetitions of each cell, with its Student t interval.

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
    finite value makes a gap, as in means. relative: the change in percent, from the geometric mean of the ratios within
    repetitions (Student's interval of the logarithms, as contrasts.ratio_by_repetition), else the mean difference in
    the unit of `value` with Student's interval. p is of the t test that goes with it, p_holm the same corrected (Holm
    1979) over all changes of the system. From one repetition there is no interval and no test.

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
        known = system["p"].dropna()
        if len(known):
            found.loc[known.index, "p_holm"] = multipletests(known, method="holm")[1]
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
    estimate = mean_interval(values, confidence)
    return [estimate.value, estimate.low, estimate.high, estimate.n, confidence, ""]


def _change(after: np.ndarray, before: np.ndarray, relative: bool, confidence: float) -> list:
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.log(after / before) if relative else after - before
    *bounds, n, confidence, gap = _mean(change, "the change", confidence)
    if relative:
        bounds = [100 * (np.exp(bound) - 1) for bound in bounds]
    return [*bounds, n, confidence, gap, np.nan if gap or n < 2 else _p_value(change)]


def _p_value(values: np.ndarray) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # equal values: no spread, and p is 0, or unknown if all are 0
        return float(tests.ttest_1samp(values, 0.0).pvalue)
