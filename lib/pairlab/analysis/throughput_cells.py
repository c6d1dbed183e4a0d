"""Throughput by repetition and by cell, from flows: totals, means per client, fairness, and the shape over pairs.

Backends and workloads are never pooled: together they are a *system*.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis.selection import CELL, SYSTEM, check_comparable
from pairlab.model.summaries import client_bps
from pairlab.statistics import changes
from pairlab.statistics.intervals import jain_index


class Shape(NamedTuple):
    """Normalised totals, and why a system has none (one text each)."""

    cells: pd.DataFrame
    left_out: tuple[str, ...]


def throughput_by_repetition(flows: pd.DataFrame, *, also: Sequence[str] = ()) -> pd.DataFrame:
    """One row per repetition of each cell: its total, its mean per client, and its fairness.

    flows: as Runs.flows, a row per flow. also: columns that distinguish cells besides CELL, such as pinning. Returns
    the columns of CELL and `also`, repetition, total_bps, client_bps, flows, failed_flows, jain_index. A client is
    a pair: client_bps is total_bps / pairs. A failed flow adds zero to both and is counted. Raises AnalysisError
    where two runs claim one repetition, or runs of a system differ in CONDITIONS (but those in `also`).
    """
    check_comparable(flows, also)
    by = [*CELL, *also, "repetition"]
    rows = []
    for names, group in flows.groupby(by, sort=True):
        clients = client_bps(group)
        total, pairs = float(clients.sum()), names[by.index("pairs")]
        failed = int((group["status"] != "ok").sum())
        rows.append([*names, total, total / pairs, len(group), failed, jain_index(clients)])
    return pd.DataFrame(rows, columns=[*by, "total_bps", "client_bps", "flows", "failed_flows", "jain_index"])


def normalised_shape(
    totals: pd.DataFrame,
    *,
    by: Sequence[str] = SYSTEM,
    driver: str = "bridge",
    pairs: int | None = 10,
    confidence: float = 0.95,
) -> Shape:
    """Totals as multiples of one reference cell of the same system: the shape, comparable across machines.

    The reference is the total of `driver` at `pairs` (None: the most pairs at which the system has that
    driver). Bridge at 10 pairs is the one cell that papers C and E and a small machine all have. Each
    repetition is divided by the reference of the same repetition: a sweep visits every cell once per
    repetition, so what drifts slowly cancels, and the interval covers the reference's own spread: it is 1 and
    the change of statistics/changes.py. A repetition without its reference is not used.

    totals: columns of `by`, driver, pairs, total_bps and repetition (without that column: one value per
    cell). Returns Shape(cells, left_out); cells has `by`, driver, pairs, value, low, high (no unit; NaN bounds from
    fewer than intervals.LEAST values, and nothing where a repetition carried nothing), n, reference_pairs, confidence.
    A system without the reference is named in left_out.
    """
    by = list(by)
    if "repetition" not in totals:
        totals = totals.assign(repetition=0)
    rows, left_out = [], []
    for names, system in totals.groupby(by, sort=True):
        candidates = system[system["driver"] == driver]
        at = candidates["pairs"].max() if pairs is None else pairs
        reference = candidates[candidates["pairs"] == at].set_index("repetition")["total_bps"]
        reference = reference[reference > 0]
        if reference.empty:
            where = "" if pairs is None else f" at {pairs} pairs"
            left_out.append(f"{', '.join(map(str, names))}: no {driver}{where} to be the reference")
            continue
        both = system.assign(reference=system["repetition"].map(reference)).dropna(subset="reference")
        for (name, count), cell in both.groupby(["driver", "pairs"], sort=True):
            times = [np.nan] * 3
            if (cell["total_bps"] > 0).all():
                change = changes.ratio(cell["reference"], cell["total_bps"]).estimate(confidence)
                times = [1 + percent / 100 for percent in change[:3]]
            rows.append([*names, name, count, *times, len(cell), int(at), confidence])
    columns = [*by, "driver", "pairs", "value", "low", "high", "n"]
    columns += ["reference_pairs", "confidence"]
    return Shape(pd.DataFrame(rows, columns=columns), tuple(left_out))
