"""The frame of a picture of runs: its size, its legend and note, and axes that fit what they show."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from pairlab.analysis.figures import style
from pairlab.analysis.figures.files import on_screen
from pairlab.analysis.figures.runs.series import Chosen

#: Fits the output of a notebook.
WIDTH_IN = 6.3
#: The room of axes that are alone, of each of several, and of a line of words.
_ALONE_IN, _SEVERAL_IN, _LEGEND_LINE_IN, _NOTE_LINE_IN = 2.5, 1.8, 0.17, 0.13
#: Where the largest value is so many times the least, an axis is logarithmic.
FAR = 30
#: So many characters stand side by side in a legend, and the marks before each name take the room of six.
_LEGEND, _MARKS = 110, 6
#: So many characters have room below an axis.
_ROOM = 90


class Picture(Figure):
    """A figure that has the house style wherever it is rendered, and that a notebook shows as SVG."""

    def draw(self, renderer) -> None:
        with mpl.rc_context(style.STYLE):
            super().draw(renderer)

    def _repr_svg_(self) -> str:
        return on_screen(self)


def figure(
    draws: Sequence[Callable[[Axes], None]],
    chosen: Chosen,
    note: Sequence[str],
    *,
    legend: Mapping[str, str] = MappingProxyType({}),
    height_in: float | None = None,
) -> Picture:
    """A picture in the house style: a legend above, axes one below the other, and a note below.

    draws: draw one of the axes each. note: what a reader must know, beside what the runs have in common. legend: by the
    label of each series that is in it, what it says. height_in: of the axes.
    """
    shown = [(series, legend[series.label]) for series in chosen.series if series.label in legend]
    longest = max((len(name) for _, name in shown), default=0)
    down = -(-len(shown) // max(1, _LEGEND // (longest + _MARKS)))
    below = "; ".join(part for part in (chosen.common, *note, chosen.left_out) if part)
    below = style.text(style.wrapped(below, WIDTH_IN))
    height_in = height_in or (_ALONE_IN if len(draws) == 1 else _SEVERAL_IN * len(draws))
    height_in += _LEGEND_LINE_IN * down + _NOTE_LINE_IN * (below.count("\n") + 1)
    with mpl.rc_context(style.STYLE):
        made = Picture(figsize=(WIDTH_IN, height_in), layout="constrained", dpi=style.STYLE["figure.dpi"])
        for draw, ax in zip(draws, np.ravel(made.subplots(len(draws))), strict=True):
            draw(ax)
        if shown:
            lines = [Line2D([], [], **series.style, label=style.text(name)) for series, name in shown]
            made.legend(handles=lines, loc="outside upper center", ncols=-(-len(shown) // down))
        made.supxlabel(below, **style.NOTE)
    return made


def words(text: str, chosen: Chosen) -> Picture:
    """A picture that says why there is nothing to see."""

    def draw(ax: Axes) -> None:
        ax.axis("off")
        ax.text(0.5, 0.5, textwrap.fill(text, 80), ha="center", va="center", fontsize=10)

    return figure([draw], chosen, [], height_in=0.8)


def log_where_far(axis: Axis, values: Sequence[np.ndarray]) -> None:
    """Logarithmic where the values lie far apart, else from zero."""
    least, most = min(part.min() for part in values), max(part.max() for part in values)
    if least > 0 and most > FAR * least:
        logarithmic(axis, least / 1.15, most * 1.15)
    else:
        axis.axes.set(**{f"{axis.axis_name}lim": (0, most * 1.05 or 1)})


def logarithmic(axis: Axis, least: float, most: float) -> None:
    """A logarithmic axis from the one to the other, with marks at 1, 2 and 5 where they have room."""
    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (least, most)})
    axis.set_major_locator(LogLocator(subs=(1,) if most > 1000 * least else (1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())


def names_fit(labels: Sequence[str]) -> bool:
    """Whether the series' names have room below an axis, broken at commas."""
    return max(len(part) for label in labels for part in label.split(", ")) <= _ROOM / max(len(labels), 3)


def name_places(ax: Axes, labels: Sequence[str]) -> None:
    """Places side by side, with the series' names below them where these fit: else a legend has them."""
    names = [style.text(label.replace(", ", ",\n")) for label in labels] if names_fit(labels) else [""] * len(labels)
    ax.set_xticks(range(len(labels)), names)
    spare = max(0.0, 3 - len(labels)) / 2  # one box is no wall
    ax.set_xlim(-0.6 - spare, len(labels) - 0.4 + spare)
    ax.tick_params(axis="x", length=0)
