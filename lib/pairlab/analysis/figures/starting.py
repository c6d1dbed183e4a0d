"""The p99 of completion times by the spacing of the clients' starts: a panel per driver, a line per number of pairs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pairlab.analysis.figures import estimates, grid, style
from pairlab.analysis.questions.reasons.starting import TIME
from pairlab.analysis.selection import SYSTEM

#: Marker and line of each number of pairs, from the most to the least; the colour is the driver's.
_SERIES: Sequence[tuple[str, str]] = (("o", "-"), ("s", "--"), ("^", "-."), ("D", ":"))


def by_spacing(cells: pd.DataFrame, conditions: str = "") -> Figure:
    """One percentile over the spacing, with interval bars: a row per system, a panel per driver.

    cells: starting.percentiles of one q; one with a gap is not drawn.
    """
    drivers, pairs = style.ordered(cells["driver"]), sorted(cells["pairs"].unique(), reverse=True)
    looks = {count: _SERIES[place % len(_SERIES)] for place, count in enumerate(pairs)}
    panels = [
        (f"{', '.join(names)}: {driver}", system[system["driver"] == driver])
        for names, system in cells.groupby(list(SYSTEM), sort=True)
        for driver in drivers
    ]
    spacings_s = sorted(cells["start_spacing_s"].unique())  # side by side: most lie close to 0

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        for count, line in panel[panel["value"].notna()].groupby("pairs", sort=True):
            line = line.sort_values("start_spacing_s")
            middle, low, high = (TIME.scale * line[name] for name in ("value", "low", "high"))
            marker, stroke = looks[count]
            look: dict[str, Any] = {"marker": marker, "linestyle": stroke, **estimates.BARS}
            look["color"] = style.driver_style(line["driver"].iloc[0])["color"]
            places = [spacings_s.index(each) for each in line["start_spacing_s"]]
            drawn = ax.errorbar(places, middle, yerr=[middle - low, high - middle], **look)
            drawn[0].set(**estimates.POINTS)
        ax.set_xticks(range(len(spacings_s)), [f"{1e3 * each:g}" for each in spacings_s])
        ax.set_xlim(-0.5, len(spacings_s) - 0.5)
        grid.logarithmic(ax.yaxis)
        ax.set_xlabel("Spacing of starts (ms)")
        ax.set_ylabel("p99 FCT (ms)")
        return ax

    handles = [
        Line2D([], [], color="0.3", marker=looks[count][0], linestyle=looks[count][1], label=f"{count} pairs")
        for count in pairs
    ]
    note = estimates.noted(estimates.note_of(cells, "p99 of all flows"), conditions)
    height_in = grid.row_height_in(len(panels) // len(drivers)) if len(panels) > len(drivers) else style.HEIGHT_IN
    return grid.grid(panels, draw, note=note, across=len(drivers), height_in=height_in, handles=handles)
