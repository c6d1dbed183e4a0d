"""What the CPUs run, by layer of the network stack: a stacked bar per driver, and flame graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pairlab.analysis import layers
from pairlab.analysis.driver_order import ordered, rank
from pairlab.analysis.figures import grid, style
from pairlab.analysis.figures.estimates import pairs_text, stacked
from pairlab.analysis.output.formatting import span
from pairlab.analysis.questions import networks
from pairlab.analysis.selection import SYSTEM

#: The colour of each layer. Neighbours in a bar differ in lightness, too.
COLOURS = {
    layers.USER: "0.80",
    "OVS in user space": "#0BA27A",
    "socket": "#F0D98C",
    "softirq and device": "#7B5EA7",
    "IP": "#CFE3F5",
    "TCP": "#2F6DB5",
    "UDP": "#9DB8DC",
    "veth": "#F3A6C4",
    "ipvlan": "#8C4A1E",
    "macvlan": "#C44E00",
    "bridge": "#00405F",
    "VXLAN": "#73C6D9",
    "OVS": "#5FD0AE",
    "netfilter": "#8A2D3C",
    "scheduler": "#F5E3EC",
    "timers": "#B0413E",
    "memory allocation": "#DCC36A",
    "locks": "#202020",
    "copy": "#F2A65A",
    layers.OTHER: "0.93",
}
#: Layers that have less in every bar are drawn as one.
LEAST = 0.01

#: Of a flame graph: width of its picture and height of a frame in pixels; narrower frames are left out.
_WIDTH, _FRAME, _LEAST_WIDTH, _CHARACTER = 1000, 16, 1.0, 6.2
#: Layers whose colour is so dark that what is written on it is white.
_DARK = ("TCP", "bridge", "locks", "softirq and device", "netfilter", "macvlan", "ipvlan", "timers")


def by_layer(shares: pd.DataFrame, conditions: str = "") -> Figure:
    """The share of each layer in percent, a stacked bar per driver: a row per system, a panel per number of pairs.

    shares: as causes.layer_cells(). Layers below LEAST in all bars are added to `other`.
    """
    known = shares[shares["value"].notna()]
    controls = known["congestion_control"]
    bars = known["driver"] + (", " + controls if controls.nunique() > 1 else "")
    named = {*zip(known["driver"], bars, strict=True)}
    order = [bar for _, bar in sorted(named, key=lambda each: (rank(each[0]), each[1]))]
    what = "of all CPUs while they were not idle"
    axes: dict[str, Any] = {"xlim": (0, 100), "xlabel": "CPU samples (%)", "ylabel": "Driver"}
    drawn = known.assign(bar=bars, count=known["pairs"].map(pairs_text))
    return _bars(drawn, known["value"], what, conditions, "count", order=order, scale=100, **axes)


def by_transaction(cells: pd.DataFrame, conditions: str = "") -> Figure:
    """The CPU time of a transaction by layer in µs, a stacked bar per network: a panel per place, a row per system.

    cells: as service_demand.layer_cells. Layers that take less than LEAST in all bars are added to `other`.
    """
    known = cells[cells["value"].notna()]
    place = [networks.place_text(*each) for each in known[list(networks.PLACE)].to_numpy()]
    known = known.assign(place=place, bar=known["driver"])
    whole = known.groupby([*SYSTEM, "driver", "pairs", "place"])["value"].transform("sum")
    what = "the service demand by what the CPUs ran when they were not idle"
    label = "CPU time (µs per transaction)"
    axes: dict[str, Any] = {"xlim": (0, 1.03e6 * whole.max()), "xlabel": label, "ylabel": "Network"}
    return _bars(known, known["value"] / whole, what, conditions, "place", scale=1e6, **axes)


def _bars(
    cells: pd.DataFrame,
    shares: pd.Series,
    what: str,
    conditions: str,
    column: str,
    *,
    scale: float,
    order: Sequence[str] = (),
    **axes: Any,
) -> Figure:
    """A panel for each value of a column, in it a bar of layers for each of those of `bar`, from the top; order: of the
    bars of all panels; none: those of each panel by rank. shares: of the cells in their bars.
    """
    most = shares.groupby(cells["layer"]).max()
    shown = [layer for layer in layers.names() if most.get(layer, 0.0) >= LEAST and layer != layers.OTHER]
    drawn = cells.assign(layer=cells["layer"].where(cells["layer"].isin(shown), layers.OTHER))
    colours = {layer: COLOURS.get(layer, "0.6") for layer in [*shown, layers.OTHER]}

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        bars = order or ordered(panel["bar"])
        stacked(ax, panel, bar="bar", part="layer", order=bars, colours=colours, scale=scale, flat=True)
        ax.set_yticks(range(len(bars)), [style.text(bar) for bar in bars])
        ax.set(ylim=(len(bars) - 0.4, -0.6), **axes)
        ax.tick_params(axis="y", length=0)
        ax.grid(False, axis="y")
        return ax

    most_bars = len(order) or max(panel["bar"].nunique() for _, panel in drawn.groupby([*SYSTEM, column]))
    return grid.facets(
        drawn,
        draw,
        column=column,
        order=list(dict.fromkeys(drawn.sort_values("pairs")[column])),
        note=f"mean of n = {span(cells['n'])} repetitions, {what}; runs with a profile only",
        conditions=conditions,
        wide=drawn[column].nunique() == 1,
        share_x=True,
        share_y="row" if order else False,
        height_in=1.4 + 0.2 * most_bars,
        handles=grid.patches(colours),
        handles_across=5,
    )


@dataclass
class _Frame:
    """A function, how often it was found, and what it called."""

    samples: int = 0
    calls: dict[str, "_Frame"] = field(default_factory=dict)


def flame_graph(stacks: Mapping[str, int], title: str) -> str:
    """A flame graph of collapsed stacks as SVG to be shown in a page: the callers below, each frame as wide as its
    share.

    Without idle CPUs. A frame has the colour of its layer, and its name, layer and share when it is pointed at. Source:
    Gregg 2016, The Flame Graph.
    """
    root = _Frame()
    for stack, samples in Counter(stacks).items():
        if layers.layer_of(stack) != layers.IDLE:
            at = root
            at.samples += samples
            for name in stack.split(";"):
                at = at.calls.setdefault(name, _Frame())
                at.samples += samples
    if not root.samples:
        return ""
    drawn: list[tuple[int, float, float, str, str]] = []
    _place(root, 0, 0.0, _WIDTH / root.samples, "", drawn)
    height = (2 + max((level for level, *_ in drawn), default=0)) * _FRAME
    shapes = [_shape(level, at, width, name, layer, height) for level, at, width, name, layer in drawn]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' style="max-width: 100%; height: auto; background: white" font-family="monospace" font-size="10" role="img">'
        f'<text x="4" y="11" font-weight="bold">{escape(title)}</text>{"".join(shapes)}</svg>'
    )


def _place(
    frame: _Frame, level: int, at: float, scale: float, layer: str, drawn: list[tuple[int, float, float, str, str]]
) -> None:
    """Adds the place of each frame that this one calls: its level, left edge and width, name, and layer."""
    for name, called in sorted(frame.calls.items()):
        width = called.samples * scale
        if width >= _LEAST_WIDTH:
            own = layers.USER if not level or name == layers.IN_PROGRAM else layers.layer_of_function(name) or layer
            drawn.append((level, at, width, name, own))
            _place(called, level + 1, at, scale, own, drawn)
        at += width


def _shape(level: int, at: float, width: float, name: str, layer: str, height: int) -> str:
    top = height - (level + 1) * _FRAME
    letters = int((width - 4) / _CHARACTER)
    shown = name if len(name) <= letters else f"{name[: letters - 1]}…" if letters > 3 else ""
    ink, colour = "white" if layer in _DARK else "black", to_hex(COLOURS.get(layer, "0.6"))
    text = f'<text x="{at + 2:.1f}" y="{top + 11}" fill="{ink}">{escape(shown)}</text>'
    return (
        f"<g><title>{escape(f'{name} ({layer or layers.OTHER}): {100 * width / _WIDTH:.1f} %')}</title>"
        f'<rect x="{at:.1f}" y="{top}" width="{width:.1f}" height="{_FRAME - 1}" fill="{colour}"/>'
        f"{text if shown else ''}</g>"
    )
