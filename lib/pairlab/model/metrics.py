"""Metrics that a workload declares of itself: columns of its own in a run's tables, and their meaning, kept in the run.

A run carries its metrics in its facts, so that it is read, compared and drawn where its workload is not installed.
"""

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pairlab.base import units

if TYPE_CHECKING:
    import pandas as pd

#: The units that a metric can have, and how the name of one in that unit ends.
UNITS: Mapping[str, str] = {
    "s": "_s",
    "bit/s": "_bps",
    "B": "_bytes",
    "1/s": "_per_s",
    "transactions/s": "_per_s",
    "share": "_share",
    "transactions": "",
    "segments": "",
    "datagrams": "",
    "": "",
}
#: The tables that can have columns of metrics.
WHERE = ("flows", "transactions")
#: How a run's value comes of those of its rows; rows of `transactions` count as often as their count says.
OF_RUN = ("mean", "sum", "median", "p99", "min", "max")
#: Metrics of work that each version of its tool defines anew: values of two versions are not comparable.
PER_VERSION = frozenset({"calculation_s"})
#: Where the definitions are in Run.facts.
FACT = "metrics"

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST_MEANING = 80


def unit_of(name: str) -> str:
    """The unit that the name of a metric ends with; empty: none. A rate (_per_s) is no time."""
    named = [unit for unit, ending in UNITS.items() if ending and name.endswith(ending)]
    return max(named, key=lambda unit: len(UNITS[unit]), default="")


@dataclass(frozen=True)
class Metric:
    """A number that a workload reports besides the columns that all have; never negative.

    name: of its column, which ends as its unit has it (UNITS). meaning: in a few words, as on an axis: "time to the
    first byte". table: `flows`, with a value in each FlowReport.flow, or `transactions`, with one in each row of
    FlowReport.transactions. of_run: which of OF_RUN a run's value is. resolution: the step in which the tool prints it,
    in its unit, than which no interval is narrower; 0: as fine as a number is.
    """

    name: str
    unit: str
    meaning: str
    less_is_better: bool = False
    table: str = "flows"
    of_run: str = "mean"
    resolution: float = 0.0

    @property
    def wrong(self) -> str:
        """What is wrong with the declaration by itself, in words; empty: nothing."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            return f"{self.name!r} is no name: take small letters, digits and _, at most 40"
        if self.unit not in UNITS:
            return f"{self.name!r} is in {self.unit!r}, which is no known unit: {', '.join(filter(None, UNITS))}, or ''"
        ending = UNITS[unit_of(self.name)]
        if ending != UNITS[self.unit]:
            right = f"must end with {UNITS[self.unit]}" if UNITS[self.unit] else f"must not end with {ending}"
            return f"{self.name!r} {right}, as it is in {self.unit or 'no unit'}"
        if not isinstance(self.meaning, str) or not 0 < len(self.meaning.strip()) <= _MOST_MEANING:
            return f"{self.name!r} needs a meaning of at most {_MOST_MEANING} characters"
        if not self.meaning.isprintable():
            return f"the meaning of {self.name!r} must be one line of text"
        for value, known, word in ((self.table, WHERE, "table"), (self.of_run, OF_RUN, "of_run")):
            if value not in known:
                return f"{self.name!r} has {word} {value!r}; there are: {', '.join(known)}"
        if type(self.resolution) not in (int, float) or not 0 <= self.resolution < float("inf"):
            return f"{self.name!r}: resolution is a number in its unit, or 0, not {self.resolution!r}"
        return "" if isinstance(self.less_is_better, bool) else f"{self.name!r}: less_is_better is True or False"

    def text(self, value: float) -> str:
        """A value with its unit: "27.3 ms", "12,000/s", "not known"."""
        return units.describe(value, self.unit)


def as_fact(metrics: tuple[Metric, ...]) -> dict[str, Any]:
    """What a run's facts have of its workload's metrics; nothing where it has none."""
    return {FACT: [asdict(each) for each in metrics]} if metrics else {}


def of_facts(facts: Mapping[str, Any]) -> tuple[Metric, ...]:
    """The metrics of a run. An invalid definition is left out: the run may have come from anywhere."""
    declared = facts.get(FACT)
    metrics: dict[str, Metric] = {}
    for each in declared if isinstance(declared, list) else ():
        with contextlib.suppress(TypeError, AttributeError):
            metric = Metric(**each)
            if not metric.wrong:
                metrics.setdefault(metric.name, metric)
    return tuple(metrics.values())


def of_run(metric: Metric, flows: "pd.DataFrame", transactions: "pd.DataFrame") -> float:
    """The value over all of a run's rows, as metric.of_run says; NaN where it is not known.

    A failed flow counts as zero where more is better. Where less is, nothing is known of a run with a failed flow, and
    a transaction that was lost took more than any other. Nor is the value known where a flow that succeeded has none.
    """
    import pandas as pd  # what a workload declares is read without it

    from pairlab.model import latencies

    failed = flows["status"] != "ok"
    if metric.less_is_better and failed.any():
        return math.nan
    lost = 0
    if metric.table == "flows":
        rows = pd.DataFrame({"value": flows[metric.name].mask(failed, 0.0), "count": 1})
    else:
        rows = transactions[[metric.name, "count"]].rename(columns={metric.name: "value"})
        lost = (latencies.lost(flows) or 0) if metric.less_is_better else 0
    values, counts = rows["value"], rows["count"]
    if rows.empty or values.isna().any():
        return math.nan
    if metric.of_run in ("sum", "mean"):
        total = float((values * counts).sum())
        return math.nan if lost else total if metric.of_run == "sum" else total / float(counts.sum())
    if metric.of_run == "min":
        return float(values.min())
    share = {"median": 0.5, "p99": 0.99, "max": 1.0}[metric.of_run]
    return latencies.quantile(rows, share, lost, column="value")
