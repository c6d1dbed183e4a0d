"""Panels in which each driver has a place: boxes and points of repetitions."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes

from pairlab.analysis.figures import estimates, grid, style
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Measure

#: Of the names of drivers below one panel: so many have room beside each other.
_LETTERS = 24
#: How far a panel reaches at least, over its highest value.
_ABOVE = 1.06


def repetitions(panel: pd.DataFrame, ax: Axes, *, value: str, measure: Measure, label: str = "") -> Axes:
    """A value of each repetition by driver: a point, and from LEAST_IN_BOX on a box behind them (paper M, figure 3)."""
    drivers = style.ordered(panel["driver"])
    for place, driver in enumerate(drivers):
        look = style.points_only(driver)
        values = panel.loc[panel["driver"] == driver, value] * measure.scale
        if len(values) >= style.LEAST_IN_BOX:
            estimates.box(ax, values, place, 0.55, str(look["color"]))
        points = {"color": look["color"], "marker": look["marker"], **estimates.REPETITIONS}
        seaborn.stripplot(x=np.full(len(values), float(place)), y=values, ax=ax, **points)
    axis(ax, drivers)
    ax.set_ylabel(label or measure.title)
    estimates.scale_y(ax, from_zero=True)
    ax.set_ylim(top=max(ax.get_ylim()[1], _ABOVE * panel[value].max() * measure.scale))  # no point on the panel's edge
    grid.in_larger_unit(ax.yaxis, measure.unit)
    return ax


def axis(ax: Axes, drivers: Sequence[str]) -> None:
    """An x axis of drivers, whose names are turned where they would run into each other."""
    estimates.category_axis(ax, [style.text(driver) for driver in drivers], "Driver")
    if sum(map(len, drivers)) > _LETTERS:
        ax.tick_params(axis="x", labelrotation=35)
        plt.setp(ax.get_xticklabels(), ha="right", rotation_mode="anchor")


def note(repetitions: pd.DataFrame, by: Sequence[str]) -> str:
    """What a reader must know of n where `repetitions` of these cells are drawn."""
    n = repetitions.groupby(list(by))["repetition"].nunique()
    boxes = "" if n.max() < style.LEAST_IN_BOX else "a box (quartiles, median; whiskers: extremes) and "
    return f"{boxes}a point per repetition, n = {span(n)} of each driver"
