"""Panels of one form beside and above each other, that say once who is who and what a reader must know of n."""

import math
from collections.abc import Callable, Iterable, Sequence

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis, XAxis, YAxis
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter, FuncFormatter, LogLocator, NullFormatter

from pairlab.analysis.figures.line_labels import label_ends
from pairlab.analysis.figures.style import COLUMN_IN, HEIGHT_IN, NOTE, PAGE_IN, STYLE, ordered, text, wrapped
from pairlab.analysis.output.measures import LARGER


def grid(
    panels: Sequence[tuple[str, pd.DataFrame]],
    draw: Callable[..., Axes],
    *,
    note: str,
    across: int | None = None,
    widths: Sequence[float] | None = None,
    wide: bool = False,
    share_x: bool | str = False,
    share_y: bool | str = True,
    height_in: float = HEIGHT_IN,
    handles: Sequence[Artist] = (),
    handles_across: int = 7,
    legend: bool = True,
) -> Figure:
    """Titled panels of one form that distinguish the drivers, with a note below.

    panels: a title each, and the frame that `draw` takes, with a column driver; row by row. An empty frame leaves its
    place free. across: panels in a row; None: by their number; widths: of these, against each other. One panel is a
    column wide (wide: two columns), several beside each other share the width of the page. Only the outer panels carry
    the names of the axes. Drivers are named at the ends of their lines where these lie apart, else in one legend above,
    and where there is one only, in the note; the legend shows what `draw` labels with a driver's name. handles: what it
    shows instead, handles_across of them in a row. legend: False where panels themselves name the drivers.
    """
    across = 1 if wide else across or (len(panels) if len(panels) <= 3 else 2)
    down = -(-len(panels) // across)
    width = COLUMN_IN if across == 1 and not wide else PAGE_IN
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(
            down,
            across,
            figsize=(width, height_in * down),
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
            ax.set_title(text(title))
            lowest, first = number + across not in drawn, number % across == 0 or number - 1 not in drawn
            ax.tick_params(labelbottom=not share_x or lowest, labelleft=not share_y or first)
            ax.xaxis.label.set_visible(lowest)
            ax.yaxis.label.set_visible(first)
        drivers = ordered(driver for _, part in panels for driver in part["driver"])
        alone = f"{drivers[0]}; " if len(drivers) == 1 and not handles else ""
        figure.supxlabel(text(wrapped(alone + note, width)), **NOTE)
        needed = handles or (legend and len(drivers) > 1 and not label_ends(figure))
        if needed and (shown := handles or _lines_of(figure, drivers)):
            _add_legend(figure, shown, handles_across)
    return figure


def single(ax: Axes | None, width_in: float = COLUMN_IN) -> Axes:
    """What a draw function draws on: the panel it was given, or else one that is a whole figure."""
    return ax or plt.subplots(figsize=(width_in, HEIGHT_IN), layout="constrained")[1]


def logarithmic(axis: XAxis | YAxis) -> None:
    """Makes the axis logarithmic, with plain numbers."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(_Decades())
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_formatter(NullFormatter())


def in_larger_unit(axis: Axis, unit: str) -> None:
    """Has the marks of an axis say the next larger unit where it reaches a thousand: "20 ms", and not 20,000 µs."""
    if unit in LARGER and axis.get_view_interval()[1] >= 1000:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g} {LARGER[unit]}" if value else "0"))


class _Decades(LogLocator):
    """Marks at 1, 2 and 5 where they have room, else at powers of ten only."""

    def tick_values(self, vmin, vmax):
        self.set_params(subs=(1, 2, 5) if vmin > 0 and math.log10(vmax / vmin) < 1.6 else (1,))
        return super().tick_values(vmin, vmax)


def _lines_of(figure: Figure, drivers: Iterable[str]) -> list[Artist]:
    """How each driver is drawn, without its bars; those that no panel has a label of are left out."""
    drawn: dict[str, Artist] = {}
    for ax in figure.axes:
        for artist, driver in zip(*ax.get_legend_handles_labels(), strict=True):
            drawn[driver] = artist[0] if isinstance(artist, ErrorbarContainer) else artist
    for driver, line in drawn.items():
        line.set_label(text(driver))
    return [drawn[driver] for driver in drivers if driver in drawn]


def _add_legend(figure: Figure, shown: Sequence[Artist], across: int) -> None:
    lines = any(not isinstance(each, Line2D) or each.get_linestyle() != "None" for each in shown)
    length = mpl.rcParams["legend.handlelength"] if lines else 1
    for columns in range(min(len(shown), across), 0, -1):  # as many as the figure has room for
        legend = figure.legend(handles=shown, loc="outside upper center", ncols=columns, handlelength=length)
        if columns == 1 or legend.get_window_extent().width <= figure.bbox.width:
            return
        legend.remove()


def row_height_in(rows: int) -> float:
    """The height of each of several rows of small panels, which share one legend, one note and the x axis's name."""
    return 1.3 + 0.8 / rows
