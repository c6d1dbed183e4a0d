"""Cumulative distributions: a line per driver, a panel per system and pair count; the form of C's figures 3, 5 and 6.

The points of the lines come from by_group, which reduces any number of flows to what a figure can show.
cdf_lines draws one panel, cdf_panels a whole figure; flow_sizes is of a distribution that traffic is drawn from.
"""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pairlab.analysis.figures import grid, style
from pairlab.analysis.figures.estimates import noted
from pairlab.analysis.output.formatting import span
from pairlab.analysis.selection import SYSTEM
from pairlab.model.traffic.flow_sizes import FlowSizes, described


def cdf_lines(
    line_points: pd.DataFrame,
    ax: Axes | None = None,
    *,
    label: str,
    scale: float = 1,
    log: bool = False,
    of: str = "flows",
) -> Axes:
    """The share of the flows up to each value, a line per driver.

    line_points: as ByGroup.cdf, of one panel. label names the value with its unit, and scale brings it there:
    "Flow completion time (ms)" and 1e3; of: what has it. A linear axis begins at zero, so that panels can be compared
    by eye.
    """
    ax = grid.single(ax)
    for driver in style.ordered(line_points["driver"]):
        mine = line_points[line_points["driver"] == driver].sort_values(["value", "share"])
        ax.plot(mine["value"] * scale, mine["share"], **style.line_only(driver), label=driver, clip_on=False)
    if log:
        grid.logarithmic(ax.xaxis)
    else:
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.grid(True, axis="x")
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    ax.set_xlabel(label)
    ax.set_ylabel(f"Share of {of}")
    return ax


def cdf_panels(
    line_points: pd.DataFrame,
    *,
    label: str,
    scale: float = 1,
    log: bool = False,
    across: str = "pairs",
    conditions: str = "",
) -> Figure:
    """A row of panels per system, one for each value of `across`; where that has one value, systems side by side.

    line_points, label, scale, log: as cdf_lines. Where all systems have all values, panels of a column share their
    axis if it is logarithmic. Else each panel has its own, since times at 10 and at 150 pairs lie an order apart, and
    panels follow each other without a hole.
    """
    columns = sorted(line_points[across].unique())
    panels = []
    for names, system in line_points.groupby(list(SYSTEM), sort=True):
        for column in sorted(system[across].unique()):
            name = f"{column} pairs" if across == "pairs" else str(column)
            panels.append((f"{', '.join(names)}: {name}", system[system[across] == column]))

    def draw(part: pd.DataFrame, ax: Axes) -> Axes:
        return cdf_lines(part, ax, label=label, scale=scale, log=log)

    several = len(columns) > 1
    whole = len(panels) == len(columns) * line_points.groupby(list(SYSTEM)).ngroups
    in_row = (len(columns) if whole else _in_row(len(panels))) if several else None
    return grid.grid(
        panels,
        draw,
        note=noted(note(line_points), conditions),
        across=in_row,
        share_x="col" if log and several and whole else False,
        height_in=grid.row_height_in(-(-len(panels) // in_row)) if in_row else style.HEIGHT_IN,
    )


def _in_row(panels: int) -> int:
    """Up to four panels in a row, or three where that leaves fewer places free."""
    return panels if panels <= 4 else min((4, 3), key=lambda each: -panels % each)


def note(line_points: pd.DataFrame) -> str:
    """What a reader must know of the flows behind the lines: repetitions, flows of a line, and how many failed."""
    lines = line_points.drop_duplicates([*SYSTEM, "driver", *{"pairs", "role"} & set(line_points)])
    counted = f"n = {span(lines['repetitions'])} repetitions, {span(lines['flows'])} flows in each line"
    failed = int(lines["failed_flows"].sum())
    return f"{counted}; {failed} of all flows failed: lines end below 1" if failed else f"{counted}; none failed"


def flow_sizes(sizes: FlowSizes) -> Figure:
    """The CDF that traffic draws its flow sizes from."""
    shares = np.unique(np.concatenate([np.linspace(0.001, 1, 500), sizes.shares[sizes.shares > 0]]))
    values = sizes.quantile(shares)
    least = max(values[0], 1)
    with mpl.rc_context(style.STYLE):
        figure, ax = plt.subplots(figsize=(style.COLUMN_IN, style.HEIGHT_IN), layout="constrained")
        ax.plot(np.array([least, *values]) / 1e3, [0, *shares], color="black", clip_on=False)
        grid.logarithmic(ax.xaxis)
        ax.grid(True, axis="x")
        ax.set(xlim=(least / 1e3, None), ylim=(0, 1), xlabel="Flow size (kB)", ylabel="Share of flows")
        ax.set_title(style.text(sizes.title or sizes.name))
        note = style.wrapped(f"a distribution, nothing measured; {described(sizes)}", style.COLUMN_IN)
        figure.supxlabel(style.text(note), **style.NOTE)
    return figure
