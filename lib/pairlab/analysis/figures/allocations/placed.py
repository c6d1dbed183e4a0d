"""One pair on paper M's allocations, in the form of its figures 3 to 6."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pairlab.analysis.allocations import ALLOCATIONS
from pairlab.analysis.figures import cpu, estimates, grid, style
from pairlab.analysis.figures.allocations import by_driver
from pairlab.analysis.output.formatting import span
from pairlab.analysis.output.measures import Measure
from pairlab.analysis.questions.allocations import placed
from pairlab.analysis.selection import SYSTEM

_HEIGHT_IN = 1.9
#: The parts of the CPUs' time, from below.
_COLOURS = {part: cpu.COLOURS[part] for part in ("usr", "sys", "softirq")} | {"rest": cpu.COLOURS["steal"]}
_EDGE: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4}


def repetitions(frame: pd.DataFrame, name: str, conditions: str = "") -> Figure:
    """One of placed.MEASURES by driver: a point for each repetition, with boxes. A row per system and what runs beside;
    each panel has a scale of its own, as one allocation can carry fifty times what another does.

    frame: as placed.by_repetition.
    """
    mine, measure = placed.of(frame, name).dropna(subset=name), placed.MEASURES[name]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        return by_driver.repetitions(panel, ax, value=name, measure=measure)

    return _panels(mine, draw, estimates.noted(by_driver.note(mine, placed.BY), conditions))


#: A change as a multiple, for those that span decades.
_TIMES = Measure("Times", "times", 2)


def changes(frame: pd.DataFrame, label: str, conditions: str = "", *, as_multiple: bool = False) -> Figure:
    """A change by allocation and driver with its interval, and a line at none. frame: as placed.against_alone.

    as_multiple: times what a pair has alone, on a logarithmic axis: latencies grow by percents, or a thousandfold.
    """
    known = frame[frame["value"].notna()]
    if as_multiple:
        bounds = ["value", "low", "high"]
        known = known.assign(**{name: 1 + known[name] / 100 for name in bounds})
    order = [place for place in ALLOCATIONS if (known["allocation"] == place).any()]
    several = known["beside"].nunique() > 1
    panels = [
        (", ".join(names[:2]) + (f": {names[2]}" if several else ""), part)
        for names, part in known.groupby([*SYSTEM, "beside"], sort=True)
    ]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        return estimates.by_category(
            panel,
            ax,
            measure=_TIMES if as_multiple else placed.AGAINST_ALONE,
            category="allocation",
            order=order,
            ticks=[ALLOCATIONS[place].replace(", ", ",\n") for place in order],
            name="Allocation",
            label=label,
            level=1 if as_multiple else 0,
            from_zero=False,
            log_y=as_multiple,
        )

    note = estimates.noted(estimates.note_of(known, "change, paired by repetition,"), conditions)
    return grid.grid(panels, draw, note=note, share_y=False)


def cpu_split(cells: dict[str, pd.DataFrame], conditions: str = "") -> Figure:
    """What the CPUs' time is spent on, by driver, stacked (paper M, figure 6). cells: as placed.cpu_cells."""
    parts = pd.concat([frame.assign(part=name) for name, frame in cells.items()])
    parts = parts[parts["value"].notna()]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        wide = 100 * panel.pivot(index="driver", columns="part", values="value")
        drivers = style.ordered(wide.index)
        below = pd.Series(0.0, index=drivers)
        for part, colour in _COLOURS.items():
            heights = wide.loc[drivers, part]
            ax.bar(range(len(drivers)), heights, bottom=below, width=0.7, facecolor=colour, **_EDGE)
            below = below + heights
        for place, used in enumerate(below):  # beside 1 Gbit/s, so little that a bar hardly shows it
            ax.text(place, used + 1, f"{used:.0f}", ha="center", size="x-small")
        by_driver.axis(ax, drivers)
        ax.set_ylim(0, 108)  # room for a number above a full bar
        ax.set_ylabel("CPU time (%)")
        return ax

    handles = [Patch(facecolor=colour, **_EDGE, label=part) for part, colour in _COLOURS.items()]
    note = f"mean of n = {span(parts['n'])} repetitions, of all CPUs over the measuring window; above each bar, its sum"
    return _panels(parts, draw, estimates.noted(note, conditions), handles=handles, share_y=True)


def _panels(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    note: str,
    *,
    handles: Sequence[Patch] = (),
    share_y: bool = False,
) -> Figure:
    """A row of panels per system and what runs beside, a column per allocation; where one has no rows, it is free."""
    places = [place for place in ALLOCATIONS if (frame["allocation"] == place).any()]
    several = frame["beside"].nunique() > 1
    panels = []
    for names, row in frame.groupby([*SYSTEM, "beside"], sort=True):
        head = ", ".join(names[:2]) + (f", {names[2]}" if several else "")
        panels += [(f"{head}:\n{ALLOCATIONS[place]}", row[row["allocation"] == place]) for place in places]
    height_in = _HEIGHT_IN if len(places) > 1 else style.HEIGHT_IN
    shared: dict[str, Any] = {"across": len(places), "share_y": share_y, "height_in": height_in, "handles": handles}
    return grid.grid(panels, draw, note=note, legend=bool(handles), **shared)
