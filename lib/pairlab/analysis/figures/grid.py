"""What all figures agree on: panels on shared axes, one legend above, one note below, gaps where nothing is."""

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
from pairlab.analysis.figures.style import COLUMN_IN, EDGE, HEIGHT_IN, NOTE, PAGE_IN, STYLE, text, wrapped
from pairlab.analysis.output.measures import LARGER
from pairlab.analysis.selection import SYSTEM

_NAMES_PER_IN = 13  # characters of names side by side in an inch of an axis
_MANY_DECADES = {"x": 1.6, "y": 2.8}  # have room for marks at powers of ten only
_ACROSS = 7  # names in a row of a legend
_TITLE = 0.85  # of a panel's width in which its title has as many characters as a note


def facets(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    column: str,
    order: Sequence | None = None,
    rows: Sequence[str] = SYSTEM,
    title: str = "{row}: {each}",
    packed: bool = False,
    **layout: Any,
) -> Figure:
    """A row of panels for each of `rows` (by default, each system), one for each value of `column`, as `grid`.

    order: these values from left to right; None: sorted. title: of a panel, by the name of its row and the value.
    layout: options of `grid`. A place where nothing is stays free; packed: the next panel takes it. Where there is one
    value only, rows are beside each other, each with its own scale.
    """
    columns = sorted(frame[column].unique()) if order is None else list(order)
    panels = [
        (title.format(row=", ".join(map(str, names)), each=each), row[row[column] == each])
        for names, row in frame.groupby(list(rows), sort=True)
        for each in columns
    ]
    panels = [(title, part) for title, part in panels if len(part) or not packed]
    beside: dict[str, Any] = {"across": len(columns)} if len(columns) > 1 else {"share_y": False}
    return grid(panels, draw, **beside | layout)


def grid(
    panels: Sequence[tuple[str, pd.DataFrame]],
    draw: Callable[..., Axes],
    *,
    note: str,
    conditions: str = "",
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

    panels: a title each, and the frame that `draw` takes, with a column driver; row by row. An empty frame leaves its
    place free. conditions: how it was measured, added to the note. across: panels in a row; None: by their number;
    widths: of these, against each other. One panel is a column wide (wide: two columns), several beside each other
    share the width of the page. Only the outer panels carry the names of the axes. height_in: of a row of panels.
    The legend shows what `draw` labels with a driver's name; a driver alone is named in the note. handles: what the
    legend shows instead, handles_across of them in a row.
    """
    across = 1 if wide else across or (len(panels) if len(panels) <= 3 else 2)
    down = -(-len(panels) // across)
    width_in = COLUMN_IN if across == 1 and not wide else PAGE_IN
    height_in = height_in or (HEIGHT_IN if down == 1 else 1.6 + 0.8 / down)  # rows share legend, note and x axis's name
    with mpl.rc_context(STYLE):
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
        figure.supxlabel(text(wrapped(noted(alone, note, conditions), width_in)), **NOTE)
        if shown := handles or ([] if alone else _of_drivers(figure, drivers)):
            add_legend(figure, shown, handles_across)
    return figure


def _of_drivers(figure: Figure, drivers: Sequence[str]) -> list[Artist]:
    """How each driver is drawn; those that no panel has a label of are left out."""
    labelled = [zip(*ax.get_legend_handles_labels(), strict=True) for ax in figure.axes]
    drawn = {driver: artist for panel in labelled for artist, driver in panel}
    for driver, artist in drawn.items():
        artist.set_label(text(driver))
    return [drawn[driver] for driver in drivers if driver in drawn]


def add_legend(figure: Figure, shown: Sequence[Artist], across: int = _ACROSS) -> None:
    """One legend above all panels, in as many columns as there is room for."""
    lines = any(not isinstance(each, Line2D) or each.get_linestyle() != "None" for each in shown)
    length = mpl.rcParams["legend.handlelength"] if lines else 1
    for columns in range(min(len(shown), across), 0, -1):
        legend = figure.legend(handles=shown, loc="outside upper center", ncols=columns, handlelength=length)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def patches(colours: Mapping[str, str]) -> list[Artist]:
    """What a legend shows of the parts of bars."""
    return [Patch(facecolor=colour, **EDGE, label=part) for part, colour in colours.items()]


def noted(*parts: str) -> str:
    """The parts of a note, such as what n is and the conditions of measuring, as one text."""
    return "; ".join(part for part in parts if part)


def single(ax: Axes | None, width_in: float = COLUMN_IN) -> Axes:
    """What a draw function draws on: the panel it was given, or else one that is a whole figure."""
    return ax or plt.subplots(figsize=(width_in, HEIGHT_IN), layout="constrained")[1]


def logarithmic(axis: XAxis | YAxis, many: float = 0.0) -> None:
    """Makes the axis logarithmic, with plain numbers; at powers of ten only, where there are so many decades."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(_Decades(many or _MANY_DECADES[axis.axis_name]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def in_larger_unit(axis: Axis, unit: str) -> None:
    """Has the marks of an axis say the next larger unit where it reaches a thousand: "20 ms", and not 20,000 µs."""
    if unit in LARGER and axis.get_view_interval()[1] >= 1000:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g} {LARGER[unit]}" if value else "0"))


def name_categories(ax: Axes, names: Sequence[Hashable], label: str) -> None:
    """An x axis of categories, set apart by thin lines."""
    for between in range(1, len(names)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    ax.set_xticks(range(len(names)), [text(str(name)) for name in names])
    ax.set(xlim=(-0.5, len(names) - 0.5), xlabel=label)
    ax.tick_params(axis="x", length=0)


def name_drivers(ax: Axes, drivers: Sequence[str]) -> None:
    """An x axis of drivers, whose names are turned where they would run into each other."""
    name_categories(ax, drivers, "Driver")
    turn_crowded(ax, drivers)


def turn_crowded(ax: Axes, names: Sequence[Hashable]) -> None:
    """Turns the names below an axis where they would run into each other."""
    width_in = ax.bbox.width / mpl.rcParams["figure.dpi"]
    if len(names) * max(len(str(name)) for name in names) > _NAMES_PER_IN * width_in:
        turn_names(ax, 35)


def turn_names(ax: Axes, degrees: float) -> None:
    ax.tick_params(axis="x", labelrotation=degrees)
    plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")


class _Decades(LogLocator):
    """Marks at 1, 2 and 5 where they have room, else at powers of ten only."""

    def __init__(self, many: float):
        super().__init__()
        self.many = many

    def tick_values(self, vmin, vmax):
        few = vmin > 0 and math.log10(vmax / vmin) < self.many
        self.set_params(subs=(1, 2, 5) if few else (1,))
        return super().tick_values(vmin, vmax)
