"""Finds an effect in runs: which cells it sets against each other there, and by how much they differ.

A sweep visits every cell once per repetition, so cells are compared within a repetition, where slow drift of the
machine cancels, and repetitions are averaged; percentiles, the median included, are of the flows of all repetitions
(statistics/quantiles.py). Every effect but a level is a weighted sum over cells, of the logarithms of what each has: a
ratio has the weights 1 and -1, a ratio of ratios two of each, and a slope those of least squares.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from pairlab.analysis.claims import settings
from pairlab.analysis.claims.cells import Cells, of_driver, rows
from pairlab.analysis.claims.effect import Cell, Contrast, Each, Effect, Found, percentile_of
from pairlab.analysis.claims.settings import ALL_TO_ALL, PAIRS, Setting
from pairlab.errors import NotMeasured
from pairlab.statistics import quantiles
from pairlab.statistics.clusters import Clusters
from pairlab.statistics.intervals import PERCENT, REAL, SHARE, SIGNED, Student, mean

#: The summaries whose noise a calibration records, and under which name: a client's mean is the total over the pairs.
_MEASURED_AS = {
    "client_bps": "total_bps",
    **{name: name for name in ("total_bps", "fct_median_s", "fct_mean_s", "fct_max_s", "fct_p99_s")},
}
#: The factors between whose values its noise is the same.
_ALIKE = {"driver", "pairs", "cores", "containers_per_core", "pinning", "message_bytes"}


class _Part(NamedTuple):
    """Cells with their weights, of one quantity each; and what these are called."""

    name: str
    text: str
    sides: Sequence[tuple[float, str, Cell]]
    stand_ins: Sequence[str] = ()


def find(effect: Effect, runs: pd.DataFrame) -> Found | Each:
    """The effect in the runs of one system (run_table), or each of several that must be as the claim says.

    Raises NotMeasured where cells are missing, TooFewFlows where a percentile needs more flows, FlowsFailed where what
    it takes depends on flows that failed.
    """
    setting = settings.of(effect)
    runs = settings.with_quantity(runs, effect, setting)
    first, second = setting.cells(effect)
    factor = effect.along or next(iter(effect.each), "")
    make = _BY_FACTOR.get("along" if effect.along else factor, _at_settings if factor else _of_others)
    parts, points = make(effect, setting, runs, first, second)
    found = {part.name: _found(effect, setting, Cells(runs), part, points) for part in parts}
    return Each(found, points) if len(found) > 1 else next(iter(found.values()))


_Parts = tuple[list[_Part], int]


def _of_others(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """The first cell against the second, or against each where a list tells several."""
    several = next((name for name, value in effect.over.items() if isinstance(value, list)), "")
    parts = []
    for other in effect.over[several] if several else [None]:
        mine = effect.quantity if several == "quantity" else first.get(several)
        quantity = other if several == "quantity" else None
        cell = {**second, several: other} if several and not quantity else second
        parts.append(_part(effect, setting, runs, first, cell, f"{mine} against {other}", quantity))
    return parts, 0


def _at_pairs(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """At each number of pairs; against one of them, or the one before, or another cell with as many."""
    wanted, base = effect.each["pairs"], effect.over.get("pairs")
    counts = _counts(setting, runs, [first, second])
    inside = [count for count in counts if _is_wanted(count, wanted)]
    drivers = _names([first, second])
    if base == "previous":
        if len(inside) < 2:
            raise NotMeasured(f"no two of {wanted} pairs (there are, for {drivers}: {_joined(counts)})")
        steps = list(pairwise(inside))
    elif base:
        (start,), _ = _choose(drivers, [base], counts)
        steps = [(start, count) for count in inside if count != base]
        if not steps:
            raise NotMeasured(f"no {wanted} pairs of {drivers} beside {base}")
    else:
        steps = [(count, count) for count in inside]
        _check_common("pairs", wanted, inside, drivers)
    parts = []
    for before, after in steps:
        made = _part(effect, setting, runs, {**first, "pairs": after}, {**second, "pairs": before})
        by_count = str(after) if setting is PAIRS else made.text
        name = made.text if base == "previous" else f"{after} pairs" if base else by_count
        parts.append(made._replace(name=name))
    return parts, len(parts) + bool(base)


def _at_settings(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """At each value of a factor that both cells were measured with."""
    ((name, wanted),) = effect.each.items()
    if name == "request_bytes":
        runs = runs[(runs[name] == runs["response_bytes"]).to_numpy()]
    pairs, values = _common_values(runs, name, wanted, [first, second])
    if not values and setting is not PAIRS:
        raise NotMeasured(f"no size was measured of both {_names([first, second])}")
    _check_common(name.replace("_", " "), wanted, values, _names([first, second]))
    parts = []
    for value in values:
        here, there = ({**cell, name: value, "pairs": pairs} for cell in (first, second))
        made = _part(effect, setting, runs, here, there, str(value))
        size = f"{max(int(value), 1)} B" if setting is not PAIRS else ""
        parts.append(made._replace(name=size or made.name, text=size or made.text))
    return parts, len(values)


def _check_common(what: str, wanted: str | list, values: list, drivers: str) -> None:
    listed = wanted if isinstance(wanted, list) else []
    if not values or set(listed) - set(values):
        asked = f" {_joined(listed)}" if listed else ""
        raise NotMeasured(f"no {what}{asked} that {drivers} have in common")


def _common_values(runs: pd.DataFrame, name: str, wanted: str | list, cells: Sequence[Cell]) -> tuple[int, list]:
    """The values of a factor that all cells have, of those wanted, with the number of pairs that has the most of them,
    the most of these; no message size is none.
    """
    found = []
    for cell in cells:
        there = runs.loc[rows(runs, {**cell, name: None}), ["pairs", name]]
        if name == "message_bytes":
            there = there[there[name] != 0]
        if there.empty and "pairs" not in cell:
            of_driver(runs, cell["driver"])
        found.append({int(pairs): set(part[name]) for pairs, part in there.groupby("pairs")})
    common = {
        pairs: sorted(
            value for value in set.intersection(*(each[pairs] for each in found)) if _is_wanted(value, wanted)
        )
        for pairs in found[0]
        if all(pairs in each for each in found)
    }
    return max(common.items(), key=lambda item: (len(item[1]), item[0]), default=(0, []))


def _line(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """By a least-squares line along pairs or message sizes, both logarithmic: its weights are the contrast's."""
    if effect.along == "pairs":
        (least, most), stand_ins = _choose(
            _names([first]), first["pairs"], every := _counts(setting, runs, [{**first, "pairs": None}])
        )
        values = [count for count in every if least <= count <= most]
        across, over = np.log(values), float(np.log(most / least))
        cells, text = [{**first, "pairs": count} for count in values], f"{_joined(values)} pairs"
    else:
        pairs, values = _common_values(runs, effect.along, "all", [first])
        if len(values) < 2:
            of = f"of {first['driver']}"
            sizes = f"one message size only {of} ({values[0]} B): a trend needs two" if values else ""
            raise NotMeasured(sizes or f"no runs {of} with a message size")
        across, over, stand_ins = np.log2(values), 1.0, []
        cells = [{**first, effect.along: value, "pairs": pairs} for value in values]
        text = f"{values[0]} to {values[-1]} B in {len(values)} sizes, {pairs} pairs"
    centred = across - across.mean()
    weights = over * centred / (centred @ centred)
    sides = [(float(weight), effect.quantity, cell) for weight, cell in zip(weights, cells, strict=True)]
    return [_Part("", text, sides, stand_ins)], len(cells)


def _core_steps(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """At each step to more containers per core, of the series with the most ratios.

    Either the cores vary at one number of pairs, or the pairs on the same cores, which changes the offered load too; of
    two series as long the former, and the one with the more pairs or cores.
    """
    drivers = _drivers([first])
    columns = ("containers_per_core", "pairs", "cores")
    there = [set(zip(*(of_driver(runs, driver)[name] for name in columns), strict=True)) for driver in drivers]
    common = sorted(setting for setting in set.intersection(*there) if setting[0] == setting[0])
    every = [
        (same, varied)
        for fixed, varied in ((1, "cores"), (2, "pairs"))
        for value in sorted({each[fixed] for each in common}, reverse=True)
        if (same := [each for each in common if each[fixed] == value])
    ]
    series, varied = max(every, key=lambda found: len(found[0]), default=([], ""))
    if len(series) < 2:
        raise NotMeasured(f"one container-to-core ratio only of {_names([first])}: a change needs two")
    parts = []
    for before, after in pairwise(series):
        cells = [{**first, "pairs": pairs, "cores": cores} for _, pairs, cores in (after, before)]
        name = f"{before[0]:g} → {after[0]:g}"
        parts.append(_Part(name, f"{name} containers per core, by {varied}", _sides(effect, cells)))
    return parts, len(series)


def _several_flows(effect: Effect, setting: Setting, runs: pd.DataFrame, first: Cell, second: Cell) -> _Parts:
    """Pairs with several flows each, against so many times the pairs with one flow each."""
    mine = runs[rows(runs, first)]
    there = set(zip(mine["pairs"].tolist(), mine["flows_per_pair"].tolist(), strict=True))
    cells = [(pairs, flows) for pairs, flows in sorted(there) if flows > 1 and (pairs * flows, 1) in there]
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


_BY_FACTOR = {
    "along": _line,
    "pairs": _at_pairs,
    "containers_per_core": _core_steps,
    "flows_per_pair": _several_flows,
}


def _part(
    effect: Effect,
    setting: Setting,
    runs: pd.DataFrame,
    first: Cell,
    second: Cell,
    name: str = "",
    quantity: Any = None,
) -> _Part:
    """These cells, with the numbers of pairs and hosts that are meant; all must have been measured."""
    cells = [first, second] if effect.over or effect.each else [first]
    cells += [{**cell, **effect.against} for cell in cells] if effect.against else []
    stand_ins: list[str] = []
    if setting.pairs_vary or setting is ALL_TO_ALL:
        wanted = list(dict.fromkeys(cell["pairs"] for cell in reversed(cells)))
        counts = _counts(setting, runs, cells, len(wanted))
        chosen, stand_ins = _choose(_names(cells), wanted, counts)
        meant = dict(zip(wanted, chosen, strict=True))
        cells = [{**cell, "pairs": meant[cell["pairs"]]} for cell in cells]
        text = setting.text(cells[0], cells[-1] if setting is ALL_TO_ALL else cells[min(1, len(cells) - 1)])
    else:
        for cell in cells:
            if cell.get("hosts") == "most":
                mine = rows(runs, {**cell, "hosts": None})
                cell["hosts"] = int(runs["hosts"].to_numpy()[mine].max()) if mine.any() else 0
        text = setting.text(cells[0], cells[min(1, len(cells) - 1)])
        for cell in cells:
            setting.check_there(runs, cell, text)
    return _Part(name, text, _sides(effect, cells, quantity), stand_ins)


def _sides(effect: Effect, cells: Sequence[Cell], quantity: Any = None) -> list[tuple[float, str, Cell]]:
    """Of, over; and the same of what their ratio is set against."""
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
    """The numbers of pairs that all these cells were measured with, rising."""
    found = []
    for cell in cells:
        for driver in _drivers([cell]):
            one = {**cell, "driver": driver, "pairs": None}
            counts = set(runs["pairs"].to_numpy()[rows(runs, one)])
            if not counts and setting is not ALL_TO_ALL:
                of_driver(runs, driver)
                told = [f"{name} {one[name]}" for name in one if name not in ("driver", "pairs", "experiment")]
                raise NotMeasured(f"no runs of {driver}" + (f" with {' and '.join(told)}" if setting is PAIRS else ""))
            found.append(counts)
    common = sorted(map(int, set.intersection(*found)))
    if setting is ALL_TO_ALL and len(common) < least:
        told = dict.fromkeys(f"{cell['driver']} on {cell['hosts']} host{'s' * (cell['hosts'] > 1)}" for cell in cells)
        raise NotMeasured(
            f"{len(common)} numbers of containers that {' and '.join(told)} have in common, and {least} needed"
        )
    return common


def _choose(drivers: str, wanted: Sequence[Any], counts: Sequence[int]) -> tuple[list[int], list[str]]:
    """The numbers of pairs meant by `wanted`, of those that were measured, and which stand in for others.

    They must rise, where not all of them are named.
    """
    there = f"there are, for {drivers}: {_joined(counts)}"
    chosen: list[int] = []
    stand_ins = []
    for each in wanted:
        exact = each if isinstance(each, int) else int(each.split()[0]) if each[0].isdigit() else 0
        if exact in counts:
            chosen.append(exact)
        elif isinstance(each, int) or not counts:
            raise NotMeasured(f"no {each if isinstance(each, int) else 'common number of'} pairs ({there})")
        else:
            chosen.append(counts[0] if each.endswith("least") else counts[-1])
            if exact:
                stand_ins.append(f"{chosen[-1]} pairs stand in for {exact}")
    ordered = all(isinstance(each, int) for each in wanted) or chosen == sorted(chosen)
    if len(set(chosen)) < len(chosen) or not ordered:
        raise NotMeasured(f"no two numbers of pairs for {' and '.join(map(str, wanted))} ({there})")
    return chosen, stand_ins


def _found(effect: Effect, setting: Setting, cells: Cells, part: _Part, points: int) -> Found:
    """The weighted sum of the part's cells, over repetitions."""
    percentile = percentile_of(effect.quantity)
    if percentile:
        student, beside = _of_percentiles(cells, part, percentile[1])
    elif len(part.sides) > 1:
        student, beside = _of_sums(effect, cells, part), ()
    else:
        student, beside = _of_level(effect, cells, part)
    return Found(
        student,
        part.text,
        (*part.stand_ins, *cells.notes, *beside, *cells.substitutes),
        bool(part.stand_ins),
        _contrast(effect, setting, cells, part),
        points,
    )


def _contrast(effect: Effect, setting: Setting, cells: Cells, part: _Part) -> Contrast | None:
    measure = _MEASURED_AS.get(effect.quantity)
    far = isinstance(effect.of.get("driver"), list)
    of_ratios = setting is PAIRS and not effect.difference and not (far and percentile_of(effect.quantity))
    if not (measure and of_ratios and {*effect.over, *effect.each} <= _ALIKE):
        return None
    gain = float(np.linalg.norm([weight for weight, *_ in part.sides])) * (np.sqrt(2) if far else 1)
    return Contrast(measure, gain, cells.pairs)


def _of_sums(effect: Effect, cells: Cells, part: _Part) -> Student:
    table = cells.align(
        {at: _values(effect, cells, quantity, cell) for at, (_, quantity, cell) in enumerate(part.sides)}
    )
    weights = np.array([weight for weight, *_ in part.sides])
    if effect.difference:
        return Student.of(_whole(1e3 * table.to_numpy() @ weights, cells, part), REAL)
    table = cells.positive(table).to_numpy(dtype=float)
    if (np.abs(weights) == 1).all():  # a ratio that is the same in all repetitions has no spread at all
        sums = np.log(table[:, weights > 0].prod(axis=1) / table[:, weights < 0].prod(axis=1))
    else:
        sums = np.log(table) @ weights
    return Student.of(_whole(sums, cells, part), PERCENT)


def _values(effect: Effect, cells: Cells, quantity: str, cell: Cell) -> pd.Series:
    """One value per repetition; of several drivers, how far these lie apart."""
    if not isinstance(cell["driver"], list):
        return cells.values(quantity, cell)
    table = cells.align({driver: cells.values(quantity, {**cell, "driver": driver}) for driver in cell["driver"]})
    if effect.difference:
        return table.max(axis=1) - table.min(axis=1)
    table = cells.positive(table)
    return table.max(axis=1) / table.min(axis=1)


def _whole(values: Sequence[float] | np.ndarray, cells: Cells, part: _Part) -> np.ndarray:
    if not len(values):
        raise NotMeasured("; ".join([f"no repetition has {part.text} whole", *part.stand_ins, *cells.left_out]))
    return np.asarray(values)


def _of_level(effect: Effect, cells: Cells, part: _Part) -> tuple[Student, tuple[str, ...]]:
    """The mean over repetitions of a quantity itself."""
    ((_, quantity, cell),) = part.sides
    what = "correlation" if quantity == "spearman_z" else quantity
    values = _whole(cells.drop_missing(cells.values(quantity, cell), what), cells, part)
    if quantity == "spearman_z":
        return Student.of(values, SIGNED), (_beside_ranks(cells, cell),)
    if quantity != "least_over_most":
        return mean(values, SHARE), ()
    inner = cells.values("inner_least_over_most", cell).mean()
    told = f"without the client with the least and the one with the most: {inner:.2f}"
    return mean(values, SHARE), () if np.isnan(inner) else (told,)


def _beside_ranks(cells: Cells, cell: Cell) -> str:
    """A single client can make Pearson's r: that is told beside the correlation of ranks, with the most that leaving
    one client out changes it (statistics/correlation.py).
    """
    pearson, leverage = (cells.values(name, cell) for name in ("pearson_z", "leverage"))
    value, low, high, _ = Student.of(pearson.dropna(), SIGNED).estimate()
    told = f"Pearson's r {value:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low == low else "")
    if leverage.notna().any():
        told += f", in which one client changes a repetition's by up to {leverage.max():.2f}"
    return told


def _of_percentiles(cells: Cells, part: _Part, q: float) -> tuple[Student, tuple[str, ...]]:
    """Of the flows of all repetitions; of several drivers, how many times as far they lie apart: spread_ratio."""
    sides: list[tuple[float, Clusters]] = []
    names: list[tuple[int, str]] = []
    fewest_first = sorted(part.sides, key=lambda side: side[2]["pairs"])  # which needs the most repetitions
    for at, (weight, quantity, cell) in enumerate(fewest_first):
        for driver in _drivers([cell]):
            times, _ = percentile_of(quantity) or ("", q)
            sides.append((weight, cells.flows(times, q, {**cell, "driver": driver})))
            names.append((at, driver))
    if len(sides) == len(part.sides):
        found = quantiles.contrast(sides, q)
        open_ended = "no interval: drawn anew, repetitions can hold too many failed flows"
        return found, (open_ended,) if np.isinf(found.error) else ()
    alike = cells.together([side for _, side in sides], names)
    first, second = alike[: len(alike) // 2], alike[len(alike) // 2 :]
    apart = [quantiles.most_over_least(side, q).estimate().value for side in (first, second)]
    return quantiles.spread_ratio(first, second, q), (
        f"largest over least driver {apart[0]:.2f} against {apart[1]:.2f}",
    )
