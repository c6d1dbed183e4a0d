"""Which block of a sweep is measured next, and where: all cells of one repetition, on one host if it lasts."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pairlab.batch import sweep_file
from pairlab.batch.eta import Schedule
from pairlab.batch.executors.places import Place
from pairlab.batch.stopping_rule import Rule, Until
from pairlab.batch.sweep_file import SweepFile
from pairlab.model.ground import Ground
from pairlab.model.spec import Spec


@dataclass(eq=False)
class Block:
    """The cells of one repetition. left: those that have not ended, in the order of measuring. host: whose it is."""

    number: int
    left: list[Spec]
    host: Ground | None


class Blocks:
    """Hands out the blocks of a sweep to places that ask from several threads.

    A block goes to the host that has measured some of it, in an earlier run of the sweep or before its place was lost,
    and to another one only where nothing else is left for that. found: what the store has of each cell.
    """

    def __init__(
        self,
        sweep: SweepFile,
        often: Mapping[Spec, Rule],
        schedule: Schedule,
        found: Mapping[Spec, Sequence[tuple[str, Ground]]],
    ):
        self._sweep = sweep
        self._adaptive_from = min((rule.at_least for rule in often.values() if isinstance(rule, Until)), default=None)
        self._schedule = schedule
        self._found = found
        self._next = 0
        self._no_more = self._stopped = False
        self._ready: list[Block] = []
        self._under_way: set[Block] = set()
        self._lost: Counter[Spec] = Counter()
        self._changed = threading.Condition()

    def take(self, place: Place) -> Block | None:
        """The next block for that place; None where nothing is left, or the place is lost.

        Waits while that depends on what is under way.
        """
        host = place.host
        with self._changed:
            while not (self._stopped or place.lost):
                self._prepare()
                if self._ready:
                    block = min(self._ready, key=lambda each: (_distance(each.host, host), each.number))
                    self._ready.remove(block)
                    block.host = host
                    self._under_way.add(block)
                    return block
                if not self._under_way:
                    self._no_more = True
                    self._changed.notify_all()
                    return None
                self._changed.wait()
            return None

    def _prepare(self) -> None:
        """Adds the blocks that can be known now: what a stopping rule asks for only when all before has ended."""
        while not self._no_more and not (
            self._adaptive_from is not None and self._next >= self._adaptive_from and (self._under_way or self._ready)
        ):
            cells = sweep_file.block(self._sweep, self._next, self._schedule.due(self._next))
            if not cells:
                self._no_more = True
                return
            self._ready.append(Block(self._next, list(cells), self._measured_on(cells)))
            self._next += 1

    def _measured_on(self, cells: Sequence[Spec]) -> Ground | None:
        """The host that has measured most of these cells; None where there is none."""
        hosts = Counter(
            ground.place() for spec in cells for status, ground in self._found.get(spec, ()) if status == "ok"
        )
        return max(hosts, key=hosts.__getitem__, default=None)

    def end(self, block: Block) -> None:
        """All cells of the block have ended."""
        with self._changed:
            self._under_way.remove(block)
            self._changed.notify_all()

    def lost(self, spec: Spec) -> int:
        """Counts that the place was lost that measured this cell; how often that was by now.

        After the sweep has stopped, which ends each place, none of them counts.
        """
        with self._changed:
            self._lost[spec] += not self._stopped
            return self._lost[spec]

    def give_back(self, block: Block) -> None:
        """Its place is lost: what is left of the block is for another one."""
        with self._changed:
            self._under_way.remove(block)
            if block.left:
                self._ready.append(block)
            self._changed.notify_all()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do, or the sweep was stopped."""
        with self._changed:
            return self._stopped or (self._no_more and not self._ready and not self._under_way)

    def stop(self) -> None:
        """Hands out no more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def wake(self) -> None:
        """Whoever waits looks again."""
        with self._changed:
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> None:
        """Until something has changed, or for so long."""
        with self._changed:
            if not (self._stopped or (self._no_more and not self._ready and not self._under_way)):
                self._changed.wait(timeout_s)


def _distance(mine: Ground | None, host: Ground) -> int:
    """How well a block suits a host: one that is its own, one that is nobody's, one of another."""
    return 1 if mine is None else 0 if mine == host else 2
