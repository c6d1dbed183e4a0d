"""The better one of two networks by a quantity, and shared ranks.

A difference counts if its test finds it (within common blocks, else between independent groups), at a level that is
divided by the number of rivals (Bonferroni), and if it is below neither the question's margin nor this host's noise:
that of its twins, else of its record. All else is a tie.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pairlab.analysis import repetitions
from pairlab.analysis.advice.cells import Cell
from pairlab.analysis.advice.question import CRITERIA
from pairlab.analysis.cell_estimates import APART, pairing_of, resolution, unpaired
from pairlab.analysis.comparison.twins import Noise
from pairlab.errors import AnalysisError
from pairlab.model import others
from pairlab.model.records import Run
from pairlab.statistics import changes
from pairlab.statistics.intervals import ALPHA

_FEW = "too few repetitions"


class Difference(NamedTuple):
    """percent: the change from the first to the second. unknown: why the two cannot be compared; tie: why they share a
    rank; both as clauses, and empty if they differ.
    """

    percent: float = math.nan
    unknown: str = ""
    tie: str = ""


class Rank(NamedTuple):
    """number: one more than the networks that are better for sure; None if unknown. why: the reason for a tie with the
    best value, or why they cannot be compared; empty: neither.
    """

    number: int | None = None
    why: str = ""


#: The rank of a network without a value.
UNRANKED = Rank()


def pairing(first: Cell, second: Cell) -> str:
    """How two cells are compared, by the blocks of their runs: one of cell_estimates.PAIRINGS."""
    paired = changes.in_common(first.by_block, second.by_block) is not None
    return pairing_of(first.by_block, second.by_block, paired)


class Differences:
    """The differences between cells of one quantity. rivals: the number of others that each is compared with."""

    def __init__(self, quantity: str, rivals: int, margin_percent: float, noise: Noise):
        self._column, self._less_is_better = CRITERIA[quantity].column, CRITERIA[quantity].less_is_better
        self._level, self._margin, self._noise = ALPHA / max(1, rivals), margin_percent, noise

    def of(self, first: Cell, second: Cell) -> Difference:
        if first.setting != second.setting:
            return Difference(unknown="measured otherwise")
        if pairing(first, second) == APART:
            return Difference(unknown="measured apart in time")
        steps = [resolution(self._column, [*cell.by_block.values()]) for cell in (first, second)]
        try:
            change, _ = changes.between(first.by_block, second.by_block, (steps[0], steps[1]))
            change = change.no_narrower(others.explained((first.runs, second.runs), self._column))
        except AnalysisError:
            return Difference(unknown="not above zero in each repetition")
        if not change.known:
            return Difference(unknown=_FEW)
        percent, size = change.estimate().value, abs(change.centre)
        if change.p() > self._level:
            return Difference(percent, tie="within the interval")
        if size < math.log1p(self._margin / 100):
            return Difference(percent, tie=f"below {self._margin:g} %")
        floor = self._noise.between(self._column, [first.runs[0].spec], change.n, self._value_of)
        if floor and size < floor.effect:
            return Difference(percent, tie=f"below the noise of {floor.percent:.2g} %")
        return Difference(percent)

    def unpaired(self, first: Cell, second: Cell) -> bool:
        """Whether two cells can be compared, and share no blocks."""
        return first is not second and not self.of(first, second).unknown and bool(unpaired(pairing(first, second)))

    def _value_of(self, run: Run) -> float:
        return float(repetitions.values(run, [self._column])[self._column])

    def worse(self, cell: Cell, than: Cell) -> bool:
        """Whether a cell's value is worse than another's for sure."""
        if cell is than or not (cell.found and than.found):
            return False
        percent, unknown, tie = self.of(than, cell)
        return not (unknown or tie) and (percent > 0) == self._less_is_better

    def ranks(self, cells: Sequence[Cell], best: Cell) -> list[Rank]:
        """The rank of each cell; without a number if it cannot be compared with the best."""
        against = [Difference() if cell is best else self.of(best, cell) for cell in cells]
        sure = bool(best.found and best.found.low == best.found.low)  # NaN without an interval
        comparable = [cell for cell, difference in zip(cells, against, strict=True) if sure and not difference.unknown]
        return [
            Rank(1 + sum(self.worse(cell, other) for other in comparable), difference.tie)
            if any(cell is each for each in comparable)
            else Rank(None, difference.unknown or _FEW)
            for cell, difference in zip(cells, against, strict=True)
        ]
