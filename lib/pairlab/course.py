"""How far a sweep has come, and how long the rest takes: the reckoning of who measures it, and of who watches."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pairlab import repetition, store
from pairlab.records import Run
from pairlab.repetition import Rule
from pairlab.spec import Spec

#: What a cell costs above its traffic, for the first estimate; afterwards the cells themselves tell.
OVERHEAD_S = 3.0


class Course:
    """How far each cell has come: how often it was tried, what its rule has seen, and which repetitions cost time.

    often: each cell, as of repetition 0, and its rule. waits: whether that repetition of a cell is still to be measured
    when it is its turn.
    """

    def __init__(self, often: Mapping[Spec, Rule], waits: Callable[[Spec], bool]):
        self._rules = often
        self._tried = dict.fromkeys(often, 0)
        self._values: dict[Spec, Sequence[float]] = dict.fromkeys(often, ())
        self._expected = {spec: repetition.least(rule) for spec, rule in often.items()}
        self._waiting: dict[Spec, Collection[int]] = {
            spec: {number for number in range(repetition.most(rule)) if waits(spec.replace(repetition=number))}
            for spec, rule in often.items()
        }

    def going_on(self, number: int) -> list[Spec]:
        """The cells that are to be measured in that repetition."""
        return [spec for spec, rule in self._rules.items() if repetition.goes_on(rule, self._values[spec], number)]

    def settled(self, spec: Spec, run: Run | None) -> None:
        """A repetition of a cell has come to its end, with that run where it was measured."""
        cell = spec.replace(repetition=0)
        value = repetition.value_of(run, self._rules[cell]) if run else None
        values = self._values[cell] if value is None else (*self._values[cell], value)
        waiting = set(self._waiting[cell]) - {spec.repetition}
        self.stands(cell, self._tried[cell] + 1, values, waiting)

    def stands(self, cell: Spec, tried: int, values: Sequence[float], waiting: Collection[int]) -> None:
        """A cell was tried so often, its rule has seen these values, and these repetitions of it wait, if needed."""
        self._tried[cell], self._values[cell], self._waiting[cell] = tried, values, waiting
        self._expected[cell] = repetition.expected(self._rules[cell], values, tried)

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
            repetition.most(rule) if self._expected[spec] > self._tried[spec] else self._tried[spec]
            for spec, rule in self._rules.items()
        )

    def left_s(self, costs: Sequence[float]) -> float:
        """Seconds still to go: traffic of the cells that wait, and what a cell has cost above it so far."""
        return left_s(
            ((spec, sum(number < count for number in self._waiting[spec])) for spec, count in self._expected.items()),
            costs,
        )

    def imprecise(self) -> list[str]:
        """The cells whose estimate is not known closely enough, and how closely it is."""
        return [
            f"{str(spec).replace(', repetition 0', '')}: {told}"
            for spec, rule in self._rules.items()
            if (told := repetition.shortfall(rule, self._values[spec], self._tried[spec]))
        ]


def well_done(done: int, not_done: int, skipped: int, unavailable: str) -> bool:
    """Whether every cell is done, but for those that this host cannot do where the sweep lets them be skipped.

    Some must be done: a sweep that only skipped has told nothing.
    """
    return done > 0 and not not_done and (unavailable == "skip" or not skipped)


def traffic_s(spec: Spec) -> float:
    """How long its traffic takes, as far as it is known before: flows with an end take a small part of their time."""
    return 0.0 if spec.flow_bytes else spec.total_s


def measured_again(retry: bool) -> tuple[str | None, ...]:
    """The statuses of stored runs that do not keep a sweep from measuring their cells; None: no run."""
    return (None, "failed", "invalid") if retry else (None,)


def estimate_s(todo: Iterable[Spec], *, retry: bool = False) -> float:
    """How long those of these cells take that are to be measured, in seconds, before any has been."""
    again = measured_again(retry)
    return left_s(((spec, 1) for spec in todo if store.status(spec) in again), ())


def left_s(waiting: Iterable[tuple[Spec, int]], costs: Sequence[float]) -> float:
    """What cells cost: pairs of one and how often it is to be measured, and what each has cost above its traffic."""
    overhead_s = sum(costs) / len(costs) if costs else OVERHEAD_S
    return sum(count * (traffic_s(spec) + overhead_s) for spec, count in waiting)
