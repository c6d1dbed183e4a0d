"""The cells of a sweep that are still to be measured: their blocks, hosts and estimated time."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pairlab.batch import stopping_rule, sweep_file
from pairlab.batch.blocks import cell_s
from pairlab.batch.stopping_rule import Rule, Until, Value
from pairlab.batch.sweep_file import SweepFile
from pairlab.measurement.estimate import traffic_s
from pairlab.model import blocks
from pairlab.model.environment import Environment
from pairlab.model.records import Run
from pairlab.model.spec import Spec


class Schedule:
    """The repetitions of each cell that are still to be measured, by the cell's rule and the values so far.

    rules: by cell, as of repetition 0. pending: among all possible repetitions, those to be measured when their turn
    comes. expected: the estimated number of repetitions of each cell in all.
    """

    def __init__(self, rules: Mapping[Spec, Rule], pending: Iterable[Spec]):
        self._rules = rules
        self._tried = dict.fromkeys(rules, 0)
        self._values: dict[Spec, Sequence[Value]] = dict.fromkeys(rules, ())
        self.expected = {spec: stopping_rule.least(rule) for spec, rule in rules.items()}
        self._pending: dict[Spec, set[int]] = {spec: set() for spec in rules}
        for spec in pending:
            self._pending[spec.replace(repetition=0)].add(spec.repetition)

    def due(self, number: int) -> list[Spec]:
        """The cells to be measured in that repetition."""
        return [spec for spec, rule in self._rules.items() if stopping_rule.goes_on(rule, self._values[spec], number)]

    def add(self, spec: Spec, run: Run | None) -> None:
        """Notes the end of a repetition, with the run if there is one."""
        cell = spec.replace(repetition=0)
        value = stopping_rule.value_of(run, self._rules[cell]) if run else None
        values = self._values[cell] if value is None else (*self._values[cell], value)
        self.update(cell, self._tried[cell] + 1, values, self._pending[cell] - {spec.repetition})

    def update(self, cell: Spec, tried: int, values: Sequence[Value], pending: set[int]) -> None:
        """Sets the number of tried repetitions of a cell, the values for its rule, and its pending repetitions."""
        self._tried[cell], self._values[cell], self._pending[cell] = tried, values, pending
        self.expected[cell] = stopping_rule.expected(self._rules[cell], values, tried)

    @property
    def total(self) -> int:
        return sum(self.expected.values())

    @property
    def most(self) -> int:
        """The largest possible number of cells: a cell that has ended gets no more repetitions."""
        return sum(
            stopping_rule.most(rule) if self.expected[spec] > self._tried[spec] else self._tried[spec]
            for spec, rule in self._rules.items()
        )

    def left_s(self, costs: Sequence[float]) -> float:
        """Seconds to go: the traffic of the pending cells, and the mean overhead so far (`costs`) for each."""
        return left_s(
            ((spec, sum(number < count for number in self._pending[spec])) for spec, count in self.expected.items()),
            costs,
        )

    def imprecise(self) -> list[str]:
        """The cells whose estimate is less precise than requested, with the precision reached."""
        return [
            f"{str(spec).replace(', repetition 0', '')}: {shortfall}"
            for spec, rule in self._rules.items()
            if (shortfall := stopping_rule.shortfall(rule, self._values[spec], self._tried[spec]))
        ]


def succeeded(done: int, not_done: int, skipped: int, unavailable: str) -> bool:
    """Whether every cell is done, except for cells that this host cannot measure and the sweep allows to skip.

    At least one must be done: a sweep that skipped all cells has no results.
    """
    return done > 0 and not not_done and (unavailable == "skip" or not skipped)


def to_measure(statuses: Mapping[Spec, str | None], retry: bool) -> list[Spec]:
    """The cells that a sweep measures: without a stored run or, with retry, with a failed or invalid run.

    statuses: of the cells' stored runs; None: no run.
    """
    is_open = (None, "failed", "invalid") if retry else (None,)
    return [spec for spec, status in statuses.items() if status in is_open]


def estimate_s(
    statuses: Mapping[Spec, str | None], *, retry: bool = False, cost_s: Callable[[Spec], float] = cell_s
) -> float:
    """Estimated seconds for the unmeasured cells, on one host, before the first measurement."""
    return sum(map(cost_s, to_measure(statuses, retry)))


def left_s(pending: Iterable[tuple[Spec, int]], costs: Sequence[float]) -> float:
    """Estimated seconds of the pending cells, each with its number of measurements. costs: overheads above traffic."""
    if not costs:
        return sum(count * cell_s(spec) for spec, count in pending)
    overhead_s = sum(costs) / len(costs)
    return sum(count * (traffic_s(spec) + overhead_s) for spec, count in pending)


@dataclass(eq=False)
class Block:
    """Cells that are measured directly after each other. number: in the order of the sweep. left: the cells that have
    not ended, in the order of measuring. host: the one that measures them. label: of an uninterrupted pass
    (model/blocks).
    """

    number: int
    left: list[Spec]
    host: Environment | None
    label: str = ""


class BlockQueue:
    """The queue of a sweep's blocks: a block's cells are of one repetition, and stay on one host while it lasts.

    A block goes to the host that has measured part of it, in an earlier run of the sweep or before its worker was lost;
    another host gets it only if nothing else is left for that host. stored: status and environment of cells' runs.
    """

    def __init__(
        self,
        sweep: SweepFile,
        rules: Mapping[Spec, Rule],
        schedule: Schedule,
        stored: Mapping[Spec, Sequence[tuple[str, Environment]]],
    ):
        self._sweep, self._schedule, self._stored = sweep, schedule, stored
        self._adaptive_from = min((rule.at_least for rule in rules.values() if isinstance(rule, Until)), default=None)
        self._repetition = self._number = 0
        self._no_more = False
        self._ready: list[Block] = []
        self._under_way: set[Block] = set()

    def next(self, host: Environment) -> Block | None:
        """The next block for that host; None where none is left, or none before the blocks under way have ended."""
        self._prepare()
        if not self._ready:
            return None
        block = min(self._ready, key=lambda each: (_distance(each.host, host), each.number))
        self._ready.remove(block)
        block.host = host
        block.label = blocks.begun(f"{self._sweep.name}/{block.number}")
        self._under_way.add(block)
        return block

    def requeue(self, block: Block) -> None:
        """Ends the block's stay with a host; the remaining cells, if any, go to the next host."""
        self._under_way.remove(block)
        if block.left:
            self._ready.append(block)

    @property
    def finished(self) -> bool:
        """Whether no block is left or under way."""
        self._prepare()
        return not self._ready and not self._under_way

    def _prepare(self) -> None:
        """Adds the blocks that are certain now: with a stopping rule, only once all earlier blocks have ended."""
        while not self._no_more and not (
            self._adaptive_from is not None
            and self._repetition >= self._adaptive_from
            and (self._under_way or self._ready)
        ):
            blocks_now = sweep_file.blocks_of(self._sweep, self._repetition, self._schedule.due(self._repetition))
            if not blocks_now:
                self._no_more = True
                return
            for cells in blocks_now:
                self._ready.append(Block(self._number, cells, self._measured_on(cells)))
                self._number += 1
            self._repetition += 1

    def _measured_on(self, cells: Sequence[Spec]) -> Environment | None:
        """The host that has measured most of these cells, if any."""
        hosts = Counter(
            environment.place()
            for spec in cells
            for status, environment in self._stored.get(spec, ())
            if status == "ok"
        )
        return max(hosts, key=hosts.__getitem__, default=None)


def _distance(own: Environment | None, host: Environment) -> int:
    """The rank of a block for a host: 0 its own, 1 unassigned, 2 another host's."""
    return 1 if own is None else 0 if own == host else 2
