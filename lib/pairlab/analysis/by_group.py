"""Tables of percentiles and of CDFs, a group of flows for each driver and pair count, or whatever sets them apart."""

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


def of(frame: pd.DataFrame, by: Sequence[str], value: str) -> "ByGroup":
    """The flows of a frame by group: the values of the column `value` for each combination of those of `by`.

    frame: a row per flow with the columns of `by`, repetition, `value`, and status where flows can have failed (as
    Runs.flows, or Runs.select). Raises AnalysisError where several runs claim one repetition of a group: name what
    sets them apart in `by`.
    """
    return ByGroup(tuple(by), value, flow_groups.grouped(frame, by, value))


@dataclass(frozen=True)
class ByGroup:
    """Flows by group, sorted once for all tables. A flow that failed lies beyond all others (model/fct.py)."""

    by: tuple[str, ...]
    value: str
    groups: Sequence[Group]

    def percentiles(self, qs: Sequence[float], *, confidence: float = 0.95) -> pd.DataFrame:
        """One row per group and quantile, with interval and what it rests on, as quantiles.percentile.

        Returns the columns of `by`, q, value, low, high (NaN where there is a gap, or fewer repetitions than
        intervals.LEAST), repetitions, flows, failed_flows, confidence and gap: why there is no number, in words, else
        empty. The percentiles are of all flows, and failed_flows says how many failed. Where a percentile depends on
        them it is not known, and there is a gap.
        """
        columns = ["q", "value", "low", "high", "repetitions", "flows", "failed_flows", "confidence", "gap"]
        made = at_once(lambda group: [self._row(group, q, confidence) for q in qs], self.groups)
        return pd.DataFrame([row for rows in made for row in rows], columns=[*self.by, *columns])

    def cdf(self, *, points: int = 2000) -> pd.DataFrame:
        """The CDF of each group, as distributions.cdf: `by`, value, share, and repetitions, flows, failed_flows.

        The share is of all flows, so that a line ends below 1 where some failed; failed_flows says how many did. A
        group in which none has a value has no rows: `percentiles` names it. Raises TooFewSamples where no group has.
        """
        made = at_once(lambda group: self._line(group, points), self.groups)
        lines = [line for line in made if line is not None]
        if not lines:
            raise TooFewSamples(f"no flow has a {self.value}: measure with a tool that reports it")
        return pd.concat(lines, ignore_index=True)

    def _row(self, group: Group, q: float, confidence: float) -> list:
        gap = self._gap(group, q)
        found = Estimate(np.nan, np.nan, np.nan, group.repetitions)
        if not gap:
            found = quantiles.percentile(group.clusters, q).estimate(confidence)
        return [*group.names, q, *found, group.flows, group.clusters.failed, confidence, gap]

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
