"""Networks one below the other: a panel for each place of the pairs, or for what is measured."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import estimates, grid, style
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.questions import networks
from pairlab.analysis.questions.modes import by_message as messages
from pairlab.analysis.selection import SYSTEM

_ROW_IN, _AROUND_IN = 0.2, 0.9  # of a network, and of titles, axis and note
_LEAST_ROWS = 5  # of which a panel has the height


def by_place(cells: pd.DataFrame, conditions: str = "", measure: Measure = networks.TOTAL) -> Figure:
    """That of each network with interval bars: a row of panels per system, a panel per place.

    cells: networks.cells, or one of networks.latency_cells with its measure; one with a gap is not drawn.
    """
    place = [networks.place_text(*each) for each in cells[list(networks.PLACE)].itertuples(index=False)]
    return by(cells.assign(place=place), "place", networks.places(cells), conditions, measure)


def by_message(cells: pd.DataFrame, conditions: str, measure: Measure) -> Figure:
    """The same with a panel for what is measured, by the size of messages. cells: as of questions/modes/by_message."""
    shown, order = messages.labelled(cells)
    return by(shown, "setting", order, conditions, measure)


def by(cells: pd.DataFrame, column: str, order: Sequence[str], conditions: str, measure: Measure) -> Figure:
    """The same with a panel for each of these values of a column, and row for each number of pairs."""
    known = cells[cells["value"].notna()]
    if known["pairs"].nunique() > 1:
        known = known.assign(count=known["pairs"].map(estimates.pairs_text))
    rows = [*SYSTEM, *(["count"] if "count" in known else [])]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        drivers = ordered(panel["driver"])
        estimates.points(ax, panel, along="driver", order=drivers, scale=measure.scale, flat=True)
        ax.set_yticks(range(len(drivers)), [style.text(driver) for driver in drivers])
        ax.set(ylim=(len(drivers) - 0.4, -0.6), xlabel=measure.title, ylabel="Network")
        ax.grid(True, axis="x")
        ax.grid(False, axis="y")
        if measure.change:
            ax.axvline(0, color="0.6", linewidth=0.6, zorder=0)
        else:
            estimates.from_zero(ax, "x")
        grid.in_larger_unit(ax.xaxis, measure.unit)
        return ax

    most = max(part["driver"].nunique() for _, part in known.groupby([*rows, column]))
    return grid.facets(
        known,
        draw,
        column=column,
        order=order,
        rows=rows,
        across=min(len(order), 3),
        note=estimates.note_of(known, estimates.CHANGE if measure.change else "mean"),
        conditions=conditions,
        share_x=True,
        share_y=False,
        height_in=_AROUND_IN + _ROW_IN * max(most, _LEAST_ROWS),
    )
