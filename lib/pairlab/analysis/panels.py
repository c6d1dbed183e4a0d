"""Draw functions for estimates: one system onto one Axes, drivers in their own colours; by_system makes the figure."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from pairlab.analysis import figures, grids, look
from pairlab.analysis.stats import SYSTEM

_ROOM = 0.62  # of the place of a category that its drivers take
_AS_IMAGE = 1000  # points of a panel; more are drawn as an image


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    note: str = "",
    what: str = "mean",
    wide: bool = False,
    **options,
) -> Figure:
    """One panel per system, on one scale, with a note below; options go to `draw`.

    note: what a reader must know of n; empty: that of estimates, of which `what` says what they are: the pairs, n,
    and what the bars are.
    """
    panels = [(", ".join(names), part) for names, part in frame.groupby(list(SYSTEM), sort=True)]

    def drawn(part: pd.DataFrame, ax: Axes) -> Axes:
        return draw(part, ax, **options)

    return grids.grid(panels, drawn, note=note or note_of(frame, what), wide=wide)


def note_of(frame: pd.DataFrame, what: str = "mean") -> str:
    """What a reader must know of estimates: of how many pairs and repetitions, and what the bars are."""
    known = frame[frame["value"].notna()]
    pairs = f"{figures.span(frame['pairs'])} pairs; " if frame["pairs"].nunique() == 1 else ""
    n = figures.span(known["n"])
    if known["n"].max() == 1:
        return f"{pairs}{what} of n = 1 repetition, which has no interval"
    partly = " (none where n = 1)" if known["n"].min() == 1 else ""
    return f"{pairs}{what} of n = {n} repetitions; bars: {frame['confidence'].iloc[0] * 100:g} % interval{partly}"


def by_category(
    cells: pd.DataFrame,
    ax: Axes | None = None,
    *,
    category: str,
    order: Sequence,
    label: str,
    name: str,
    scale: float = 1,
    ticks: Sequence[str] | None = None,
    level: float | None = None,
    from_zero: bool = True,
) -> Axes:
    """An estimate with its interval bar for each category and driver: the form of paper C's figures 7 to 9.

    cells: as estimates.means or changes, of one system, with a column `category`; one with a gap is not drawn.
    order: the categories from left to right, those of all systems, so that panels agree; ticks: their names, if not
    themselves. label, name: of the y and the x axis. level: a value that a thin line marks.
    """
    ax = grids.single(ax)
    drivers = look.ordered(cells["driver"])
    place = {each: number for number, each in enumerate(order)}
    for number, driver in enumerate(drivers):
        mine = cells[(cells["driver"] == driver) & cells["value"].notna()]
        aside = _ROOM * ((number + 0.5) / len(drivers) - 0.5)
        middle = mine["value"] * scale
        ax.errorbar(
            mine[category].map(place) + aside,
            middle,
            yerr=[middle - mine["low"] * scale, mine["high"] * scale - middle],
            **look.points_only(driver),
            **figures.BARS,
            label=driver,
        )[0].set(**figures.POINTS)
    for between in range(1, len(order)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    if level is not None:
        ax.axhline(level, color="0.4", linewidth=0.6, zorder=1)
    ax.set_xticks(range(len(order)), ticks or list(map(str, order)))
    ax.set_xlim(-0.5, len(order) - 0.5)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(name)
    ax.set_ylabel(label)
    ax.autoscale(axis="y")
    if from_zero:
        ax.set_ylim(bottom=0)
    return ax


def by_number(
    cells: pd.DataFrame,
    ax: Axes | None = None,
    *,
    number: str,
    label: str,
    name: str,
    scale: float = 1,
    ticks: dict[float, str] | None = None,
    from_zero: bool = True,
) -> Axes:
    """An estimate over a number, a line per driver with interval bars: the form of paper C's figure 10.

    cells: as estimates.means, of one system, with a column `number`. label, name: of the y and the x axis. ticks:
    what the marks of an axis of powers of two say, and where they are; None: an axis of counts.
    """
    ax = grids.single(ax)
    known = cells[cells["value"].notna()]
    figures.lines(ax, known, "value", "low", "high", x=number, scale=scale, aside_pt=1.4)
    if ticks:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xticks(list(ticks), list(ticks.values()))
        if max(map(len, ticks.values())) * len(ticks) > 30:  # they would run into each other
            ax.tick_params(axis="x", labelrotation=50)
            plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")
    else:
        figures.count_axis(ax, cells[number])
    if not from_zero:
        ax.set_ylim(auto=True)
        ax.autoscale(axis="y")
    ax.set_xlabel(name)
    ax.set_ylabel(label)
    return ax


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
    """A point per client: the form of paper C's figure 4.

    clients: columns driver, x and y, of one system. Points are translucent, so that many in one place show as many;
    very many are an image, as each of them would make the file larger.
    """
    ax = grids.single(ax)
    many = len(clients) > _AS_IMAGE
    for driver in look.ordered(clients["driver"]):
        mine = clients[clients["driver"] == driver]
        points = look.points_only(driver) | {"markersize": 2.6, "alpha": 0.55, "label": driver}
        drawn = ax.plot(mine[x] * x_scale, mine[y] * y_scale, **points, rasterized=many)
        drawn[0].set(**figures.POINTS | {"markeredgewidth": 0})
    ax.grid(True, axis="x")
    ax.set_xlim(left=0)
    ax.autoscale(axis="y")
    ax.set_ylim(bottom=0)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    return ax
