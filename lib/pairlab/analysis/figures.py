"""DataFrame in, matplotlib Axes out; one style for all figures.

A draw function draws one system onto one Axes. by_system gives each system a panel, since backends and
workloads are never pooled: the panels are those of grids.py. How a figure looks stands in look.py, and what becomes of
it in figure_files.py, whose save is here too, for notebooks.
"""

from collections.abc import Callable, Iterable

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator, ScalarFormatter
from matplotlib.transforms import offset_copy

from pairlab.analysis.figure_files import save, show_as_svg
from pairlab.analysis.grids import grid, row_height_in, single
from pairlab.analysis.look import HEIGHT_IN, PAGE_IN, STYLE, driver_style, ordered, points_only
from pairlab.analysis.stats import SYSTEM

__all__ = [
    "BARS",
    "POINTS",
    "box_by_pairs",
    "by_system",
    "count_axis",
    "lines",
    "note",
    "published_shape",
    "relative_by_pairs",
    "save",
    "span",
    "total_by_pairs",
    "use_style",
]

#: Bars of intervals; and points before them, each with a rim that sets it off, and whole where it lies on an axis.
BARS = {"capsize": 1.6, "elinewidth": 0.7, "capthick": 0.7}
POINTS = {"markeredgecolor": "white", "markeredgewidth": 0.4, "zorder": 3, "clip_on": False}
_BOXES = 0.78  # of the room between two pair counts
_BESIDE = 0.05  # of an axis of counts, left free beside the first and the last


def use_style() -> None:
    """Makes the look that of this process, and a notebook show SVG; a notebook calls it before its first figure."""
    plt.rcParams.update(STYLE)
    show_as_svg()


def total_by_pairs(cells: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Total throughput by pairs, a line per driver, with interval bars: the form of paper C, figure 2.

    cells: as stats.throughput_by_cell, of one system. Bars stand beside each other by a point or two, so that
    none hides another; the data are not moved. A cell of one repetition has no bar.
    """
    ax = single(ax)
    lines(ax, cells, "total_bps", "total_low_bps", "total_high_bps", scale=1e-9, aside_pt=2.2)
    count_axis(ax, cells["pairs"])
    ax.set_ylabel("Total throughput (Gbit/s)")
    return ax


def box_by_pairs(repetitions: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Total throughput of each repetition by pairs and driver, as box plots: the form of paper E, figure 3.

    repetitions: as stats.throughput_by_repetition, of one system. The box spans the quartiles, its line is
    the median, the whiskers reach the extremes. The points stand beside it since a box of a few repetitions
    alone says too much.
    """
    ax = single(ax, PAGE_IN)
    drivers, pairs = ordered(repetitions["driver"]), sorted(repetitions["pairs"].unique())
    width = _BOXES / len(drivers)
    for number, driver in enumerate(drivers):
        mine = repetitions[repetitions["driver"] == driver].sort_values("pairs")
        across = mine["pairs"].map(pairs.index) + width * (number - (len(drivers) - 1) / 2)
        style = points_only(driver)
        edge = {"color": style["color"], "linewidth": 0.7}
        ax.boxplot(
            [part / 1e9 for _, part in mine.groupby("pairs")["total_bps"]],
            positions=across.unique() - 0.15 * width,
            widths=0.5 * width,
            whis=(0, 100),
            manage_ticks=False,
            patch_artist=True,
            boxprops={"facecolor": to_rgba(style["color"], 0.2), "edgecolor": style["color"], "linewidth": 0.7},
            medianprops=edge | {"linewidth": 1.2},
            whiskerprops=edge,
            capprops=edge,
        )
        points = style | {"markersize": 3, "markeredgewidth": 0, "alpha": 0.7, "zorder": 3, "clip_on": False}
        ax.plot(across + 0.3 * width, mine["total_bps"] / 1e9, **points, label=driver)
    for between in range(1, len(pairs)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_xlim(-0.5, len(pairs) - 0.5)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("Pairs")
    ax.set_ylabel("Total throughput (Gbit/s)")
    _from_zero(ax)
    return ax


def relative_by_pairs(shape: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Normalised total throughput by pairs, a line per driver.

    shape: the cells of stats.normalised_shape, of one system or paper. Pairs are on a logarithmic axis, and
    two thin lines cross at the reference.
    """
    ax = single(ax)
    lines(ax, shape, "relative", "relative_low", "relative_high")
    reference = int(shape["reference_pairs"].iloc[0])
    ax.axhline(1, color="0.4", linewidth=0.6, zorder=1)
    ax.axvline(reference, color="0.4", linewidth=0.6, zorder=1)
    ax.set_xscale("log")
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel("Pairs")
    ax.set_ylabel(f"Total throughput\n(bridge at {reference} pairs = 1)")
    return ax


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    by: Iterable[str] = SYSTEM,
    wide: bool = False,
) -> Figure:
    """One panel per system, on one scale, with a note of n below.

    frame: what `draw` takes, of any number of systems. One panel is a column wide (wide: two columns),
    several share the width of the page.
    """
    panels = [(", ".join(map(str, names)), part) for names, part in frame.groupby(list(by), sort=True)]
    height_in = row_height_in(len(panels)) if wide and len(panels) > 1 else HEIGHT_IN
    return grid(panels, draw, wide=wide, note=note(frame), height_in=height_in)


def published_shape(ours: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """The published totals and ours beside each other on the same axes.

    ours, published: the cells of stats.normalised_shape, by SYSTEM and by paper: multiples of their own
    reference.
    """
    panels = [(f"paper {name}, means", part) for name, part in published.groupby("paper")]
    panels += [(f"here: {', '.join(names)}", part) for names, part in ours.groupby(list(SYSTEM))]
    return grid(panels, relative_by_pairs, note=f"here: {note(ours)}", share_x=True)


def lines(
    ax: Axes,
    frame: pd.DataFrame,
    value: str,
    low: str,
    high: str,
    *,
    x: str = "pairs",
    scale: float = 1,
    aside_pt: float = 1,
) -> None:
    """A line per driver through `value` over `x`, with bars from low to high, from zero up.

    Bars of different drivers stand beside each other by aside_pt points; the data are not moved.
    """
    drivers = ordered(frame["driver"])
    for number, driver in enumerate(drivers):
        mine = frame[frame["driver"] == driver].sort_values(x)
        middle = mine[value] * scale
        drawn = ax.errorbar(
            mine[x],
            middle,
            yerr=[middle - mine[low] * scale, mine[high] * scale - middle],
            **driver_style(driver),
            **BARS,
            label=driver,
        )
        drawn[0].set(**POINTS)
        points = aside_pt * (number - (len(drivers) - 1) / 2)
        aside = offset_copy(ax.transData, ax.figure, x=points, units="points")
        for artist in drawn.get_children():
            artist.set_transform(aside)
    _from_zero(ax)


def count_axis(ax: Axes, counts: pd.Series, name: str = "Pairs") -> None:
    """An x axis of counts: linear from zero, or logarithmic where that sets those measured more evenly apart.

    It is marked at those measured where they have room.
    """
    measured = np.array(sorted(counts.unique()))
    linear, logarithmic = _least_gap(measured), _least_gap(np.log(measured))
    ax.set_xlabel(name)
    if logarithmic > linear:
        beside = (measured[-1] / measured[0]) ** _BESIDE
        ax.set_xscale("log")
        ax.set_xlim(measured[0] / beside, measured[-1] * beside)
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlim(0, measured[-1] * (1 + _BESIDE))
    if len(measured) <= 8 and max(linear, logarithmic) >= _BESIDE:
        ax.xaxis.set_major_locator(FixedLocator(measured))
        ax.xaxis.set_minor_locator(NullLocator())


def _least_gap(places: np.ndarray) -> float:
    """The least distance of two neighbours, as a share of the distance of the first to the last."""
    return float(np.diff(places).min() / (places[-1] - places[0])) if len(places) > 1 else 1.0


def span(counts: pd.Series) -> str:
    """The least and the most of some counts, as text: "4", or "2 to 4"."""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def note(frame: pd.DataFrame) -> str:
    """What a reader must know of n and of the bars, for frames of any of the draw functions."""
    if "repetition" in frame:
        counts = frame.groupby([*SYSTEM, "driver", "pairs"])["repetition"].nunique()
        return f"a point per repetition, n = {span(counts)} for each box"
    counts = frame["repetitions"] if "repetitions" in frame else frame["n"]
    if counts.max() == 1:
        return "n = 1 repetition, which has no interval"
    partly = " (none where n = 1)" if counts.min() == 1 else ""
    share = frame["confidence"].iloc[0] * 100
    return f"mean of n = {span(counts)} repetitions; bars: {share:g} % interval of the mean{partly}"


def _from_zero(ax: Axes) -> None:
    ax.autoscale(axis="y")  # anew, as panels share the axis and an earlier one has fixed it
    ax.set_ylim(bottom=0)
