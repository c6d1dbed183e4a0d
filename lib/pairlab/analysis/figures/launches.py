"""How long launches take: each repetition, their phases, their distribution, and beside others."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
import seaborn
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pairlab.analysis import by_group
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import cdf, estimates, grid
from pairlab.analysis.output.formatting import span
from pairlab.analysis.questions.launches.by_network import BY, LAUNCH
from pairlab.analysis.selection import SYSTEM
from pairlab.model import launches

#: The phases from below, each with its colour.
_COLOURS = dict(
    zip(
        launches.PHASES.values(),
        map(to_hex, seaborn.color_palette("viridis", len(launches.PHASES))),
        strict=True,
    )
)


def repetitions(frame: pd.DataFrame, conditions: str = "") -> Figure:
    """The mean launch time of each repetition by driver. frame: by_network.by_repetition, of one launch at a time."""
    draw = partial(estimates.repetitions_by_driver, value="launch_mean_s", measure=LAUNCH)
    note = f"{estimates.note_of(frame, by=BY)}; each the mean of {span(frame['flows'])} launches"
    return _panels(frame, draw, note, conditions)


def phases(frame: pd.DataFrame, repetitions: pd.Series, conditions: str = "") -> Figure:
    """What launches spend their time on, by driver, stacked. frame: as by_network.phases, of so many repetitions."""
    shown = {name: colour for name, colour in _COLOURS.items() if frame[name].gt(0).any()}
    parts = frame.melt([*SYSTEM, "hosts", "driver"], list(shown), "phase", "value")

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        drivers = ordered(panel["driver"])
        estimates.stacked(ax, panel, bar="driver", part="phase", order=drivers, colours=shown, scale=LAUNCH.scale)
        grid.name_drivers(ax, drivers)
        ax.set_ylabel(LAUNCH.title)
        estimates.from_zero(ax)
        return ax

    note = f"mean of n = {span(repetitions)} repetitions; a phase counts from the end of the one before"
    return _panels(parts, draw, note, conditions, grid.patches(shown))


def distribution(frame: pd.DataFrame, conditions: str = "") -> Figure:
    """The CDF of all launches, a line per driver. frame: as by_network.every."""
    points = by_group.of(frame, [*SYSTEM, "hosts", "driver"], "ready_s").cdf()
    draw = partial(cdf.cdf_lines, label=LAUNCH.title, scale=LAUNCH.scale, log=True, of="launches")
    return _panels(points, draw, cdf.note(points.assign(pairs=points["hosts"]), "launches"), conditions)


def by_number(cells: pd.DataFrame, number: str, name: str, conditions: str = "") -> Figure:
    """The mean launch time against idle pairs, or against launches at once. cells: those that differ in that only."""
    draw = partial(estimates.by_number, measure=LAUNCH, number=number, name=name)
    return _panels(cells, draw, estimates.note_of(cells), conditions)


def _panels(
    frame: pd.DataFrame, draw: Callable[..., Axes], note: str, conditions: str, handles: Sequence[Artist] = ()
) -> Figure:
    """A row per backend, as these lie orders apart, and in it a panel per number of hosts."""
    hosts = frame["hosts"].map(lambda count: f"{count} host{'' if count == 1 else 's'}")
    rows: dict[str, Any] = {"rows": ["backend"], "column": "hosts", "title": "{row}, {each}"}
    return grid.facets(frame.assign(hosts=hosts), draw, note=note, conditions=conditions, handles=handles, **rows)
