"""Finds an effect in runs: the cells that it compares there, and their difference.

Cells that share blocks are compared within each block, where slow drift of the machine cancels; else they are
independent groups of repetitions (statistics/changes.py). Percentiles, the median included, are of the flows of all
repetitions (statistics/quantiles.py). Every effect but a level is a weighted sum of the logarithms of cells' values: a
ratio has the weights 1 and -1, a ratio of ratios two of each, and a slope those of least squares.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis.claims import settings
from pairlab.analysis.claims.cells import Cells, Values, of_driver, rows
from pairlab.analysis.claims.effect import AllOf, Cell, Contrast, Effect, Found, percentile_of
from pairlab.analysis.claims.settings import ALL_TO_ALL, PAIRS, Setting
from pairlab.errors import NotMeasured
from pairlab.model import others
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import PERCENT, REAL, SHARE, SIGNED, Student, mean

#: The summaries whose noise a calibration records, by quantity: a client's mean is the total over the pairs.
_MEASURED_AS = {
    "client_bps": "total_bps",
    **{name: name for name in ("total_bps", "fct_median_s", "fct_mean_s", "fct_max_s", "fct_p99_s")},
}
#: The factors across whose values a calibration's noise holds.
_ALIKE = {"driver", "pairs", "cores", "containers_per_core", "pinning", "message_bytes"}


class _Part(NamedTuple):
    """Cells, each with its weight and quantity; and the part's name."""

    name: str
    text: str
    sides: Sequence[tuple[float, str, Cell]]
    stand_ins: Sequence[str] = ()


def find(effect: Effect, runs: pd.DataFrame) -> Found | AllOf:
    """The effect in the runs of one system (run_table), or several effects for all of which the claim must hold.

    Raises NotMeasured if cells are missing, TooFewFlows if a percentile needs more flows, FlowsFailed if a value
    depends on failed flows.
    """
    setting = settings.of(effect)
    runs = settings.with_quantity(runs, effect, setting)
    first, second = setting.cells(effect)
    factor = effect.along or next(iter(effect.each), "")
    make = _BY_FACTOR.get("along" if effect.along else factor, _at_settings if factor else _of_others)
    parts, points = make(effect, setting, runs, first, second)
    estimates = {part.name: _Estimator(effect, setting, runs, part).found(points) for part in parts}
    return AllOf(estimates, points) if len(estimates) > 1 else next(iter(estimates.values()))


_Parts = tuple[list[_Part], int]


def _of_others(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """The first cell against the second, or against each cell of a list."""
    several = next((name for name, value in effect.over.items() if isinstance(value, list)), "")
    parts = []
    for other in effect.over[several] if several else [None]:
        base = effect.quantity if several == "quantity" else first.get(several)
        quantity = other if several == "quantity" else None
        cell = {**second, several: other} if several and not quantity else second
        parts.append(_part(effect, setting, runs, first, cell, f"{base} against {other}", quantity))
    return parts, 0


def _at_pairs(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """A part for each number of pairs: against one fixed number, the number before, or another cell with as many."""
    wanted, base = effect.each["pairs"], effect.over.get("pairs")
    counts = _counts(setting, runs, [first, second])
    selected = [count for count in counts if _is_wanted(count, wanted)]
    drivers = _names([first, second])
    if base == "previous":
        if len(selected) < 2:
            raise NotMeasured(f"no two of {wanted} pairs (there are, for {drivers}: {_joined(counts)})")
        steps = list(pairwise(selected))
    elif base:
        (start,), _ = _choose(drivers, [base], counts)
        steps = [(start, count) for count in selected if count != base]
        if not steps:
            raise NotMeasured(f"no {wanted} pairs of {drivers} beside {base}")
    else:
        steps = [(count, count) for count in selected]
        _check_common("pairs", wanted, selected, drivers)
    parts = []
    for before, after in steps:
        part = _part(effect, setting, runs, {**first, "pairs": after}, {**second, "pairs": before})
        by_count = str(after) if setting is PAIRS else part.text
        name = part.text if base == "previous" else f"{after} pairs" if base else by_count
        parts.append(part._replace(name=name))
    return parts, len(parts) + bool(base)


def _at_settings(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """A part for each value of a factor that both cells have."""
    ((name, wanted),) = effect.each.items()
    if name == "request_bytes":
        runs = runs[(runs[name] == runs["response_bytes"]).to_numpy()]
    pairs, values = _common_values(runs, name, wanted, [first, second])
    if not values and setting is not PAIRS:
        raise NotMeasured(f"no size was measured of both {_names([first, second])}")
    _check_common(name.replace("_", " "), wanted, values, _names([first, second]))
    parts = []
    for value in values:
        first_at, second_at = ({**cell, name: value, "pairs": pairs} for cell in (first, second))
        part = _part(effect, setting, runs, first_at, second_at, str(value))
        size = f"{max(int(value), 1)} B" if setting is not PAIRS else ""
        parts.append(part._replace(name=size or part.name, text=size or part.text))
    return parts, len(values)


def _check_common(what: str, wanted: str | list, values: list, drivers: str) -> None:
    listed = wanted if isinstance(wanted, list) else []
    if not values or set(listed) - set(values):
        listing = f" {_joined(listed)}" if listed else ""
        raise NotMeasured(f"no {what}{listing} that {drivers} have in common")


def _common_values(runs: pd.DataFrame, name: str, wanted: str | list, cells: Sequence[Cell]) -> tuple[int, list]:
    """The wanted values of a factor that all cells have, at the number of pairs with most such values (of equals, the
    largest number); message_bytes 0 does not count.
    """
    by_cell = []
    for cell in cells:
        measured = runs.loc[rows(runs, {**cell, name: None}), ["pairs", name]]
        if name == "message_bytes":
            measured = measured[measured[name] != 0]
        if measured.empty and "pairs" not in cell:
            of_driver(runs, cell["driver"])
        by_cell.append({int(pairs): set(part[name]) for pairs, part in measured.groupby("pairs")})
    common = {
        pairs: sorted(
            value for value in set.intersection(*(values[pairs] for values in by_cell)) if _is_wanted(value, wanted)
        )
        for pairs in by_cell[0]
        if all(pairs in values for values in by_cell)
    }
    return max(common.items(), key=lambda item: (len(item[1]), item[0]), default=(0, []))


def _line(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """A least-squares line along pairs or message sizes, both logarithmic; the line's weights are the contrast's."""
    if effect.along == "pairs":
        (least, most), stand_ins = _choose(
            _names([first]), first["pairs"], every := _counts(setting, runs, [{**first, "pairs": None}])
        )
        values = [count for count in every if least <= count <= most]
        x, span = np.log(values), float(np.log(most / least))
        cells, text = [{**first, "pairs": count} for count in values], f"{_joined(values)} pairs"
    else:
        pairs, values = _common_values(runs, effect.along, "all", [first])
        if len(values) < 2:
            of = f"of {first['driver']}"
            sizes = f"one message size only {of} ({values[0]} B): a trend needs two" if values else ""
            raise NotMeasured(sizes or f"no runs {of} with a message size")
        x, span, stand_ins = np.log2(values), 1.0, []
        cells = [{**first, effect.along: value, "pairs": pairs} for value in values]
        text = f"{values[0]} to {values[-1]} B in {len(values)} sizes, {pairs} pairs"
    centred = x - x.mean()
    weights = span * centred / (centred @ centred)
    sides = [(float(weight), effect.quantity, cell) for weight, cell in zip(weights, cells, strict=True)]
    return [_Part("", text, sides, stand_ins)], len(cells)


def _core_steps(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """A part for each step to more containers per core, in the series with the most ratios.

    A series varies the cores at one number of pairs, or the pairs on the same cores, which changes the offered load
    too. Of two equally long series the former counts, and the one with more pairs or cores.
    """
    drivers = _drivers([first])
    columns = ("containers_per_core", "pairs", "cores")
    by_driver = [set(zip(*(of_driver(runs, driver)[name] for name in columns), strict=True)) for driver in drivers]
    common = sorted(setting for setting in set.intersection(*by_driver) if setting[0] == setting[0])
    candidates = [
        (same, varied)
        for fixed, varied in ((1, "cores"), (2, "pairs"))
        for value in sorted({each[fixed] for each in common}, reverse=True)
        if (same := [each for each in common if each[fixed] == value])
    ]
    series, varied = max(candidates, key=lambda candidate: len(candidate[0]), default=([], ""))
    if len(series) < 2:
        raise NotMeasured(f"one container-to-core ratio only of {_names([first])}: a change needs two")
    parts = []
    for before, after in pairwise(series):
        cells = [{**first, "pairs": pairs, "cores": cores} for _, pairs, cores in (after, before)]
        name = f"{before[0]:g} → {after[0]:g}"
        parts.append(_Part(name, f"{name} containers per core, by {varied}", _sides(effect, cells)))
    return parts, len(series)


def _several_flows(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """Pairs with several flows each, against as many flows from pairs with one flow each."""
    chosen = runs[rows(runs, first)]
    measured = set(zip(chosen["pairs"].tolist(), chosen["flows_per_pair"].tolist(), strict=True))
    cells = [(pairs, flows) for pairs, flows in sorted(measured) if flows > 1 and (pairs * flows, 1) in measured]
    if not cells:
        of_driver(runs, first["driver"])
        raise NotMeasured(f"no runs of {first['driver']} with several flows per pair, and with so many times the pairs")
    parts = []
    for pairs, flows in cells:
        sides = [{**first, "pairs": pairs, "flows_per_pair": flows}]
        sides += [{**first, "pairs": pairs * flows, "flows_per_pair": 1}]
        text = f"{pairs} pairs of {flows} flows against {pairs * flows} pairs"
        parts.append(_Part(f"{pairs} × {flows}", text, _sides(effect, sides)))
    return parts, len(parts)


_BY_FACTOR = {"along": _line, "pairs": _at_pairs, "containers_per_core": _core_steps, "flows_per_pair": _several_flows}


def _part(
    effect: Effect,
    setting: Setting,
    runs: pd.DataFrame,
    first: Cell,
    second: Cell,
    name: str = "",
    quantity: Any = None,
) -> _Part:
    """These cells with their numbers of pairs and hosts resolved; all must have been measured."""
    cells = [first, second] if effect.over or effect.each else [first]
    cells += [{**cell, **effect.against} for cell in cells] if effect.against else []
    stand_ins: list[str] = []
    if setting.pairs_vary or setting is ALL_TO_ALL:
        wanted = list(dict.fromkeys(cell["pairs"] for cell in reversed(cells)))
        counts = _counts(setting, runs, cells, len(wanted))
        chosen, stand_ins = _choose(_names(cells), wanted, counts)
        chosen_for = dict(zip(wanted, chosen, strict=True))
        cells = [{**cell, "pairs": chosen_for[cell["pairs"]]} for cell in cells]
        other = -1 if setting is ALL_TO_ALL or "pairs" in effect.against else min(1, len(cells) - 1)
        text = setting.text(cells[0], cells[other])
    else:
        for cell in cells:
            if cell.get("hosts") == "most":
                on_any = rows(runs, {**cell, "hosts": None})
                cell["hosts"] = int(runs["hosts"].to_numpy()[on_any].max()) if on_any.any() else 0
        text = setting.text(cells[0], cells[min(1, len(cells) - 1)])
        for cell in cells:
            setting.check_there(runs, cell, text)
    return _Part(name, text, _sides(effect, cells, quantity), stand_ins)


def _sides(effect: Effect, cells: Sequence[Cell], quantity: Any = None) -> list[tuple[float, str, Cell]]:
    """The cells `of` and `over`, then the two that their ratio is divided by, with weights and quantities."""
    names = (effect.quantity, quantity or effect.over.get("quantity", effect.quantity)) * 2
    return list(zip((1.0, -1.0, -1.0, 1.0), names, cells, strict=False))


def _drivers(cells: Iterable[Cell]) -> list[str]:
    named = [cell["driver"] for cell in cells]
    return list(dict.fromkeys(name for each in named for name in (each if isinstance(each, list) else [each])))


def _names(cells: Iterable[Cell]) -> str:
    return " and ".join(_drivers(cells))


def _joined(numbers: Iterable[Any]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _is_wanted(value: Any, wanted: str | list) -> bool:
    if isinstance(wanted, list):
        return value in wanted
    first, last = map(int, wanted.split(" to ")) if wanted != "all" else (value, value)
    return first <= value <= last


def _counts(setting: Setting, runs: pd.DataFrame, cells: Sequence[Cell], least: int = 1) -> list[int]:
    """The numbers of pairs at which all these cells were measured, ascending."""
    measured = []
    for cell in cells:
        for driver in _drivers([cell]):
            at_any = {**cell, "driver": driver, "pairs": None}
            counts = set(runs["pairs"].to_numpy()[rows(runs, at_any)])
            if not counts and setting is not ALL_TO_ALL:
                of_driver(runs, driver)
                parts = [f"{name} {at_any[name]}" for name in at_any if name not in ("driver", "pairs", "experiment")]
                raise NotMeasured(f"no runs of {driver}" + (f" with {' and '.join(parts)}" if setting is PAIRS else ""))
            measured.append(counts)
    common = sorted(map(int, set.intersection(*measured)))
    if setting is ALL_TO_ALL and len(common) < least:
        names = dict.fromkeys(f"{cell['driver']} on {cell['hosts']} host{'s' * (cell['hosts'] > 1)}" for cell in cells)
        raise NotMeasured(
            f"{len(common)} numbers of containers that {' and '.join(names)} have in common, and {least} needed"
        )
    return common


def _choose(drivers: str, wanted: Sequence[Any], counts: Sequence[int]) -> tuple[list[int], list[str]]:
    """The measured numbers of pairs that `wanted` asks for, and notes on those that stand in for others.

    They must rise, unless all are plain numbers.
    """
    available = f"there are, for {drivers}: {_joined(counts)}"
    chosen: list[int] = []
    stand_ins = []
    for each in wanted:
        exact = each if isinstance(each, int) else int(each.split()[0]) if each[0].isdigit() else 0
        if exact in counts:
            chosen.append(exact)
        elif isinstance(each, int) or not counts:
            raise NotMeasured(f"no {each if isinstance(each, int) else 'common number of'} pairs ({available})")
        else:
            chosen.append(counts[0] if each.endswith("least") else counts[-1])
            if exact:
                stand_ins.append(f"{chosen[-1]} pairs stand in for {exact}")
    ordered = all(isinstance(each, int) for each in wanted) or chosen == sorted(chosen)
    if len(set(chosen)) < len(chosen) or not ordered:
        raise NotMeasured(f"no two numbers of pairs for {' and '.join(map(str, wanted))} ({available})")
    return chosen, stand_ins


class _Estimator:
    """Estimates the weighted sum of a part's cells over repetitions."""

    def __init__(self, effect: Effect, setting: Setting, runs: pd.DataFrame, part: _Part):
        self._effect, self._setting, self._part, self._cells = effect, setting, part, Cells(runs)

    def found(self, points: int) -> Found:
        if percentile := percentile_of(self._effect.quantity):
            student, beside = self._of_percentiles(percentile[1])
        elif len(self._part.sides) > 1:
            student, beside = self._of_sums(), ()
        else:
            student, beside = self._of_level()
        self._cells.check_attempts([cell for *_, cell in self._part.sides])
        student = student.no_narrower(self._of_losses())
        stand_ins, cells = self._part.stand_ins, self._cells
        notes = (*stand_ins, *cells.notes, *beside, *cells.substitutes)
        return Found(student, self._part.text, notes, bool(stand_ins), self._contrast(), points)

    def _of_losses(self) -> float:
        """How large the effect may be, on the scale PERCENT, as others took different shares of the cells' time."""
        sides = [(weight, cell) for weight, _, cell in self._part.sides if not isinstance(cell["driver"], list)]
        if self._effect.difference or len(sides) < 2:
            return 0.0
        runs = [self._cells.values("run", cell).values() for _, cell in sides]
        return others.explained(runs, self._effect.quantity, [weight for weight, _ in sides])

    def _contrast(self) -> Contrast | None:
        effect = self._effect
        of_drivers = isinstance(effect.of.get("driver"), list)
        if effect.difference or len(self._part.sides) < 2 or (of_drivers and percentile_of(effect.quantity)):
            return None
        calibrated = self._setting is PAIRS and {*effect.over, *effect.each} <= _ALIKE
        measure = _MEASURED_AS.get(effect.quantity, "") if calibrated else ""
        gain = float(np.linalg.norm([weight for weight, *_ in self._part.sides])) * (np.sqrt(2) if of_drivers else 1)
        return Contrast(measure, gain, self._cells.pairs, effect.quantity)

    def _of_sums(self) -> Student:
        sides = [self._values(quantity, cell) for _, quantity, cell in self._part.sides]
        weights = np.array([weight for weight, *_ in self._part.sides])
        aligned = self._cells.align(sides, positive=not self._effect.difference)
        if aligned is None:
            self._cells.check_not_apart(sides)
            return reduce(Student.plus, map(self._of_group, weights, sides))
        _, values = aligned
        if self._effect.difference:
            return Student.of(self._whole(weights @ (1e3 * values)), REAL)
        if (np.abs(weights) == 1).all():  # a ratio that is the same in all repetitions has no spread at all
            sums = np.log(values[weights > 0].prod(axis=0) / values[weights < 0].prod(axis=0))
        else:
            sums = weights @ np.log(values)
        return Student.of(self._whole(sums), PERCENT)

    def _of_group(self, weight: float, side: Values) -> Student:
        """The weighted mean of a cell that shares no blocks with the others. Source: Welch 1947."""
        values = self._cells.drop_missing(side, "value")
        if self._effect.difference:
            return Student.of(weight * 1e3 * self._whole([*values.values()]), REAL)
        aligned = self._cells.align([values], positive=True)
        return Student.of(weight * np.log(self._whole(aligned[1][0] if aligned else [])), PERCENT)

    def _values(self, quantity: str, cell: Cell) -> Values:
        """One value per repetition; of several drivers, the most over the least of them (or their difference)."""
        if not isinstance(cell["driver"], list):
            return self._cells.values(quantity, cell)
        sides = [self._cells.values(quantity, {**cell, "driver": driver}) for driver in cell["driver"]]
        aligned = self._cells.align(sides, positive=not self._effect.difference, in_any_order=True)
        assert aligned  # in any order, sides always align
        labels, values = aligned
        most, least = np.max(values, axis=0), np.min(values, axis=0)
        return dict(zip(labels, most - least if self._effect.difference else most / least, strict=True))

    def _whole(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        if not len(values):
            lacking = f"no repetition has {self._part.text} whole"
            raise NotMeasured("; ".join([lacking, *self._part.stand_ins, *self._cells.left_out]))
        return np.asarray(values)

    def _of_level(self) -> tuple[Student, tuple[str, ...]]:
        """The mean over repetitions of a quantity itself."""
        ((_, quantity, cell),) = self._part.sides
        what = "correlation" if quantity == "spearman_z" else quantity
        values = self._whole([*self._cells.drop_missing(self._cells.values(quantity, cell), what).values()])
        if quantity == "spearman_z":
            return Student.of(values, SIGNED), (self._beside_ranks(cell),)
        if quantity != "least_over_most":
            return mean(values, SHARE), ()
        inner = self._known("inner_least_over_most", cell)
        note = f"without the client with the least and the one with the most: {np.mean(inner or [0]):.2f}"
        return mean(values, SHARE), (note,) if inner else ()

    def _beside_ranks(self, cell: Cell) -> str:
        """Pearson's r, and the most that r changes without one client (statistics/correlation.py): a note beside the
        rank correlation, as a single client can make r.
        """
        value, low, high, _ = Student.of(self._known("pearson_z", cell), SIGNED).estimate()
        note = f"Pearson's r {value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low == low else "")
        if leverage := self._known("leverage", cell):
            note += f", in which one client changes a repetition's by up to {max(leverage):.2f}"
        return note

    def _known(self, quantity: str, cell: Cell) -> list[float]:
        return [value for value in self._cells.values(quantity, cell).values() if value == value]

    def _of_percentiles(self, q: float) -> tuple[Student, tuple[str, ...]]:
        """The contrast of percentiles over the flows of all repetitions; of several drivers, quantiles.spread_ratio."""
        sides: list[tuple[float, Clusters]] = []
        fewest_first = sorted(self._part.sides, key=lambda side: side[2]["pairs"])  # the fewest need most repetitions
        for weight, quantity, cell in fewest_first:
            times, _ = percentile_of(quantity) or ("", q)
            sides += [(weight, self._cells.flows(times, q, {**cell, "driver": name})) for name in _drivers([cell])]
        aligned = self._cells.together([side for _, side in sides], q)
        if len(sides) == len(self._part.sides):
            contrast = quantiles.contrast([(weight, side) for (weight, _), side in zip(sides, aligned, strict=True)], q)
            open_ended = "no interval: drawn anew, repetitions can hold too many failed flows"
            return contrast, (open_ended,) if np.isinf(contrast.error) else ()
        first, second = aligned[: len(aligned) // 2], aligned[len(aligned) // 2 :]
        spreads = [quantiles.most_over_least(side, q).estimate().value for side in (first, second)]
        note = f"largest over least driver {spreads[0]:.2f} against {spreads[1]:.2f}"
        return quantiles.spread_ratio(first, second, q), (note,)
