"""The flows of a frame by group, each group's repetitions apart: what percentiles and CDFs by group are made of.

A frame can have many millions of rows, so it is cut where its groups change, each value is copied and sorted once,
and groups are worked on side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pairlab.analysis import selection
from pairlab.analysis.executors import at_once
from pairlab.errors import AnalysisError
from pairlab.statistics.clusters import Clusters
from pairlab.store.dataset import GROUND

#: A frame of more stretches of equal rows than this is sorted first.
_SCATTERED = 20_000


@dataclass(frozen=True)
class Group:
    """The flows of one group. unreported: how many of them are ok and have no value, as their tool reports none."""

    names: tuple
    clusters: Clusters
    unreported: int

    @property
    def repetitions(self) -> int:
        return len(self.clusters.labels)

    @property
    def flows(self) -> int:
        return len(self.clusters.pooled) + self.unreported


def grouped(frame: pd.DataFrame, by: Sequence[str], value: str) -> list[Group]:
    """The groups of a frame as by_group.of takes it, in their order. Raises MixedHosts where one has several hosts."""
    by = list(by)
    needed = [*by, "repetition", value]
    if missing := [name for name in needed if name not in frame]:
        raise AnalysisError(f"there is no column {', '.join(missing)}; there are: {', '.join(map(str, frame))}")
    apart = [*by, "repetition", *({"key"} & set(frame))]
    grounds = {name: frame[name] for name in GROUND if name in frame and name not in by}
    frame = frame[list(dict.fromkeys([*apart, value, *({"status"} & set(frame))]))]
    order = None
    if len(begins := _begins(frame[apart])) > _SCATTERED:
        order = np.argsort(frame.groupby(apart, observed=True).ngroup().to_numpy(), kind="stable")
        frame = frame.take(order)
        begins = _begins(frame[apart])
    stretches = frame[apart].take(begins).assign(begin=begins, end=np.append(begins, len(frame))[1:])
    first_rows = begins if order is None else order[begins]
    stretches = stretches.assign(**{name: column.take(first_rows).array for name, column in grounds.items()})
    reported = frame[value].to_numpy(dtype=float, na_value=np.nan)
    ok = (frame["status"] == "ok").to_numpy() if "status" in frame else None

    def one(names_and_stretches: tuple[tuple, pd.DataFrame]) -> Group:
        names, mine = names_and_stretches
        for name in grounds:
            selection.check_one(name, mine[name])
        if "key" in mine:
            _one_run_each(names, mine)
        return _group(names, mine, reported, ok)

    return at_once(one, stretches.groupby(by, sort=True, observed=True))


def _begins(frame: pd.DataFrame) -> np.ndarray:
    """Where a stretch of equal rows begins."""
    changes = np.zeros(len(frame), dtype=bool)
    changes[:1] = True
    for name in frame:
        column = frame[name]
        codes = column.cat.codes if column.dtype == "category" else column
        codes = codes.to_numpy() if pd.api.types.is_numeric_dtype(codes) else pd.factorize(codes)[0]
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)


def _group(names: tuple, stretches: pd.DataFrame, reported: np.ndarray, ok: np.ndarray | None) -> Group:
    """stretches: begin and end of rows, each of one repetition; reported, ok: of all rows."""
    labels, parts, unreported = [], [], 0
    for label, mine in stretches.groupby("repetition", sort=True, observed=True):
        spans = list(zip(mine["begin"], mine["end"], strict=True))
        values = np.concatenate([reported[begin:end] for begin, end in spans])  # a copy, to be sorted in its place
        good = ~np.isnan(values) if ok is None else np.concatenate([ok[begin:end] for begin, end in spans])
        lost = len(good) - int(np.count_nonzero(good))
        if lost:
            values[~good] = np.inf
        values.sort()  # what is missing comes last
        known = int(np.searchsorted(values, np.nan))
        unreported += len(values) - known
        if known > lost and not np.isfinite(values[[0, known - lost - 1]]).all():
            raise AnalysisError("a flow that did not fail has no finite value: leave it out by name")
        if known:
            labels.append(label)
            parts.append(values[:known])
    return Group(names, Clusters(np.asarray(labels), tuple(parts)), unreported)


def _one_run_each(names: tuple, group: pd.DataFrame) -> None:
    pairs = group[["repetition", "key"]].drop_duplicates()
    if len(several := pairs["repetition"][pairs["repetition"].duplicated()]):
        raise AnalysisError(
            f"several runs claim to be repetition {several.iloc[0]} of {', '.join(map(str, names))}: they were measured"
            " under different specs. Name what sets them apart in `by`, or name one sweep"
        )
