"""`python -m bench.equals [n]`: equals compared, and how often a difference is found, or an interval does not hold.

On made-up machines, independent, drifting and of two speeds (tests/support/equals.py), and on real cells: those of the
reference against themselves, and twins where PAIRLAB_RUNS has some. Prints Markdown tables, from n draws.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bench.table import note
from pairlab import load_runs, paths, store
from pairlab.analysis.cell_estimates import APART
from pairlab.analysis.comparison.compute import compare
from pairlab.errors import AnalysisError
from pairlab.model.records import Run
from pairlab.model.summaries import default_measure, summaries
from pairlab.statistics import changes
from pairlab.statistics.intervals import LEAST
from tests.support.equals import ESTIMATORS, NOISES, ORDERS, allowed, by_compare, mean_covers, measured

REPETITIONS = (3, 5, 10)
ALPHA = 0.05
#: What each side of a real cell is, by its runs in the order of their times.
SPLITS: dict[str, Callable[[Sequence[Run]], tuple[Sequence[Run], Sequence[Run]]]] = {
    "first half against second half": lambda runs: (runs[: len(runs) // 2], runs[len(runs) // 2 :]),
    "odd against even": lambda runs: (runs[::2], runs[1::2]),
}


class Rate(NamedTuple):
    """Of so many draws the share that was called different, and of their intervals the share that holds."""

    estimator: str
    order: str
    noise: str
    n: int
    draws: int
    different: float
    covered: float


def rates(draws: int, compared: int) -> Iterator[Rate]:
    """Of each estimator, order, noise and number of repetitions. compared: draws of `compare`, which takes longest."""
    for n in REPETITIONS:
        for noise in NOISES:
            for order, times in ORDERS.items():
                made = measured(noise, times, n, draws)
                for name, find in ESTIMATORS.items():
                    yield _rate(name, find, order, noise, made if find is not by_compare else made.first(compared))
            twins = measured(noise, ORDERS["in blocks"], n, compared, sides=3)
            yield _rate("compare, with twins", by_compare, "in blocks", noise, twins)


def _rate(name, find, order, noise, made) -> Rate:
    found = find(made)
    held = found.covered()
    covered = float(held.mean()) if len(held) else np.nan
    draws, _, n = made.values.shape
    return Rate(name, order, noise, n, draws, float(found.different.mean()), covered)


def mean_coverage(draws: int) -> Iterator[Rate]:
    """Of means over repetitions an hour apart, against the mean of these hours, and of all."""
    for n in REPETITIONS:
        for noise, (_, long_run) in NOISES.items():
            made = measured(noise, ORDERS["in blocks"], n, draws)
            for what, means in {"of these hours": made.mean, "of all hours": long_run}.items():
                held = mean_covers(made, means).mean() if np.isfinite(means).all() else np.nan
                yield Rate("mean", what, noise, n, draws, np.nan, float(held))


def equals(draws=1000, compared=200, real=True):
    """The part of `make bench`: how often equals are called different, by each estimator and order."""
    found = [*rates(draws, compared)]
    for estimator, order in dict.fromkeys((each.estimator, each.order) for each in found):
        its = [each for each in found if (each.estimator, each.order) == (estimator, order)]
        most = 0.0 if order == "one after the other" else allowed(ALPHA, its[0].draws, errors=4)  # of some 200
        different = [100 * each.different for each in its]
        bound = f"≤ {100 * most:.3g} % each"
        note(f"equals called different: {estimator}, {order}", different, bound, max(different) <= 100 * most, " %")
        if most:
            covered = [100 * each.covered for each in its]
            note("the same: 95 % intervals that hold", covered, at_least=92, unit=" %")
    of_means = [*mean_coverage(draws)]
    for what in dict.fromkeys(each.order for each in of_means):
        covered = [100 * each.covered for each in of_means if each.order == what and each.covered == each.covered]
        note(f"95 % intervals of means that hold the mean {what}", covered, unit=" %")
    if real:
        for what, tried in real_cells().items():
            note(f"real cells, {what}, called different", [100 * tried.share], f"of {tried.count}", unit=" %")


# --- real cells


class Tried(NamedTuple):
    """Comparisons of equals. different: by the verdict; by_interval: by the interval, whatever its verdict; apart:
    measured one after the other; forced: what Welch's test on all values would call different, whatever the order.
    """

    count: int
    different: int
    by_interval: int
    apart: int
    forced: int

    @property
    def share(self) -> float:
        return self.different / self.count if self.count else np.nan


def real_cells() -> dict[str, Tried]:
    """The reference's cells against themselves, and the twins of PAIRLAB_RUNS."""
    cells = [its for its in _cells(load_runs(paths.REFERENCE)) if len(its) >= 2 * LEAST]
    found = {
        f"the reference, {what}": _tried((_under_two_labels(*split(its)), ()) for its in cells)
        for what, split in SPLITS.items()
    }
    if os.environ.get("PAIRLAB_RUNS"):
        measured_twice = [its for its in _cells(load_runs()) if any(run.spec.twin for run in its)]
        found["twins"] = twins(measured_twice)
    return found


def twins(cells: Sequence[Sequence[Run]]) -> Tried:
    """Each of the cells, of which some runs are twins, against them; what twins differ by is taken from the others."""
    return _tried(
        (
            _under_two_labels(*([run for run in its if run.spec.twin == twin] for twin in (False, True))),
            [run for other in cells if other is not its for run in other],
        )
        for its in cells
    )


def _cells(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """The runs of each cell, by their times."""
    cells: dict[object, list[Run]] = {}
    for run in runs:
        if run.status == "ok" and run.measured_at:
            cells.setdefault((run.spec.replace(twin=False, repetition=0, seed=0), run.environment), []).append(run)
    return (sorted(its, key=lambda run: run.age_key) for its in cells.values())


def _under_two_labels(*sides: Sequence[Run]) -> tuple[list[Run], ...]:
    return tuple(
        [store.with_label(store.with_spec(run, run.spec.replace(twin=False)), label) for run in side]
        for label, side in zip("AB", sides, strict=True)
    )


def _tried(equals: Iterable[tuple[Sequence[list[Run]], Sequence[Run]]]) -> Tried:
    """equals: two sides, each with a label, and others' runs, whose twins tell the noise."""
    counts: Counter[str] = Counter()
    for (first, second), others in equals:
        measure = default_measure([*first, *second])
        try:
            (found,) = compare([*first, *second, *others], by="label", measure=measure)
        except AnalysisError:  # it has no such measure, or too many flows failed
            continue
        sides = [[summaries(run)[measure] for run in side] for side in (first, second)]
        counts.update(
            count=1,
            different=found.verdict in ("better", "worse"),
            by_interval=found.low > 0 or found.high < 0,
            apart=found.pairing == APART,
            forced=changes.change(*sides, paired=False).differs(),
        )
    return Tried(*(counts[name] for name in Tried._fields))


# --- as tables


def main(draws: int = 1000, compared: int = 200) -> None:
    found = [*rates(draws, compared)]
    print_tables(found, [*mean_coverage(draws)])
    for name, tried in real_cells().items():
        print(name, tried._asdict())


def print_tables(found: Sequence[Rate], of_means: Sequence[Rate]) -> None:
    for what, its in {"different": found, "covered": [*found, *of_means]}.items():
        rows: dict[str, dict[tuple[str, int], float]] = {}
        for each in its:
            rows.setdefault(f"{each.estimator}, {each.order}", {})[each.noise, each.n] = getattr(each, what)
        _print(what, rows)


def _print(what: str, rows: dict[str, dict[tuple[str, int], float]]) -> None:
    """A table of percentages: a column for each noise, with one number for each of REPETITIONS."""
    noises = list(dict.fromkeys(noise for row in rows.values() for noise, _ in row))
    print(f"\n| {what}, n = {', '.join(map(str, REPETITIONS))} | {' | '.join(noises)} |")
    print("|---" * (1 + len(noises)) + "|")
    for name, row in rows.items():
        cells = [" ".join(_percent(row[noise, n]) for n in REPETITIONS) for noise in noises]
        print(f"| {name} | {' | '.join(cells)} |")


def _percent(share: float) -> str:
    return f"{100 * share:.1f}" if share == share else "–"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
