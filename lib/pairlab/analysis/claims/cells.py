"""The cells that an effect is of, read by repetition, and what of them could not be used."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pairlab.analysis.claims.effect import Cell, FlowsFailed, TooFewFlows
from pairlab.analysis.claims.run_table import SETTING
from pairlab.errors import NotMeasured
from pairlab.model import fct
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters


def rows(runs: pd.DataFrame, cell: Mapping[str, Any]) -> np.ndarray:
    """Which rows of run_table are of that cell; a factor that is None is not asked for."""
    chosen = np.ones(len(runs), dtype=bool)
    for name, value in cell.items():
        if value is not None:
            chosen &= runs[name].to_numpy() == value
    return chosen


class Cells:
    """Reads cells by repetition, and remembers what of them could not be used."""

    def __init__(self, runs: pd.DataFrame):
        self._runs, self._used = runs, np.zeros(len(runs), dtype=bool)
        self._left_out: dict[str, set] = {}

    def values(self, quantity: str, cell: Cell) -> pd.Series:
        """One value per repetition of a cell.

        Raises FlowsFailed where a repetition has none as its flows failed: to leave it out would flatter the others.
        """
        chosen = rows(self._runs, cell)
        repetition, found = (self._runs[name].to_numpy()[chosen] for name in ("repetition", quantity))
        if len(set(repetition)) < len(repetition):
            among = self._runs.loc[chosen, [name for name in SETTING if name in self._runs]]
            varied = [name for name in among if among[name].nunique(dropna=False) > 1]
            raise NotMeasured(f"cells are not distinct: runs differ in {', '.join(varied)}")
        self._used |= chosen
        if "fct" in quantity or quantity.startswith(("mouse", "elephant")):
            self._check_known(chosen, quantity, cell)
        return pd.Series(found, index=pd.Index(repetition, name="repetition")).sort_index()

    def align(self, columns: Mapping[Hashable, pd.Series]) -> pd.DataFrame:
        """The cells of a repetition in one row; a repetition that lacks one is left out by name."""
        table = pd.DataFrame(dict(columns))
        whole = ~np.isnan(table.to_numpy(dtype=float)).any(axis=1)
        self._leave_out(table.index[~whole], "lacks a cell or its value")
        return table[whole]

    def positive(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows that have a logarithm; a repetition of which a cell carried nothing is left out by name."""
        carried = (table.to_numpy() > 0).all(axis=1)
        self._leave_out(table.index[~carried], "carried nothing")
        return table[carried]

    def drop_missing(self, values: pd.Series, what: str) -> pd.Series:
        self._leave_out(values.index[values.isna()], f"has no {what.replace('_', ' ')}")
        return values.dropna()

    def flows(self, times: str, q: float, cell: Cell) -> Clusters:
        """The flows of a cell, each repetition apart; of which column their times are (run_table).

        Raises TooFewFlows where they are fewer than the q-th percentile needs, FlowsFailed where it depends on those
        that failed.
        """
        driver, pairs = cell["driver"], cell["pairs"]
        by_repetition = self.values(times, cell)
        by_repetition = by_repetition[by_repetition.map(len) > 0]
        if by_repetition.empty:
            raise NotMeasured(f"no {times.removesuffix('_s').replace('_', ' ')} of {driver} with {pairs} pairs")
        found = Clusters(by_repetition.index.to_numpy(), tuple(np.sort(part) for part in by_repetition))
        count = len(found.pooled)
        if count < (needed := quantiles.flows_needed(q)):
            raise TooFewFlows(
                f"percentile {100 * q:g} needs {needed} flows, and {driver} with {pairs} pairs has {count}",
                repetitions_needed=-(-needed // pairs),
            )
        if np.isnan(found.quantile(q)):
            raise FlowsFailed(f"{driver} with {pairs} pairs: {fct.unknown(found.failed, count, q)}")
        return found

    def together(self, sides: Sequence[Clusters], names: Sequence[Any]) -> list[Clusters]:
        """The sides with the repetitions that all have, in one order; the others are left out by name."""
        every = [set(side.labels) for side in sides]
        common, any_of = set.intersection(*every), set.union(*every)
        self._leave_out(pd.Index(sorted(any_of - common)), "lacks a cell or its value")
        if not common:
            raise NotMeasured("no repetition has all of " + ", ".join(map(str, names)))
        kept = [[at for at, label in enumerate(side.labels) if label in common] for side in sides]
        return [
            Clusters(side.labels[at], tuple(side.parts[each] for each in at))
            for side, at in zip(sides, kept, strict=True)
        ]

    @property
    def pairs(self) -> tuple[int, ...]:
        """Of the cells that were read."""
        return tuple(sorted({int(each) for each in self._runs["pairs"].to_numpy()[self._used]}))

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(
            f"left out: repetition {', '.join(map(str, sorted(which)))} {why}" for why, which in self._left_out.items()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the cells that were read."""
        flows, failed = (int(self._runs[name].to_numpy()[self._used].sum()) for name in ("flows", "failed_flows"))
        return (*self.left_out, *([f"{failed} of {flows} flows failed"] if failed else []))

    @property
    def substitutes(self) -> tuple[str, ...]:
        """Which drivers stand in for those of a paper."""
        if "measured_as" not in self._runs:
            return ()
        pairs = {tuple(pair) for pair in self._runs.loc[self._used, ["measured_as", "driver"]].to_numpy()}
        return tuple(f"{own} stands in for {meant}" for own, meant in sorted(pairs) if own != meant)

    def _leave_out(self, repetitions: pd.Index, why: str) -> None:
        if len(repetitions):
            self._left_out.setdefault(why, set()).update(repetitions)

    def _check_known(self, chosen: np.ndarray, quantity: str, cell: Cell) -> None:
        read = self._runs.loc[chosen, ["flows", "failed_flows", quantity]]
        lost = read[read[quantity].isna() & (read["failed_flows"] > 0)]
        if len(lost):
            where = ", ".join(f"{name} {value}" for name, value in cell.items())
            failed, flows, summary = lost["failed_flows"].sum(), lost["flows"].sum(), quantity.removesuffix("_s")
            raise FlowsFailed(
                f"{len(lost)} of {len(read)} repetitions have no {summary.replace('_', ' ')} ({where}): {failed} of"
                f" their {flows} flows failed, and it depends on how long these would have taken"
            )


def of_driver(runs: pd.DataFrame, driver: str) -> pd.DataFrame:
    mine = runs[runs["driver"].to_numpy() == driver]
    if mine.empty:
        raise NotMeasured(f"no runs of {driver}")
    return mine


def pair_counts(runs: pd.DataFrame, drivers: Sequence[str]) -> list[int]:
    """The numbers of pairs at which all these drivers were measured."""
    found = [set(of_driver(runs[["driver", "pairs"]], driver)["pairs"]) for driver in drivers]
    return sorted(map(int, set.intersection(*found)))
