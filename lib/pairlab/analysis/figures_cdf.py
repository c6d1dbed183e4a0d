"""Cumulative distributions: a line per driver, a panel per system and pair count; the form of C's figures 3, 5 and 6.

points reduces any number of flows to what a figure can show; cdf_lines draws one panel; cdf_panels a whole figure.
"""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from pairlab.analysis import figures, quantiles
from pairlab.analysis.stats import CELL, SYSTEM
from pairlab.errors import TooFewSamples


def points(flows: pd.DataFrame, value: str, *, by: Sequence[str] = CELL) -> pd.DataFrame:
    """The distribution of `value` over the flows of each group, as the points of its line.

    flows: as Runs.flows: columns of `by`, status, repetition and `value`. A flow without a value, such as a failed
    one, is in no share; it is counted. Returns `by`, value, share, and flows, missing_flows and repetitions of the
    group, as often as it has points. A group without any value has no points. Raises TooFewSamples where none has.
    """
    parts = []
    for names, group in flows.groupby(list(by), sort=True):
        known = group[value].dropna()
        if known.empty:
            continue
        line = quantiles.cdf(known.to_numpy())
        told = dict(zip(by, names, strict=True)) | {
            "flows": len(group),
            "missing_flows": len(group) - len(known),
            "repetitions": group["repetition"].nunique(),
        }
        parts.append(line.assign(**told)[[*by, "value", "share", "flows", "missing_flows", "repetitions"]])
    if not parts:
        raise TooFewSamples(f"no flow has a value for {value}: all failed, or the tool does not tell it")
    return pd.concat(parts, ignore_index=True)


def cdf_lines(
    line_points: pd.DataFrame, ax: Axes | None = None, *, label: str, scale: float = 1, log: bool = False
) -> Axes:
    """The share of the flows up to each value, a line per driver.

    line_points: as points, of one panel. label names the value with its unit, and scale brings it there: "Flow
    completion time (ms)" and 1e3. A linear axis begins at zero, so that panels can be compared by eye.
    """
    ax = ax or plt.subplots(figsize=(figures.COLUMN_IN, figures.HEIGHT_IN), layout="constrained")[1]
    for driver in figures.ordered(line_points["driver"]):
        mine = line_points[line_points["driver"] == driver].sort_values(["value", "share"])
        style = figures.driver_style(driver) | {"marker": ""}
        value, share = mine["value"].to_numpy() * scale, mine["share"].to_numpy()
        ax.plot(np.r_[value[0], value], np.r_[0, share], **style, drawstyle="steps-post", label=driver)
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=6))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.grid(True, axis="x")
    ax.set_ylim(0, 1)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "0.5", "", "1"])
    ax.set_xlabel(label)
    ax.set_ylabel("Share of flows")
    return ax


def cdf_panels(
    line_points: pd.DataFrame, *, label: str, scale: float = 1, log: bool = False, across: str = "pairs"
) -> Figure:
    """A row of panels per system, one for each value of `across`; where that has one value, systems side by side.

    line_points, label, scale, log: as cdf_lines. Panels of a column share their axis where it is logarithmic; on a
    linear one each has its own, since times at 10 and at 150 pairs lie an order apart.
    """
    systems = list(line_points.groupby(list(SYSTEM), sort=True).groups)
    columns = sorted(line_points[across].unique())
    panels = []
    for names in systems:
        for column in columns:
            mine = (line_points[list(SYSTEM)] == names).all(axis=1) & (line_points[across] == column)
            told = f"{column} pairs" if across == "pairs" else str(column)
            panels.append((f"{', '.join(names)}: {told}", line_points[mine]))

    def draw(part: pd.DataFrame, ax: Axes) -> None:
        cdf_lines(part, ax, label=label, scale=scale, log=log)

    return figures.grid(
        panels,
        draw,
        note=note(line_points),
        across=len(columns) if len(columns) > 1 else None,
        share_x=log,
        height_in=1.6,
    )


def note(line_points: pd.DataFrame) -> str:
    """What a reader must know of the flows behind the lines: repetitions, flows of a line, and those with no value."""
    lines = line_points.drop_duplicates([*SYSTEM, "driver", *{"pairs", "role"} & set(line_points)])
    told = f"n = {figures.span(lines['repetitions'])} repetitions, {figures.span(lines['flows'])} flows in each line"
    missing = int(lines["missing_flows"].sum())
    return f"{told}; {missing} of all flows failed and are in no line" if missing else f"{told}; none failed"
