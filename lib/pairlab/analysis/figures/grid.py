"""The layout of all figures: panels on shared axes, one legend above, one note below, gaps for missing panels."""

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures.style import COLUMN_IN, EDGE, HEIGHT_IN, NOTE, PAGE_IN, STYLE, context, text, wrapped
from pairlab.analysis.output.measures import LARGER
from pairlab.analysis.selection import SYSTEM

#: The conditions of the measurements behind a figure, in words; or what says them of the rows that it draws.
Conditions = str | Callable[[pd.DataFrame], str]

#: The marks of a decade, from the coarsest steps; and the marks that an axis should show.
_STEPS, _MARKS = ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7)), 3
_BETWEEN = 3  # dots between the names below an axis
_ACROSS = 7  # names in a row of a legend
_TITLE = 0.8  # characters per inch of a title, relative to a note


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
            ax.set_title(text(_broken(title, _TITLE * width_in / across)))
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
        _name_scales(figure)
        _turn_crowded(figure)
    return figure


def _broken(title: str, width_in: float) -> str:
    """A title in lines that fit, the first of which ends after a colon."""
    lines = wrapped(title, width_in)
    return wrapped(title.replace(": ", ":\n", 1), width_in) if lines != title else title


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
        by_column = [handle for column in range(columns) for handle in handles[column::columns]]  # rows read in order
        legend = figure.legend(handles=by_column, loc="outside upper center", ncols=columns, handlelength=length)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def patches(colours: Mapping[str, str]) -> list[Artist]:
    """The legend's artists for the parts of bars."""
    with context():
        return [Patch(facecolor=colour, **EDGE, label=part) for part, colour in colours.items()]


def filled_and_open(filled: str, hollow: str) -> list[Artist]:
    """The legend's artists where points of every driver are filled or open."""
    with context():
        look: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "none", "label": filled}
        return [Line2D([], [], **look), Line2D([], [], **look | {"label": hollow}, markerfacecolor="white")]


def with_conditions(*parts: str) -> str:
    """A note as one text; its parts are, for example, n and the conditions of the measurement."""
    return "; ".join(part for part in parts if part)


def logarithmic(axis: XAxis | YAxis) -> None:
    """Makes the axis logarithmic, with plain numbers."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(_Steps())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def _name_scales(figure: Figure) -> None:
    """Has axes that reach a thousand in the next larger unit, and says which are logarithmic where not all are; but for
    those whose marks are what was measured.
    """
    for name, joint in (("x", ", "), ("y", ",\n")):
        axes = [getattr(ax, f"{name}axis") for ax in figure.axes]
        mixed = len({axis.get_scale() for axis in axes}) > 1
        for axis in axes:
            label = axis.label.get_text()
            for unit, larger in LARGER.items():
                if f"({unit})" in label and axis.get_view_interval()[1] >= 1000:
                    label = label.replace(unit, larger)
                    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:,g}"))
            unsaid = mixed and axis.get_scale() == "log" and not isinstance(axis.get_major_locator(), FixedLocator)
            axis.set_label_text(label + f"{joint}logarithmic" * unsaid)


def name_categories(ax: Axes, names: Sequence[Hashable], label: str) -> None:
    """Makes the x axis one of categories, separated by thin lines."""
    for between in range(1, len(names)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    texts = [text(str(name)) for name in names]
    breaks = max((each.count("\n") for each in texts), default=0)  # a name of fewer lines would stand higher
    ax.set_xticks(range(len(names)), [each + "\n" * (breaks - each.count("\n")) for each in texts])
    ax.set(xlim=(-0.5, len(names) - 0.5), xlabel=label)
    ax.tick_params(axis="x", length=0)


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Makes the y axis one of categories, the first at the top, for values on the x axis."""
    ax.set_yticks(range(len(names)), [text(name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(False, axis="y")


def _turn_crowded(figure: Figure) -> None:
    """Turns the names below all panels if any of them would overlap."""
    named = [ax for ax in figure.axes if isinstance(ax.xaxis.get_major_locator(), FixedLocator)]
    if not named:
        return
    figure.draw_without_rendering()  # which lays it out
    for ax in named:
        extents = sorted(
            tuple(label.get_window_extent().intervalx) for label in ax.get_xticklabels() if label.get_visible()
        )
        if any(left[1] + _BETWEEN > right[0] for left, right in itertools.pairwise(extents)):
            break
    else:
        return
    for ax in named:
        ax.tick_params(axis="x", labelrotation=65)
        plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")


class _Steps(LogLocator):
    """Marks in the coarsest steps of which _MARKS are in view, or else in the finest whose labels fit."""

    def tick_values(self, vmin, vmax):
        marks: Sequence[float] = []
        for steps in _STEPS:
            self.set_params(subs=steps)
            finer = super().tick_values(vmin, vmax)
            shown = finer[(finer >= vmin) & (finer <= vmax)]
            if len(marks) and not self._fit(shown, vmin, vmax):
                return marks
            marks = finer
            if len(shown) >= _MARKS:
                return marks
        return marks

    def _fit(self, shown: np.ndarray, vmin: float, vmax: float) -> bool:
        if len(shown) < 2 or vmin <= 0:
            return True
        axis: Any = self.axis
        flat, box = axis.axis_name == "x", axis.axes.bbox
        length = (box.width if flat else box.height) * 72 / axis.axes.figure.dpi
        gap = length * np.diff(np.log(shown)).min() / np.log(vmax / vmin)
        characters = max(len(f"{each:,g}") for each in shown) if flat else 1
        return gap >= STYLE[f"{axis.axis_name}tick.labelsize"] * (0.5 * characters + 0.7)
