"""Modes of one host by what is measured, in the form of paper S' figures 3a and 3b."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.questions.modes import by_message
from pairlab.analysis.selection import SYSTEM

_TICKS = {what: f"{what}\n{by_message.MESSAGE_BYTES} B" for what in by_message.MESSAGES}


def by_part(cells: pd.DataFrame, measure: Measure, *, level: float | None = None, conditions: str = "") -> Figure:
    """An estimate for each mode and what is measured: a panel per system, each with a scale of its own.

    cells: as by_message.as_bars, of any number of systems. level: a value that a thin line marks.
    """
    known = cells[cells["value"].notna()]
    panels = [(", ".join(names), part) for names, part in known.groupby(list(SYSTEM), sort=True)]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        order = by_message.bars(panel)
        return estimates.by_category(
            panel,
            ax,
            measure=measure,
            category="what",
            order=order,
            ticks=[_TICKS.get(what, what) for what in order],
            name="What is measured",
            level=level,
            from_zero=level is None,
        )

    what = "mean" if level is None else "change, paired by repetition,"
    return grid.grid(panels, draw, note=estimates.noted(estimates.note_of(known, what), conditions), share_y=False)


def by_size(cells: pd.DataFrame, measure: Measure, *, name: str = "Message size", conditions: str = "") -> Figure:
    """An estimate by size, a line for each mode: figures 3c and 3d. cells: as by_message.by_size."""
    return estimates.by_system(
        cells,
        estimates.by_number,
        number="size",
        name=name,
        measure=measure,
        log_y=True,
        conditions=conditions,
        ticks=by_message.ticks(cells),
    )
