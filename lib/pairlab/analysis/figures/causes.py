"""What the CPUs run, by layer of the network stack: a stacked bar per driver, and flame graphs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pairlab.analysis import layers
from pairlab.analysis.figures import estimates, grid, style
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
    layers.OTHER: "white",
}
_EDGE, _EDGE_WIDTH = "0.3", 0.3
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
    most = known.groupby("layer")["value"].max()
    shown = [layer for layer in layers.names() if most.get(layer, 0.0) >= LEAST and layer != layers.OTHER]
    drawn = known.assign(layer=known["layer"].where(known["layer"].isin(shown), layers.OTHER), bar=_bars(known))
    named = sorted(
        set(zip(drawn["driver"], drawn["bar"], strict=True)), key=lambda each: (style.rank(each[0]), each[1])
    )
    bars = [bar for _, bar in named]
    pairs = sorted(drawn["pairs"].unique().tolist())
    panels = [
        (f"{', '.join(names)}: {count} pair{'s' * (count != 1)}", system[system["pairs"] == count])
        for names, system in drawn.groupby(list(SYSTEM), sort=True)
        for count in pairs
    ]

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        _stacked(panel, ax, bars, shown, 100)
        ax.set_xlim(0, 100)
        ax.set_xlabel("CPU samples (%)")
        ax.set_ylabel("Driver")
        return ax

    handles = _handles(shown)
    note = f"mean of n = {span(known['n'])} repetitions, of all CPUs while they were not idle; runs with a profile only"
    height_in = 1.4 + 0.2 * len(bars)
    noted = estimates.noted(note, conditions)
    many = {"across": len(pairs)} if len(pairs) > 1 else {"wide": True}
    return grid.grid(panels, draw, note=noted, height_in=height_in, handles=handles, handles_across=5, **many)


def by_transaction(cells: pd.DataFrame, conditions: str = "") -> Figure:
    """The CPU time of a transaction by layer in µs, a stacked bar per network: a panel per place, a row per system.

    cells: as service_demand.layer_cells. Layers that take less than LEAST in all bars are added to `other`.
    """
    known = cells[cells["value"].notna()]
    known = known.assign(place=[networks.place_text(*each) for each in known[list(networks.PLACE)].to_numpy()])
    whole = known.groupby([*SYSTEM, "driver", "pairs", "place"])["value"].transform("sum")
    most = (known["value"] / whole).groupby(known["layer"]).max()
    shown = [layer for layer in layers.names() if most.get(layer, 0.0) >= LEAST and layer != layers.OTHER]
    drawn = known.assign(layer=known["layer"].where(known["layer"].isin(shown), layers.OTHER), bar=known["driver"])
    panels = [
        (f"{', '.join(names)}: {place}", system[system["place"] == place])
        for names, system in drawn.groupby(list(SYSTEM), sort=True)
        for place in networks.places(cells)
    ]

    most_us = 1e6 * float(whole.max())

    def draw(panel: pd.DataFrame, ax: Axes) -> Axes:
        least_first = panel.groupby("bar")["value"].sum().sort_values().index.to_list()
        _stacked(panel, ax, least_first, shown, 1e6)
        ax.set_xlim(0, 1.03 * most_us)
        ax.set_xlabel("CPU time (µs per transaction)")
        ax.set_ylabel("Network")
        return ax

    note = (
        f"mean of n = {span(known['n'])} repetitions; the service demand by what the CPUs ran when they were not idle;"
        " runs with a profile only"
    )
    height_in = 1.4 + 0.2 * max(panel["bar"].nunique() for _, panel in panels)
    noted = estimates.noted(note, conditions)
    return grid.grid(
        panels,
        draw,
        note=noted,
        height_in=height_in,
        handles=_handles(shown),
        handles_across=5,
        share_x=True,
        share_y=False,
    )


def _stacked(panel: pd.DataFrame, ax: Axes, bars: Sequence[str], shown: Sequence[str], scale: float) -> None:
    """A bar of layers for each of these names, the first on top. panel: with columns bar, layer and value."""
    wide = panel.pivot_table(index="bar", columns="layer", values="value", aggfunc="sum").reindex(bars) * scale
    before = pd.Series(0.0, index=bars)
    for layer in [*shown, layers.OTHER]:
        if layer in wide:
            part = wide[layer].fillna(0.0)
            ax.barh(
                range(len(bars)),
                part,
                0.75,
                before,
                facecolor=_colour(layer),
                edgecolor=_EDGE,
                linewidth=_EDGE_WIDTH,
            )
            before = before + part
    ax.set_yticks(range(len(bars)), [style.text(bar) for bar in bars])
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(False, axis="y")


def _handles(shown: Sequence[str]) -> list[Patch]:
    return [
        Patch(facecolor=_colour(layer), edgecolor=_EDGE, linewidth=_EDGE_WIDTH, label=layer)
        for layer in [*shown, layers.OTHER]
    ]


def _bars(shares: pd.DataFrame) -> pd.Series:
    """The name of each bar: the driver, and the congestion control where there are several."""
    controls = shares["congestion_control"]
    return shares["driver"] + (", " + controls if controls.nunique() > 1 else "")


def _colour(layer: str) -> str:
    return COLOURS.get(layer, "0.6")


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
    ink = "white" if layer in _DARK else "black"
    text = f'<text x="{at + 2:.1f}" y="{top + 11}" fill="{ink}">{escape(shown)}</text>'
    return (
        f"<g><title>{escape(f'{name} ({layer or layers.OTHER}): {100 * width / _WIDTH:.1f} %')}</title>"
        f'<rect x="{at:.1f}" y="{top}" width="{width:.1f}" height="{_FRAME - 1}" fill="{to_hex(_colour(layer))}"/>'
        f"{text if shown else ''}</g>"
    )
