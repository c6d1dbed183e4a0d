"""One pair on paper M's allocations, in the form of its figures 3 to 6: a row for each allocation."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import cpu, estimates, grid
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.questions.allocations import placed, traffic
from pairlab.analysis.selection import SYSTEM

#: The parts of the CPUs' time, from below.
_COLOURS = {part: cpu.COLOURS[part] for part in ("usr", "sys", "softirq")} | {"rest": cpu.COLOURS["steal"]}
#: A change as a multiple, for those that span decades.
_TIMES = Measure("Times", "times", 2)


def repetitions(frame: pd.DataFrame, name: str, conditions: str = "") -> Figure:
    """One of placed.MEASURES by driver: a point for each repetition, with boxes. frame: as placed.by_repetition."""
    mine = placed.of(frame, name).dropna(subset=name)
    draw = partial(estimates.repetitions_by_driver, value=name, measure=placed.MEASURES[name])
    return _panels(mine, draw, estimates.note_of(mine, by=placed.BY), conditions)


def changes(frame: pd.DataFrame, label: str, conditions: str = "", *, as_multiple: bool = False) -> Figure:
    """A change by allocation and driver with its interval, and a line at none. frame: as placed.against_alone.

    as_multiple: times what a pair has alone, on a logarithmic axis: latencies grow by percents, or a thousandfold.
    """
    known = frame[frame["value"].notna()]
    if as_multiple:
        known = known.assign(**{name: 1 + known[name] / 100 for name in ("value", "low", "high")})
    order = [place for place in ALLOCATIONS if (known["allocation"] == place).any()]
    draw = partial(
        estimates.by_category,
        measure=_TIMES if as_multiple else placed.AGAINST_ALONE,
        category="allocation",
        order=order,
        ticks=[ALLOCATIONS[place].replace(", ", ",\n") for place in order],
        name="Allocation",
        label=label,
        level=1 if as_multiple else None,
        log_y=as_multiple,
    )
    note = estimates.note_of(known, estimates.CHANGE)
    return grid.facets(known, draw, column="beside", note=note, conditions=conditions)


def cpu_split(cells: dict[str, pd.DataFrame], conditions: str = "") -> Figure:
    """What the CPUs' time is spent on, by driver, stacked (paper M, figure 6). cells: as placed.cpu_cells."""
    parts = pd.concat([frame.assign(part=name) for name, frame in cells.items()])
    parts = parts[parts["value"].notna()]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        drivers = ordered(panel["driver"])
        estimates.stacked(ax, panel, bar="driver", part="part", order=drivers, colours=_COLOURS, scale=100)
        used = 100 * panel.groupby("driver")["value"].sum()
        for place, driver in enumerate(drivers):  # beside 1 Gbit/s, so little that a bar hardly shows it
            ax.text(place, used[driver] + 1, f"{used[driver]:.0f}", ha="center", size="x-small")
        grid.name_drivers(ax, drivers)
        ax.set(ylim=(0, 112), yticks=[0, 50, 100], ylabel="CPU time (%)")  # room for a number above a full bar
        return ax

    note = f"mean of n = {span(parts['n'])} repetitions, of all CPUs over the measuring window; above each bar, its sum"
    return _panels(parts, draw, note, conditions, handles=grid.patches(_COLOURS))


def _panels(
    frame: pd.DataFrame, draw: Callable[..., Axes], note: str, conditions: str, handles: Sequence[Artist] = ()
) -> Figure:
    """A row of panels for each allocation, as one can carry fifty times what another does, and in it one for each
    system and what runs beside; where that was not measured, its place is free.
    """
    names = [*SYSTEM, "beside"] if frame["beside"].nunique() > 1 else [*SYSTEM]
    placed_at = frame.assign(what=frame[names].agg(", ".join, axis=1), row=frame["allocation"].map(ALLOCATIONS))
    return _rows(placed_at, draw, note, conditions, handles=handles, height_in=2.0)


def run_times(repetitions: pd.DataFrame, conditions: str = "") -> Figure:
    """How long all flows of traffic as of a data centre took, by driver, as `repetitions` (paper M, figure 7).

    A row per load, a panel per system. repetitions: as traffic.by_repetition.
    """
    mine = repetitions.dropna(subset="run_s")
    mine = mine.assign(what=mine[list(SYSTEM)].agg(", ".join, axis=1), row=mine["load"])
    label = "Time of all flows (s)"
    draw = partial(estimates.repetitions_by_driver, value="run_s", measure=traffic.RUN_TIME, label=label)
    return _rows(mine, draw, estimates.note_of(mine, by=traffic.BY), conditions)


def _rows(frame: pd.DataFrame, draw: Callable[..., Axes], note: str, conditions: str, **layout: Any) -> Figure:
    titles: dict[str, Any] = {"column": "what", "rows": ["row"], "title": "{row}:\n{each}"}
    return grid.facets(frame, draw, note=note, conditions=conditions, **titles | layout)
