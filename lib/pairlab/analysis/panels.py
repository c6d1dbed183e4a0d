"""Draw functions for estimates: one system onto one Axes, drivers in their own colours; by_system makes the figure."""

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from pairlab.analysis import figures
from pairlab.analysis.stats import SYSTEM

_ROOM = 0.62  # of the place of a category that its drivers take


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    note: str = "",
    what: str = "mean",
    wide: bool = False,
    style: Callable[[str], dict] = figures.driver_style,
    **options,
) -> Figure:
    """One panel per system, on one scale, with one legend above and a note below; options go to `draw`.

    note: what a reader must know of n; empty: that of estimates, of which `what` says what they are: the pairs, n,
    and what the bars are. style: how the legend shows a driver.
    """
    panels = [(", ".join(names), part) for names, part in frame.groupby(list(SYSTEM), sort=True)]

    def drawn(part: pd.DataFrame, ax: Axes) -> Axes:
        return draw(part, ax, **options)

    return figures.grid(panels, drawn, note=note or note_of(frame, what), wide=wide, style=style)


def note_of(frame: pd.DataFrame, what: str = "mean") -> str:
    """What a reader must know of estimates: of how many pairs and repetitions, and what the bars are."""
    known = frame[frame["value"].notna()]
    pairs = f"{figures.span(frame['pairs'])} pairs; " if frame["pairs"].nunique() == 1 else ""
    n = figures.span(known["n"])
    if known["n"].max() == 1:
        return f"{pairs}{what} of n = 1 repetition, which has no interval"
    partly = " (none where n = 1)" if known["n"].min() == 1 else ""
    return f"{pairs}{what} of n = {n} repetitions; bars: {frame['confidence'].iloc[0] * 100:g} % interval{partly}"


def line_only(driver: str) -> dict[str, object]:
    """The style of a driver's line where it has no markers, for the legend of distributions."""
    return figures.driver_style(driver) | {"marker": ""}


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
    ax = ax or plt.subplots(figsize=(figures.COLUMN_IN, figures.HEIGHT_IN), layout="constrained")[1]
    drivers = figures.ordered(cells["driver"])
    place = {each: number for number, each in enumerate(order)}
    for number, driver in enumerate(drivers):
        mine = cells[(cells["driver"] == driver) & cells["value"].notna()]
        aside = _ROOM * ((number + 0.5) / len(drivers) - 0.5)
        middle = mine["value"] * scale
        ax.errorbar(
            mine[category].map(place) + aside,
            middle,
            yerr=[middle - mine["low"] * scale, mine["high"] * scale - middle],
            **figures.driver_style(driver) | {"linestyle": "none"},
            capsize=1.6,
            elinewidth=0.7,
            capthick=0.7,
            label=driver,
        )
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
    log_base: int | None = None,
    from_zero: bool = True,
) -> Axes:
    """An estimate over a number, a line per driver with interval bars: the form of paper C's figure 10.

    cells: as estimates.means, of one system, with a column `number`. label, name: of the y and the x axis. ticks:
    where the x axis has marks, and what they say. log_base: of a logarithmic x axis; None: it is linear from zero.
    """
    ax = ax or plt.subplots(figsize=(figures.COLUMN_IN, figures.HEIGHT_IN), layout="constrained")[1]
    if log_base:
        ax.set_xscale("log", base=log_base)
    known = cells[cells["value"].notna()]
    figures.lines(ax, known, "value", "low", "high", x=number, scale=scale, aside_pt=1.4)
    marks = ticks or {each: f"{each:g}" for each in sorted(cells[number].unique())}
    ax.xaxis.set_major_locator(FixedLocator(list(marks)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(list(marks), list(marks.values()))
    if max(map(len, marks.values())) * len(marks) > 30:  # they would run into each other
        ax.tick_params(axis="x", labelrotation=35)
        plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")
    if not log_base:
        ax.set_xlim(0, max(marks) * 1.06)
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

    clients: columns driver, x and y, of one system. Points are translucent, so that many in one place show as many.
    """
    ax = ax or plt.subplots(figsize=(figures.COLUMN_IN, figures.HEIGHT_IN), layout="constrained")[1]
    for driver in figures.ordered(clients["driver"]):
        mine = clients[clients["driver"] == driver]
        style = figures.driver_style(driver) | {"linestyle": "none"}
        ax.plot(mine[x] * x_scale, mine[y] * y_scale, **style, markersize=2.6, markeredgewidth=0, alpha=0.55)
    ax.grid(True, axis="x")
    ax.set_xlim(left=0)
    ax.autoscale(axis="y")
    ax.set_ylim(bottom=0)
    ax.set_xlabel(x_label)
    ax.set_ylabel(y_label)
    return ax


def points_only(driver: str) -> dict[str, object]:
    """The style of a driver's points where no line joins them, for the legend."""
    return figures.driver_style(driver) | {"linestyle": "none"}
