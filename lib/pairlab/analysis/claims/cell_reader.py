"""Which cells of a frame of runs an estimator compares, read by repetition, and what of them could not be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from pairlab.analysis.claims.effect import Contrast, Effect, FlowsFailed, TooFewFlows
from pairlab.analysis.claims.run_table import SETTING
from pairlab.errors import NotMeasured
from pairlab.model import fct
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import Scale, Student, mean

#: A number of pairs: exactly that, the least or the most that was measured, or one of these where it is not there.
PairCount = Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^(\d+ or )?(least|most)$")]

#: The summaries whose noise a calibration records, and under which name: a client's mean is the total over the pairs.
MEASURED_AS = {
    "total_bps": "total_bps",
    "client_bps": "total_bps",
    "fct_median_s": "fct_median_s",
    "fct_mean_s": "fct_mean_s",
    "fct_max_s": "fct_max_s",
    "fct_p99_s": "fct_p99_s",
}


class Cells:
    """Reads cells by repetition, and remembers what of them could not be used."""

    def __init__(self, runs: pd.DataFrame):
        self._runs, self._rows, self._left_out, self._stand_ins = runs, {}, {}, []

    def choose(
        self, drivers: Sequence[str], wanted: Sequence[PairCount], counts: Sequence[int] | None = None
    ) -> list[int]:
        """The numbers of pairs meant by `wanted`, rising; from those at which all the drivers were measured."""
        counts = pair_counts(self._runs, drivers) if counts is None else counts
        there = f"there are, for {' and '.join(drivers)}: {', '.join(map(str, counts)) or 'none'}"
        chosen = []
        for each in wanted:
            exact = each if isinstance(each, int) else int(each.split()[0]) if each[0].isdigit() else None
            if exact in counts:
                chosen.append(exact)
            elif isinstance(each, int) or not counts:
                raise NotMeasured(f"no {each if isinstance(each, int) else 'common number of'} pairs ({there})")
            else:
                chosen.append(counts[0] if each.endswith("least") else counts[-1])
                if exact:
                    self._stand_ins.append(f"{chosen[-1]} pairs stand in for {exact}")
        if sorted(set(chosen)) != chosen:
            raise NotMeasured(f"no two numbers of pairs for {' and '.join(map(str, wanted))} ({there})")
        return chosen

    def of(self, what: str, **cell) -> pd.Series:
        """One value per repetition of a cell.

        Raises FlowsFailed where a repetition has none as its flows failed: to leave it out would flatter the others.
        """
        # An experiment may hold flows that end and flows that do not; only one of them has what is asked for.
        ends = "fct" in what or what.startswith(("mouse", "elephant"))
        chosen = self._runs["ends"] == ends
        for name, value in cell.items():
            chosen &= self._runs[name] == value
        # Few columns: a frame of runs has a hundred, and it costs most to choose rows of them all.
        runs = self._runs.loc[chosen, ["repetition", "flows", "failed_flows", what]]
        if runs.duplicated("repetition").any():
            among = self._runs.loc[chosen, [name for name in SETTING if name in self._runs]]
            varied = [name for name in among if among[name].nunique(dropna=False) > 1]
            raise NotMeasured(f"cells are not distinct: runs differ in {', '.join(varied)}")
        self._rows |= dict(zip(runs.index, runs[["flows", "failed_flows"]].itertuples(index=False), strict=True))
        if ends:
            _check_known(runs, what, cell)
        return runs.set_index("repetition")[what].sort_index()

    def beside(self, columns: Mapping[Any, pd.Series]) -> pd.DataFrame:
        """The cells of a repetition in one row; a repetition that lacks one is left out by name."""
        table = pd.DataFrame(dict(columns))
        whole = table.notna().all(axis=1)
        self._leave_out(table.index[~whole], "lacks a cell or its value")
        return table[whole]

    def ratio(self, first: pd.Series, second: pd.Series) -> pd.Series:
        """The logarithm of first over second, by repetition."""
        table = self.positive(self.beside({"first": first, "second": second}))
        return np.log(table["first"] / table["second"])

    def positive(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows that have a logarithm; a repetition of which a cell carried nothing is left out by name."""
        carried = (table > 0).all(axis=1)
        self._leave_out(table.index[~carried], "carried nothing")
        return table[carried]

    def difference(self, first: pd.Series, second: pd.Series) -> pd.Series:
        table = self.beside({"first": first, "second": second})
        return table["first"] - table["second"]

    def known(self, values: pd.Series, what: str) -> pd.Series:
        self._leave_out(values.index[values.isna()], f"has no {what.replace('_', ' ')}")
        return values.dropna()

    def flows(self, times: str, q: float, *, driver: str, pairs: int, **cell) -> Clusters:
        """The flows of a cell, each repetition apart; of which column their times are (run_table.reduce).

        Raises TooFewFlows where they are fewer than the q-th percentile needs, FlowsFailed where it depends on those
        that failed.
        """
        by_repetition = self.of(times, driver=driver, pairs=pairs, **cell)
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

    def effect(
        self,
        values: Sequence[float],
        scale: Scale,
        cells: str,
        *,
        of: str = "",
        gain: float = float(np.sqrt(2)),
        points: int = 0,
    ) -> Effect:
        """The mean over repetitions of what is on that scale. of, gain: of which summary's logarithms, see Contrast."""
        self._check_whole(values, cells)
        return Effect(Student.of(values, scale), cells, **self.remarks(of, gain), points=points)

    def together(self, sides: Mapping[Any, Clusters]) -> dict[Any, Clusters]:
        """The sides with the repetitions that all have, in one order; the others are left out by name."""
        every = [set(side.labels) for side in sides.values()]
        common, any_of = set.intersection(*every), set.union(*every)
        self._leave_out(pd.Index(sorted(any_of - common)), "lacks a cell or its value")
        if not common:
            raise NotMeasured("no repetition has all of " + ", ".join(map(str, sides)))
        return {name: _of_repetitions(side, common) for name, side in sides.items()}

    def share(self, values: Sequence[float], scale: Scale, cells: str) -> Effect:
        """The mean over repetitions of a bounded quantity itself."""
        self._check_whole(values, cells)
        return Effect(mean(values, scale), cells, **self.remarks())

    def remarks(self, of: str = "", gain: float = float(np.sqrt(2))) -> dict[str, Any]:
        """What an Effect of the cells that were read says besides its estimate."""
        notes = self._notes()
        flows, failed = map(sum, zip(*self._rows.values(), strict=True))
        if failed:
            notes.append(f"{failed} of {flows} flows failed")
        pairs = tuple(sorted(map(int, self._runs.loc[list(self._rows), "pairs"].unique())))
        contrast = Contrast(MEASURED_AS[of], gain, pairs) if of in MEASURED_AS else None
        return {"notes": tuple(notes), "stands_in": bool(self._stand_ins), "contrast": contrast}

    def _check_whole(self, values: Sequence[float], cells: str) -> None:
        if not len(values):
            raise NotMeasured(f"no repetition has {cells} whole" + "".join(f"; {note}" for note in self._notes()))

    def _notes(self) -> list[str]:
        return self._stand_ins + [
            f"left out: repetition {', '.join(map(str, sorted(which)))} {why}" for why, which in self._left_out.items()
        ]

    def _leave_out(self, repetitions: pd.Index, why: str) -> None:
        if len(repetitions):
            self._left_out.setdefault(why, set()).update(repetitions)


def _of_repetitions(side: Clusters, wanted: set) -> Clusters:
    kept = [at for at, label in enumerate(side.labels) if label in wanted]
    return Clusters(side.labels[kept], tuple(side.parts[at] for at in kept))


def _check_known(runs: pd.DataFrame, what: str, cell: Mapping[str, Any]) -> None:
    lost = runs[runs[what].isna() & (runs["failed_flows"] > 0)]
    if len(lost):
        where = ", ".join(f"{name} {value}" for name, value in cell.items())
        failed, flows, summary = lost["failed_flows"].sum(), lost["flows"].sum(), what.removesuffix("_s")
        raise FlowsFailed(
            f"{len(lost)} of {len(runs)} repetitions have no {summary.replace('_', ' ')} ({where}): {failed} of their"
            f" {flows} flows failed, and it depends on how long these would have taken"
        )


def of_driver(runs: pd.DataFrame, driver: str) -> pd.DataFrame:
    mine = runs[runs["driver"] == driver]
    if mine.empty:
        raise NotMeasured(f"no runs of {driver}")
    return mine


def pair_counts(runs: pd.DataFrame, drivers: Sequence[str]) -> list[int]:
    """The numbers of pairs at which all these drivers were measured."""
    found = [set(of_driver(runs[["driver", "pairs"]], driver)["pairs"]) for driver in drivers]
    return sorted(map(int, set.intersection(*found)))


@dataclass(frozen=True)
class Step:
    ratio: float
    pairs: int
    cores: int
    varied: str

    @property
    def cell(self) -> dict[str, int]:
        return {"pairs": self.pairs, "cores": self.cores}


def core_ratio_steps(runs: pd.DataFrame, drivers: Sequence[str], what: str) -> list[Step]:
    """The settings of the series with the most ratios, by rising containers per core.

    Either the cores vary at one number of pairs, or the pairs on the same cores, which changes the offered load too; of
    two series as long the former, and the one with the more pairs or cores.
    """
    ends = "fct" in what
    runs = runs[runs["ends"] == ends]
    if runs.empty:
        raise NotMeasured(f"no runs of flows {'with' if ends else 'without'} an end")
    settings = [
        set(zip(*(of_driver(runs, driver)[name] for name in ("containers_per_core", "pairs", "cores")), strict=True))
        for driver in drivers
    ]
    common = [Step(*setting, "") for setting in set.intersection(*settings) if setting[0] == setting[0]]
    every = [
        [Step(step.ratio, step.pairs, step.cores, varied) for step in sorted(same, key=lambda step: step.ratio)]
        for fixed, varied in (("pairs", "cores"), ("cores", "pairs"))
        for value in sorted({getattr(step, fixed) for step in common}, reverse=True)
        if (same := [step for step in common if getattr(step, fixed) == value])
    ]
    longest = max(every, key=len, default=[])
    if len(longest) < 2:
        raise NotMeasured(f"one container-to-core ratio only of {' and '.join(drivers)}: a change needs two")
    return longest


def step_text(before: Step, after: Step) -> str:
    return f"{before.ratio:g} → {after.ratio:g} containers per core, by {after.varied}"
