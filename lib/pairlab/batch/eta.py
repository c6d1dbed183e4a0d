"""How far a sweep has come and how long the rest takes: computed alike by the sweep and by whoever watches it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pairlab.batch import stopping_rule
from pairlab.batch.stopping_rule import Rule, Value
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.traffic import asked

#: What a cell costs above its traffic, for the first estimate; afterwards that of the cells measured so far is taken.
OVERHEAD_S = 2.0


class Schedule:
    """Which repetitions of each cell are still to be measured, by its rule and what was found so far.

    often: each cell, as of repetition 0, and its rule. pending: of all repetitions that they can have, those that have
    to be measured when their turn comes.
    """

    def __init__(self, often: Mapping[Spec, Rule], pending: Iterable[Spec]):
        self._rules = often
        self._tried = dict.fromkeys(often, 0)
        self._values: dict[Spec, Sequence[Value]] = dict.fromkeys(often, ())
        self._expected = {spec: stopping_rule.least(rule) for spec, rule in often.items()}
        waiting: dict[Spec, set[int]] = {spec: set() for spec in often}
        for spec in pending:
            waiting[spec.replace(repetition=0)].add(spec.repetition)
        self._pending: dict[Spec, Collection[int]] = dict(waiting)

    def due(self, number: int) -> list[Spec]:
        """The cells that are to be measured in that repetition."""
        return [spec for spec, rule in self._rules.items() if stopping_rule.goes_on(rule, self._values[spec], number)]

    def add(self, spec: Spec, run: Run | None) -> None:
        """A repetition of a cell has ended, with that run if it was measured."""
        cell = spec.replace(repetition=0)
        value = stopping_rule.value_of(run, self._rules[cell]) if run else None
        values = self._values[cell] if value is None else (*self._values[cell], value)
        pending = set(self._pending[cell]) - {spec.repetition}
        self.update(cell, self._tried[cell] + 1, values, pending)

    def update(self, cell: Spec, tried: int, values: Sequence[Value], pending: Collection[int]) -> None:
        """A cell was tried so often, its rule has these values, and these repetitions of it are pending, if needed."""
        self._tried[cell], self._values[cell], self._pending[cell] = tried, values, pending
        self._expected[cell] = stopping_rule.expected(self._rules[cell], values, tried)

    def expected(self, cell: Spec) -> int:
        """How many repetitions the cell will have in all, as far as is known."""
        return self._expected[cell]

    @property
    def total(self) -> int:
        return sum(self._expected.values())

    @property
    def most(self) -> int:
        """How many cells there can be in all: one that has ended has what it has."""
        return sum(
            stopping_rule.most(rule) if self._expected[spec] > self._tried[spec] else self._tried[spec]
            for spec, rule in self._rules.items()
        )

    def left_s(self, costs: Sequence[float]) -> float:
        """Seconds to go: traffic of the pending cells, and for each what a cell has cost above its traffic so far."""
        return left_s(
            ((spec, sum(number < count for number in self._pending[spec])) for spec, count in self._expected.items()),
            costs,
        )

    def imprecise(self) -> list[str]:
        """The cells whose estimate is not as precise as asked, and how precise it is."""
        return [
            f"{str(spec).replace(', repetition 0', '')}: {shortfall}"
            for spec, rule in self._rules.items()
            if (shortfall := stopping_rule.shortfall(rule, self._values[spec], self._tried[spec]))
        ]


def succeeded(done: int, not_done: int, skipped: int, unavailable: str) -> bool:
    """Whether every cell is done, except for those that this host cannot do if the sweep lets them be skipped.

    At least one must be done: a sweep that skipped all of its cells has no results.
    """
    return done > 0 and not not_done and (unavailable == "skip" or not skipped)


def traffic_s(spec: Spec) -> float:
    """How long its traffic takes, as far as is known in advance: flows with an end take a small part of their time."""
    if spec.requests and spec.offered_load_bps:
        return asked.expected_s(spec)
    return spec.last_due_s if spec.flows_end else spec.traffic_s


def to_measure(statuses: Mapping[Spec, str | None], retry: bool) -> list[Spec]:
    """Those that a sweep measures: without a stored run or, with retry, with one that failed or was invalid.

    statuses: that of the stored run of each cell; None where there is none.
    """
    is_open = (None, "failed", "invalid") if retry else (None,)
    return [spec for spec, status in statuses.items() if status in is_open]


def estimate_s(statuses: Mapping[Spec, str | None], *, retry: bool = False) -> float:
    """How many seconds those of these cells take that are to be measured, before any has been, on one host."""
    return left_s(((spec, 1) for spec in to_measure(statuses, retry)), ())


def left_s(pending: Iterable[tuple[Spec, int]], costs: Sequence[float]) -> float:
    """What cells cost: pairs of one and how often it is to be measured, and what each has cost above its traffic."""
    overhead_s = sum(costs) / len(costs) if costs else OVERHEAD_S
    return sum(count * (traffic_s(spec) + overhead_s) for spec, count in pending)
