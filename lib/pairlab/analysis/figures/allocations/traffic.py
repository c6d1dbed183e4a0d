"""Traffic as of a data centre, in the form of paper M's figure 7."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.figures import estimates, grid, style
from pairlab.analysis.figures.allocations import by_driver
from pairlab.analysis.questions.allocations import traffic
from pairlab.analysis.selection import SYSTEM


def run_times(repetitions: pd.DataFrame, conditions: str = "") -> Figure:
    """How long all flows took, by driver: a point for each repetition, with boxes. A row per system, a panel per load.

    repetitions: as traffic.by_repetition.
    """
    mine = repetitions.dropna(subset="run_s")
    loads = sorted(mine["load"].unique())
    panels = [
        (f"{', '.join(names)}: {load}", row[row["load"] == load])
        for names, row in mine.groupby(list(SYSTEM), sort=True)
        for load in loads
    ]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        return by_driver.repetitions(panel, ax, value="run_s", measure=traffic.RUN_TIME, label="Time of all flows (s)")

    note = estimates.noted(by_driver.note(mine, traffic.BY), conditions)
    height_in = style.HEIGHT_IN if len(loads) == 1 else grid.row_height_in(-(-len(panels) // len(loads)))
    return grid.grid(panels, draw, note=note, across=len(loads), share_y=False, height_in=height_in, legend=False)
