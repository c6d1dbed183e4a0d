"""How long launches take: each repetition, their phases, their distribution, and beside others."""

from collections.abc import Callable, Sequence

import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pairlab.analysis import by_group
from pairlab.analysis.figures import cdf, estimates, grid, style
from pairlab.analysis.figures.allocations import by_driver
from pairlab.analysis.output.formatting import span
from pairlab.analysis.questions.launches import by_network
from pairlab.analysis.selection import SYSTEM
from pairlab.model import launches

#: The phases from below, each with its colour.
_COLOURS = dict(zip(launches.PHASES.values(), colormaps["viridis"]([0.05, 0.3, 0.55, 0.75, 0.95]), strict=True))


def repetitions(frame: pd.DataFrame, conditions: str = "") -> Figure:
    """The mean launch time of each repetition by driver, a panel per system and number of hosts.

    frame: as by_network.by_repetition, of one launch at a time.
    """

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        return by_driver.repetitions(panel, ax, value="launch_mean_s", measure=by_network.LAUNCH)

    note = by_driver.note(frame, by_network.BY) + f"; each the mean of {_count(frame)} launches"
    return _panels(frame, draw, estimates.noted(note, conditions))


def phases(frame: pd.DataFrame, repetitions: pd.Series, conditions: str = "") -> Figure:
    """What launches spend their time on, by driver, stacked. frame: as by_network.phases, of so many repetitions."""
    shown = [name for name in _COLOURS if frame[name].gt(0).any()]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        wide = 1e3 * panel.set_index("driver")[shown]
        drivers = style.ordered(wide.index)
        below = pd.Series(0.0, index=drivers)
        for name in shown:
            heights = wide.loc[drivers, name]
            ax.bar(range(len(drivers)), heights, bottom=below, width=0.7, facecolor=_COLOURS[name])
            below = below + heights
        by_driver.axis(ax, drivers)
        ax.set_ylim(0, below.max() * 1.1)
        ax.set_ylabel(by_network.LAUNCH.title)
        return ax

    handles = [Patch(facecolor=_COLOURS[name], label=name) for name in shown]
    note = f"mean of n = {span(repetitions)} repetitions; a phase counts from the end of the one before"
    return _panels(frame, draw, estimates.noted(note, conditions), handles=handles)


def distribution(frame: pd.DataFrame, conditions: str = "") -> Figure:
    """The CDF of all launches, a line per driver. frame: as by_network.every."""
    points = by_group.of(frame, [*SYSTEM, "hosts", "driver"], "ready_s").cdf()

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        return cdf.cdf_lines(panel, ax, label=by_network.LAUNCH.title, scale=1e3, log=True, of="launches")

    note = cdf.note(points.assign(pairs=points["hosts"])).replace("flows", "launches")
    return _panels(points, draw, estimates.noted(note, conditions), legend=True)


def by_number(cells: pd.DataFrame, number: str, name: str, conditions: str = "") -> Figure:
    """The mean launch time against idle pairs, or against launches at once. cells: those that differ in that only."""

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        return estimates.by_number(panel, ax, measure=by_network.LAUNCH, number=number, name=name)

    return _panels(cells, draw, estimates.noted(estimates.note_of(cells), conditions), legend=True)


def _panels(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    note: str,
    *,
    handles: Sequence[Patch] = (),
    legend: bool = False,
) -> Figure:
    """A panel per system and number of hosts, each with a scale of its own: backends lie orders apart."""
    panels = [
        (f"{backend}, {hosts} host{'s' * (hosts != 1)}", part)
        for (backend, _, hosts), part in frame.groupby([*SYSTEM, "hosts"], sort=True)
    ]
    shown = legend or bool(handles)
    return grid.grid(panels, draw, note=note, share_y=False, handles=handles, legend=shown)


def _count(frame: pd.DataFrame) -> str:
    return span(frame["flows"])
