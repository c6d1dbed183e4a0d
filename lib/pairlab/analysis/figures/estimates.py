"""Figures of estimates and of repetitions: DataFrame in, matplotlib Axes out.

A draw function draws one system onto one Axes, drivers in their own colours; by_system gives each system a panel, since
backends and workloads are never pooled. Estimates are frames in the form of cell_estimates.COLUMNS.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter

from pairlab.analysis.cell_estimates import APART, ATTEMPTS, pairing_text, unit_of
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import grid, style
from pairlab.analysis.figures.style import LEAST_IN_BOX, driver_style
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.selection import SYSTEM
from pairlab.statistics.intervals import LEAST

#: Points of estimates, with a rim, not clipped at an axis; and the bars of their intervals.
_POINTS = {"markersize": 4.4, "zorder": 3, "clip_on": False, "linewidth": 1.1}
_RIM = {"markeredgecolor": "white", "markeredgewidth": 0.4}
_HOLLOW = {"markerfacecolor": "white", "markeredgewidth": 0.8}
_BARS = {"linewidth": 0.7, "zorder": 2, "clip_on": False}
_LEVEL: dict[str, Any] = {"color": "0.4", "linewidth": 0.6, "zorder": 1}
#: Points of repetitions, by their area in points²; open marks with narrow arms are larger.
_SIZE, _OPEN_SIZES = 12, {"X": 25, "P": 25}
_FILLED: dict[str, Any] = {"s": _SIZE, "alpha": 0.75, "linewidth": 0}
_OPEN: dict[str, Any] = {"facecolor": "white", "linewidth": 0.6}
_SPREAD = 0.45  # share of a place's width over which its repetitions are spread
_ROOM = 0.62  # share of a category's width for its drivers
_BOXES = 0.78  # share of the distance of two pair counts
_BESIDE = 0.05  # share of an axis of counts, left free beside the first and the last
_APART, _CAP = 0.006, 0.015  # shares of such an axis: between the points of neighbouring drivers, and a bar's end
_OUTSIDE = 1.3  # factor by which an axis of sizes extends beyond the smallest and the largest size
_WIDE = 3  # an interval beyond this multiple of the largest value makes the axis logarithmic
_FAR = 30  # so does an outlier beyond this multiple of the median
_HALO = withStroke(linewidth=1.6, foreground="white")
_NUMBER: dict[str, Any] = {"fontsize": 7, "fontweight": "bold", "ha": "center", "va": "center", "zorder": 4}
_AS_IMAGE = 1000  # points of a panel; more are drawn as an image
#: Marks of an axis of changes on which a fall to one half is as far from none as a rise to twice as much.
_CHANGES = (-90, -75, -50, 0, 100, 300, 900)


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    note: str = "",
    conditions: grid.Conditions = "",
    wide: bool = False,
    **options: Any,
) -> Figure:
    """One panel per system, on one scale, with a note below; options go to `draw`.

    frame: the argument of `draw`, for any number of systems. note: about n; empty: as caption. conditions: of the
    measurements, added to the note. One panel is a column wide (wide: two columns), several share the width of the
    page. If systems differ in the number of pairs, it is in their titles.
    """
    layout: dict[str, Any] = {"note": note or caption(frame), "conditions": conditions, "wide": wide, "share_y": True}
    return grid.grid(_titled(frame), partial(draw, **options), **layout)


def pairs_text(pairs: int) -> str:
    return f"{pairs} pair{'' if pairs == 1 else 's'}"


def above_each_other(
    rows: Sequence[tuple[pd.DataFrame, Callable[..., Axes]]], *, conditions: grid.Conditions = ""
) -> Figure:
    """Several measures of the same systems: a row for each, a column per system, with a note on the last row's n.

    rows: from the top, the estimates of the systems, and the function that draws one system. The first row has all
    systems; the place of a system that another row lacks stays free.
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
    return grid.grid(panels, draw, note=caption(rows[-1][0]), conditions=conditions, across=across, share_x="col")


def _titled(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Title and part of each system. The title has the number of pairs if each system has one and these differ."""
    parts = [(", ".join(names), part) for names, part in frame.groupby(list(SYSTEM), sort=True)]
    if "pairs" not in frame or frame["pairs"].nunique() == 1 or any(part["pairs"].nunique() > 1 for _, part in parts):
        return parts
    return [(f"{name}: {part['pairs'].iloc[0]} pairs", part) for name, part in parts]


def caption(frame: pd.DataFrame, what: str = "", by: Sequence[str] = (*SYSTEM, "driver", "pairs")) -> str:
    """The caption of estimates or repetitions: the numbers of pairs and repetitions, and the plotted quantity.

    what: the plotted quantity, if not means or changes; for changes, the comparison. by: the columns that distinguish
    the cells of repetitions.
    """
    if "repetition" in frame:
        n = frame.groupby(list(by))["repetition"].nunique()
        if n.max() < LEAST_IN_BOX:
            return f"a point per repetition, n = {span(n)} in each column"
        boxes = f"a point per repetition, and from n = {LEAST_IN_BOX} on a box (quartiles, median; whiskers: extremes)"
        return f"{boxes}; n = {span(n)} repetitions"
    known = frame[frame["value"].notna()]
    alike = "pairs" in known and known["pairs"].nunique() == 1
    pairs = f"{pairs_text(int(known['pairs'].iloc[0]))}; " if alike else ""
    n, unit = known["n"], unit_of(known)
    what = f"{what or 'change'}, {pairing_text(known)}," if "pairing" in known else what or "mean"
    if n.max() == 1:
        return f"{pairs}{what} of n = 1 {unit}, which has no interval"
    bare = known[known[["low", "high"]].isna().any(axis=1)]
    kinds = {*bare["pairing"]} if "pairing" in bare else set()
    why = {
        f"n < {LEAST}": (bare["n"] < LEAST).any(),
        "sides were measured apart": APART in kinds,
        "more of one side's measurements did not count": ATTEMPTS in kinds,
    }
    reasons = " or ".join(words for words, is_so in why.items() if is_so)
    bars = f"; bars: {known['confidence'].iloc[0] * 100:g} % interval" * (len(bare) < len(known))
    hollow = "; hollow: no interval" * (len(bare) > 0) + (f" ({reasons})" if reasons else "")
    return f"{pairs}{what} of n = {span(n)} {unit}s{bars}{hollow}"


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

    order: the categories of that column; None: a column of numbers. joined: by a line, broken where a driver has no
    value; flat: values are on the x axis, drivers on the y axis. apart: the distance of the first driver to the last,
    so that no bar hides another; cap: the width of a bar's end; both relative to the smallest distance of two places.
    An estimate without an interval is hollow.
    """
    drivers = ordered(cells["driver"])
    styles = pd.DataFrame([driver_style(driver) for driver in drivers])
    # As a median and the extremes of three values, seaborn draws a value and the bounds that are not NaN.
    bounds, names = ["low", "value", "high"], list({along, "driver", "bare"})
    bare = cells["n"].notna() & cells[["low", "high"]].isna().any(axis=1)  # what a paper states has no n
    three = cells.assign(bare=bare)[[*names, *bounds]].melt(names, bounds, value_name="shown")
    three = three.assign(shown=scale * three["shown"].astype(float))
    options: dict[str, Any] = {
        "x": along,
        "y": "shown",
        "order": order,
        "native_scale": order is None,
        "hue": "driver",
        "hue_order": drivers,
        "palette": list(styles["color"]),
        "legend": False,
        "ax": ax,
        "estimator": "median",
        "errorbar": ("pi", 100),
        "capsize": cap,
        "err_kws": _BARS,
        "markers": list(styles["marker"]),
        "dodge": apart if len(drivers) > 1 else False,
        **_POINTS,
    }
    if flat:
        options |= {"x": "shown", "y": along, "orient": "y"}
    before = len(ax.lines)
    seaborn.pointplot(three, **options, **_RIM, linestyles=list(styles["linestyle"]) if joined else "none")
    series = [line for line in ax.lines[before:] if line.get_marker() != "None"]
    for line, driver in zip(series, drivers, strict=True):
        line.set_label("" if flat else driver)
    if bare.any():
        single = three.assign(shown=three["shown"].where(three["bare"]))
        seaborn.pointplot(single, **options, **_HOLLOW, linestyles="none")
    for line in ax.lines[before:]:
        if not np.isfinite(np.array(line.get_data(), dtype=float)).all(axis=0).any():  # a bar without an interval
            line.remove()


def by_number(
    cells: pd.DataFrame,
    ax: Axes,
    *,
    measure: Quantity,
    number: str = "pairs",
    name: str = "Pairs",
    label: str = "",
    ticks: dict[float, str] | None = None,
    counts: Iterable[float] = (),
    level: float | None = None,
    log_y: bool = False,
) -> Axes:
    """An estimate over a number, a line per driver with interval bars: as in Boeira et al. 2021, figures 2 and 10.

    cells: estimates of one system, with a column `number`; a missing estimate breaks the line. name: of the x axis;
    label: of the y axis, if not the measure's title. ticks: places and labels of an axis of powers of two; None: an
    axis of `counts` and of the cells' numbers. level: a value that a thin line marks; log_y: the values span decades,
    so that a linear axis would hide the small ones.
    """
    places = np.array(sorted(ticks or {*cells[number], *counts}), dtype=float)
    if ticks:
        ax.set_xscale("log", base=2)
        ax.set_xlim(places[0] / _OUTSIDE, places[-1] * _OUTSIDE)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(list(ticks), list(ticks.values()))
    else:
        count_axis(ax, places)
    cell_places = ax.xaxis.get_transform().transform(np.array(sorted(cells[number].unique()), dtype=float))
    ends = ax.xaxis.get_transform().transform(places[[0, -1]])
    gap = _least_gap(cell_places, float(np.ptp(ends)))
    apart = _APART * (cells["driver"].nunique() - 1)
    points(ax, cells, along=number, scale=measure.scale, joined=True, apart=apart / gap, cap=_CAP / gap)
    ax.set_xlabel(name)
    return _scaled(ax, cells, measure, label, level, log_y)


def by_category(
    cells: pd.DataFrame,
    ax: Axes,
    *,
    measure: Quantity,
    category: str,
    order: Sequence,
    name: str,
    label: str = "",
    ticks: Sequence[str] | None = None,
    level: float | None = None,
    log_y: bool = False,
) -> Axes:
    """An estimate with its interval bar for each category and driver: as in Boeira et al. 2021, figures 7 to 9.

    cells: estimates of one system, with a column `category`; missing estimates are not drawn. order: the categories of
    all systems from left to right, so that panels agree; ticks: their labels, if not the categories. name: of the x
    axis; label: of the y axis, if not the measure's title. level: a value that a thin line marks. The y axis is
    logarithmic with log_y (for values that span decades), or if an interval extends beyond _WIDE times the largest
    value; provided that all bounds are above zero.
    """
    drivers = cells["driver"].nunique()
    points(ax, cells, along=category, order=order, scale=measure.scale, apart=_ROOM * (drivers - 1) / drivers)
    grid.name_categories(ax, ticks or order, name)
    return _scaled(ax, cells, measure, label, level, log_y or cells["high"].max() > _WIDE * cells["value"].max())


def below_each_other(
    cells: pd.DataFrame, ax: Axes, *, measure: Quantity, order: Sequence[str] = (), ratios: bool = False
) -> Axes:
    """An estimate with its interval bar of each network, one below the other. cells: estimates of one place.

    order: of the networks of all panels that are compared; empty: those of this one. ratios: changes have a logarithmic
    axis, on which a rise to many times as much does not press the others together.
    """
    drivers = list(order) or ordered(cells["driver"])
    points(ax, cells, along="driver", order=drivers, scale=measure.scale, flat=True)
    grid.name_rows(ax, drivers)
    ax.set(xlabel=measure.title, ylabel="Network")
    ax.grid(True, axis="x")
    if measure.change:
        ax.axvline(0, **_LEVEL)
    else:
        from_zero(ax, "x")
    if ratios:
        to_log = (lambda change: np.log1p(np.maximum(change, -99) / 100), lambda log: 100 * np.expm1(log))
        ax.set_xscale("function", functions=to_log)
        ax.xaxis.set_major_locator(FixedLocator(_CHANGES))
        ax.set_xlabel(f"{measure.title}, logarithmic")
    return ax


def repetitions_by_pairs(
    repetitions: pd.DataFrame, ax: Axes, *, value: str, measure: Quantity, label: str = ""
) -> Axes:
    """A value of each repetition by pairs and driver: points, with boxes from LEAST_IN_BOX on.

    As in Boeira and Ferreto, figure 3. repetitions: a row per repetition, of one system. The box spans the quartiles,
    its line is the median, the whiskers reach the extremes.
    """
    drivers, pairs = ordered(repetitions["driver"]), sorted(repetitions["pairs"].unique())
    width = _BOXES / len(drivers)
    places = beside_each_other(repetitions, drivers, pairs, width)
    for driver in drivers:
        rows = repetitions["driver"] == driver
        repeated(ax, repetitions.loc[rows, value] * measure.scale, places[rows], driver, width=0.7 * width)
        ax.plot([], [], **driver_style(driver) | {"linestyle": "none"}, label=driver)
    grid.name_categories(ax, pairs, "Pairs")
    ax.set_ylabel(label or measure.title)
    from_zero(ax)
    return ax


def beside_each_other(frame: pd.DataFrame, drivers: Sequence[str], pairs: Sequence[int], width: float) -> pd.Series:
    """The x of each row: at the number of pairs, drivers beside each other, each of that width."""
    return frame["pairs"].map(pairs.index) + width * (frame["driver"].map(drivers.index) - (len(drivers) - 1) / 2)


def repetitions_by_driver(
    repetitions: pd.DataFrame,
    ax: Axes,
    *,
    value: str,
    measure: Quantity,
    order: Sequence[str] = (),
    beside: str = "",
    filled: str = "",
) -> Axes:
    """A value of each repetition by driver: points, with boxes from LEAST_IN_BOX on (Mentz et al. 2020, figure 3).

    order: of the drivers of all panels; empty: those of this one. beside: a column whose values stand beside each other
    at a driver, with filled points where it is `filled`, which comes first, and open ones elsewhere. The axis is
    logarithmic where they are far apart. No point hides another repetition's.
    """
    drivers = list(order) or ordered(repetitions["driver"])
    settings = sorted(repetitions[beside].unique(), key=lambda each: (each != filled, each)) if beside else [""]
    width = _ROOM / len(settings)
    for place, driver in enumerate(drivers):
        of_driver = repetitions[repetitions["driver"] == driver]
        for number, setting in enumerate(settings):
            rows = of_driver[of_driver[beside] == setting] if beside else of_driver
            at = place + width * (number - (len(settings) - 1) / 2)
            places = pd.Series(float(at), rows.index)
            repeated(ax, rows[value] * measure.scale, places, driver, width=0.9 * width, hollow=setting != filled)
    grid.name_categories(ax, drivers, "Driver")
    ax.set_ylabel(measure.title)
    values = measure.scale * repetitions[value].dropna()
    if beside and values.min() > 0 and values.max() > _FAR * values.min():
        grid.logarithmic(ax.yaxis)
    else:
        from_zero(ax)
    return ax


def repeated(
    ax: Axes, values: pd.Series, places: pd.Series, driver: str, *, width: float = 0.0, hollow: bool = False
) -> None:
    """A driver's points, one per repetition.

    width: of a place, over whose middle its points are spread in the order of the rows, with a box around LEAST_IN_BOX
    and more; 0: they lie above each other.
    """
    color, marker = driver_style(driver)["color"], driver_style(driver)["marker"]
    at_place = values.groupby(places)
    spread = at_place.cumcount() - (at_place.transform("size") - 1) / 2
    spread *= _SPREAD * width / at_place.transform("size")
    look = _OPEN | {"s": _OPEN_SIZES.get(marker, _SIZE), "edgecolor": color} if hollow else _FILLED | {"color": color}
    ax.scatter(places + spread, values, marker=marker, zorder=3, clip_on=False, **look)
    for place, of_place in at_place:
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
    """A stacked bar for each value of the column `bar`, in the given order; its parts are the values of `part`.

    parts: with a column value. colours: of the parts from below; flat: horizontal bars, parts from the left.
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


def stacked_by_driver(parts: pd.DataFrame, ax: Axes, *, part: str, label: str, **bars: Any) -> Axes:
    """A stacked bar for each driver; bars: options of `stacked`."""
    drivers = ordered(parts["driver"])
    stacked(ax, parts, bar="driver", part=part, order=drivers, **bars)
    grid.name_categories(ax, drivers, "Driver")
    ax.set_ylabel(label)
    return ax


def published_shape(
    ours: pd.DataFrame, published: pd.DataFrame, *, measure: Quantity, conditions: grid.Conditions = ""
) -> Figure:
    """The published totals and ours beside each other on the same axes, by pairs; a line marks the reference.

    ours, published: the cells of questions.throughput.normalised_shape, by SYSTEM and by paper: multiples of their own
    reference.
    """
    panels = [(f"paper {name}, means", part.assign(n=np.nan)) for name, part in published.groupby("paper")]
    panels += [(f"here: {', '.join(names)}", part) for names, part in ours.groupby(list(SYSTEM))]
    counts = {*ours["pairs"], *published["pairs"]}

    def draw(part: pd.DataFrame, ax: Axes) -> Axes:
        ax.axvline(int(part["reference_pairs"].iloc[0]), **_LEVEL)
        return by_number(part, ax, measure=measure, level=1, counts=counts)

    return grid.grid(panels, draw, note=f"here: {caption(ours)}", conditions=conditions)


def scatter(
    clients: pd.DataFrame,
    ax: Axes,
    *,
    x: str,
    y: str,
    x_label: str,
    y_label: str,
    x_scale: float = 1,
) -> Axes:
    """A point per client: as in Boeira et al. 2021, figure 4.

    clients: columns driver, repetition, x and y, of one system. Each repetition has a shade of the driver's colour, and
    its number amid its clients, as these may be more alike within a run than between runs. Points are translucent, so
    that density shows; more than _AS_IMAGE points are rasterized, to keep the file small.
    """
    for driver in ordered(clients["driver"]):
        rows = clients[clients["driver"] == driver]
        look, runs = driver_style(driver), rows["repetition"].nunique()
        xs, ys = rows[x] * x_scale, rows[y]
        shades = seaborn.light_palette(look["color"], runs + 2)[2:]  # the palest are hard to see
        options: dict[str, Any] = {"marker": look["marker"], "s": 7, "linewidth": 0, "alpha": 0.75, "clip_on": False}
        options |= {"rasterized": len(clients) > _AS_IMAGE, "zorder": 3, "legend": False}
        seaborn.scatterplot(x=xs, y=ys, hue=rows["repetition"], palette=shades, ax=ax, **options)
        for repetition, middle in pd.DataFrame({"x": xs, "y": ys}).groupby(rows["repetition"]).median().iterrows():
            ax.text(middle["x"], middle["y"], str(repetition), path_effects=[_HALO], **_NUMBER)
        ax.plot([], [], **look | {"linestyle": "none"}, label=driver)
    ax.grid(True, axis="x")
    ax.set_xmargin(_BESIDE)
    from_zero(ax)
    if clients[y].max() > _FAR * max(1, clients[y].median()):
        ax.set_yscale("symlog", linthresh=1)  # linear to 1, so that zero has its place
        ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.set(xlabel=x_label, ylabel=y_label)
    return ax


def count_axis(ax: Axes, counts: Iterable[float]) -> None:
    """An x axis of counts: linear from zero, or logarithmic where that spaces the measured counts more evenly.

    The measured counts are the ticks if they fit.
    """
    measured = np.array(sorted(set(counts)), dtype=float)
    linear = _least_gap(measured)
    by_log = _least_gap(np.log(measured)) if measured[0] > 0 else 0.0
    if by_log > linear:
        beside = (measured[-1] / measured[0]) ** _BESIDE
        grid.logarithmic(ax.xaxis)
        ax.set_xlim(measured[0] / beside, measured[-1] * beside)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        beside = measured[-1] * _BESIDE
        ax.set_xlim(0 if measured[0] > 0 else -beside, measured[-1] + beside)
    if len(measured) <= 10 and max(linear, by_log) >= _BESIDE:
        ax.xaxis.set_major_locator(FixedLocator(list(measured)))
        ax.xaxis.set_minor_locator(NullLocator())


def _least_gap(places: np.ndarray, whole: float = 0.0) -> float:
    """The smallest distance of two neighbours, as a share of `whole`, or else of the distance of first and last."""
    return float(np.diff(places).min() / (whole or places[-1] - places[0])) if len(places) > 1 else 1.0


def _scaled(ax: Axes, cells: pd.DataFrame, measure: Quantity, label: str, level: float | None, log: bool) -> Axes:
    """Sets the y axis: logarithmic if `log` and all bounds are positive; else from zero, or around zero for changes."""
    ax.set_ylabel(label or measure.title)
    bounds = measure.scale * cells[["value", "low", "high"]].to_numpy(dtype=float)
    if level is not None or measure.change:
        ax.axhline(level or 0, **_LEVEL)
    if (log and (bounds[~np.isnan(bounds)] > 0).all()) or ax.get_yscale() == "log":
        grid.logarithmic(ax.yaxis)
    elif not measure.change:
        from_zero(ax)
    return ax


def from_zero(ax: Axes, axis: Literal["x", "y"] = "y") -> None:
    ax.autoscale(axis=axis)  # again, as an earlier panel that shares the axis has fixed it
    if getattr(ax, f"get_{axis}scale")() != "log":  # set by a panel that shares it
        ax.set(**{f"{axis}lim": (0, None)})
