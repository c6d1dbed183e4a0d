"""Which block of a sweep is measured next, and where: all cells of one repetition, on one host if it lasts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pairlab.batch import sweep_file
from pairlab.batch.eta import Schedule
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


class BlockQueue:
    """The blocks of a sweep, for hosts that ask for one.

    A block goes to the host that has measured some of it, in an earlier run of the sweep or before its worker was lost,
    and to another one only where nothing else is left for that. stored: what the store has of each cell.
    """

    def __init__(
        self,
        sweep: SweepFile,
        often: Mapping[Spec, Rule],
        schedule: Schedule,
        stored: Mapping[Spec, Sequence[tuple[str, Ground]]],
    ):
        self._sweep, self._schedule, self._stored = sweep, schedule, stored
        self._adaptive_from = min((rule.at_least for rule in often.values() if isinstance(rule, Until)), default=None)
        self._number = 0
        self._no_more = False
        self._ready: list[Block] = []
        self._under_way: set[Block] = set()

    def next(self, host: Ground) -> Block | None:
        """The next block for that host; None where there is none, or none until what is under way has ended."""
        self._prepare()
        if not self._ready:
            return None
        block = min(self._ready, key=lambda each: (_distance(each.host, host), each.number))
        self._ready.remove(block)
        block.host = host
        self._under_way.add(block)
        return block

    def requeue(self, block: Block) -> None:
        """It is not under way any more: what is left of it, if anything, is for the next who asks."""
        self._under_way.remove(block)
        if block.left:
            self._ready.append(block)

    @property
    def finished(self) -> bool:
        """Whether nothing is left to measure, and nothing under way."""
        self._prepare()
        return not self._ready and not self._under_way

    def _prepare(self) -> None:
        """Adds the blocks that can be known now: what a stopping rule asks for only when all before has ended."""
        while not self._no_more and not (
            self._adaptive_from is not None and self._number >= self._adaptive_from and (self._under_way or self._ready)
        ):
            cells = sweep_file.block(self._sweep, self._number, self._schedule.due(self._number))
            if not cells:
                self._no_more = True
                return
            self._ready.append(Block(self._number, cells, self._measured_on(cells)))
            self._number += 1

    def _measured_on(self, cells: Sequence[Spec]) -> Ground | None:
        """The host that has measured most of these cells; None where there is none."""
        hosts = Counter(
            ground.place() for spec in cells for status, ground in self._stored.get(spec, ()) if status == "ok"
        )
        return max(hosts, key=hosts.__getitem__, default=None)


def _distance(mine: Ground | None, host: Ground) -> int:
    """How well a block suits a host: one that is its own, one that is nobody's, one of another."""
    return 1 if mine is None else 0 if mine == host else 2
