"""The style of all figures: widths of a page's columns, fonts, and the style of each driver."""

import hashlib
import textwrap
from contextlib import AbstractContextManager
from typing import Any, TypedDict

from matplotlib import style
from matplotlib.colors import to_hex

from pairlab.analysis import driver_order
from pairlab.base import entry_points

#: Widths of one and two columns of an IEEE page (21 and 43 pica, as IEEEtran has them), and a panel's height.
COLUMN_IN, PAGE_IN, HEIGHT_IN = 3.48, 7.13, 2.4

#: Colour, marker and line of a driver, the same in every figure. The hues are by Okabe and Ito, for readers with
#: colour-blindness; blue and vermilion are darker here and green is lighter, so that the three differ in grey, too.
_FIRST = (("#00558F", "o", "-"), ("#C44E00", "s", "--"), ("#0BA27A", "^", "-."), ("#000000", "D", ":"))
DRIVERS = dict(zip(driver_order.FIRST, _FIRST, strict=True))
#: Drivers of the papers' other figures: no two share both colour and line, and no two share the marker.
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
#: Drivers without and with containers, where these are compared, look like one of each.
_NAMED |= {"without containers": _NAMED["process"], "with containers": _NAMED["overlay"]}
#: Any other driver has a violet, a lilac or a brown derived from its name: red, green and blue are within these bounds,
#: which even readers with colour-blindness can distinguish from the colours above.
_OTHER_COLOURS = (
    ((92, 106), (0, 8), (184, 200)),
    ((164, 182), (92, 108), (236, 250)),
    ((104, 118), (34, 42), (10, 24)),
)
_OTHER_MARKERS = ("v", "P", "X", "p", "<", ">", "h", "d")
_OTHER_LINES = (_DOTS, _LONG_DASHES, _DASH_DOTS)
#: The least number of repetitions for a box; fewer are drawn as points only.
LEAST_IN_BOX = 6

#: What differs from matplotlib's defaults: whatever else a matplotlibrc or an earlier style has set is reset (`use`).
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
    "savefig.facecolor": "white",  # also of figures that were made in another style
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
    "svg.fonttype": "path",  # text as outlines: browsers lack our Times look-alike
    "svg.hashsalt": "pairlab",  # the same ids in the same figure
    "pgf.texsystem": "pdflatex",
    "pgf.rcfonts": False,
    "pgf.preamble": r"\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\renewcommand{\rmdefault}{ptm}",
}
#: The colour of each part of CPU time: none is a driver's, and all differ in grey.
CPU_COLOURS = {
    "usr": "#DCD3EC",
    "sys": "#A58BC9",
    "softirq": "#5B2A86",
    "irq": "#1F0A33",
    "steal": "0.45",
    "iowait": "0.75",
    "idle": "0.95",
}
#: The edge of the parts of a bar, and the style of a figure's note.
EDGE: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.4}
NOTE = {"fontsize": 7, "color": "0.3"}
_NOTE_PER_IN = 20  # characters per inch of a note


def use() -> None:
    """Sets the style of this process's figures."""
    style.use(["default", STYLE])


def context() -> AbstractContextManager[None]:
    """Inside, figures are of this style alone, whatever their user's configuration is."""
    return style.context(STYLE, after_reset=True)


class DriverStyle(TypedDict):
    """A driver's style, in matplotlib's keywords."""

    color: str
    marker: str
    linestyle: str | tuple


def driver_style(driver: str) -> DriverStyle:
    """color, marker and linestyle of a driver; for one unknown to pairlab, derived from the name."""
    color, marker, line = DRIVERS.get(driver) or _NAMED.get(driver) or _added(driver) or _derived(driver)
    return {"color": color, "marker": marker, "linestyle": line}


def _added(driver: str) -> tuple[str, str, str | tuple] | None:
    """The style from the driver's package: entry point `pairlab.styles`, by the driver's name."""
    point = entry_points.added("styles").get(driver)
    return entry_points.load(point) if point else None


def _derived(driver: str) -> tuple[str, str, tuple]:
    digest = hashlib.sha256(driver.encode()).digest()
    family = _OTHER_COLOURS[digest[0] % len(_OTHER_COLOURS)]
    color = [(low + part % (high - low + 1)) / 255 for part, (low, high) in zip(digest[1:4], family, strict=True)]
    return to_hex(color), _OTHER_MARKERS[digest[4] % len(_OTHER_MARKERS)], _OTHER_LINES[digest[5] % len(_OTHER_LINES)]


def text(name: str) -> str:
    """A name for a figure, literal: a dollar sign in it begins no formula."""
    return name.encode("utf-8", "replace").decode().replace("$", r"\$")


def wrapped(note: str, width_in: float) -> str:
    """The note, broken into lines that fit a figure of that width."""
    lines = note.split("\n")
    return "\n".join(textwrap.fill(line, int(width_in * _NOTE_PER_IN)) for line in lines)
