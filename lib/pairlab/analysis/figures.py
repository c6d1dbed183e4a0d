"""DataFrame in, matplotlib Axes out; one style for all figures.

A draw function draws one system onto one Axes. by_system gives each system a panel, since backends and
workloads are never pooled, and adds one legend and one note. save writes PDF, PNG and PGF: text in PDF and
PNG is set in a Times look-alike that comes with matplotlib, text in PGF in the document's own font.
"""

import io
import shutil
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator, ScalarFormatter
from matplotlib.transforms import offset_copy

from pairlab import paths
from pairlab.analysis import texlive
from pairlab.analysis.origin import Origin, write_atomically
from pairlab.analysis.stats import SYSTEM

#: Widths of one and two columns of an IEEE page (21 and 43 pica, as IEEEtran has them), and a panel's height.
COLUMN_IN, PAGE_IN, HEIGHT_IN = 3.48, 7.13, 2.4

#: The same colour, marker and line for a driver in every figure. Colours: Okabe and Ito, safe for the
#: colour-blind.
DRIVERS = {
    "bridge": ("#0072B2", "o", "-"),
    "macvlan": ("#D55E00", "s", "--"),
    "ovs": ("#009E73", "^", "-."),
    "host": ("#000000", "D", ":"),
}
_OTHER_COLOURS = ("#CC79A7", "#E69F00", "#56B4E9")
_OTHER_MARKERS = ("v", "P", "X", "p")
_OTHER_LINES = ((0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))

STYLE = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "0.85",
    "lines.linewidth": 1.1,
    "lines.markersize": 3.8,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "figure.dpi": 130,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "pgf.texsystem": "pdflatex",
    "pgf.rcfonts": False,
    "pgf.preamble": r"\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\renewcommand{\rmdefault}{ptm}",
}
_NOTE_SIZE = 7
_NOTE_PER_IN = 20  # characters of a note in an inch of its line


def use_style() -> None:
    """Makes STYLE the style of this process; a notebook calls it before its first figure."""
    plt.rcParams.update(STYLE)


def driver_style(driver: str) -> dict[str, object]:
    """color, marker and linestyle of a driver; for one that is not in DRIVERS, drawn from its name alone."""
    if driver in DRIVERS:
        color, marker, line = DRIVERS[driver]
    else:
        drawn = zlib.crc32(driver.encode())
        color = _OTHER_COLOURS[drawn % len(_OTHER_COLOURS)]
        marker = _OTHER_MARKERS[drawn // 3 % len(_OTHER_MARKERS)]
        line = _OTHER_LINES[drawn // 12 % len(_OTHER_LINES)]
    return {"color": color, "marker": marker, "linestyle": line}


def ordered(drivers: Iterable[str]) -> list[str]:
    """Each driver once: those of DRIVERS in their order, then the others by name."""
    return sorted(set(drivers), key=lambda name: (list(DRIVERS).index(name) if name in DRIVERS else len(DRIVERS), name))


def total_by_pairs(cells: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Total throughput by pairs, a line per driver, with interval bars: the form of paper C, figure 2.

    cells: as stats.throughput_by_cell, of one system. Bars stand beside each other by a point or two, so that
    none hides another; the data are not moved. A cell of one repetition has no bar.
    """
    ax = ax or plt.subplots(figsize=(COLUMN_IN, HEIGHT_IN), layout="constrained")[1]
    lines(ax, cells, "total_bps", "total_low_bps", "total_high_bps", scale=1e-9, aside_pt=2.2)
    pair_ticks(ax, cells["pairs"])
    ax.set_ylabel("Total throughput (Gbit/s)")
    return ax


def box_by_pairs(repetitions: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Total throughput of each repetition by pairs and driver, as box plots: the form of paper E, figure 3.

    repetitions: as stats.throughput_by_repetition, of one system. The box spans the quartiles, its line is
    the median, the whiskers reach the extremes. The points are shown since a box of a few repetitions alone
    says too much.
    """
    ax = ax or plt.subplots(figsize=(PAGE_IN, HEIGHT_IN), layout="constrained")[1]
    drivers, pairs = ordered(repetitions["driver"]), sorted(repetitions["pairs"].unique())
    width = _BOXES / len(drivers)
    for number, driver in enumerate(drivers):
        mine = repetitions[repetitions["driver"] == driver].sort_values("pairs")
        across = mine["pairs"].map(pairs.index) + width * (number - (len(drivers) - 1) / 2)
        style = driver_style(driver) | {"linestyle": "none"}
        lines = {"color": style["color"], "linewidth": 0.9}
        ax.boxplot(
            [part / 1e9 for _, part in mine.groupby("pairs")["total_bps"]],
            positions=across.unique(),
            widths=0.75 * width,
            whis=(0, 100),
            manage_ticks=False,
            **{f"{part}props": lines for part in ("box", "median", "whisker", "cap")},
        )
        points = {"markersize": 2.8, "markeredgewidth": 0, "zorder": 5, "label": driver}
        ax.plot(across, mine["total_bps"] / 1e9, **style, **points)
    for between in range(1, len(pairs)):
        ax.axvline(between - 0.5, color="0.85", linewidth=0.4, zorder=0)
    ax.set_xticks(range(len(pairs)), pairs)
    ax.set_xlim(-0.5, len(pairs) - 0.5)
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("Pairs")
    ax.set_ylabel("Total throughput (Gbit/s)")
    _from_zero(ax)
    return ax


def relative_by_pairs(shape: pd.DataFrame, ax: Axes | None = None) -> Axes:
    """Normalised total throughput by pairs, a line per driver.

    shape: the cells of stats.normalised_shape, of one system or paper. Pairs are on a logarithmic axis, and
    two thin lines cross at the reference.
    """
    ax = ax or plt.subplots(figsize=(COLUMN_IN, HEIGHT_IN), layout="constrained")[1]
    lines(ax, shape, "relative", "relative_low", "relative_high")
    reference = int(shape["reference_pairs"].iloc[0])
    ax.axhline(1, color="0.4", linewidth=0.6, zorder=1)
    ax.axvline(reference, color="0.4", linewidth=0.6, zorder=1)
    ax.set_xscale("log")
    ticks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(ScalarFormatter())
    ax.set_xlabel("Pairs")
    ax.set_ylabel(f"Total throughput\n(bridge at {reference} pairs = 1)")
    return ax


def by_system(
    frame: pd.DataFrame,
    draw: Callable[..., Axes],
    *,
    by: Iterable[str] = SYSTEM,
    wide: bool = False,
) -> Figure:
    """One panel per system, on one scale, with one legend above and a note of n below.

    frame: what `draw` takes, of any number of systems. One panel is a column wide (wide: two columns),
    several share the width of the page.
    """
    panels = [(", ".join(map(str, names)), part) for names, part in frame.groupby(list(by), sort=True)]
    height_in = row_height_in(len(panels)) if wide and len(panels) > 1 else HEIGHT_IN
    return grid(panels, draw, wide=wide, note=note(frame), height_in=height_in)


def published_shape(ours: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """The published totals and ours beside each other on the same axes.

    ours, published: the cells of stats.normalised_shape, by SYSTEM and by paper: multiples of their own
    reference.
    """
    panels = [(f"paper {name}, means", part) for name, part in published.groupby("paper")]
    panels += [(f"here: {', '.join(names)}", part) for names, part in ours.groupby(list(SYSTEM))]
    return grid(panels, relative_by_pairs, note=f"here: {note(ours)}", share_x=True)


def lines(
    ax: Axes,
    frame: pd.DataFrame,
    value: str,
    low: str,
    high: str,
    *,
    x: str = "pairs",
    scale: float = 1,
    aside_pt: float = 1,
) -> None:
    """A line per driver through `value` over `x`, with bars from low to high, from zero up.

    Bars of different drivers stand beside each other by aside_pt points; the data are not moved.
    """
    drivers = ordered(frame["driver"])
    for number, driver in enumerate(drivers):
        mine = frame[frame["driver"] == driver].sort_values(x)
        middle = mine[value] * scale
        drawn = ax.errorbar(
            mine[x],
            middle,
            yerr=[middle - mine[low] * scale, mine[high] * scale - middle],
            **driver_style(driver),
            capsize=1.6,
            elinewidth=0.7,
            capthick=0.7,
            label=driver,
        )
        points = aside_pt * (number - (len(drivers) - 1) / 2)
        aside = offset_copy(ax.transData, ax.figure, x=points, units="points")
        for artist in drawn.get_children():
            artist.set_transform(aside)
    _from_zero(ax)


def pair_ticks(ax: Axes, pairs: pd.Series) -> None:
    """A linear axis of pair counts from zero, marked at those measured where they have room."""
    counts = sorted(pairs.unique())
    ax.set_xlabel("Pairs")
    if len(counts) <= 8 and min(np.diff(counts), default=1) * 20 >= counts[-1]:
        ax.set_xticks(counts)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlim(0, counts[-1] * 1.06)


def grid(
    panels: Sequence[tuple[str, pd.DataFrame]],
    draw: Callable[..., Axes],
    *,
    note: str,
    across: int | None = None,
    wide: bool = False,
    share_x: bool | str = False,
    share_y: bool | str = True,
    height_in: float = HEIGHT_IN,
    style: Callable[[str], dict[str, object]] = driver_style,
    handles: Sequence[Artist] = (),
) -> Figure:
    """Titled panels of one form with one legend of drivers above and a note below.

    panels: a title each, and the frame that `draw` takes, with a column driver; row by row. An empty frame leaves
    its place free. across: panels in a row; None: by their number. One panel is a column wide (wide: two columns),
    several beside each other share the width of the page. Only the outer panels carry the names of the axes. style:
    how the legend shows a driver; handles: what it shows instead of drivers.
    """
    across = 1 if wide else across or (len(panels) if len(panels) <= 3 else 2)
    down = -(-len(panels) // across)
    width = COLUMN_IN if across == 1 and not wide else PAGE_IN
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(
            down,
            across,
            figsize=(width, height_in * down),
            sharex=share_x,
            sharey=share_y,
            squeeze=False,
            layout="constrained",
        )
        drawn = [number for number, (_, part) in enumerate(panels) if len(part)]
        for number, ax in enumerate(axes.flat):
            if number not in drawn:
                ax.remove()
                continue
            title, part = panels[number]
            draw(part, ax)
            ax.set_title(_text(title))
            ax.tick_params(labelbottom=not share_x or number + across not in drawn)
            ax.xaxis.label.set_visible(number + across not in drawn)
            ax.yaxis.label.set_visible(number % across == 0)
        drivers = ordered(driver for _, part in panels for driver in part["driver"])
        shown = list(handles) or [Line2D([], [], **style(driver), label=_text(driver)) for driver in drivers]
        figure.legend(handles=shown, loc="outside upper center", ncols=max(1, min(len(shown), 7)))
        figure.supxlabel(textwrap.fill(note, int(width * _NOTE_PER_IN)), fontsize=_NOTE_SIZE, color="0.3")
    return figure


def row_height_in(rows: int) -> float:
    """The height of each of several rows of small panels, which share one legend, one note and the x axis's name."""
    return 1.3 + 0.8 / rows


def span(counts: pd.Series) -> str:
    """The least and the most of some counts, as text: "4", or "2 to 4"."""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def note(frame: pd.DataFrame) -> str:
    """What a reader must know of n and of the bars, for frames of any of the draw functions."""
    if "repetition" in frame:
        counts = frame.groupby([*SYSTEM, "driver", "pairs"])["repetition"].nunique()
        return f"a point per repetition, n = {span(counts)} for each box"
    counts = frame["repetitions"] if "repetitions" in frame else frame["n"]
    if counts.max() == 1:
        return "n = 1 repetition, which has no interval"
    partly = " (none where n = 1)" if counts.min() == 1 else ""
    share = frame["confidence"].iloc[0] * 100
    return f"mean of n = {span(counts)} repetitions; bars: {share:g} % interval of the mean{partly}"


def save(figure: Figure, name: str, origin: Origin) -> list[Path]:
    """Writes figures/<label>/<name>.pdf, .png and, where LaTeX is installed, .pgf. Returns what was written.

    The same figure from the same runs gives the same bytes. Each file says its origin: PDF in Subject, PNG in
    Description, PGF in a comment. Without LaTeX it says in one line (stderr) that PGF is left out, and
    removes an older PGF that was made from other runs, so that the paper never mixes them.
    """
    place = paths.figures() / origin.label
    told = f"{name}: made from {origin}"
    nameless = dict.fromkeys(("Creator", "Producer", "CreationDate"))
    with mpl.rc_context(STYLE):
        files = [
            write_atomically(place / f"{name}.pdf", _rendered(figure, "pdf", {"Subject": told, **nameless})),
            write_atomically(place / f"{name}.png", _rendered(figure, "png", {"Description": told, "Software": None})),
        ]
        pgf, why_not = _as_pgf(figure)
    target = place / f"{name}.pgf"
    header = origin.comment(name)
    if pgf is not None:
        return [*files, write_atomically(target, header.encode() + pgf)]
    print(f"{name}.pgf left out: {why_not}", file=sys.stderr)
    if target.exists() and not target.read_text().startswith(header):
        target.unlink()
    return files


_BOXES = 0.78  # of the room between two pair counts


def _from_zero(ax: Axes) -> None:
    ax.autoscale(axis="y")  # anew, as panels share the axis and an earlier one has fixed it
    ax.set_ylim(bottom=0)


def _text(name: str) -> str:
    return name.replace("_", r"$\_$")  # PGF gives text to LaTeX, where a bare underscore is an error


def _rendered(figure: Figure, kind: str, metadata: dict) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _as_pgf(figure: Figure) -> tuple[bytes | None, str]:
    if not shutil.which("pdflatex"):
        return None, f"pdflatex is not on PATH ({texlive.REMEDY}, for the paper only)"
    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format="pgf")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return None, f"LaTeX did not set its text: {str(error).strip().splitlines()[0]}"
    return buffer.getvalue(), ""
