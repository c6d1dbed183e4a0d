"""CPU profiles by layer of the network stack: a stacked bar per driver, and flame graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pairlab.analysis import layers
from pairlab.analysis.driver_order import ordered, rank
from pairlab.analysis.figures import grid
from pairlab.analysis.figures.estimates import pairs_text, stacked
from pairlab.analysis.output.formatting import span
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
    "memory allocation": "#8C9A3C",
    "locks": "#202020",
    "copy": "#F2A65A",
    layers.OTHER: "0.93",
}
#: So many layers are drawn, those with the largest share in any bar; the others are drawn as one, as are all with a
#: smaller share in every bar.
MOST, LEAST = 6, 0.01

#: Of a flame graph, in pixels: its width, a frame's height and smallest width, and a character's width.
_WIDTH, _FRAME, _LEAST_WIDTH, _CHARACTER = 1000, 16, 1.0, 6.2
#: Sorts after all names: a function's own samples are right of its callees'.
_LAST = chr(0x10FFFF)
#: Layers with dark colours, on which text is white.
_DARK = ("TCP", "bridge", "locks", "softirq and device", "netfilter", "macvlan", "ipvlan", "timers")


def by_layer(shares: pd.DataFrame, conditions: grid.Conditions = "") -> Figure:
    """The share of each layer in percent, a stacked bar per driver: a panel per system and number of pairs.

    shares: estimates by layer. All but the MOST largest layers are added to `other`.
    """
    cells = shares[shares["value"].notna()]
    controls = cells["congestion_control"]
    bars = cells["driver"] + (", " + controls if controls.nunique() > 1 else "")
    names = {*zip(cells["driver"], bars, strict=True)}
    order = [bar for _, bar in sorted(names, key=lambda name: (rank(name[0]), name[1]))]
    quantity = "of all CPUs while they were not idle"
    axes: dict[str, Any] = {"xlim": (0, 100), "xlabel": "CPU samples (%)", "ylabel": "Driver"}
    drawn = cells.assign(bar=bars, count=cells["pairs"].map(pairs_text))
    shown: dict[str, Any] = {"column": "count", "along": ["pairs"], "order": order, "scale": 100}
    return _bars(drawn, cells["value"], quantity, conditions, **shown, **axes)


def by_transaction(cells: pd.DataFrame, conditions: grid.Conditions = "") -> Figure:
    """The CPU time of a transaction by layer in µs, a stacked bar per network: a panel per place, a row per system.

    cells: estimates by place and layer. All but the MOST largest layers are added to `other`.
    """
    cells = cells[cells["value"].notna()]
    cells = cells.assign(bar=cells["driver"])
    totals_s = cells.groupby([*SYSTEM, "driver", "pairs", "place"])["value"].transform("sum")
    quantity = "the service demand by what the CPUs ran when they were not idle"
    label = "CPU time (µs per transaction)"
    axes: dict[str, Any] = {"xlim": (0, 1.03e6 * totals_s.max()), "xlabel": label, "ylabel": "Network"}
    shown: dict[str, Any] = {"column": "place", "along": ["hosts", "placement"], "scale": 1e6}
    return _bars(cells, cells["value"] / totals_s, quantity, conditions, **shown, **axes)


def _bars(
    cells: pd.DataFrame,
    shares: pd.Series,
    quantity: str,
    conditions: grid.Conditions,
    *,
    column: str,
    along: list[str],
    scale: float,
    order: Sequence[str] = (),
    **axes: Any,
) -> Figure:
    """A panel for each value of the column, in the order of those in `along`, with a bar of layers for each value of
    `bar`, from the top.

    order: of the bars in all panels; empty: by the drivers' rank in each panel. shares: of each layer in its bar.
    """
    largest = shares.groupby(cells["layer"]).max().drop(layers.OTHER, errors="ignore").nlargest(MOST)
    own = [layer for layer in layers.names() if largest.get(layer, 0.0) >= LEAST]
    drawn = cells.assign(layer=cells["layer"].where(cells["layer"].isin(own), layers.OTHER))
    colours = {layer: COLOURS.get(layer, "0.6") for layer in [*own, layers.OTHER]}

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        bars = order or ordered(panel["bar"])
        stacked(ax, panel, bar="bar", part="layer", order=bars, colours=colours, scale=scale, flat=True)
        grid.name_rows(ax, bars)
        ax.set(**axes)
        ax.tick_params(axis="y", length=0)
        return ax

    panels = [panel for _, panel in drawn.groupby([*SYSTEM, column])]
    most_bars = len(order) or max(panel["bar"].nunique() for panel in panels)
    return grid.facets(
        drawn,
        draw,
        column=column,
        order=list(dict.fromkeys(drawn.sort_values(along)[column])),
        note=f"mean of n = {span(cells['n'])} repetitions, {quantity}; runs with a profile only",
        conditions=conditions,
        wide=len(panels) == 1,
        share_x=True,
        share_y="row" if order else False,
        height_in=1.4 + 0.2 * most_bars,
        handles=grid.patches(colours),
        handles_across=5,
    )


def flame_graph(stacks: Mapping[str, int], title: str) -> str:
    """A flame graph of collapsed stacks as SVG for a page: callers below, the width of a frame is its share.

    Without idle CPUs. A frame has the colour of its layer, and a tooltip with name, layer and share. Source: Gregg
    2016, The Flame Graph.
    """
    busy = {(*stack.split(";"),): samples for stack, samples in stacks.items() if layers.layer_of(stack) != layers.IDLE}
    if not busy:
        return ""
    scale = _WIDTH / sum(busy.values())
    widths: Counter[tuple[str, ...]] = Counter()
    for names, samples in busy.items():
        widths.update({names[:depth]: samples for depth in range(1, len(names) + 1)})
    lefts: dict[tuple[str, ...], int] = {}
    frame_layers: dict[tuple[str, ...], str] = {(): ""}
    before = 0
    for names in sorted(busy, key=lambda names: (*names, _LAST)):
        for depth, name in enumerate(names, 1):
            layer = layers.USER if depth == 1 or name == layers.IN_PROGRAM else layers.layer_of_function(name)
            frame_layers.setdefault(names[:depth], layer or frame_layers[names[: depth - 1]])
            lefts.setdefault(names[:depth], before)
        before += busy[names]
    drawn = [names for names in lefts if widths[names] * scale >= _LEAST_WIDTH]
    height = (1 + max(map(len, drawn), default=1)) * _FRAME
    shapes = [
        _shape(len(names) - 1, lefts[names] * scale, widths[names] * scale, names[-1], frame_layers[names], height)
        for names in drawn
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' style="max-width: 100%; height: auto; background: white" font-family="monospace" font-size="10" role="img">'
        f'<text x="4" y="11" font-weight="bold">{escape(title)}</text>{"".join(shapes)}</svg>'
    )


def _shape(level: int, left: float, width: float, name: str, layer: str, height: int) -> str:
    top = height - (level + 1) * _FRAME
    letters = int((width - 4) / _CHARACTER)
    label = name if len(name) <= letters else f"{name[: letters - 1]}…" if letters > 3 else ""
    ink, colour = "white" if layer in _DARK else "black", to_hex(COLOURS.get(layer, "0.6"))
    text = f'<text x="{left + 2:.1f}" y="{top + 11}" fill="{ink}">{escape(label)}</text>'
    return (
        f"<g><title>{escape(f'{name} ({layer or layers.OTHER}): {100 * width / _WIDTH:.1f} %')}</title>"
        f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_FRAME - 1}" fill="{colour}"/>'
        f"{text if label else ''}</g>"
    )
