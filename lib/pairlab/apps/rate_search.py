"""The largest load that a network bears within limits, by bisection, with repetitions at each load.

A load is borne if the mean of each limited quantity over the repetitions is within the limit, and no repetition failed,
or was invalid after its attempts. The search assumes that a network that bears a load bears every lower one, as RFC
2544 (section 26.1) does for throughput.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pairlab.base import units
from pairlab.errors import BadInput
from pairlab.model import latencies
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import MEASURES, SHORT_NAMES, summaries

#: The fields of Spec that are a load to search over.
LOADS = ("requests_per_s", "udp_rate_bps", "offered_load_bps", "pairs", "background_pairs")
#: More loads are a mistake, such as distant bounds with a very fine precision.
MOST_LOADS = 60
_LIMIT = re.compile(r"\s*(\S+)\s*<=\s*(.+?)\s*")


@dataclass(frozen=True)
class Limit:
    """An upper bound `most` of a run's quantity, in the base unit. text: the user's."""

    text: str
    quantity: str
    most: float

    @classmethod
    def of(cls, text: str) -> "Limit":
        """Parses "p99 <= 1 ms", "loss <= 0.1 %" or "fct_max_s <= 0.5". Raises BadInput."""
        match = _LIMIT.fullmatch(text)
        if not match:
            raise BadInput(f"{text!r} is no limit, such as 'p99 <= 1 ms' or 'loss <= 0.1 %'")
        name, value = match.groups()
        quantity = SHORT_NAMES.get(name, (name,))[0]
        if quantity != "loss" and quantity not in MEASURES:
            raise BadInput(f"{text!r}: no quantity {name!r}; there are: loss, {', '.join((*SHORT_NAMES, *MEASURES))}")
        unit = "" if quantity == "loss" else MEASURES[quantity].unit
        try:
            most = float(value.rstrip("% ")) / 100 if value.endswith("%") else units.read(value, unit)
        except (ValueError, KeyError) as error:
            raise BadInput(f"{text!r}: {error}") from None
        return cls(text, quantity, most)

    def value_of(self, run: Run) -> float:
        """The run's value of the quantity; NaN if it has none."""
        return loss(run) if self.quantity == "loss" else summaries(run).get(self.quantity, math.nan)

    def shown(self, value: float) -> str:
        """A value of the quantity with its unit."""
        loss = self.quantity == "loss"
        return f"{100 * value:.3g} %" if loss else units.describe(value, MEASURES[self.quantity].unit)


def loss(run: Run) -> float:
    """The lost share of a run's datagrams, or else of its requests; NaN if neither was counted."""
    flows = run.flows
    sent = flows["datagrams_sent"].sum()
    if sent:
        return float(flows["datagrams_lost"].sum() / sent)
    lost = latencies.lost(flows)
    requests = flows["transactions"].sum() + (lost or 0)
    return float(lost / requests) if requests and lost is not None else math.nan


@dataclass(frozen=True)
class Tried:
    """The result of a load: the means of the limited quantities over the repetitions, and why it was not borne."""

    load: float
    means: Mapping[str, float]
    why_not: str
    runs: Sequence[Run] = ()

    @property
    def borne(self) -> bool:
        return not self.why_not


@dataclass
class Found:
    """borne: the largest load that was borne; refused: the least that was not; NaN: none between the bounds."""

    tried: list[Tried] = field(default_factory=list)

    @property
    def borne(self) -> float:
        return max((each.load for each in self.tried if each.borne), default=math.nan)

    @property
    def refused(self) -> float:
        above = [each.load for each in self.tried if not each.borne and not each.load < self.borne]
        return min(above, default=math.nan)


def search(
    spec: Spec,
    load: str,
    bounds: tuple[float, float],
    limits: Sequence[Limit],
    measure: Callable[[Spec], Run],
    *,
    repetitions: int = 3,
    within: float = 0.05,
    tell: Callable[[Tried], None] = lambda tried: None,
) -> Found:
    """Searches between the bounds until the borne and the refused load differ by the share `within` at most.

    spec: the cell at repetition 0. load: one of LOADS. measure: returns a new or stored run of a spec. Raises BadInput.
    """
    low, high = bounds
    if load not in LOADS:
        raise BadInput(f"{load!r} is no load; there are: {', '.join(LOADS)}")
    if not 0 < low < high:
        raise BadInput(f"bounds: from {low:g} to {high:g}: give a load above 0, and a larger one")
    if not 0.001 <= within < 1 or repetitions < 1:
        raise BadInput("within is a share from 0.001 on, such as 0.05, and repetitions are at least 1")
    if not limits:
        raise BadInput("nothing limits the load: give a limit, such as 'p99 <= 1 ms'")
    whole = isinstance(Spec.model_fields[load].default, int)
    result = Found()

    def borne(at: float) -> bool:
        tried = _try(spec, load, int(at) if whole else at, limits, measure, repetitions)
        result.tried.append(tried)
        tell(tried)
        return tried.borne

    for at in _loads(low, high, within, whole, borne):
        if len(result.tried) > MOST_LOADS:
            raise BadInput(f"more than {MOST_LOADS} loads, up to {at:g}: give closer bounds, or a larger share")
    return result


def _loads(low: float, high: float, within: float, whole: bool, borne: Callable[[float], bool]) -> Iterator[float]:
    """The loads to try: the bounds, then the middle of the remaining interval, on the logarithmic scale."""
    yield low
    if not borne(low):
        return
    yield high
    if borne(high):
        return
    while high / low > 1 + within and not (whole and high - low <= 1):
        middle = math.sqrt(low * high)
        middle = min(max(round(middle), low + 1), high - 1) if whole else float(f"{middle:.4g}")
        yield middle
        low, high = (middle, high) if borne(middle) else (low, middle)


def _try(
    spec: Spec, load: str, at: float, limits: Sequence[Limit], measure: Callable[[Spec], Run], repetitions: int
) -> Tried:
    runs = [measure(spec.replace(**{load: at}, repetition=number)) for number in range(repetitions)]
    bad = [run for run in runs if run.status != "ok"]
    means = {
        each.text: float(np.mean([each.value_of(run) for run in runs if run.status == "ok"] or [math.nan]))
        for each in limits
    }
    why = [f"{len(bad)} of {len(runs)} repetitions are {bad[0].status}: {'; '.join(bad[0].reasons)}"] if bad else []
    why += [f"{each.text}: not known" for each in limits if not bad and math.isnan(means[each.text])]
    why += [f"{each.text}: it is {each.shown(means[each.text])}" for each in limits if means[each.text] > each.most]
    return Tried(at, means, "; ".join(why), runs)
