"""How completion times change from one cell to another, of a frame of flows: percentiles, and whole distributions.

A flow that failed took longer than any other (model/fct.py). All frames of changes have the form of
cell_estimates.COLUMNS, in percent.
"""

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pairlab.analysis import flow_groups
from pairlab.analysis.cell_estimates import COLUMNS
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.errors import TooFewSamples
from pairlab.statistics import permutation, quantiles, tests
from pairlab.statistics.clusters import Clusters

#: Swaps of this many blocks can give a p below 0.05; fewer cannot, and whole repetitions are permuted freely.
_BLOCKS = 6


def change(before: Clusters, after: Clusters, q: float, confidence: float) -> dict[str, object]:
    """The change of the q-th percentile (quantiles.percent_change) as an estimate; a gap where it cannot be had."""
    row = {"value": np.nan, "low": np.nan, "high": np.nan, "n": 0, "confidence": confidence, "gap": ""}
    try:
        found = quantiles.percent_change(before, after, q).estimate(confidence)
    except TooFewSamples as error:
        return row | {"gap": str(error)}
    return row | found._asdict()


def by_pairs(flows: pd.DataFrame, qs: Sequence[float], step: tuple[int, int], confidence: float) -> pd.DataFrame:
    """Between neighbouring pair counts, and over that step where it has both.

    Returns SYSTEM, driver, before_pairs, after_pairs, q and COLUMNS.
    """
    rows = []
    for names, line in _along("pairs", flows).items():
        steps = list(itertools.pairwise(sorted(line)))
        if set(step) <= set(line) and step not in steps:
            steps.append(step)
        for (few, many), q in itertools.product(steps, qs):
            between = {"before_pairs": int(few), "after_pairs": int(many), "q": q}
            rows.append(dict(names) | between | change(line[few], line[many], q, confidence))
    return pd.DataFrame(rows, columns=[*SYSTEM, "driver", "before_pairs", "after_pairs", "q", *COLUMNS])


def by_driver(flows: pd.DataFrame, qs: Sequence[float], reference: str, confidence: float) -> pd.DataFrame:
    """From that driver to each other one. Returns SYSTEM, driver, pairs, q and COLUMNS."""
    return _from_one("driver", flows, qs, reference, confidence)[[*SYSTEM, "driver", "pairs", "q", *COLUMNS]]


def by_workload(flows: pd.DataFrame, qs: Sequence[float], exact: str, confidence: float) -> pd.DataFrame:
    """From that workload to each other one. Returns backend, workload, driver, pairs, q and COLUMNS."""
    columns = ["backend", "workload", "driver", "pairs", "q", *COLUMNS]
    return _from_one("workload", flows, qs, exact, confidence)[columns]


def distributions(flows: pd.DataFrame, value: str) -> pd.DataFrame:
    """Whether the distributions of two drivers differ, for each two with as many pairs: as questions.fct has it."""
    rows = []
    for names, drivers in _along("driver", flows, value).items():
        for first, second in itertools.combinations(ordered(drivers), 2):
            row = dict(names) | {"first": first, "second": second}
            rows.append(row | _permuted(drivers[first], drivers[second]))
    columns = [*SYSTEM, "pairs", "first", "second", "distance", "p", "least_p", "n", "gap"]
    found = pd.DataFrame(rows, columns=columns)
    found.insert(columns.index("p") + 1, "p_holm", np.nan)
    for _, part in found.groupby([*SYSTEM, "pairs"]):
        found.loc[part.index, "p_holm"] = tests.holm(part["p"])
    return found


def _along(name: str, flows: pd.DataFrame, value: str = "fct_s") -> dict[tuple[tuple[str, object], ...], dict]:
    """The flows of cells that differ in one thing of CELL alone, by its value; keys: the rest of CELL, with names."""
    untold = flows[value].isna() & (flows["status"] == "ok")
    if untold.any():  # as if they had failed: a percentile without them would be one of other flows
        flows = flows.assign(status=flows["status"].astype(str).mask(untold, "failed"))
    found: dict[tuple, dict] = {}
    for group in flow_groups.grouped(flows, CELL, value):
        cell = dict(zip(CELL, group.names, strict=True))
        of = cell.pop(name)
        found.setdefault(tuple(cell.items()), {})[of] = group.clusters
    return dict(sorted(found.items()))


def _from_one(name: str, flows: pd.DataFrame, qs: Sequence[float], reference: str, confidence: float) -> pd.DataFrame:
    rows = []
    for names, line in _along(name, flows).items():
        others = [each for each in ordered(line) if each != reference] if reference in line else []
        for other, q in itertools.product(others, qs):
            found = change(line[reference], line[other], q, confidence)
            rows.append(dict(names) | {name: other, "q": q} | found)
    return pd.DataFrame(rows, columns=[*CELL, "q", *COLUMNS])


def _permuted(first: Clusters, second: Clusters) -> dict[str, object]:
    common = len(np.intersect1d(first.labels, second.labels))
    try:
        found = permutation.of_clusters(first, second, swapped=common >= _BLOCKS)
    except TooFewSamples as error:
        return {"distance": np.nan, "p": np.nan, "least_p": np.nan, "n": 0, "gap": str(error)}
    return {"distance": found.statistic, "p": found.p, "least_p": found.least_p, "n": found.n, "gap": ""}
