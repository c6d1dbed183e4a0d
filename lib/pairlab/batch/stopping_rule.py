"""Adaptive repetition: a cell is repeated until an estimate over the repetitions is precise enough.

After each repetition, a rule checks the interval that is reported: of the mean of one value per run
(statistics/intervals.py), or of the median of all flows (statistics/quantiles.py). Stopping as soon as an interval is
short favours samples that happen to spread little, so these intervals are slightly optimistic: simulated for normal and
lognormal values with a coefficient of variation from 2 to 30 %, within 5 % and at most 20 repetitions, intervals meant
to hold 95 % hold 92 to 95 % with at_least 5, and 90 to 95 % with 3 (tests/unit/batch/test_stopping_rule.py does it
again). Report such a cell with its rule; where a claim depends on the last percent, repeat a fixed number of times.
Source: Anscombe 1953, Chow and Robbins 1965 (sequential intervals of fixed width hold what they should as n grows).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from pairlab.errors import TooFewSamples
from pairlab.model import fct, latencies
from pairlab.model.rates import client_bps
from pairlab.model.records import Run
from pairlab.model.spec import Spec, TakesNumbers
from pairlab.model.summaries import summaries
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import POSITIVE, SHARE, Estimate, Scale, jain_index, mean_interval
from pairlab.testbed import registry

#: A rule's input from one run: a number, or the FCTs of all flows.
Value = float | np.ndarray


class Estimated(NamedTuple):
    """The value that a rule takes from a run, in base units; of: it needs flows with "ends", or "requests".

    scale: of the interval of the mean. q: the quantile to estimate, over the flows of all runs together.
    """

    value: Callable[[Run], float]
    of: str = ""
    scale: Scale = POSITIVE
    q: float = 0.0


def _of_requests(name: str) -> Estimated:
    return Estimated(lambda run: summaries(run).get(name, math.nan), of="requests")


#: A failed flow carries nothing, and takes longer than any other: estimates that depend on its time are NaN.
ESTIMATES = {
    "total_throughput_bps": Estimated(lambda run: run.total_throughput_bps),
    "jain_index": Estimated(lambda run: jain_index(client_bps(run.flows)), scale=SHARE),
    "retransmits": Estimated(lambda run: run.flows["retransmits"].sum(min_count=1)),
    **{name: _of_requests(name) for name in ("transactions_per_s", "latency_p50_s", "latency_p99_s")},
    "service_demand_s": _of_requests("service_demand_s"),
    "median_fct_s": Estimated(lambda run: fct.median(fct.of_run(run)), of="ends", q=0.5),
    "mean_fct_s": Estimated(lambda run: fct.mean(fct.of_run(run)), of="ends"),
    "max_fct_s": Estimated(lambda run: fct.longest(fct.of_run(run)), of="ends"),
}


class Until(TakesNumbers):
    """Repeat until the interval of the estimate's mean is within a share of the mean; at least and at most so often."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    estimate: Literal[*ESTIMATES]  # type: ignore[valid-type]
    within: float = Field(gt=0, lt=1)
    confidence: float = Field(0.95, gt=0, lt=1)
    at_least: int = Field(5, ge=2)
    at_most: int = Field(20, le=10000)

    @model_validator(mode="after")
    def _ordered(self) -> "Until":
        if self.at_most < self.at_least:
            raise PydanticCustomError("until", f"at_most {self.at_most} is below at_least {self.at_least}")
        return self

    def __str__(self) -> str:
        return f"{self.estimate} is within {100 * self.within:g} % ({100 * self.confidence:g} % confidence)"


#: The number of repetitions of a cell: fixed, or until the estimate is precise.
Rule = int | Until


def lack(rule: Rule, spec: Spec) -> str:
    """The reason that the rule does not suit this cell; empty if it does."""
    if not isinstance(rule, Until):
        return ""
    of = ESTIMATES[rule.estimate].of
    if of == "ends" and not spec.flows_end:
        return f"until: {rule.estimate} is of flows with an end: give flow_bytes, or another estimate"
    if of == "requests":
        workload = None if spec.workload == "auto" else registry.workloads.get(spec.workload)
        if not workload or "transactions" not in workload.features:
            return f"until: {rule.estimate} is of requests: take a workload that sends them (rr), or another estimate"
    return ""


def least(rule: Rule) -> int:
    return rule.at_least if isinstance(rule, Until) else rule


def most(rule: Rule) -> int:
    return rule.at_most if isinstance(rule, Until) else rule


def repetitions(often: Mapping[Spec, Rule]) -> Iterator[Spec]:
    return (spec.replace(repetition=number) for spec, rule in often.items() for number in range(most(rule)))


def value_of(run: Run, rule: Rule) -> Value | None:
    """The rule's value of the run; None: the run is not ok, or flows failed."""
    if run.status != "ok" or not isinstance(rule, Until):
        return None
    value = taken(run, rule.estimate)
    return np.sort(fct.of_run(run)) if value is not None and ESTIMATES[rule.estimate].q else value


def taken(run: Run, estimate: str) -> float | None:
    """The run's value of that entry of ESTIMATES; None if it is not finite, also because of failed flows."""
    value = float(ESTIMATES[estimate].value(run))
    return value if math.isfinite(value) else None


def half_width(values: Sequence[float], confidence: float, scale: Scale = POSITIVE, resolution: float = 0.0) -> float:
    """The longer side of the interval of the mean of `values`, as a share of the mean; infinite without values."""
    if not len(values):
        return math.inf
    return _share(mean_interval(values, confidence, scale, resolution))


def _share(estimate: Estimate) -> float:
    value, low, high, _ = estimate
    if math.isnan(low):
        return math.inf
    return max(high - value, value - low) / value if value else 0.0


def _width(rule: Until, values: Sequence[Any]) -> float:
    estimated = ESTIMATES[rule.estimate]
    if not estimated.q or not len(values):
        step = latencies.step_s(values) if rule.estimate.startswith("latency_") else 0.0
        return half_width(values, rule.confidence, estimated.scale, step)
    flows = Clusters(np.arange(len(values)), tuple(values))
    try:
        return _share(quantiles.percentile(flows, estimated.q).estimate(rule.confidence))
    except TooFewSamples:
        return math.inf


def goes_on(rule: Rule, values: Sequence[Value], tried: int) -> bool:
    """Whether to measure a cell once more, after `tried` repetitions, some of which gave `values`.

    Repetitions without a value (failed, invalid, skipped) are replaced, up to at_most; if none of the first at_least
    gave a value, the cell ends.
    """
    if not isinstance(rule, Until):
        return tried < rule
    if tried < rule.at_least:
        return True
    if tried >= rule.at_most or not len(values):
        return False
    return len(values) < rule.at_least or _width(rule, values) > rule.within


def expected(rule: Rule, values: Sequence[Value], tried: int) -> int:
    """The estimated number of repetitions in all: the width falls with the root of the number."""
    if not goes_on(rule, values, tried):
        return tried
    if not isinstance(rule, Until) or len(values) < 2:
        return max(tried + 1, least(rule))
    wanted = len(values) * (_width(rule, values) / rule.within) ** 2
    return max(tried + 1, rule.at_least, math.ceil(min(wanted, rule.at_most)))


def shortfall(rule: Rule, values: Sequence[Value], tried: int) -> str:
    """The imprecise estimate with the precision reached, in words; empty if it is precise, or the number is fixed."""
    if not isinstance(rule, Until) or not values:  # the status of a cell without values gives the reason
        return ""
    width = _width(rule, values)
    if len(values) >= rule.at_least and width <= rule.within:
        return ""
    precision = f"± {100 * width:.1f} %" if math.isfinite(width) else "not known"
    return (
        f"{rule.estimate} is {precision} after {tried} repetitions, of which {len(values)} have a value,"
        f" and was to be within {100 * rule.within:g} %"
    )
