"""Estimates and their intervals: pure functions over arrays and DataFrames.

The flows of one repetition share its CPUs and queues, so they are not independent. Each repetition is first
reduced to one value, and intervals are taken over these. Backends and workloads are never pooled: together
they are a *system*.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from pairlab.errors import AnalysisError, TooFewSamples

#: What is never pooled.
SYSTEM = ("backend", "workload")
#: What one estimate is made for.
CELL = (*SYSTEM, "driver", "pairs")
#: What all runs of one system must share, or their numbers do not belong together.
CONDITIONS = ("experiment", "asked_duration_s", "warmup_s", "hosts", "placement")


class Estimate(NamedTuple):
    """A value, its interval, and the number of independent samples. From one sample the bounds are NaN."""

    value: float
    low: float
    high: float
    n: int


class Test(NamedTuple):
    """A test's outcome. p: two-sided; n: independent samples, which are repetitions, in all groups together.

    least_p: the smallest p that this many repetitions can give, or NaN where that is not known. Above alpha, the
    test cannot find a difference however large it is: more repetitions are needed, and "no difference found"
    says nothing.
    """

    __test__ = False  # pytest: not a test class

    statistic: float
    p: float
    n: int
    groups: int
    least_p: float = float("nan")


class Shape(NamedTuple):
    """Normalised totals, and why a system has none (one text each)."""

    cells: pd.DataFrame
    left_out: tuple[str, ...]


def mean_interval(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The mean of independent samples with its two-sided Student t interval, in the unit of `values`.

    values: 1-D, one per repetition. From a single one the mean is known and its interval is not: low and high
    are NaN. Raises TooFewSamples when empty, AnalysisError when a value is not finite or `confidence` not
    within (0, 1). The interval is exact for normal samples, and about right for means of many flows.
    Source: Student 1908; E1 of papers C and E reports the mean without an interval.
    """
    values = np.asarray(values, dtype=float)
    if not 0 < confidence < 1:
        raise AnalysisError(f"confidence is a share between 0 and 1, such as 0.95, not {confidence!r}")
    if values.size == 0:
        raise TooFewSamples("a mean needs at least one repetition, and there is none: measure the cell")
    if not np.isfinite(values).all():
        raise AnalysisError(
            "a repetition has no finite value: count a failed flow as zero, or leave the run out by name"
        )
    mean = float(values.mean())
    if values.size == 1:
        return Estimate(mean, np.nan, np.nan, 1)
    half = float(stats.t.ppf((1 + confidence) / 2, values.size - 1) * stats.sem(values))
    return Estimate(mean, mean - half, mean + half, int(values.size))


def jain_index(throughputs_bps: Sequence[float]) -> float:
    """Jain's fairness index: 1 when all get the same, 1/n when one gets all; NaN when nobody gets anything.

    throughputs_bps: 1-D, one per client, a failed one as zero. Raises TooFewSamples when empty.
    Source: Jain, Chiu and Hawe 1984.
    """
    values = np.asarray(throughputs_bps, dtype=float)
    if values.size == 0:
        raise TooFewSamples("fairness needs at least one client, and there is none")
    squares = values.size * float((values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else float("nan")


def throughput_by_repetition(flows: pd.DataFrame) -> pd.DataFrame:
    """One row per repetition of each cell: its total, its mean per client, and its fairness.

    flows: as Runs.flows, a row per flow. Returns the columns of CELL, repetition, total_bps, client_bps,
    flows, failed_flows, jain_index. A client is a pair: client_bps is total_bps / pairs. A failed flow adds
    zero to both and is counted. Raises AnalysisError where two runs claim one repetition, or runs of a system
    differ in CONDITIONS.
    """
    _check_comparable(flows)
    rows = []
    for names, group in flows.groupby([*CELL, "repetition"], sort=True):
        named = dict(zip([*CELL, "repetition"], names, strict=True))
        ok = group["status"] == "ok"
        carried = group["throughput_bps"].where(ok, 0.0).fillna(0.0)
        total = float(carried.sum())
        rows.append(
            {
                **named,
                "total_bps": total,
                "client_bps": total / named["pairs"],
                "flows": len(group),
                "failed_flows": int((~ok).sum()),
                "jain_index": jain_index(carried.groupby(group["pair"]).sum()),
            }
        )
    return pd.DataFrame(rows)


def throughput_by_cell(flows: pd.DataFrame, confidence: float = 0.95) -> pd.DataFrame:
    """One row per (backend, workload, driver, pairs): total and mean per client in bit/s, with intervals.

    flows: as Runs.flows. Returns the columns of CELL, repetitions (n of both estimates), flows, failed_flows,
    client_bps, client_low_bps, client_high_bps, total_bps, total_low_bps, total_high_bps, jain_index (mean
    over repetitions), confidence. Bounds are NaN for one repetition. Failed flows count as zero and are
    reported by number. Raises as throughput_by_repetition and mean_interval.
    Source: paper C, figure 2; paper E, table I.
    """
    rows = []
    for names, group in throughput_by_repetition(flows).groupby(list(CELL), sort=True):
        total = mean_interval(group["total_bps"], confidence)
        client = mean_interval(group["client_bps"], confidence)
        rows.append(
            {
                **dict(zip(CELL, names, strict=True)),
                "repetitions": total.n,
                "flows": int(group["flows"].sum()),
                "failed_flows": int(group["failed_flows"].sum()),
                "client_bps": client.value,
                "client_low_bps": client.low,
                "client_high_bps": client.high,
                "total_bps": total.value,
                "total_low_bps": total.low,
                "total_high_bps": total.high,
                "jain_index": float(group["jain_index"].mean()),
                "confidence": confidence,
            }
        )
    return pd.DataFrame(rows)


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
    repetition, so what drifts slowly cancels, and the interval covers the reference's own spread. A
    repetition without its reference is not used.

    totals: columns of `by`, driver, pairs, total_bps and repetition (without that column: one value per
    cell). Returns Shape(cells, left_out); cells has `by`, driver, pairs, relative, relative_low,
    relative_high (no unit; NaN bounds from one value), n, reference_pairs, confidence. A system without the
    reference is named in left_out.
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
        relative = system["total_bps"] / system["repetition"].map(reference)
        for (name, count), values in relative.dropna().groupby([system["driver"], system["pairs"]], sort=True):
            estimate = mean_interval(values, confidence)
            rows.append([*names, name, count, *estimate, int(at), confidence])
    columns = [*by, "driver", "pairs", "relative", "relative_low", "relative_high", "n"]
    columns += ["reference_pairs", "confidence"]
    return Shape(pd.DataFrame(rows, columns=columns), tuple(left_out))


def _check_comparable(flows: pd.DataFrame) -> None:
    keys = flows.groupby([*CELL, "repetition"])["key"].nunique()
    for names in keys.index[keys > 1]:
        backend, workload, driver, pairs, repetition = names
        raise AnalysisError(
            f"{keys[names]} runs claim to be repetition {repetition} of {driver} with {pairs} pairs"
            f" ({backend}, {workload}): they were measured under different specs. {_APART}"
        )
    for names, system in flows.groupby(list(SYSTEM)):
        for condition in CONDITIONS:
            values = sorted(system[condition].unique())
            if len(values) > 1:
                raise AnalysisError(
                    f"the runs of {', '.join(names)} differ in {condition} ({', '.join(map(str, values))}),"
                    f" so their numbers do not belong together. {_APART}"
                )


_APART = "Name one sweep, or keep them in a folder each"
