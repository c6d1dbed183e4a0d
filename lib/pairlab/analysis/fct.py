"""Flow completion times (E4): percentiles, their changes, whole distributions compared, and where the time goes.

All frames of estimates have the form of estimates.COLUMNS. Times are in seconds from a flow's actual start unless
`value` says otherwise; a failed flow took longer than any other (completion_times.py), and is counted beside them.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from statsmodels.stats.multitest import multipletests

from pairlab import completion_times
from pairlab.analysis import by_group, contrasts, quantiles
from pairlab.analysis.look import ordered
from pairlab.analysis.stats import CELL, SYSTEM
from pairlab.errors import TooFewSamples

#: The percentiles that are reported, and those whose changes are.
QS, CHANGED_QS = (0.5, 0.9, 0.95, 0.99, 0.999), (0.5, 0.99)
#: The step between pair counts that paper C gives numbers for.
PUBLISHED_STEP = (10, 50)
#: The parts of a flow's time as flowgen tells them: name, and the columns between which it lies.
PHASES = {
    "connect": ("start_s", "connected_s"),
    "first byte": ("connected_s", "first_byte_s"),
    "rest": ("first_byte_s", "completed_s"),
}
#: Swaps of this many blocks can give a p below 0.05; fewer cannot, and whole repetitions are permuted freely.
_BLOCKS = 6


def percentiles(flows: pd.DataFrame, value: str = "fct_s", confidence: float = 0.95) -> pd.DataFrame:
    """The percentiles QS of each cell, with cluster-bootstrap intervals: those of by_group, by CELL."""
    found = by_group.of(flows, CELL, value).percentiles(QS, confidence=confidence)
    return found.rename(columns={"repetitions": "n"}).assign(confidence=confidence)


def change(
    before: pd.DataFrame, after: pd.DataFrame, q: float, *, value: str = "fct_s", confidence: float = 0.95
) -> dict[str, object]:
    """How far the q-th percentile of `value` moves from one set of flows to another, in percent, as an estimate.

    before, after: as Runs.flows. Where both have the same repetitions these are resampled together, since a sweep
    visits every cell once per repetition and slow drift is common to them. A gap where a percentile cannot be had:
    too few flows, or so many of them failed that it hangs on these.
    """
    row = {"value": np.nan, "low": np.nan, "high": np.nan, "n": 0, "confidence": confidence, "gap": ""}
    try:
        found = quantiles.percent_change(
            completion_times.of(before, value),
            before["repetition"].to_numpy(),
            completion_times.of(after, value),
            after["repetition"].to_numpy(),
            q=q,
            paired=set(before["repetition"]) == set(after["repetition"]),
            confidence=confidence,
        )
    except TooFewSamples as error:
        return row | {"gap": str(error)}
    return row | found._asdict()


def changes_by_pairs(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of each of CHANGED_QS between neighbouring pair counts, and over PUBLISHED_STEP where it has both.

    Returns SYSTEM, driver, before_pairs, after_pairs, q and COLUMNS.
    """
    rows = []
    for names, line in flows.groupby([*SYSTEM, "driver"], sort=True):
        counts = sorted(line["pairs"].unique())
        steps = list(itertools.pairwise(counts))
        if set(PUBLISHED_STEP) <= set(counts) and PUBLISHED_STEP not in steps:
            steps.append(PUBLISHED_STEP)
        for (few, many), q in itertools.product(steps, CHANGED_QS):
            found = change(line[line["pairs"] == few], line[line["pairs"] == many], q, confidence=confidence)
            told = {"before_pairs": int(few), "after_pairs": int(many), "q": q}
            rows.append(dict(zip([*SYSTEM, "driver"], names, strict=True)) | told | found)
    return _frame(rows, [*SYSTEM, "driver", "before_pairs", "after_pairs", "q"])


def changes_by_driver(flows: pd.DataFrame, reference: str = "bridge", confidence: float = 0.95) -> pd.DataFrame:
    """Percent change of each of CHANGED_QS from the driver `reference` to each other one, at each pair count.

    Returns SYSTEM, driver, pairs, q and COLUMNS; nothing for a pair count without the reference.
    """
    rows = []
    for names, cell in flows.groupby([*SYSTEM, "pairs"], sort=True):
        drivers = ordered(cell["driver"])
        for driver, q in itertools.product([each for each in drivers if each != reference], CHANGED_QS):
            if reference in drivers:
                sides = [cell[cell["driver"] == each] for each in (reference, driver)]
                found = change(*sides, q, confidence=confidence)
                rows.append(dict(zip([*SYSTEM, "pairs"], names, strict=True)) | {"driver": driver, "q": q} | found)
    return _frame(rows, [*SYSTEM, "driver", "pairs", "q"])


def distributions(flows: pd.DataFrame, value: str = "fct_s") -> pd.DataFrame:
    """Whether two drivers' whole distributions differ, for each two at each pair count, by permuting repetitions.

    A failed flow took longer than any other. Repetitions are swapped within a block (the same repetition of both
    drivers) where there are enough of them for a p below 0.05, else permuted freely. Returns SYSTEM, pairs, first,
    second, distance (root mean square between the CDFs, 0 to 1), p, p_holm (over the comparisons at that pair count),
    least_p (what the repetitions can give at best), n, and gap.
    """
    rows = []
    for names, cell in flows.groupby([*SYSTEM, "pairs"], sort=True):
        for first, second in itertools.combinations(ordered(cell["driver"]), 2):
            sides = cell[cell["driver"].isin([first, second])]
            row = dict(zip([*SYSTEM, "pairs"], names, strict=True)) | {"first": first, "second": second}
            rows.append(row | _permuted(sides, value))
    columns = [*SYSTEM, "pairs", "first", "second", "distance", "p", "least_p", "n", "gap"]
    found = pd.DataFrame(rows, columns=columns)
    found.insert(columns.index("p") + 1, "p_holm", np.nan)
    for _, part in found.dropna(subset=["p"]).groupby([*SYSTEM, "pairs"]):
        found.loc[part.index, "p_holm"] = multipletests(part["p"], method="holm")[1]
    return found


def tools(flows: pd.DataFrame, *, exact: str = "flowgen", confidence: float = 0.95) -> pd.DataFrame:
    """How far each other workload's percentiles lie from those of `exact`, at the same backend, driver and pairs.

    Returns backend, workload (the other one), driver, pairs, q, exact_value (s) and COLUMNS: the change in percent.
    """
    rows = []
    for (backend, driver, pairs), cell in flows.groupby(["backend", "driver", "pairs"], sort=True):
        ours = cell[cell["workload"] == exact]
        for workload in sorted(set(cell["workload"]) - {exact}):
            for q in CHANGED_QS if len(ours) else ():
                told = {"backend": backend, "workload": workload, "driver": driver, "pairs": pairs, "q": q}
                theirs = cell[cell["workload"] == workload]
                rows.append(told | change(ours, theirs, q, confidence=confidence))
    return _frame(rows, ["backend", "workload", "driver", "pairs", "q"])


def phases(flows: pd.DataFrame) -> pd.DataFrame:
    """The median time that each of PHASES takes in each cell, in s: columns of CELL and the names of PHASES.

    Only flows whose tool tells all of them count, and only cells that have such flows have a row. Medians of parts
    do not add up to the median of the whole, which is the column "all".
    """
    parts = pd.DataFrame({name: flows[end] - flows[begin] for name, (begin, end) in PHASES.items()}, index=flows.index)
    told = pd.concat([flows[list(CELL)], parts.astype(float), flows["fct_s"].astype(float).rename("all")], axis=1)
    return told.dropna().groupby(list(CELL), sort=True).median().reset_index()


def failures(flows: pd.DataFrame) -> pd.DataFrame:
    """How many flows of each cell failed, and the reasons: columns of CELL, flows, failed_flows, errors."""
    rows = []
    for names, cell in flows.groupby(list(CELL), sort=True):
        bad = cell[cell["status"] != "ok"]
        rows.append([*names, len(cell), len(bad), "; ".join(sorted(set(bad["error"])))])
    return pd.DataFrame(rows, columns=[*CELL, "flows", "failed_flows", "errors"])


def _permuted(sides: pd.DataFrame, value: str) -> dict[str, object]:
    repetition = sides["repetition"].to_numpy()
    common = sides.groupby("repetition")["driver"].nunique()
    try:
        found = contrasts.cdf_permutation(
            completion_times.of(sides, value).to_numpy(),
            repetition,
            sides["driver"].to_numpy(),
            blocks=repetition if (common == 2).sum() >= _BLOCKS else None,
        )
    except TooFewSamples as error:
        return {"distance": np.nan, "p": np.nan, "least_p": np.nan, "n": 0, "gap": str(error)}
    return {"distance": found.statistic, "p": found.p, "least_p": found.least_p, "n": found.n, "gap": ""}


def _frame(rows: Sequence[dict], by: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*by, "value", "low", "high", "n", "confidence", "gap"])
