"""Networks one below the other, the fastest on top: a panel for each place of the pairs, a mark per number of pairs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pairlab.analysis.figures import estimates, grid, style
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.questions import networks
from pairlab.analysis.questions.modes import by_message as messages
from pairlab.analysis.selection import SYSTEM

#: Marker of each number of pairs, from the least to the most.
_MARKERS = ("o", "s", "^", "D", "v", "P")
_ROW_IN, _AROUND_IN = 0.2, 0.9  # of a network, and of titles, axis and note
_LEAST_ROWS = 5  # of which a panel has the height
_ROOM = 0.5  # of a network's row that its marks take
#: Where nothing changes.
_NONE: dict[str, Any] = {"color": "0.6", "linewidth": 0.6, "zorder": 0}


def by_place(cells: pd.DataFrame, conditions: str = "", measure: Measure = networks.TOTAL) -> Figure:
    """That of each network with interval bars: a row of panels per system, a panel per place, fastest on top.

    cells: networks.cells, or one of networks.latency_cells with its measure; one with a gap is not drawn.
    """
    place = [networks.place_text(*each) for each in cells[list(networks.PLACE)].itertuples(index=False)]
    return by(cells.assign(place=place), "place", networks.places(cells), conditions, measure)


def by_message(cells: pd.DataFrame, conditions: str, measure: Measure) -> Figure:
    """The same with a panel for what is measured, by the size of messages. cells: as of questions/modes/by_message."""
    shown, order = messages.labelled(cells)
    return by(shown, "setting", order, conditions, measure)


def by(cells: pd.DataFrame, column: str, order: Sequence[str], conditions: str, measure: Measure) -> Figure:
    """The same with a panel for each of these values of a column."""
    counts = sorted(cells["pairs"].unique())
    panels = [
        (f"{', '.join(names)}: {each}", system[system[column] == each])
        for names, system in cells.groupby(list(SYSTEM), sort=True)
        for each in order
    ]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        rows = networks.fastest_first(panel["driver"], panel, measure=measure)
        for number, count in enumerate(counts):
            known = panel[(panel["pairs"] == count) & panel["value"].notna()]
            down = _ROOM * ((number + 0.5) / len(counts) - 0.5)
            middle, low, high = (measure.scale * known[name] for name in ("value", "low", "high"))
            y = [rows.index(driver) + down for driver in known["driver"]]
            look = {**_look(number), **estimates.BARS}
            drawn = ax.errorbar(middle, y, xerr=[middle - low, high - middle], **look)
            drawn[0].set(**estimates.POINTS)
        ax.set_yticks(range(len(rows)), [style.text(each) for each in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        if measure.change:
            ax.axvline(0, **_NONE)
        else:
            ax.set_xlim(left=0)
        ax.grid(True, axis="x")
        ax.set_xlabel(measure.title)
        ax.set_ylabel("Network")
        grid.in_larger_unit(ax.xaxis, measure.unit)
        return ax

    handles = [
        Line2D([], [], **_look(number), label=f"{count} pair" + "s" * int(count > 1))
        for number, count in enumerate(counts)
    ]
    what = "change, paired by repetition," if measure.change else "mean"
    note = estimates.noted(estimates.note_of(cells, what), conditions)
    most = max(part["driver"].nunique() for _, part in panels)
    return grid.grid(
        panels,
        draw,
        note=note,
        across=min(len(order), 3),
        share_y=False,
        height_in=_AROUND_IN + _ROW_IN * max(most, _LEAST_ROWS),
        handles=handles if len(counts) > 1 else (),
    )


def _look(number: int) -> dict[str, Any]:
    return {
        "color": f"{0.55 - 0.55 * min(number, 1):g}",
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": "none",
    }
