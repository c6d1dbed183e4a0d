"""CPU use by pairs: how busy, beside the throughput; and what the time is spent on."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pairlab.analysis import figures
from pairlab.analysis.cpu import PARTS, SATURATED
from pairlab.analysis.stats import SYSTEM

#: The colour of each part of the CPU's time.
_LOOK = {
    "usr": "#56B4E9",
    "sys": "#0072B2",
    "softirq": "#D55E00",
    "irq": "#E69F00",
    "steal": "#CC79A7",
    "iowait": "0.75",
    "idle": "0.93",
}


def busy_by_pairs(busy: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """The busy share of all CPUs by pairs, a line per driver with interval bars; a thin line at SATURATED.

    busy: as cpu.cells()["busy"], of one system.
    """
    ax = ax or plt.subplots(figsize=(figures.COLUMN_IN, figures.HEIGHT_IN), layout="constrained")[1]
    figures.lines(ax, busy, "value", "low", "high", scale=100, aside_pt=2.2)
    figures.pair_ticks(ax, busy["pairs"])
    ax.axhline(100 * SATURATED, color="0.4", linewidth=0.6, zorder=1)
    ax.set_ylim(0, 105)
    ax.set_ylabel("CPU busy (%)")
    return ax


def beside_throughput(busy: pd.DataFrame, total: pd.DataFrame) -> Figure:
    """Total throughput above, the CPU's busy share below, a column per system. Both: estimates, as cpu.cells()."""
    panels = []
    for kind, frame in (("total", total), ("busy", busy)):
        for names, part in frame.groupby(list(SYSTEM), sort=True):
            panels.append((", ".join(names) if kind == "total" else "", part.assign(kind=kind)))

    def draw(part: pd.DataFrame, ax: Axes) -> Axes:
        if part["kind"].iloc[0] == "busy":
            return busy_by_pairs(part, ax)
        figures.lines(ax, part, "value", "low", "high", scale=1e-9, aside_pt=2.2)
        figures.pair_ticks(ax, part["pairs"])
        ax.set_ylabel("Total throughput (Gbit/s)")
        return ax

    across = len(panels) // 2
    return figures.grid(
        panels, draw, note=figures.note(busy), across=across, share_x="col", share_y="row", height_in=1.7
    )


def parts_by_pairs(cells: dict[str, pd.DataFrame]) -> Figure:
    """What the CPU's time is spent on by pairs, stacked to 100 %: a row per system, a panel per driver.

    cells: as cpu.cells(). The parts are means over repetitions.
    """
    parts = pd.concat([frame.assign(part=name) for name, frame in cells.items() if name in PARTS])
    shown = [part for part in PARTS if parts.loc[parts["part"] == part, "value"].max() >= 0.005]
    drivers = figures.ordered(parts["driver"])
    panels = [
        (f"{', '.join(names)}: {driver}", system[system["driver"] == driver])
        for names, system in parts.groupby(list(SYSTEM), sort=True)
        for driver in drivers
    ]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        pairs = sorted(panel["pairs"].unique())
        wide = panel.pivot(index="pairs", columns="part", values="value") * 100
        below = pd.Series(0.0, index=wide.index)
        for part in shown:
            ax.bar(range(len(pairs)), wide[part], bottom=below, width=0.8, color=_LOOK[part], linewidth=0)
            below = below + wide[part]
        ax.set_xticks(range(len(pairs)), pairs)
        ax.tick_params(axis="x", length=0)
        ax.set_ylim(0, 100)
        ax.set_xlabel("Pairs")
        ax.set_ylabel("CPU time (%)")
        return ax

    handles = [Patch(facecolor=_LOOK[part], label=part) for part in shown]
    height_in = figures.row_height_in(len(panels) // len(drivers))
    told = f"mean of n = {figures.span(parts['n'])} repetitions, of all CPUs over the measuring window"
    return figures.grid(panels, draw, note=told, across=len(drivers), height_in=height_in, handles=handles)
