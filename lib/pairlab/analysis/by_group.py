"""The flows of a frame or of runs by group, such as a driver with a number of pairs: their percentiles and CDFs.

A frame can have many millions of rows, so it is cut where its groups change, each value is copied and sorted once,
and groups are processed in parallel.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pairlab import store
from pairlab.analysis import selection
from pairlab.analysis.executors import at_once
from pairlab.errors import AnalysisError, TooFewSamples
from pairlab.model import fct, others
from pairlab.model.records import Run
from pairlab.statistics import distributions, quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import Estimate
from pairlab.store.dataset import ENVIRONMENT, Runs

#: A frame with more stretches of equal rows than this is sorted first.
_SCATTERED = 20_000


@dataclass(frozen=True)
class Group:
    """The flows of one group. unreported: the number of ok flows without a value, as their tool reports none."""

    names: tuple
    clusters: Clusters
    unreported: int

    @property
    def repetitions(self) -> int:
        return len(self.clusters.labels)

    @property
    def flows(self) -> int:
        return len(self.clusters.pooled) + self.unreported


def of(flows: pd.DataFrame | Runs, by: Sequence[str], value: str) -> "ByGroup":
    """The flows by group: the values of the column `value` for each combination of the columns `by`.

    flows: runs, or a frame with a row per flow and the columns `by`, repetition, `value`, and status if flows can have
    failed (as Runs.flows, or Runs.select). Raises AnalysisError if several runs claim one repetition of a group: name
    the column that separates them in `by`.
    """
    return ByGroup(tuple(by), value, grouped(flows, by, value))


@dataclass(frozen=True)
class ByGroup:
    """Flows by group, sorted once for all tables. A flow that failed lies beyond all others (model/fct.py)."""

    by: tuple[str, ...]
    value: str
    groups: Sequence[Group]

    def percentiles(self, qs: Sequence[float], *, confidence: float = 0.95) -> pd.DataFrame:
        """One row per group and quantile, with interval and counts, as quantiles.percentile.

        Returns the columns of `by`, q, value, low, high (NaN with a gap, or fewer repetitions than intervals.LEAST), n
        (repetitions), flows, failed_flows, confidence and gap: why there is no number, else empty. The percentiles are
        of all flows: one that depends on failed flows is unknown, and has a gap.
        """
        columns = ["q", "value", "low", "high", "n", "flows", "failed_flows", "confidence", "gap"]
        by_group = at_once(lambda group: [self._row(group, q, confidence) for q in qs], self.groups)
        return pd.DataFrame([row for rows in by_group for row in rows], columns=[*self.by, *columns])

    def cdf(self, *, points: int = 2000, each: bool = False) -> pd.DataFrame:
        """The CDF of each group, as distributions.cdf: `by`, value, share, and repetitions, flows, failed_flows.

        each: also that of each repetition, where there are several: the column `repetition` has its place among them,
        and NaN for the CDF of all. The share is of all flows, so that a line ends below 1 if some failed; failed_flows
        counts these. A group in which no flow has a value has no rows: `percentiles` names it. Raises TooFewSamples if
        no group has one.
        """
        by_group = at_once(lambda group: list(self._lines(group, points, each)), self.groups)
        lines = [line for lines in by_group for line in lines]
        if not lines:
            raise TooFewSamples(f"no flow has a {self.value}: measure with a tool that reports it")
        return pd.concat(lines, ignore_index=True)

    def _row(self, group: Group, q: float, confidence: float) -> list:
        gap = self._gap(group, q)
        estimate = Estimate(np.nan, np.nan, np.nan, group.repetitions)
        if not gap:
            estimate = quantiles.percentile(group.clusters, q).estimate(confidence)
        return [*group.names, q, *estimate, group.flows, group.clusters.failed, confidence, gap]

    def _gap(self, group: Group, q: float) -> str:
        if group.unreported:
            lost = f"{group.unreported} of {group.flows} flows are ok and have no {self.value}"
            return f"{lost}: their tool does not report it"
        if np.isnan(group.clusters.quantile(q)):
            return fct.unknown(group.clusters.failed, group.flows, q)
        return quantiles.too_few(len(group.clusters.pooled), q)

    def _lines(self, group: Group, points: int, each: bool) -> Iterator[pd.DataFrame]:
        counts = {"repetitions": group.repetitions, "flows": group.flows, "failed_flows": group.clusters.failed}
        parts = enumerate(group.clusters.parts if each and group.repetitions > 1 else ())
        for repetition, values in [(np.nan, group.clusters.pooled), *parts]:
            ended = values[: int(np.searchsorted(values, np.inf))]
            if len(ended):
                line = distributions.line(ended, points, of=len(values)).assign(repetition=repetition)
                named = line.assign(**dict(zip(self.by, group.names, strict=True)), **counts)
                yield named[[*self.by, *["repetition"] * each, "value", "share", *counts]]


def grouped(flows: pd.DataFrame | Runs, by: Sequence[str], value: str) -> list[Group]:
    """The groups of a frame (as of `of`), or of the flows of runs, in order.

    Raises MixedHosts if a group has several hosts, AnalysisError if several runs claim one repetition of a group.
    """
    if not isinstance(flows, Runs):
        return _of_frame(flows, by, value)
    if not any(run.status == "ok" for run in flows):
        return []
    runs = flows.counted("flows")
    if not {*by} <= {*runs}:
        columns = [*by, "repetition", "block", "key", *ENVIRONMENT, "status", value]
        return _of_frame(flows.select("flows", list(dict.fromkeys(columns))), by, value)
    counted = [run for run in flows if run.status == "ok"]

    def one(names_and_rows: tuple[tuple, pd.DataFrame]) -> Group:
        names, rows = names_and_rows
        _check(names, rows, [name for name in ENVIRONMENT if name not in by], runs)
        by_block = rows.groupby("block", sort=True).indices
        places = rows.index.to_numpy()
        read = [(label, [_values(counted[places[at]], value) for at in ats]) for label, ats in by_block.items()]
        return _group(names, read, others.mean_lost([counted[place] for place in places]))

    return at_once(one, runs.reset_index(drop=True).groupby(list(by), sort=True))


def _values(run: Run, value: str) -> tuple[np.ndarray, np.ndarray]:
    """A column of a run's flows, and a mask of the ok ones; reads no other columns."""
    table = store.columns(run, "flows", [value, "status"])
    status = table["status"].unify_dictionaries().combine_chunks()
    words = status.dictionary.to_pylist()
    ok = status.indices.to_numpy() == words.index("ok") if "ok" in words else np.zeros(len(table), dtype=bool)
    return table[value].to_numpy().astype(float), ok


def _of_frame(frame: pd.DataFrame, by: Sequence[str], value: str) -> list[Group]:
    by = list(by)
    needed = [*by, "repetition", value]
    if missing := [name for name in needed if name not in frame]:
        raise AnalysisError(f"there is no column {', '.join(missing)}; there are: {', '.join(map(str, frame))}")
    label = selection.block_of(frame)
    keys = [*by, *dict.fromkeys(["repetition", label]), *({"key"} & set(frame))]
    environments = {name: frame[name] for name in ENVIRONMENT if name in frame and name not in by}
    whole = frame
    frame = whole[list(dict.fromkeys([*keys, value, *({"status"} & set(frame))]))]
    order = None
    if len(begins := _begins(frame[keys])) > _SCATTERED:
        order = np.argsort(frame.groupby(keys, observed=True).ngroup().to_numpy(), kind="stable")
        frame = frame.take(order)
        begins = _begins(frame[keys])
    stretches = frame[keys].take(begins).assign(begin=begins, end=np.append(begins, len(frame))[1:])
    first_rows = begins if order is None else order[begins]
    stretches = stretches.assign(**{name: column.take(first_rows).array for name, column in environments.items()})
    reported = frame[value].to_numpy(dtype=float, na_value=np.nan)
    ok = (frame["status"] == "ok").to_numpy() if "status" in frame else None

    def one(names_and_stretches: tuple[tuple, pd.DataFrame]) -> Group:
        names, of_group = names_and_stretches
        _check(names, of_group, list(environments), whole)
        read = []
        for block, rows in of_group.groupby(label, sort=True, observed=True):
            spans = list(zip(rows["begin"], rows["end"], strict=True))
            good = [~np.isnan(reported[begin:end]) if ok is None else ok[begin:end] for begin, end in spans]
            read.append((block, list(zip((reported[begin:end] for begin, end in spans), good, strict=True))))
        return _group(names, read, others.mean_lost_in(of_group, whole))

    return at_once(one, stretches.groupby(by, sort=True, observed=True))


def _begins(frame: pd.DataFrame) -> np.ndarray:
    """The positions at which stretches of equal rows begin."""
    changes = np.zeros(len(frame), dtype=bool)
    changes[:1] = True
    for name in frame:
        column = frame[name]
        codes = column.cat.codes if column.dtype == "category" else column
        codes = codes.to_numpy() if pd.api.types.is_numeric_dtype(codes) else pd.factorize(codes)[0]
        changes[1:] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changes)


def _group(
    names: tuple, read: Sequence[tuple[Hashable, Sequence[tuple[np.ndarray, np.ndarray]]]], lost: float = np.nan
) -> Group:
    """read: by repetition, arrays of values, each with a mask of the ok flows; from one place, or several. lost: as of
    Clusters.
    """
    labels, parts, unreported = [], [], 0
    for label, places in read:
        values = np.concatenate([values for values, _ in places])  # a copy, to sort in place
        good = np.concatenate([good for _, good in places])
        failed = len(good) - int(np.count_nonzero(good))
        if failed:
            values[~good] = np.inf
        values.sort()  # NaN comes last
        reported = int(np.searchsorted(values, np.nan))
        unreported += len(values) - reported
        if reported > failed and not np.isfinite(values[[0, reported - failed - 1]]).all():
            raise AnalysisError("a flow that did not fail has no finite value: leave it out by name")
        if reported:
            labels.append(label)
            parts.append(values[:reported])
    return Group(names, Clusters(np.asarray(labels), tuple(parts), lost), unreported)


def _check(names: tuple, rows: pd.DataFrame, environments: Sequence[str], whole: pd.DataFrame) -> None:
    """Checks that a group's runs are of one host, and one for each repetition. whole: the frame with their specs."""
    for name in environments:
        selection.check_one(name, rows[name])
    if "key" in rows:
        _one_run_each(names, rows, whole)


def _one_run_each(names: tuple, group: pd.DataFrame, whole: pd.DataFrame) -> None:
    pairs = group[["repetition", "key"]].drop_duplicates()
    if len(repeated := pairs["repetition"][pairs["repetition"].duplicated()]):
        keys = pairs["key"][pairs["repetition"] == repeated.iloc[0]]
        raise AnalysisError(
            f"several runs claim to be repetition {repeated.iloc[0]} of {', '.join(map(str, names))}: {', '.join(keys)}"
            f"{selection.in_what(whole, keys)}. Name what sets them apart in `by`, or name one sweep"
        )
