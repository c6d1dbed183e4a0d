"""The style of all figures: the sizes of a page's columns, fonts, and one style for each driver everywhere."""

import hashlib
import textwrap
from typing import Any, TypedDict

from matplotlib.colors import to_hex

from pairlab.analysis import driver_order
from pairlab.base import entry_points

#: Widths of one and two columns of an IEEE page (21 and 43 pica, as IEEEtran has them), and a panel's height.
COLUMN_IN, PAGE_IN, HEIGHT_IN = 3.48, 7.13, 2.4

#: The same colour, marker and line for a driver in every figure. The hues are those of Okabe and Ito, which the
#: colour-blind can distinguish; their blue and vermilion are darker here and the green is lighter, so that the three
#: are different greys too.
_FIRST = (("#00558F", "o", "-"), ("#C44E00", "s", "--"), ("#0BA27A", "^", "-."), ("#000000", "D", ":"))
DRIVERS = dict(zip(driver_order.FIRST, _FIRST, strict=True))
#: Those that the papers' other figures hold against each other: no two have both colour and line, or the marker, alike.
_VIOLET, _LILAC, _BROWN = "#6304C0", "#AD64F3", "#6F2611"
_DOTS, _LONG_DASHES, _DASH_DOTS = (0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1))
_NAMED = {
    "process": (_BROWN, "v", _LONG_DASHES),
    "overlay": (_LILAC, "X", _LONG_DASHES),
    "nat": (_VIOLET, "P", _DOTS),
    "bgp": (_VIOLET, "p", _LONG_DASHES),
    "container": (_LILAC, "d", _DASH_DOTS),
    "none": (_BROWN, "*", _DASH_DOTS),
}
#: All other drivers have a violet, a lilac or a brown of their own, drawn from the name alone: red, green and blue lie
#: between these, where they are apart from the above with any eyes.
_OTHER_COLOURS = (
    ((92, 106), (0, 8), (184, 200)),
    ((164, 182), (92, 108), (236, 250)),
    ((104, 118), (34, 42), (10, 24)),
)
_OTHER_MARKERS = ("v", "P", "X", "p", "<", ">", "h", "d")
_OTHER_LINES = (_DOTS, _LONG_DASHES, _DASH_DOTS)
#: From so many repetitions on they are drawn as a box; fewer, as points.
LEAST_IN_BOX = 6

STYLE: dict[str, Any] = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    # Black on white, whatever the theme around it and whatever style came before.
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.transparent": False,
    "text.color": "black",
    "axes.edgecolor": "black",
    "axes.labelcolor": "black",
    "axes.titlecolor": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.color": "0.85",
    "lines.linewidth": 1.1,
    "lines.markersize": 4.4,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "figure.dpi": 130,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",  # text as outlines: a browser has no Times of ours
    "svg.hashsalt": "pairlab",  # the same figure, the same names of its parts
    "pgf.texsystem": "pdflatex",
    "pgf.rcfonts": False,
    "pgf.preamble": r"\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\renewcommand{\rmdefault}{ptm}",
}
#: The edge of the parts of a bar, and the style of a figure's note.
EDGE: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4}
NOTE = {"fontsize": 7, "color": "0.3"}
_NOTE_PER_IN = 20  # characters of a note in an inch of its line


class DriverStyle(TypedDict):
    """How a driver is drawn, as matplotlib takes it."""

    color: str
    marker: str
    linestyle: str | tuple


def driver_style(driver: str) -> DriverStyle:
    """color, marker and linestyle of a driver; for one that pairlab does not know, drawn from its name alone."""
    color, marker, line = DRIVERS.get(driver) or _NAMED.get(driver) or _added(driver) or _drawn(driver)
    return {"color": color, "marker": marker, "linestyle": line}


def _added(driver: str) -> tuple[str, str, str | tuple] | None:
    """That of a driver whose package gives it one: entry point `pairlab.styles`, by the driver's name."""
    point = entry_points.added("styles").get(driver)
    return entry_points.load(point) if point else None


def _drawn(driver: str) -> tuple[str, str, tuple]:
    drawn = hashlib.sha256(driver.encode()).digest()
    family = _OTHER_COLOURS[drawn[0] % len(_OTHER_COLOURS)]
    color = [(low + part % (high - low + 1)) / 255 for part, (low, high) in zip(drawn[1:4], family, strict=True)]
    return to_hex(color), _OTHER_MARKERS[drawn[4] % len(_OTHER_MARKERS)], _OTHER_LINES[drawn[5] % len(_OTHER_LINES)]


def text(name: str) -> str:
    """A name as figures show it, literally: a dollar sign in it begins no formula."""
    return name.encode("utf-8", "replace").decode().replace("$", r"\$")


def wrapped(note: str, width_in: float) -> str:
    """A note in lines that fit a figure of that width."""
    lines = note.split("\n")
    return "\n".join(textwrap.fill(line, int(width_in * _NOTE_PER_IN)) for line in lines)
