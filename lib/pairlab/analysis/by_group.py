"""Tables of percentiles and CDFs by group of flows, such as a driver with a number of pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from pairlab.analysis import flow_groups
from pairlab.analysis.executors import at_once
from pairlab.analysis.flow_groups import Group
from pairlab.errors import TooFewSamples
from pairlab.model import fct
from pairlab.statistics import distributions, quantiles
from pairlab.statistics.intervals import Estimate
from pairlab.store.dataset import Runs


def of(flows: pd.DataFrame | Runs, by: Sequence[str], value: str) -> "ByGroup":
    """The flows by group: the values of the column `value` for each combination of the columns `by`.

    flows: runs, or a frame with a row per flow and the columns `by`, repetition, `value`, and status if flows can have
    failed (as Runs.flows, or Runs.select). Raises AnalysisError if several runs claim one repetition of a group: name
    the column that separates them in `by`.
    """
    return ByGroup(tuple(by), value, flow_groups.grouped(flows, by, value))


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

    def cdf(self, *, points: int = 2000) -> pd.DataFrame:
        """The CDF of each group, as distributions.cdf: `by`, value, share, and repetitions, flows, failed_flows.

        The share is of all flows, so that a line ends below 1 if some failed; failed_flows counts these. A group in
        which no flow has a value has no rows: `percentiles` names it. Raises TooFewSamples if no group has one.
        """
        by_group = at_once(lambda group: self._line(group, points), self.groups)
        lines = [line for line in by_group if line is not None]
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

    def _line(self, group: Group, points: int) -> pd.DataFrame | None:
        all_values, failed = group.clusters.pooled, group.clusters.failed
        ended = all_values[: len(all_values) - failed]
        if not len(ended):
            return None
        counts = {"repetitions": group.repetitions, "flows": group.flows, "failed_flows": failed}
        line = distributions.line(ended, points, of=len(all_values))
        named = line.assign(**dict(zip(self.by, group.names, strict=True)), **counts)
        return named[[*self.by, "value", "share", *counts]]
