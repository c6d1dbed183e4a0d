"""Cumulative distributions: a line per driver, a panel per system and pair count; the form of C's figures 3, 5 and 6.

The points of the lines come from by_group, which reduces any number of flows to the resolution of a figure.
cdf_lines draws one panel, cdf_panels a whole figure; flow_sizes draws the distribution of a traffic's flow sizes.
"""

from functools import partial

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import grid, style
from pairlab.analysis.output.formatting import span
from pairlab.analysis.selection import SYSTEM
from pairlab.model.flow_sizes import FlowSizes, described

_FINEST = 80  # steps of a line: more would be closer than its width, and make a large file
_FAINT = {"linestyle": "-", "linewidth": 0.35, "alpha": 0.45}  # of a single repetition
_FAINT_STEPS = 400  # of all faint lines of a panel: few lines have more each


def cdf_lines(
    line_points: pd.DataFrame,
    ax: Axes,
    *,
    label: str,
    scale: float = 1,
    log: bool = False,
    of: str = "flows",
) -> Axes:
    """The share of the flows up to each value, a line per driver, above a faint one for each repetition, if there are.

    line_points: as ByGroup.cdf, of one panel. label: name and unit of the value, and scale: the factor to that unit,
    such as "Flow completion time (ms)" and 1e3; of: flows, or another item. A linear axis begins at zero, so that
    panels can be compared by eye.
    """
    if log:
        grid.logarithmic(ax.xaxis)
    runs = len(line_points.filter(["driver", "repetition"]).dropna().drop_duplicates())
    for driver in ordered(line_points["driver"]):
        points = line_points[line_points["driver"] == driver]
        look = style.driver_style(driver) | {"marker": ""}
        if "repetition" in points:
            for _, run in points.groupby("repetition"):
                steps(ax, run["value"] * scale, run["share"], min(_FINEST, _FAINT_STEPS // runs), **look | _FAINT)
            points = points[points["repetition"].isna()]
        steps(ax, points["value"] * scale, points["share"], **look, label=driver)
    if not log:
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.grid(True, axis="x")
    ax.set(ylim=(0, 1), xlabel=label, ylabel=f"Share of {of}")
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    return ax


def steps(ax: Axes, values: pd.Series, shares: pd.Series, finest: int = _FINEST, **look: object) -> None:
    """Draws a CDF, whose shares may end below 1: values and shares of distributions.cdf."""
    reached = shares.groupby(values).max()
    reached = reached[~(finest * reached).round().duplicated(keep="last")]
    rises = reached.diff().fillna(reached)
    seaborn.ecdfplot(x=rises.index, weights=rises.to_numpy(), stat="count", ax=ax, clip_on=False, **look)
    x = np.asarray(ax.lines[-1].get_xdata())
    ax.lines[-1].set_xdata([x[1], *x[1:]])  # seaborn's lines begin at -∞, which no logarithmic axis has


def cdf_panels(
    line_points: pd.DataFrame,
    *,
    label: str,
    scale: float = 1,
    log: bool = False,
    across: str = "pairs",
    conditions: grid.Conditions = "",
) -> Figure:
    """A row of panels per system, one for each value of `across`; for a single value, systems side by side.

    line_points, label, scale, log: as cdf_lines. If all systems have all values, a logarithmic axis is shared: by all
    panels where these are of roles, else by those of a column. Else each panel has an axis of its own, since times at
    10 and at 150 pairs differ by an order of magnitude, and no place between panels stays free.
    """
    columns = line_points[across].nunique()
    panels = line_points.drop_duplicates([*SYSTEM, across])
    whole = len(panels) == columns * line_points.groupby(list(SYSTEM)).ngroups
    if not whole:  # up to four in a row, or three where that leaves fewer places free
        in_row = len(panels) if len(panels) <= 4 else min((4, 3), key=lambda number: -len(panels) % number)
    elif columns > 1:
        in_row = columns
    else:
        in_row = min(len(panels), 2)
    return grid.facets(
        line_points,
        partial(cdf_lines, label=label, scale=scale, log=log),
        column=across,
        note=note(line_points),
        conditions=conditions,
        across=in_row,
        packed=True,
        share_x=("all" if across == "role" else "col") if log and columns > 1 and whole else False,
    )


def note(line_points: pd.DataFrame, of: str = "flows") -> str:
    """The note on the flows of the lines: the repetitions, the flows of a line, and the number of failed flows."""
    lines = line_points.drop_duplicates([*SYSTEM, "driver", *{"pairs", "role"} & set(line_points)])
    faint = " (faint: of each)" if "repetition" in line_points and line_points["repetition"].notna().any() else ""
    counted = f"n = {span(lines['repetitions'])} repetitions{faint}, {span(lines['flows'])} {of} in each line"
    failed = int(lines["failed_flows"].sum())
    return f"{counted}; {failed} of all {of} failed: lines end below 1" if failed else f"{counted}; none failed"


def flow_sizes(sizes: FlowSizes) -> Figure:
    """The CDF of a traffic's flow sizes."""
    shares = np.unique(np.concatenate([np.linspace(0.001, 1, 500), sizes.shares[sizes.shares > 0]]))
    values = sizes.quantile(shares)
    least = max(values[0], 1)

    def draw(_: pd.DataFrame, ax: Axes) -> Axes:
        ax.plot(np.array([least, *values]) / 1e3, [0, *shares], color="black", clip_on=False)
        grid.logarithmic(ax.xaxis)
        ax.grid(True, axis="x")
        ax.set(xlim=(least / 1e3, None), ylim=(0, 1), xlabel="Flow size (kB)", ylabel="Share of flows")
        return ax

    panel = sizes.title or sizes.name, pd.DataFrame({"driver": [""]})
    return grid.grid([panel], draw, note=f"a distribution, nothing measured; {described(sizes)}")
