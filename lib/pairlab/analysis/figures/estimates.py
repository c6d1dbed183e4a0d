"""Figures of estimates and of repetitions: DataFrame in, matplotlib Axes out.

A draw function draws one system onto one Axes, drivers in their own colours; by_system gives each system a panel, since
backends and workloads are never pooled. Estimates are frames in the form of cell_estimates.COLUMNS.
"""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FormatStrFormatter, MaxNLocator, NullFormatter, NullLocator, ScalarFormatter
from matplotlib.transforms import offset_copy

from pairlab.analysis.cell_estimates import unit_of
from pairlab.analysis.figures.grid import grid, logarithmic, row_height_in, single
from pairlab.analysis.figures.style import HEIGHT_IN, LEAST_IN_BOX, PAGE_IN, driver_style, ordered, points_only
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.selection import SYSTEM

#: Bars of intervals; and points before them, each with a rim that sets it off, and whole where it lies on an axis.
BARS = {"capsize": 1.6, "elinewidth": 0.7, "capthick": 0.7}
POINTS = {"markeredgecolor": "white", "markeredgewidth": 0.4, "zorder": 3, "clip_on": False}
_ROOM = 0.62  # of the place of a category that its drivers take
_BOXES = 0.78  # of the room between two pair counts
_BESIDE = 0.05  # of an axis of counts, left free beside the first and the last
_WIDE = 3  # from so many times the largest value on, an interval would
_FAR = 30  # from so many times the median on, an outlier would press the other points onto the axis
_STROKE = 0.02  # of an axis, along which each point has a stroke
_PALEST = 2  # shades between white and the palest in use
_AS_IMAGE = 1000  # points of a panel; more are drawn as an image


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    note: str = "",
    conditions: str = "",
    wide: bool = False,
    **options: object,
) -> Figure:
    """One panel per system, on one scale, with a note below; options go to `draw`.

    frame: what `draw` takes, of any number of systems. note: what a reader must know of n; empty: note_of the frame.
    conditions: how it was measured, added to the note. One panel is a column wide (wide: two columns), several share
    the width of the page. Systems measured with different numbers of pairs have these in their titles.
    """
    panels = _titled(frame)

    def drawn(part: pd.DataFrame, ax: Axes) -> Axes:
        return draw(part, ax, **options)

    height_in = row_height_in(len(panels)) if wide and len(panels) > 1 else HEIGHT_IN
    return grid(panels, drawn, note=noted(note or note_of(frame), conditions), wide=wide, height_in=height_in)


def above_each_other(
    rows: Sequence[tuple[pd.DataFrame, Callable[..., Axes]]],
    *,
    conditions: str = "",
    share_x: bool | str = "col",
    height_in: float = 1.7,
) -> Figure:
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

    note = noted(note_of(rows[-1][0]), conditions)
    across = len(panels) // len(rows)
    return grid(panels, draw, note=note, across=across, share_x=share_x, share_y="row", height_in=height_in)


def _titled(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The part of each system with its name, and its number of pairs where each has one, but not all the same."""
    parts = [(", ".join(names), part) for names, part in frame.groupby(list(SYSTEM), sort=True)]
    if "pairs" not in frame or frame["pairs"].nunique() == 1 or any(part["pairs"].nunique() > 1 for _, part in parts):
        return parts
    return [(f"{name}: {part['pairs'].iloc[0]} pairs", part) for name, part in parts]


def note_of(frame: pd.DataFrame, what: str = "mean") -> str:
    """What a reader must know of estimates, or of repetitions: of how many pairs and repetitions, and what is drawn."""
    if "repetition" in frame:
        n = frame.groupby([*SYSTEM, "driver", "pairs"])["repetition"].nunique()
        if n.max() < LEAST_IN_BOX:
            return f"a point per repetition, n = {span(n)} in each column"
        boxes = "a box (quartiles, median; whiskers: extremes)"
        if n.min() < LEAST_IN_BOX:
            boxes += f" from n = {LEAST_IN_BOX} repetitions on, else a point each"
        return f"{boxes}; n = {span(n)} repetitions"
    known = frame[frame["value"].notna()]
    alike = "pairs" in frame and frame["pairs"].nunique() == 1
    pairs = f"{span(frame['pairs'])} pair{'s' * int(frame['pairs'].iloc[0] > 1)}; " if alike else ""
    n, unit = known["n"], unit_of(frame)
    if n.max() == 1:
        return f"{pairs}{what} of n = 1 {unit}, which has no interval"
    partly = "" if frame.loc[known.index, ["low", "high"]].notna().all(axis=None) else " (none where n < 3)"
    share = f"{frame['confidence'].iloc[0] * 100:g} %"
    return f"{pairs}{what} of n = {span(n)} {unit}s; bars: {share} interval{partly}"


def noted(note: str, conditions: str) -> str:
    """A note and the conditions of measuring as one text."""
    return "; ".join(part for part in (note, conditions) if part)


def by_number(
    cells: pd.DataFrame,
    ax: Axes | None = None,
    *,
    measure: Measure,
    number: str = "pairs",
    name: str = "Pairs",
    label: str = "",
    ticks: dict[float, str] | None = None,
    from_zero: bool = True,
    log_y: bool = False,
) -> Axes:
    """An estimate over a number, a line per driver with interval bars: the form of paper C's figures 2 and 10.

    cells: estimates of one system, with a column `number`; one with a gap is not drawn. name: of the x axis; label: of
    the y axis, if not the measure's title. ticks: what the marks of an axis of powers of two say, and where they are;
    None: an axis of counts. log_y: the values span decades, so that a linear axis would hide the small ones.
    """
    ax = single(ax)
    log_y = log_y and _all_above_zero(cells)
    lines(ax, cells[cells["value"].notna()], x=number, scale=measure.scale, from_zero=from_zero and not log_y)
    if log_y:
        logarithmic(ax.yaxis)
    if ticks:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(list(ticks), list(ticks.values()))
        if max(map(len, ticks.values())) * len(ticks) > 30:  # they would run into each other
            ax.tick_params(axis="x", labelrotation=50)
            plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")
    else:
        count_axis(ax, cells[number])
    ax.set_xlabel(name)
    ax.set_ylabel(label or measure.title)
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
    from_zero: bool = True,
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
    drivers = ordered(cells["driver"])
    place = {each: number for number, each in enumerate(order)}
    for number, driver in enumerate(drivers):
        mine = cells[(cells["driver"] == driver) & cells["value"].notna()]
        sideways = _ROOM * ((number + 0.5) / len(drivers) - 0.5)
        middle, yerr = _with_bars(mine, measure.scale)
        across = mine[category].map(place) + sideways
        ax.errorbar(across, middle, yerr=yerr, **points_only(driver), **BARS, label=driver)[0].set(**POINTS)
    category_axis(ax, ticks or list(map(str, order)), name)
    if level is not None:
        ax.axhline(level, color="0.4", linewidth=0.6, zorder=1)
    ax.set_ylabel(label or measure.title)
    if (
        far := (log_y and _all_above_zero(cells)) or _presses(cells) or ax.get_yscale() == "log"
    ):  # a panel before this one may share its axis
        logarithmic(ax.yaxis)
    scale_y(ax, from_zero and not far)
    return ax


def repetitions_by_pairs(
    repetitions: pd.DataFrame, ax: Axes | None = None, *, value: str, measure: Measure, label: str = ""
) -> Axes:
    """A value of each repetition by pairs and driver: points, or boxes from LEAST_IN_BOX on (paper E, figure 3).

    repetitions: a row per repetition, of one system. The box spans the quartiles, its line is the median, the whiskers
    reach the extremes.
    """
    ax = single(ax, PAGE_IN)
    drivers, pairs = ordered(repetitions["driver"]), sorted(repetitions["pairs"].unique())
    width = _BOXES / len(drivers)
    for number, driver in enumerate(drivers):
        style = points_only(driver)
        ax.plot([], [], **style, label=driver)
        sideways = width * (number - (len(drivers) - 1) / 2)
        for count, mine in repetitions[repetitions["driver"] == driver].groupby("pairs"):
            values = mine[value] * measure.scale
            places = np.full(len(values), pairs.index(count) + sideways)
            if len(values) >= LEAST_IN_BOX:
                box(ax, values, places[0], 0.7 * width, style["color"])
            else:
                points = {"color": style["color"], "marker": style["marker"], **REPETITIONS}
                seaborn.stripplot(x=places, y=values, ax=ax, **points)
    category_axis(ax, pairs, "Pairs")
    ax.set_ylabel(label or measure.title)
    scale_y(ax, from_zero=True)
    return ax


def relative_by_pairs(shape: pd.DataFrame, ax: Axes | None = None, *, measure: Measure) -> Axes:
    """Normalised total throughput by pairs, a line per driver.

    shape: the cells of throughput_cells.normalised_shape, of one system or paper. Pairs are on a logarithmic axis, and
    two thin lines cross at the reference.
    """
    ax = single(ax)
    lines(ax, shape)
    ax.axhline(1, color="0.4", linewidth=0.6, zorder=1)
    ax.axvline(int(shape["reference_pairs"].iloc[0]), color="0.4", linewidth=0.6, zorder=1)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel("Pairs")
    ax.set_ylabel(measure.title)
    return ax


def published_shape(ours: pd.DataFrame, published: pd.DataFrame, *, measure: Measure, conditions: str = "") -> Figure:
    """The published totals and ours beside each other on the same axes.

    ours, published: the cells of throughput_cells.normalised_shape, by SYSTEM and by paper: multiples of their own
    reference.
    """
    panels = [(f"paper {name}, means", part) for name, part in published.groupby("paper")]
    panels += [(f"here: {', '.join(names)}", part) for names, part in ours.groupby(list(SYSTEM))]
    note = noted(f"here: {note_of(ours)}", conditions)
    return grid(panels, lambda part, ax: relative_by_pairs(part, ax, measure=measure), note=note, share_x=True)


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
    many = len(clients) > _AS_IMAGE
    for driver in ordered(clients["driver"]):
        mine = clients[clients["driver"] == driver]
        points = points_only(driver) | {"markersize": 2.6, "alpha": 0.75}
        runs = [run for _, run in mine.groupby("repetition")]
        shades = seaborn.light_palette(points["color"], len(runs) + _PALEST)[_PALEST:]
        ax.plot([], [], **points, label=driver)
        for run, shade in zip(runs, shades, strict=True):
            drawn = ax.plot(run[x] * x_scale, run[y] * y_scale, **points | {"color": shade}, rasterized=many)
            drawn[0].set(**POINTS | {"markeredgewidth": 0})
        strokes = {"color": points["color"], "height": _STROKE, "linewidth": 0.4, "alpha": 0.35, "rasterized": True}
        seaborn.rugplot(x=mine[x] * x_scale, y=mine[y] * y_scale, ax=ax, expand_margins=False, legend=False, **strokes)
    ax.grid(True, axis="x")
    ax.set_xmargin(_BESIDE)
    scale_y(ax, from_zero=True)
    if (clients[y] * y_scale).max() > _FAR * max(1, (clients[y] * y_scale).median()):
        ax.set_yscale("symlog", linthresh=1)  # linear to 1, so that zero has its place
        ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    return ax


def lines(ax: Axes, estimates: pd.DataFrame, *, x: str = "pairs", scale: float = 1, from_zero: bool = True) -> None:
    """A line per driver through the values over `x`, with interval bars, from zero up or as the values need it.

    Bars of different drivers are drawn beside each other by a point or two, so that none hides another; the data are
    not moved. An estimate without an interval has no bar.
    """
    drivers = ordered(estimates["driver"])
    for number, driver in enumerate(drivers):
        mine = estimates[estimates["driver"] == driver].sort_values(x)
        middle, yerr = _with_bars(mine, scale)
        drawn = ax.errorbar(mine[x], middle, yerr=yerr, **driver_style(driver), **BARS, label=driver)
        drawn[0].set(**POINTS)
        sideways_pt = _SIDEWAYS_PT * (number - (len(drivers) - 1) / 2)
        sideways = offset_copy(ax.transData, ax.figure, x=sideways_pt, units="points")
        for artist in drawn.get_children():
            artist.set_transform(sideways)
    scale_y(ax, from_zero)


def count_axis(ax: Axes, counts: pd.Series, name: str = "Pairs") -> None:
    """An x axis of counts: linear from zero, or logarithmic where that sets those measured more evenly apart.

    It is marked at those measured where they have room.
    """
    measured = np.array(sorted(counts.unique()))
    linear = _least_gap(measured)
    logarithmic = _least_gap(np.log(measured)) if measured[0] > 0 else 0.0
    ax.set_xlabel(name)
    if logarithmic > linear:
        beside = (measured[-1] / measured[0]) ** _BESIDE
        ax.set_xscale("log")
        ax.set_xlim(measured[0] / beside, measured[-1] * beside)
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        beside = measured[-1] * _BESIDE
        ax.set_xlim(0 if measured[0] > 0 else -beside, measured[-1] + beside)
    if len(measured) <= 10 and max(linear, logarithmic) >= _BESIDE:
        ax.xaxis.set_major_locator(FixedLocator(measured))
        ax.xaxis.set_minor_locator(NullLocator())


_SIDEWAYS_PT = 1.8  # between the bars of neighbouring drivers
#: Places are numbers (native_scale), and no point is moved aside by chance.
REPETITIONS = {
    "legend": False,
    "native_scale": True,
    "jitter": False,
    "size": 3.4,
    "alpha": 0.75,
    "zorder": 3,
    "clip_on": False,
}


def box(ax: Axes, values: pd.Series, place: float, width: float, color: str) -> None:
    edge = {"color": color, "linewidth": 0.7}
    ax.boxplot(  # seaborn 0.13's has matplotlib 3.11 warn of an option that it passes
        [values],
        positions=[place],
        widths=width,
        whis=(0, 100),
        manage_ticks=False,
        patch_artist=True,
        boxprops={"facecolor": to_rgba(color, 0.2), "edgecolor": color, "linewidth": 0.7},
        medianprops=edge | {"linewidth": 1.2},
        whiskerprops=edge,
        capprops=edge,
    )


def _with_bars(estimates: pd.DataFrame, scale: float) -> tuple[pd.Series, list[pd.Series]]:
    middle = estimates["value"] * scale
    return middle, [middle - estimates["low"] * scale, estimates["high"] * scale - middle]


def category_axis(ax: Axes, names: Sequence, label: str) -> None:
    for between in range(1, len(names)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    ax.set_xticks(range(len(names)), names)
    ax.set_xlim(-0.5, len(names) - 0.5)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(label)


def _least_gap(places: np.ndarray) -> float:
    """The least distance of two neighbours, as a share of the distance of the first to the last."""
    return float(np.diff(places).min() / (places[-1] - places[0])) if len(places) > 1 else 1.0


def _presses(estimates: pd.DataFrame) -> bool:
    """Whether, of what is all above zero, an interval reaches so far that most values would lie on a linear axis."""
    return _all_above_zero(estimates) and bool(estimates["high"].max() > _WIDE * estimates["value"].max())


def _all_above_zero(estimates: pd.DataFrame) -> bool:
    bounds = estimates[["value", "low", "high"]].to_numpy(dtype=float)
    return bool((bounds[~np.isnan(bounds)] > 0).all())


def scale_y(ax: Axes, from_zero: bool) -> None:
    if not from_zero:
        ax.set_ylim(auto=True)
    ax.autoscale(axis="y")  # anew, as panels share the axis and an earlier one has fixed it
    if from_zero:
        ax.set_ylim(bottom=0)
