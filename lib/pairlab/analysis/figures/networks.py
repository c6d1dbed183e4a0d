"""Estimates of networks, one below the other: a panel for each placement of the pairs, or for each measure."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.selection import SYSTEM

_ROW_IN, _AROUND_IN = 0.2, 0.9  # heights of a network's row, and of titles, axis and note
_LEAST_ROWS = 5  # a panel is at least as high as these rows


def by(cells: pd.DataFrame, column: str, order: Sequence[str], conditions: str, measure: Quantity) -> Figure:
    """An estimate of each network with interval bars: a panel for each value of the column, in the given order, and a
    row of panels for each system and number of pairs. Missing estimates are not drawn.
    """
    drawn = cells[cells["value"].notna()]
    if drawn["pairs"].nunique() > 1:
        drawn = drawn.assign(count=drawn["pairs"].map(estimates.pairs_text))
    rows = [*SYSTEM, *(["count"] if "count" in drawn else [])]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        drivers = ordered(panel["driver"])
        estimates.points(ax, panel, along="driver", order=drivers, scale=measure.scale, flat=True)
        grid.name_rows(ax, drivers)
        ax.set(xlabel=measure.title, ylabel="Network")
        ax.grid(True, axis="x")
        if measure.change:
            ax.axvline(0, color="0.6", linewidth=0.6, zorder=0)
        else:
            estimates.from_zero(ax, "x")
        grid.in_larger_unit(ax.xaxis, measure.unit)
        return ax

    most = max(part["driver"].nunique() for _, part in drawn.groupby([*rows, column]))
    return grid.facets(
        drawn,
        draw,
        column=column,
        order=order,
        rows=rows,
        across=min(len(order), 3),
        note=estimates.caption(drawn),
        conditions=conditions,
        share_x=True,
        share_y=False,
        height_in=_AROUND_IN + _ROW_IN * max(most, _LEAST_ROWS),
    )
