"""Figures of estimates and of repetitions: DataFrame in, matplotlib Axes out.

A draw function draws one system onto one Axes, drivers in their own colours; by_system gives each system a panel, since
backends and workloads are never pooled. Estimates are frames in the form of cell_estimates.COLUMNS.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from pairlab.analysis.cell_estimates import unit_of
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import style
from pairlab.analysis.figures.grid import (
    facets,
    grid,
    in_larger_unit,
    logarithmic,
    name_categories,
    name_drivers,
    single,
    turn_names,
)
from pairlab.analysis.figures.style import LEAST_IN_BOX, driver_style
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.selection import SYSTEM

#: What a change is called in notes.
CHANGE = "change, paired by repetition,"
#: Points of estimates, with a rim that sets them off, whole where they lie on an axis; and the bars of their intervals.
_POINTS = {"markersize": 4.4, "zorder": 3, "clip_on": False, "linewidth": 1.1}
_RIM = {"markeredgecolor": "white", "markeredgewidth": 0.4}
_HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 0.8}
_BARS = {"linewidth": 0.7, "zorder": 2, "clip_on": False}
_LEVEL: dict[str, Any] = {"color": "0.4", "linewidth": 0.6, "zorder": 1}
#: Points of repetitions. Places are numbers, and none is moved aside by chance.
_REPETITIONS: dict[str, Any] = {
    "legend": False,
    "native_scale": True,
    "jitter": False,
    "size": 3.4,
    "alpha": 0.75,
    "zorder": 3,
    "clip_on": False,
}
_ROOM = 0.62  # of the place of a category that its drivers take
_BOXES = 0.78  # of the room between two pair counts
_BESIDE = 0.05  # of an axis of counts, left free beside the first and the last
_APART, _CAP = 0.006, 0.015  # of such an axis, between the points of neighbouring drivers, and of a bar's end
_OUTSIDE = 1.3  # times the least and the largest size, to where an axis of sizes reaches
_WIDE = 3  # from so many times the largest value on, an interval would press the values onto the axis
_FAR = 30  # from so many times the median on, an outlier would
_AS_IMAGE = 1000  # points of a panel; more are drawn as an image
_TURNED = 30  # characters of names below an axis that would run into each other


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    column: str = "",
    note: str = "",
    conditions: str = "",
    wide: bool = False,
    **options: Any,
) -> Figure:
    """One panel per system, on one scale, with a note below; options go to `draw`.

    frame: what `draw` takes, of any number of systems. column: a system has a row, and in it a panel for each value of
    this column. note: what a reader must know of n; empty: note_of the frame. conditions: how it was measured, added to
    the note. One panel is a column wide (wide: two columns), several share the width of the page. Systems measured with
    different numbers of pairs have these in their titles.
    """

    def drawn(part: pd.DataFrame, ax: Axes) -> Axes:
        return draw(part, ax, **options)

    told: dict[str, Any] = {"note": note or note_of(frame), "conditions": conditions}
    if column:
        return facets(frame, drawn, column=column, title=title_by(column), **told)
    return grid(_titled(frame), drawn, wide=wide, share_y=True, **told)


def title_by(column: str) -> str:
    """The title of a panel, as grid.facets takes it, for values of that column."""
    return "{row}: {each}" + " pairs" * (column == "pairs")


def pairs_text(pairs: int) -> str:
    return f"{pairs} pair{'' if pairs == 1 else 's'}"


def above_each_other(rows: Sequence[tuple[pd.DataFrame, Callable[..., Axes]]], *, conditions: str = "") -> Figure:
    """Several measures of the same systems: a row for each, a column per system, with a note on the last row's n.

    rows: from the top, estimates of the systems and what draws those of one of them onto its Axes. The first row has
    all systems; where another one lacks one, its place is free.
    """
    panels = []
    for number, (frame, _) in enumerate(rows):
        parts = dict(list(frame.groupby(list(SYSTEM))))
        for title, system in _titled(rows[0][0]):
            part = parts.get(tuple(system[list(SYSTEM)].iloc[0]), frame.iloc[:0])
            panels.append(("" if number else title, part.assign(row=number)))

    def draw(part: pd.DataFrame, ax: Axes) -> Axes:
        return rows[part["row"].iloc[0]][1](part, ax)

    across = len(panels) // len(rows)
    return grid(panels, draw, note=note_of(rows[-1][0]), conditions=conditions, across=across, share_x="col")


def _titled(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The part of each system with its name, and its number of pairs where each has one, but not all the same."""
    parts = [(", ".join(names), part) for names, part in frame.groupby(list(SYSTEM), sort=True)]
    if "pairs" not in frame or frame["pairs"].nunique() == 1 or any(part["pairs"].nunique() > 1 for _, part in parts):
        return parts
    return [(f"{name}: {part['pairs'].iloc[0]} pairs", part) for name, part in parts]


def note_of(frame: pd.DataFrame, what: str = "mean", by: Sequence[str] = (*SYSTEM, "driver", "pairs")) -> str:
    """What a reader must know of estimates, or of repetitions: of how many pairs and repetitions, and what is drawn.

    by: what sets apart the cells of repetitions.
    """
    if "repetition" in frame:
        n = frame.groupby(list(by))["repetition"].nunique()
        if n.max() < LEAST_IN_BOX:
            return f"a point per repetition, n = {span(n)} in each column"
        boxes = f"a point per repetition, and from n = {LEAST_IN_BOX} on a box (quartiles, median; whiskers: extremes)"
        return f"{boxes}; n = {span(n)} repetitions"
    known = frame[frame["value"].notna()]
    alike = "pairs" in frame and frame["pairs"].nunique() == 1
    pairs = f"{pairs_text(frame['pairs'].iloc[0])}; " if alike else ""
    n, unit = known["n"], unit_of(frame)
    if n.max() == 1:
        return f"{pairs}{what} of n = 1 {unit}, which has no interval"
    partly = "" if frame.loc[known.index, ["low", "high"]].notna().all(axis=None) else " (none where n < 3)"
    hollow = "; hollow: n = 1" if n.min() == 1 else ""
    share = f"{frame['confidence'].iloc[0] * 100:g} %"
    return f"{pairs}{what} of n = {span(n)} {unit}s; bars: {share} interval{partly}{hollow}"


def points(
    ax: Axes,
    cells: pd.DataFrame,
    *,
    along: str,
    scale: float = 1,
    order: Sequence | None = None,
    joined: bool = False,
    flat: bool = False,
    apart: float = 0.0,
    cap: float = 0.04,
) -> None:
    """Estimates with their intervals along a column, a series per driver in its colour and marker.

    order: the categories of that column; None: it has numbers, and each has its place. joined: by a line, which is
    broken where a driver has no value; flat: values are on the x axis, and the other names the drivers. apart: how far
    the first and the last driver are drawn from each other, so that no bar hides another; cap: how wide the end of a
    bar is; both as parts of the least distance of two places. An estimate of one repetition is hollow.
    """
    drivers = ordered(cells["driver"])
    own = pd.DataFrame([driver_style(driver) for driver in drivers])
    # As a median and the extremes of three values, seaborn draws a value and the bounds that are known.
    bounds, names = ["low", "value", "high"], list({along, "driver", "n"})
    three = cells[[*names, *bounds]].melt(names, bounds, value_name="shown")
    three = three.assign(shown=scale * three["shown"].astype(float))
    drawn: dict[str, Any] = {
        "x": along,
        "y": "shown",
        "order": order,
        "native_scale": order is None,
        "hue": "driver",
        "hue_order": drivers,
        "palette": list(own["color"]),
        "legend": False,
        "ax": ax,
        "estimator": "median",
        "errorbar": ("pi", 100),
        "capsize": cap,
        "err_kws": _BARS,
        "markers": list(own["marker"]),
        "dodge": apart if len(drivers) > 1 else False,
        **_POINTS,
    }
    if flat:
        drawn |= {"x": "shown", "y": along, "orient": "y"}
    before = len(ax.lines)
    seaborn.pointplot(three, **drawn, **_RIM, linestyles=list(own["linestyle"]) if joined else "none")
    series = [line for line in ax.lines[before:] if line.get_marker() != "None"]
    for line, driver in zip(series, drivers, strict=True):
        line.set_label("" if flat else driver)
    if (cells["n"] == 1).any():
        single_ones = three.assign(shown=three["shown"].where(three["n"] == 1))
        seaborn.pointplot(single_ones, **drawn, **_HOLLOW, linestyles="none")
    for line in ax.lines[before:]:
        if not np.isfinite(np.array(line.get_data(), dtype=float)).all(axis=0).any():  # a bar without an interval
            line.remove()


def by_number(
    cells: pd.DataFrame,
    ax: Axes | None = None,
    *,
    measure: Measure,
    number: str = "pairs",
    name: str = "Pairs",
    label: str = "",
    ticks: dict[float, str] | None = None,
    counts: Iterable[float] = (),
    level: float | None = None,
    log_y: bool = False,
) -> Axes:
    """An estimate over a number, a line per driver with interval bars: the form of paper C's figures 2 and 10.

    cells: estimates of one system, with a column `number`; at one with a gap, the line is broken. name: of the x axis;
    label: of the y axis, if not the measure's title. ticks: what the marks of an axis of powers of two say, and where
    they are; None: an axis of counts, of these or of those of the cells. level: a value that a thin line marks; log_y:
    the values span decades, so that a linear axis would hide the small ones.
    """
    ax = single(ax)
    places = np.array(sorted(ticks or {*cells[number], *counts}), dtype=float)
    if ticks:
        ax.set_xscale("log", base=2)
        ax.set_xlim(places[0] / _OUTSIDE, places[-1] * _OUTSIDE)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(list(ticks), list(ticks.values()))
        if max(map(len, ticks.values())) * len(ticks) > _TURNED:
            turn_names(ax, 50)
    else:
        count_axis(ax, places)
    of_cells = ax.xaxis.get_transform().transform(np.array(sorted(cells[number].unique()), dtype=float))
    whole = ax.xaxis.get_transform().transform(places[[0, -1]])
    gap = _least_gap(of_cells, float(np.ptp(whole)))
    apart = _APART * (cells["driver"].nunique() - 1)
    points(ax, cells, along=number, scale=measure.scale, joined=True, apart=apart / gap, cap=_CAP / gap)
    ax.set(xlabel=name, ylabel=label or measure.title)
    _scale_y(ax, cells, measure, level, log_y)
    return ax


def by_category(
    cells: pd.DataFrame,
    ax: Axes | None = None,
    *,
    measure: Measure,
    category: str,
    order: Sequence,
    name: str,
    label: str = "",
    ticks: Sequence[str] | None = None,
    level: float | None = None,
    log_y: bool = False,
) -> Axes:
    """An estimate with its interval bar for each category and driver: the form of paper C's figures 7 to 9.

    cells: estimates of one system, with a column `category`; one with a gap is not drawn. order: the categories from
    left to right, those of all systems, so that panels agree; ticks: their names, if not themselves. name: of the x
    axis; label: of the y axis, if not the measure's title. level: a value that a thin line marks. Where an interval
    goes so far beyond the values that it would press them onto the axis, and all is above zero, that is logarithmic;
    so it is with log_y, for values that span decades.
    """
    ax = single(ax)
    drivers = cells["driver"].nunique()
    points(ax, cells, along=category, order=order, scale=measure.scale, apart=_ROOM * (drivers - 1) / drivers)
    name_categories(ax, ticks or order, name)
    ax.set_ylabel(label or measure.title)
    _scale_y(ax, cells, measure, level, log_y or bool(cells["high"].max() > _WIDE * cells["value"].max()))
    return ax


def repetitions_by_pairs(
    repetitions: pd.DataFrame, ax: Axes | None = None, *, value: str, measure: Measure, label: str = ""
) -> Axes:
    """A value of each repetition by pairs and driver: points, with boxes from LEAST_IN_BOX on (paper E, figure 3).

    repetitions: a row per repetition, of one system. The box spans the quartiles, its line is the median, the whiskers
    reach the extremes.
    """
    ax = single(ax, style.PAGE_IN)
    drivers, pairs = ordered(repetitions["driver"]), sorted(repetitions["pairs"].unique())
    width = _BOXES / len(drivers)
    for number, driver in enumerate(drivers):
        mine = repetitions[repetitions["driver"] == driver]
        places = mine["pairs"].map(pairs.index) + width * (number - (len(drivers) - 1) / 2)
        repeated(ax, mine[value] * measure.scale, places, driver, width=0.7 * width)
        ax.plot([], [], **driver_style(driver) | {"linestyle": "none"}, label=driver)
    name_categories(ax, pairs, "Pairs")
    ax.set_ylabel(label or measure.title)
    from_zero(ax)
    return ax


def repetitions_by_driver(
    repetitions: pd.DataFrame, ax: Axes, *, value: str, measure: Measure, label: str = ""
) -> Axes:
    """A value of each repetition by driver: points, with boxes from LEAST_IN_BOX on (paper M, figure 3)."""
    drivers = ordered(repetitions["driver"])
    for place, driver in enumerate(drivers):
        mine = repetitions.loc[repetitions["driver"] == driver, value] * measure.scale
        repeated(ax, mine, pd.Series(float(place), mine.index), driver, width=0.55)
    name_drivers(ax, drivers)
    ax.set_ylabel(label or measure.title)
    from_zero(ax)
    in_larger_unit(ax.yaxis, measure.unit)
    return ax


def repeated(ax: Axes, values: pd.Series, places: pd.Series, driver: str, *, width: float = 0.0) -> None:
    """A point of a driver for each repetition; if `width` is not 0, and LEAST_IN_BOX are in a place, with a box."""
    color, marker = driver_style(driver)["color"], driver_style(driver)["marker"]
    seaborn.stripplot(x=places, y=values, ax=ax, color=color, marker=marker, **_REPETITIONS)
    for place, of_place in values.groupby(places):
        if width and len(of_place) >= LEAST_IN_BOX:
            box(ax, of_place, place, width, color)


def box(ax: Axes, values: pd.Series | np.ndarray, place: float, width: float, color: str) -> None:
    edge = {"color": color, "linewidth": 0.7}
    ax.boxplot(  # seaborn 0.13's has matplotlib 3.11 warn of an option that it passes
        [values],
        positions=[place],
        widths=width,
        whis=(0, 100),
        showfliers=False,
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": to_rgba(color, 0.2), "edgecolor": color, "linewidth": 0.7},
        medianprops=edge | {"linewidth": 1.2},
        whiskerprops=edge,
        capprops=edge,
    )


def stacked(
    ax: Axes,
    parts: pd.DataFrame,
    *,
    bar: str,
    part: str,
    order: Sequence,
    colours: Mapping[str, str],
    scale: float = 1,
    flat: bool = False,
) -> None:
    """A stacked bar for each value of the column `bar`, in that order, of those of the column `part`.

    parts: with a column value. colours: of the parts from below; flat: bars lie, their parts from the left.
    """
    side = {"y" if flat else "x": parts[bar].map(list(order).index).to_numpy()}
    seaborn.histplot(
        **side,
        weights=scale * parts["value"].to_numpy(dtype=float),
        hue=parts[part].to_numpy(),
        hue_order=list(colours)[::-1],
        palette=dict(colours),
        multiple="stack",
        discrete=True,
        shrink=0.75,
        alpha=1,
        legend=False,
        ax=ax,
        **style.EDGE,
    )
    for patch in list(ax.patches):
        if isinstance(patch, Rectangle) and not patch.get_width() * patch.get_height():
            patch.remove()


def published_shape(ours: pd.DataFrame, published: pd.DataFrame, *, measure: Measure, conditions: str = "") -> Figure:
    """The published totals and ours beside each other on the same axes, by pairs; a line marks the reference.

    ours, published: the cells of throughput_cells.normalised_shape, by SYSTEM and by paper: multiples of their own
    reference.
    """
    panels = [(f"paper {name}, means", part.assign(n=np.nan)) for name, part in published.groupby("paper")]
    panels += [(f"here: {', '.join(names)}", part) for names, part in ours.groupby(list(SYSTEM))]
    counts = {*ours["pairs"], *published["pairs"]}

    def draw(part: pd.DataFrame, ax: Axes) -> Axes:
        ax.axvline(int(part["reference_pairs"].iloc[0]), **_LEVEL)
        return by_number(part, ax, measure=measure, level=1, counts=counts)

    return grid(panels, draw, note=f"here: {note_of(ours)}", conditions=conditions)


def scatter(
    clients: pd.DataFrame,
    ax: Axes | None = None,
    *,
    x: str,
    y: str,
    x_label: str,
    y_label: str,
    x_scale: float = 1,
    y_scale: float = 1,
) -> Axes:
    """A point per client, and at both axes a stroke for each: the form of paper C's figure 4.

    clients: columns driver, repetition, x and y, of one system. Each repetition has a shade of the driver's colour, as
    clients of one run may be closer to each other than to those of another run. Points are translucent, so that many in
    one place show as many; very many are an image, as each of them would make the file larger.
    """
    ax = single(ax)
    for driver in ordered(clients["driver"]):
        mine = clients[clients["driver"] == driver]
        look, runs = driver_style(driver), mine["repetition"].nunique()
        across, up = mine[x] * x_scale, mine[y] * y_scale
        shades = seaborn.light_palette(look["color"], runs + 2)[2:]  # the palest are hard to see
        shown: dict[str, Any] = {"marker": look["marker"], "s": 7, "linewidth": 0, "alpha": 0.75, "clip_on": False}
        shown |= {"rasterized": len(clients) > _AS_IMAGE, "zorder": 3, "legend": False}
        seaborn.scatterplot(x=across, y=up, hue=mine["repetition"], palette=shades, ax=ax, **shown)
        strokes = {"height": 0.02, "linewidth": 0.4, "alpha": 0.35, "rasterized": True, "expand_margins": False}
        seaborn.rugplot(x=across, y=up, color=look["color"], ax=ax, legend=False, **strokes)
        ax.plot([], [], **look | {"linestyle": "none"}, label=driver)
    ax.grid(True, axis="x")
    ax.set_xmargin(_BESIDE)
    from_zero(ax)
    values = clients[y] * y_scale
    if values.max() > _FAR * max(1, values.median()):
        ax.set_yscale("symlog", linthresh=1)  # linear to 1, so that zero has its place
        ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.set(xlabel=x_label, ylabel=y_label)
    return ax


def count_axis(ax: Axes, counts: Iterable[float]) -> None:
    """An x axis of counts: linear from zero, or logarithmic where that sets those measured more evenly apart.

    It is marked at those measured where they have room.
    """
    measured = np.array(sorted(set(counts)), dtype=float)
    linear = _least_gap(measured)
    by_log = _least_gap(np.log(measured)) if measured[0] > 0 else 0.0
    if by_log > linear:
        beside = (measured[-1] / measured[0]) ** _BESIDE
        logarithmic(ax.xaxis)
        ax.set_xlim(measured[0] / beside, measured[-1] * beside)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        beside = measured[-1] * _BESIDE
        ax.set_xlim(0 if measured[0] > 0 else -beside, measured[-1] + beside)
    if len(measured) <= 10 and max(linear, by_log) >= _BESIDE:
        ax.xaxis.set_major_locator(FixedLocator(list(measured)))
        ax.xaxis.set_minor_locator(NullLocator())


def _least_gap(places: np.ndarray, whole: float = 0.0) -> float:
    """The least distance of two neighbours, as a share of the distance of the first to the last, or of the whole."""
    return float(np.diff(places).min() / (whole or places[-1] - places[0])) if len(places) > 1 else 1.0


def _scale_y(ax: Axes, cells: pd.DataFrame, measure: Measure, level: float | None, log: bool) -> None:
    """Logarithmic if that is asked for, and all is above zero; else from zero, or around the zero of changes."""
    bounds = measure.scale * cells[["value", "low", "high"]].to_numpy(dtype=float)
    if level is not None or measure.change:
        ax.axhline(level or 0, **_LEVEL)
    if (log and (bounds[~np.isnan(bounds)] > 0).all()) or ax.get_yscale() == "log":  # as a panel that shares the axis
        logarithmic(ax.yaxis)
    elif not measure.change:
        from_zero(ax)


def from_zero(ax: Axes, axis: Literal["x", "y"] = "y") -> None:
    ax.autoscale(axis=axis)  # anew, as panels share the axis and an earlier one has fixed it
    ax.set(**{f"{axis}lim": (0, None)})
