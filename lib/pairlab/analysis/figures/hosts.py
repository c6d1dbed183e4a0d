"""Hosts as repetitions of the machine: a dot for each host, and beside the dots their mean with its interval."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis import cell_estimates
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Quantity
from pairlab.analysis.selection import CELL, SYSTEM
from pairlab.statistics.intervals import LEAST

#: The share of a pair count's width for its drivers; and of a driver's width, the distance from dots to mean.
_ROOM, _APART = 0.7, 0.3
#: The line that joins one host's dots: if hosts differ in speed only, these lines have the same shape.
_SAME_HOST: dict[str, Any] = {"color": "0.75", "linewidth": 0.5, "zorder": 1}


def dots(
    repetitions: pd.DataFrame,
    *,
    value: str,
    measure: Quantity,
    conditions: grid.Conditions = "",
    confidence: float = 0.95,
) -> Figure:
    """The mean of `value` on each host, by pairs and driver, and the mean over hosts: a panel per system.

    repetitions: as repetitions.table by CELL and host: columns of CELL, host and `value`.
    measure: of the value. Both means are cell_estimates.means; missing means are not drawn.
    """
    of_host = cell_estimates.means(repetitions, [*CELL, "host"], value, confidence)
    over_hosts = cell_estimates.means(repetitions, CELL, value, confidence, over="host")
    means = pd.concat([of_host.assign(is_mean=False), over_hosts.assign(is_mean=True)])
    panels = [(", ".join(names), part) for names, part in means.groupby(list(SYSTEM), sort=True)]
    draw = partial(_panel, measure=measure)
    return grid.grid(panels, draw, note=_note(over_hosts), conditions=conditions, wide=len(panels) == 1)


def _panel(panel: pd.DataFrame, ax: Axes, measure: Quantity) -> Axes:
    drivers, pairs = ordered(panel["driver"]), sorted(panel["pairs"].unique())
    step = _ROOM / len(drivers)
    places = estimates.beside_each_other(panel, drivers, pairs, step)
    places = places + step * _APART * (panel["is_mean"] - 0.5)
    placed = panel.assign(place=places, scaled=panel["value"] * measure.scale)
    hosts = placed[~placed["is_mean"] & placed["value"].notna()].sort_values("place")
    for _, line in hosts.groupby(["pairs", "host"]):
        ax.plot(line["place"], line["scaled"], **_SAME_HOST)
    for driver in drivers:
        of_driver = hosts[hosts["driver"] == driver]
        estimates.repeated(ax, of_driver["scaled"], of_driver["place"], driver)
    estimates.points(ax, placed[placed["is_mean"]], along="place", scale=measure.scale, cap=0.1)
    grid.name_categories(ax, pairs, "Pairs")
    ax.set_ylabel(measure.title)
    if not measure.change:
        estimates.from_zero(ax)
    return ax


def _note(over_hosts: pd.DataFrame) -> str:
    n = over_hosts.loc[over_hosts["value"].notna(), "n"]
    share = f"{100 * over_hosts['confidence'].iloc[0]:g} %"
    bars = f"bars: {share} interval over hosts" if n.max() >= LEAST else f"no interval: it needs {LEAST} hosts"
    partly = f"; hollow: no interval (n < {LEAST})" if n.min() < LEAST <= n.max() else ""
    return (
        f"a dot per host, n = {span(n)} host{'s' * int(n.max() != 1)} in each column, a host's own dots joined;"
        f" beside them the mean over hosts; {bars}{partly}"
    )
