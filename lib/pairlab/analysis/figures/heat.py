"""Heat maps of changes: sign and size of each, at a glance."""

from functools import partial

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import grid, style
from pairlab.analysis.output.formatting import span

#: Falls are violet and rises are brown, with equal greys. The colour follows the logarithm of the change, up to a
#: factor of _FULL or 1/_FULL: so large that black numbers can be read on the colours of all changes that occur.
_COLOURS, _FULL = "PuOr_r", 100
_ROW_IN, _AROUND_IN = 0.24, 1.0
_ACROSS = 9  # columns that fit beside each other


def _change_map(changes: pd.DataFrame, ax: Axes, column: str, name: str) -> Axes:
    """The change of each driver (a row) in each column, in percent, as number and colour; empty without a change."""
    labelled = changes.assign(driver=changes["driver"].map(style.text), text=changes.apply(_text, axis=1))
    drivers = [style.text(driver) for driver in ordered(changes["driver"])]
    table = labelled.pivot(index="driver", columns=column).reindex(drivers)
    columns = list(dict.fromkeys(changes[column]))
    seaborn.heatmap(
        np.log(1 + table["value"][columns].astype(float) / 100),
        ax=ax,
        annot=table["text"][columns].fillna(""),
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


def change_maps(
    changes: pd.DataFrame, *, panel: str, column: str, name: str, conditions: grid.Conditions = ""
) -> Figure:
    """A heat map for each value of `panel` that has a change; the note names the others.

    changes: estimates in the form of cell_estimates.COLUMNS with columns driver, `panel` and `column`; maps, and the
    columns of a map, are in the order of the rows. name: the label of `column`. Changes whose interval holds zero are
    in brackets. If they fit, all maps are in one row, with widths by their columns; if all have the same drivers, these
    are named once.
    """
    present = changes[changes["value"].notna()]
    panels = [(name.replace(": ", ":\n"), changes[changes[panel] == name]) for name in dict.fromkeys(present[panel])]
    widths = [part[column].nunique() for _, part in panels]
    in_a_row = sum(widths) <= _ACROSS
    same_rows = len({tuple(ordered(part["driver"])) for _, part in panels}) == 1
    note = f"change in %, of n = {span(present['n'])} repetitions"
    if ((present["low"] <= 0) & (present["high"] >= 0)).any():
        note += "; in brackets: the interval holds zero"
    if any(part["value"].isna().any() for _, part in panels):
        note += "; empty: too few flows, or some failed"
    if len(absent := changes[~changes[panel].isin(present[panel])]):
        steps = absent.groupby(panel, sort=False)[column].unique()
        named = (f"{each} ({', '.join(map(str, of))})" for each, of in steps.items())
        note += f"; not drawn, as too few flows, or some failed: {', '.join(named)}"
    figure = grid.grid(
        panels,
        partial(_change_map, column=column, name=name),
        note=note,
        conditions=conditions,
        height_in=_AROUND_IN + _ROW_IN * max(part["driver"].nunique() for _, part in panels),
        share_y=in_a_row and same_rows,
        across=len(panels) if in_a_row else None,
        widths=widths if in_a_row else None,
    )
    # The layout of panels of different widths is exact to a millionth only: drawn again, the figure would differ.
    with style.context():
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
