"""CPU use by pairs: how busy, beside the throughput; and what the time is spent on."""

from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pairlab.analysis.driver_order import ordered
from pairlab.analysis.figures import estimates, grid
from pairlab.analysis.output.formatting import span
from pairlab.analysis.questions.cpu import MEASURES, PARTS, SATURATED

#: The colour of each part of the CPU's time: no driver's, and each another grey.
COLOURS = {
    "usr": "#DCD3EC",
    "sys": "#A58BC9",
    "softirq": "#5B2A86",
    "irq": "#1F0A33",
    "steal": "0.45",
    "iowait": "0.75",
    "idle": "0.95",
}


def busy_by_pairs(busy: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """The busy share of all CPUs by pairs, a line per driver with interval bars; a thin line at SATURATED.

    busy: as cpu.cells()["busy"], of one system.
    """
    ax = estimates.by_number(busy, ax, measure=MEASURES["busy"], label="CPU busy (%)", level=100 * SATURATED)
    ax.set_ylim(0, 105)
    return ax


def beside_throughput(busy: pd.DataFrame, total: pd.DataFrame, conditions: str = "") -> Figure:
    """Total throughput above, the CPU's busy share below, a column per system. Both: estimates, as cpu.cells()."""
    draw = partial(estimates.by_number, measure=MEASURES["total_bps"], label="Total throughput (Gbit/s)")
    return estimates.above_each_other([(total, draw), (busy, busy_by_pairs)], conditions=conditions)


def parts_by_pairs(cells: dict[str, pd.DataFrame], conditions: str = "") -> Figure:
    """What the CPU's time is spent on by pairs, stacked to 100 %: a row per system, a panel per driver.

    cells: as cpu.cells(). The parts are means over repetitions. Each panel has the pair counts of its own driver.
    """
    parts = pd.concat([frame.assign(part=name) for name, frame in cells.items() if name in PARTS])
    shown = {part: COLOURS[part] for part in PARTS if parts.loc[parts["part"] == part, "value"].max() >= 0.005}

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        pairs = sorted(panel["pairs"].unique())
        drawn = panel[panel["part"].isin(shown)]
        estimates.stacked(ax, drawn, bar="pairs", part="part", order=pairs, colours=shown, scale=100)
        ax.set_xticks(range(len(pairs)), pairs)
        ax.tick_params(axis="x", length=0)
        grid.turn_crowded(ax, pairs)
        ax.set(xlim=(-0.6, len(pairs) - 0.4), ylim=(0, 100), xlabel="Pairs", ylabel="CPU time (%)")
        return ax

    note = f"mean of n = {span(parts['n'])} repetitions, of all CPUs over the measuring window"
    order = ordered(parts["driver"])
    return grid.facets(
        parts, draw, column="driver", order=order, note=note, conditions=conditions, handles=grid.patches(shown)
    )
