"""Changes of completion times from one cell to another, of flows or of runs: percentiles, and whole distributions.

A failed flow took longer than any other (model/fct.py). All frames of changes have the form of cell_estimates.COLUMNS,
in percent.
"""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd

from pairlab.analysis import by_group
from pairlab.analysis.cell_estimates import COLUMNS, Row, change_row, no_change, pairing_of
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.flow_parts import in_parts
from pairlab.analysis.selection import CELL, SYSTEM, block_of
from pairlab.errors import TooFewSamples
from pairlab.model import blocks, fct, others
from pairlab.statistics import permutation, quantiles, tests
from pairlab.statistics.clusters import Clusters, together

#: The percentiles whose changes are reported.
CHANGED_QS = (0.5, 0.99)
#: The step between pair counts with numbers in Boeira et al. 2021.
PUBLISHED_STEP = (10, 50)
#: The reference workload, which times each flow itself.
EXACT = "flowgen"
#: Swaps of this many blocks can give a p below 0.05; with fewer, whole repetitions are permuted freely.
_BLOCKS = 6


def clusters_of(flows: pd.DataFrame) -> Clusters:
    """The completion times of flows (as Runs.flows) of one cell, by repetition."""
    return replace(Clusters.of(fct.of(flows), flows[block_of(flows)]), lost=others.mean_lost_in(flows, flows))


def change(before: Clusters, after: Clusters, q: float, confidence: float) -> Row:
    """The change of the q-th percentile (quantiles.percent_change) as an estimate, or a gap.

    The pairing is that of values (cell_estimates.changes): within common blocks, else as independent groups, and
    without an interval if the two were measured apart.
    """
    before, after = together([before, after])
    try:
        found = quantiles.percent_change(before, after, q)
    except TooFewSamples as error:
        return no_change(confidence, str(error))
    pairing = pairing_of(before.labels, after.labels, np.array_equal(before.labels, after.labels))
    return change_row(found, confidence, pairing)


@in_parts([*SYSTEM, "driver"], ["pairs", "fct_s"])
def by_pairs(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The changes of CHANGED_QS between neighbouring pair counts, and over PUBLISHED_STEP if both were measured.

    Returns SYSTEM, driver, before_pairs, after_pairs, q and COLUMNS.
    """
    rows = []
    for names, line in _along("pairs", flows).items():
        steps = list(itertools.pairwise(sorted(line)))
        if {*PUBLISHED_STEP} <= {*line} and PUBLISHED_STEP not in steps:
            steps.append(PUBLISHED_STEP)
        for (few, many), q in itertools.product(steps, CHANGED_QS):
            between = {"before_pairs": int(few), "after_pairs": int(many), "q": q}
            rows.append(dict(names) | between | change(line[few], line[many], q, confidence))
    return pd.DataFrame(rows, columns=[*SYSTEM, "driver", "before_pairs", "after_pairs", "q", *COLUMNS, "pairing"])


@in_parts([*SYSTEM, "pairs"], ["driver", "fct_s"])
def by_driver(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The changes of CHANGED_QS from the driver bridge to each other one, at each pair count that has it.

    Returns CELL, q and COLUMNS.
    """
    return _from_one("driver", flows, "bridge", confidence)


@in_parts(["backend", "driver", "pairs"], ["workload", "fct_s"])
def by_workload(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """The changes of CHANGED_QS from flowgen to each other workload, at the same backend, driver and pairs.

    Returns CELL (of the other one), q and COLUMNS.
    """
    return _from_one("workload", flows, EXACT, confidence)


@in_parts([*SYSTEM, "pairs"], ["driver", "fct_s"])
def distributions(flows: pd.DataFrame) -> pd.DataFrame:
    """Tests whether two drivers' whole distributions differ, for each two at each pair count, by permutation.

    Repetitions are swapped within common blocks if there are enough of them for a p below 0.05, else permuted freely.
    Returns SYSTEM, pairs, first, second, distance (root mean square between the CDFs, 0 to 1), p, p_holm (over the
    comparisons at that pair count), least_p (the smallest possible p), n, and gap.
    """
    rows = []
    for names, drivers in _along("driver", flows).items():
        for first, second in itertools.combinations(ordered(drivers), 2):
            row = dict(names) | {"first": first, "second": second}
            rows.append(row | _permuted(drivers[first], drivers[second]))
    columns = [*SYSTEM, "pairs", "first", "second", "distance", "p", "least_p", "n", "gap"]
    table = pd.DataFrame(rows, columns=columns)
    table.insert(columns.index("p") + 1, "p_holm", tests.holm_within(table, [*SYSTEM, "pairs"]))
    return table


def _along(name: str, flows: pd.DataFrame) -> dict[tuple[tuple[str, object], ...], dict]:
    """The flows of cells that differ in one column of CELL only, by its value; keys: the rest of CELL, with names."""
    unreported = flows["fct_s"].isna() & (flows["status"] == "ok")
    if unreported.any():  # count as failed: a percentile without them would be of other flows
        flows = flows.assign(status=flows["status"].astype(str).mask(unreported, "failed"))
    lines: dict[tuple, dict] = {}
    for group in by_group.grouped(flows, CELL, "fct_s"):
        cell = dict(zip(CELL, group.names, strict=True))
        of = cell.pop(name)
        lines.setdefault(tuple(cell.items()), {})[of] = group.clusters
    return dict(sorted(lines.items()))


def _from_one(name: str, flows: pd.DataFrame, reference: str, confidence: float) -> pd.DataFrame:
    rows = []
    for names, line in _along(name, flows).items():
        others = [each for each in ordered(line) if each != reference] if reference in line else []
        for other, q in itertools.product(others, CHANGED_QS):
            estimate = change(line[reference], line[other], q, confidence)
            rows.append(dict(names) | {name: other, "q": q} | estimate)
    return pd.DataFrame(rows, columns=[*CELL, "q", *COLUMNS, "pairing"])


def _permuted(first: Clusters, second: Clusters) -> dict[str, object]:
    common = len(np.intersect1d(first.labels, second.labels))
    nothing = {"distance": np.nan, "p": np.nan, "least_p": np.nan, "n": 0}
    if not common and blocks.apart(first.labels, second.labels):
        return nothing | {"gap": "measured one after the other: drift may be all that they differ by"}
    try:
        test = permutation.of_clusters(first, second, swapped=common >= _BLOCKS)
    except TooFewSamples as error:
        return nothing | {"gap": str(error)}
    return {"distance": test.statistic, "p": test.p, "least_p": test.least_p, "n": test.n, "gap": ""}
