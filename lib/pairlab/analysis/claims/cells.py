"""The cells of an effect, read by the block of each run, and the repetitions that could not be used."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations, compress
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis.cell_estimates import BY_BLOCK, UNPAIRED, unpaired
from pairlab.analysis.claims.effect import AttemptsDiffer, Cell, FlowsFailed, MeasuredApart, TooFewFlows
from pairlab.analysis.claims.run_table import SETTING
from pairlab.analysis.selection import block_of
from pairlab.errors import NotMeasured
from pairlab.model import blocks, fct
from pairlab.model.spec import Spec
from pairlab.statistics import quantiles
from pairlab.statistics.changes import in_common
from pairlab.statistics.clusters import Clusters, together

_LACKS = "lacks a cell or its value"
#: The values of a cell's repetitions, by block.
Values = dict[Hashable, Any]


def rows(runs: pd.DataFrame, cell: Mapping[str, Any]) -> np.ndarray:
    """The rows of run_table in that cell, as a mask; a factor that is None may have any value."""
    chosen = np.ones(len(runs), dtype=bool)
    for name, value in cell.items():
        if value is not None:
            chosen &= runs[name].to_numpy() == value
    return chosen


class Cells:
    """Reads cells by block, and notes the repetitions that could not be used."""

    def __init__(self, runs: pd.DataFrame):
        self._runs, self._used = runs, np.zeros(len(runs), dtype=bool)
        self._left_out: dict[str, set] = {}
        self._repetition: dict[Hashable, int] = {}  # by block
        self._pairing = BY_BLOCK

    def values(self, quantity: str, cell: Cell) -> Values:
        """One value per repetition of a cell, by its block, in the order of blocks.

        Raises FlowsFailed if failed flows leave a repetition without a value: to omit it would flatter the others.
        """
        chosen = rows(self._runs, cell)
        repetition, block, measured = (
            self._runs[name].to_numpy()[chosen] for name in ("repetition", block_of(self._runs), quantity)
        )
        if len(set(repetition)) < len(repetition):
            factors = ({*SETTING, *Spec.model_fields} - {"repetition"}).intersection(self._runs)
            varied = [name for name in sorted(factors) if self._runs.loc[chosen, name].nunique(dropna=False) > 1]
            raise NotMeasured(f"cells are not distinct: runs differ in {', '.join(varied)}")
        self._used |= chosen
        if "fct" in quantity or quantity.startswith(("mouse", "elephant")):
            self._check_known(chosen, quantity, cell)
        self._repetition |= dict(zip(block, repetition, strict=True))
        by_block = dict(zip(block, measured, strict=True))
        return {label: by_block[label] for label in sorted(by_block)}

    def align(
        self, sides: Sequence[Values], *, positive: bool, in_any_order: bool = False
    ) -> tuple[Sequence[Hashable], np.ndarray] | None:
        """The blocks that all cells share, and the values of each cell in these; other blocks are left out by name.
        None if cells share no blocks (changes.in_common): then they are independent groups.

        positive: only blocks whose values have a logarithm; a block in which a cell carried nothing is left out by
        name. in_any_order: independent groups are aligned by position: the first values, the second ones, and so on.
        """
        finite = [_known(side) for side in sides]
        common: Sequence[Hashable] | None = in_common(*finite) if all(finite) else []
        if common is not None:
            self._leave_out(set().union(*sides) - {*common}, _LACKS)
            columns = np.array([[side[label] for label in common] for side in finite], dtype=float)
        elif in_any_order:
            self._pairing = UNPAIRED
            common = range(min(map(len, finite)))
            columns = np.array([list(side.values())[: len(common)] for side in finite], dtype=float)
        else:
            self._pairing = UNPAIRED
            return None
        if positive:
            carried = np.min(columns, axis=0) > 0
            self._leave_out(list(compress(common, ~carried)), "carried nothing")
            common, columns = list(compress(common, carried)), columns.compress(carried, axis=1)
        return common, columns

    def check_not_apart(self, sides: Sequence[Collection[Hashable]]) -> None:
        """Raises MeasuredApart if the runs of one side were all measured before those of another: blocks.apart."""
        for first, second in combinations(sides, 2):
            if blocks.apart(list(first), list(second)):
                raise MeasuredApart(
                    "its cells were measured one after the other, and the machine's drift may be all that they differ"
                    " by: measure them in blocks, in one sweep"
                )

    def check_attempts(self, cells: Sequence[Cell]) -> None:
        """Raises AttemptsDiffer if a larger share of one cell's measurements did not count: Fisher's exact test."""
        each = [
            {**cell, "driver": driver}
            for cell in cells
            for driver in (cell["driver"] if isinstance(cell["driver"], list) else [cell["driver"]])
        ]
        known = [found for cell in each if len(found := self._runs["attempts"].to_numpy()[rows(self._runs, cell)])]
        for first, second in combinations([found[0] for found in known], 2):
            if first.differ(second):
                raise AttemptsDiffer(
                    f"{first.discarded} of {first.made} measurements of one cell and {second.discarded} of"
                    f" {second.made} of another did not count, so that what is left may be a choice: measure both again"
                )

    def drop_missing(self, values: Values, what: str) -> Values:
        finite = _known(values)
        self._leave_out(values.keys() - finite.keys(), f"has no {what.replace('_', ' ')}")
        return finite

    def flows(self, times: str, q: float, cell: Cell) -> Clusters:
        """The flows of a cell, by repetition. times: the column of run_table with their times.

        Raises TooFewFlows if they are fewer than the q-th percentile needs, FlowsFailed if it depends on failed flows.
        """
        driver, pairs = cell["driver"], cell["pairs"]
        by_block = {label: fcts_s for label, fcts_s in self.values(times, cell).items() if len(fcts_s)}
        if not by_block:
            raise NotMeasured(f"no {times.removesuffix('_s').replace('_', ' ')} of {driver} with {pairs} pairs")
        clusters = Clusters(np.array([*by_block], dtype=object), tuple(map(np.sort, by_block.values())))
        _check_enough(clusters, q, f"{driver} with {pairs} pairs has")
        if np.isnan(clusters.quantile(q)):
            raise FlowsFailed(f"{driver} with {pairs} pairs: {fct.unknown(clusters.failed, len(clusters.pooled), q)}")
        return clusters

    def together(self, sides: Sequence[Clusters], q: float) -> list[Clusters]:
        """The sides reduced to their common blocks, in one order; other blocks are left out by name. Without common
        blocks, the sides as they are: independent groups. Raises TooFewFlows as `flows`, of what is left.
        """
        sides_in_order = together(sides)
        for side in sides_in_order:
            _check_enough(side, q, f"the {len(side.labels)} blocks that its cells have in common have")
        common = {label for side in sides_in_order for label in side.labels}
        self._leave_out([label for side in sides for label in side.labels if label not in common], _LACKS)
        if any(set(side.labels) != common for side in sides_in_order):
            self._pairing = UNPAIRED
            self.check_not_apart([side.labels for side in sides])
        return sides_in_order

    @property
    def pairs(self) -> tuple[int, ...]:
        """The numbers of pairs of the cells that were read."""
        return tuple(sorted({int(each) for each in self._runs["pairs"].to_numpy()[self._used]}))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(
            f"left out: repetition {', '.join(map(str, sorted(out)))} {why}" for why, out in self._left_out.items()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the cells that were read: that they share no blocks, repetitions left out, failed flows."""
        flows, failed = (int(self._runs[name].to_numpy()[self._used].sum()) for name in ("flows", "failed_flows"))
        lost = f"{failed} of {flows} flows failed" if failed else ""
        return tuple(filter(None, [unpaired(self._pairing), *self.left_out, lost]))

    @property
    def substitutes(self) -> tuple[str, ...]:
        """The drivers that stand in for those of a paper."""
        if "measured_as" not in self._runs:
            return ()
        pairs = {tuple(pair) for pair in self._runs.loc[self._used, ["measured_as", "driver"]].to_numpy()}
        return tuple(f"{own} stands in for {theirs}" for own, theirs in sorted(pairs) if own != theirs)

    def _leave_out(self, repetitions: Collection[Hashable], why: str) -> None:
        if len(repetitions):
            self._left_out.setdefault(why, set()).update(self._repetition.get(label, label) for label in repetitions)

    def _check_known(self, chosen: np.ndarray, quantity: str, cell: Cell) -> None:
        flows, failed, values = (self._runs[name].to_numpy()[chosen] for name in ("flows", "failed_flows", quantity))
        lost = pd.isna(values) & (failed > 0)
        if lost.any():
            where = ", ".join(f"{name} {value}" for name, value in cell.items())
            raise FlowsFailed(
                f"{lost.sum()} of {len(lost)} repetitions have no {quantity.removesuffix('_s').replace('_', ' ')}"
                f" ({where}): {failed[lost].sum()} of their {flows[lost].sum()} flows failed, and it depends on how"
                " long these would have taken"
            )


def _check_enough(clusters: Clusters, q: float, whose: str) -> None:
    count, needed = len(clusters.pooled), quantiles.flows_needed(q)
    if count < needed:
        each = max(1, count // max(1, len(clusters.labels)))
        raise TooFewFlows(f"percentile {100 * q:g} needs {needed} flows, and {whose} {count}", -(-needed // each))


def _known(values: Values) -> Values:
    return {label: value for label, value in values.items() if value == value}


def of_driver(runs: pd.DataFrame, driver: str) -> pd.DataFrame:
    chosen = runs[runs["driver"].to_numpy() == driver]
    if chosen.empty:
        raise NotMeasured(f"no runs of {driver}")
    return chosen


def pair_counts(runs: pd.DataFrame, drivers: Sequence[str]) -> list[int]:
    """The numbers of pairs at which all these drivers were measured."""
    measured = [set(of_driver(runs[["driver", "pairs"]], driver)["pairs"]) for driver in drivers]
    return sorted(map(int, set.intersection(*measured)))
