"""Heat maps of changes: where values move, which way, and how far, at one look."""

from functools import partial

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import grid, style
from pairlab.analysis.output.formatting import span

#: Falls are violet and rises are brown, in the same greys. A change has a colour by its logarithm; one to so many times
#: as much, or to that part of it, has the full one: so many that black numbers can be read on all that occur.
_COLOURS, _FULL = "PuOr_r", 100
_ROW_IN, _AROUND_IN = 0.24, 1.0
_ACROSS = 9  # columns that fit beside each other


def change_map(changes: pd.DataFrame, ax: Axes | None = None, *, column: str, name: str) -> Axes:
    """The change of each driver (a row) in each column, in percent, as number and colour.

    changes: estimates in the form of cell_estimates.COLUMNS with columns driver and `column`, of one panel; what these
    are is `name`, and their order that of the rows. Numbers whose interval holds zero are in brackets; a place without
    a value is empty.
    """
    ax = grid.single(ax)
    told = changes.assign(driver=changes["driver"].map(style.text), text=changes.apply(_text, axis=1))
    drivers = [style.text(driver) for driver in ordered(changes["driver"])]
    shown = told.pivot(index="driver", columns=column).reindex(drivers)
    columns = list(dict.fromkeys(changes[column]))
    seaborn.heatmap(
        np.log(1 + shown["value"][columns].astype(float) / 100),
        ax=ax,
        annot=shown["text"][columns].fillna(""),
        fmt="",
        cmap=_COLOURS,
        vmin=-np.log(_FULL),
        vmax=np.log(_FULL),
        cbar=False,
        linewidths=0.6,
        annot_kws={"fontsize": 7, "color": "black"},
    )
    ax.grid(False)
    ax.tick_params(length=0)
    ax.tick_params(axis="y", labelrotation=0)
    ax.set(xlabel=name, ylabel="Driver")
    return ax


def change_maps(changes: pd.DataFrame, *, panel: str, column: str, name: str, conditions: str = "") -> Figure:
    """A heat map for each value of `panel` that has a change, those with the fewest columns first.

    All are in one row, each as wide as its columns, where they have room; then drivers that all have are named once.
    """
    known = changes[changes["value"].notna()]
    panels = [(name.replace(": ", ":\n"), changes[changes[panel] == name]) for name in dict.fromkeys(known[panel])]
    panels.sort(key=lambda each: each[1][column].nunique())
    widths = [part[column].nunique() for _, part in panels]
    in_a_row = sum(widths) <= _ACROSS
    same_rows = len({tuple(ordered(part["driver"])) for _, part in panels}) == 1
    note = f"change in %, of n = {span(known['n'])} repetitions; in brackets: the interval holds zero"
    if any(part["value"].isna().any() for _, part in panels):
        note += "; empty: too few flows, or some failed"
    figure = grid.grid(
        panels,
        partial(change_map, column=column, name=name),
        note=note,
        conditions=conditions,
        height_in=_AROUND_IN + _ROW_IN * max(part["driver"].nunique() for _, part in panels),
        share_y=in_a_row and same_rows,
        across=len(panels) if in_a_row else None,
        widths=widths if in_a_row else None,
    )
    # The layout finds the places of panels of unlike widths to a millionth only: drawn again, they would not be alike.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        ax.set_position(tuple(np.round(ax.get_position().bounds, 3)))
    return figure


def _text(change: pd.Series) -> str:
    if change["value"] != change["value"]:
        return ""
    text = f"{change['value']:+.0f}"
    return f"({text})" if change["low"] <= 0 <= change["high"] else text
