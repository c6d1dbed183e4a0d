"""The layout of all figures: panels on shared axes, one legend above, one note below, gaps for missing panels."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures.style import COLUMN_IN, EDGE, HEIGHT_IN, NOTE, PAGE_IN, context, text, wrapped
from pairlab.analysis.output.measures import LARGER
from pairlab.analysis.selection import SYSTEM

#: The conditions of the measurements behind a figure, in words; or what says them of the rows that it draws.
Conditions = str | Callable[[pd.DataFrame], str]

_NAMES_PER_IN = 13  # characters of tick labels in an inch of an axis
_MANY_DECADES = {"x": 1.6, "y": 2.4}  # from so many decades on, only powers of ten are ticks
_ACROSS = 7  # names in a row of a legend
_TITLE = 0.85  # characters per inch of a title, relative to a note


def facets(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    column: str,
    order: Sequence | None = None,
    rows: Sequence[str] = SYSTEM,
    title: str = "",
    packed: bool = False,
    **layout: Any,
) -> Figure:
    """A row of panels for each of `rows` (by default, each system), with a panel for each value of `column`.

    order: these values from left to right; None: sorted. title: of a panel, with fields `row` and `each` (the value).
    layout: options of `grid`. The place of a missing panel stays free; packed: the next panel takes it. With a single
    value, rows are beside each other, each with its own scale.
    """
    values = sorted(frame[column].unique()) if order is None else list(order)
    title = title or "{row}: {each}" + " pairs" * (column == "pairs")
    panels = [
        (title.format(row=", ".join(map(str, names)), each=value), row[row[column] == value])
        for names, row in frame.groupby(list(rows), sort=True)
        for value in values
    ]
    panels = [(title, part) for title, part in panels if len(part) or not packed]
    defaults: dict[str, Any] = {"across": len(values)} if len(values) > 1 else {"share_y": False}
    return grid(panels, draw, **defaults | layout)


def grid(
    panels: Sequence[tuple[str, pd.DataFrame]],
    draw: Callable[..., Axes],
    *,
    note: str,
    conditions: Conditions = "",
    across: int | None = None,
    widths: Sequence[float] | None = None,
    wide: bool = False,
    share_x: bool | str = False,
    share_y: bool | str = "row",
    height_in: float | None = None,
    handles: Sequence[Artist] = (),
    handles_across: int = _ACROSS,
) -> Figure:
    """Titled panels of one form that distinguish the drivers, with a note below.

    panels: titles and frames for `draw`, with a column driver; row by row. An empty frame leaves its place free.
    conditions: of the measurements, added to the note. across: panels in a row; None: by their number; widths: the
    relative widths of these. One panel is a column wide (wide: two columns), several beside each other share the width
    of the page. Only the outer panels have axis labels. height_in: of a row of panels. The legend has the artists that
    `draw` labels with a driver's name; a single driver is named in the note. handles: the legend's artists instead,
    handles_across in a row.
    """
    across = 1 if wide else across or (len(panels) if len(panels) <= 3 else 2)
    down = -(-len(panels) // across)
    width_in = COLUMN_IN if across == 1 and not wide else PAGE_IN
    height_in = height_in or (HEIGHT_IN if down == 1 else 1.6 + 0.8 / down)  # rows share legend, note and x label
    with context():
        figure, axes = plt.subplots(
            down,
            across,
            figsize=(width_in, height_in * down),
            sharex=share_x,
            sharey=share_y,
            width_ratios=widths,
            squeeze=False,
            layout="constrained",
        )
        drawn = [number for number, (_, part) in enumerate(panels) if len(part)]
        for number, ax in enumerate(axes.flat):
            if number not in drawn:
                ax.remove()
                continue
            title, part = panels[number]
            draw(part, ax)
            ax.set_title(text(wrapped(title, _TITLE * width_in / across)))
            lowest, first = number + across not in drawn, number % across == 0 or number - 1 not in drawn
            ax.tick_params(labelbottom=not share_x or lowest, labelleft=not share_y or first)
            ax.xaxis.label.set_visible(lowest)
            ax.yaxis.label.set_visible(first)
        drivers = ordered(driver for _, part in panels for driver in part["driver"])
        alone = drivers[0] if len(drivers) == 1 and not handles else ""
        said = conditions if isinstance(conditions, str) else conditions(pd.concat([panels[each][1] for each in drawn]))
        figure.supxlabel(text(wrapped(with_conditions(alone, note, said), width_in)), **NOTE)
        if handles := handles or ([] if alone else _driver_artists(figure, drivers)):
            add_legend(figure, handles, handles_across)
    return figure


def _driver_artists(figure: Figure, drivers: Sequence[str]) -> list[Artist]:
    """An artist of each driver that a panel labels, for the legend."""
    labelled = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    drawn = {driver: artist for panel in labelled for artist, driver in panel}
    for driver, artist in drawn.items():
        artist.set_label(text(driver))
    return [drawn[driver] for driver in drivers if driver in drawn]


def add_legend(figure: Figure, handles: Sequence[Artist], across: int = _ACROSS) -> None:
    """One legend above all panels, in as many columns as fit, at most `across`."""
    lines = any(not isinstance(handle, Line2D) or handle.get_linestyle() != "None" for handle in handles)
    length = mpl.rcParams["legend.handlelength"] if lines else 1
    for columns in range(min(len(handles), across), 0, -1):
        legend = figure.legend(handles=handles, loc="outside upper center", ncols=columns, handlelength=length)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def patches(colours: Mapping[str, str]) -> list[Artist]:
    """The legend's artists for the parts of bars."""
    with context():
        return [Patch(facecolor=colour, **EDGE, label=part) for part, colour in colours.items()]


def with_conditions(*parts: str) -> str:
    """A note as one text; its parts are, for example, n and the conditions of the measurement."""
    return "; ".join(part for part in parts if part)


def logarithmic(axis: XAxis | YAxis, many: float = 0.0) -> None:
    """Makes the axis logarithmic, with plain numbers; from `many` decades on, only powers of ten are ticks."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(_Decades(many or _MANY_DECADES[axis.axis_name]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def in_larger_unit(axis: Axis, unit: str) -> None:
    """Labels the ticks in the next larger unit if the axis reaches a thousand: "20 ms", and not 20,000 µs."""
    if unit in LARGER and axis.get_view_interval()[1] >= 1000:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g} {LARGER[unit]}" if value else "0"))


def name_categories(ax: Axes, names: Sequence[Hashable], label: str) -> None:
    """Makes the x axis one of categories, separated by thin lines."""
    for between in range(1, len(names)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    ax.set_xticks(range(len(names)), [text(str(name)) for name in names])
    ax.set(xlim=(-0.5, len(names) - 0.5), xlabel=label)
    ax.tick_params(axis="x", length=0)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Makes the y axis one of categories, the first at the top, for values on the x axis."""
    ax.set_yticks(range(len(names)), [text(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(False, axis="y")


def name_drivers(ax: Axes, drivers: Sequence[str]) -> None:
    """Makes the x axis one of drivers, whose names are turned if they would overlap."""
    name_categories(ax, drivers, "Driver")
    turn_crowded(ax, drivers)


def turn_crowded(ax: Axes, names: Sequence[Hashable]) -> None:
    """Turns the names below an axis if they would overlap."""
    width_in = ax.bbox.width / mpl.rcParams["figure.dpi"]
    if len(names) * max(len(str(name)) for name in names) > _NAMES_PER_IN * width_in:
        turn_names(ax, 35)


def turn_names(ax: Axes, degrees: float) -> None:
    ax.tick_params(axis="x", labelrotation=degrees)
    plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")


class _Decades(LogLocator):
    """Ticks at 1, 2 and 5 below `many` decades, else at powers of ten only."""

    def __init__(self, many: float):
        super().__init__()
        self.many = many

    def tick_values(self, vmin, vmax):
        few = vmin > 0 and math.log10(vmax / vmin) < self.many
        self.set_params(subs=(1, 2, 5) if few else (1,))
        return super().tick_values(vmin, vmax)
