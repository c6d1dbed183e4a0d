"""The look of all figures: the sizes of a page's columns, one style, and the same looks for a driver everywhere."""

import textwrap
import zlib
from collections.abc import Iterable

from matplotlib.colors import to_hex, to_rgb

#: Widths of one and two columns of an IEEE page (21 and 43 pica, as IEEEtran has them), and a panel's height.
COLUMN_IN, PAGE_IN, HEIGHT_IN = 3.48, 7.13, 2.4

#: The same colour, marker and line for a driver in every figure. The hues are those of Okabe and Ito, which the
#: colour-blind tell apart; their blue and vermilion are darker here and the green is lighter, so that the three are
#: different greys too.
DRIVERS = {
    "bridge": ("#00558F", "o", "-"),
    "macvlan": ("#C44E00", "s", "--"),
    "ovs": ("#0BA27A", "^", "-."),
    "host": ("#000000", "D", ":"),
}
_OTHER_COLOURS = ("#6600BB", "#662200", "#BB77EE")
_OTHER_MARKERS = ("v", "P", "X", "p")
_OTHER_LINES = ((0, (1, 1)), (0, (5, 1)), (0, (3, 1, 1, 1)))
#: How much of a driver's colour is left where it colours small text, which needs more contrast than a line.
_INK = 0.8

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
#: The look of a figure's note.
NOTE = {"fontsize": 7, "color": "0.3"}
_NOTE_PER_IN = 20  # characters of a note in an inch of its line


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


def line_only(driver: str) -> dict[str, object]:
    """The style of a driver's line where it has no markers."""
    return driver_style(driver) | {"marker": ""}


def points_only(driver: str) -> dict[str, object]:
    """The style of a driver's points where no line joins them."""
    return driver_style(driver) | {"linestyle": "none"}


def ink(driver: str) -> str:
    """The colour of a driver's name: its own, but darker, so that small text can be read."""
    return to_hex([_INK * part for part in to_rgb(driver_style(driver)["color"])])


def ordered(drivers: Iterable[str]) -> list[str]:
    """Each driver once: those of DRIVERS in their order, then the others by name."""
    return sorted(set(drivers), key=lambda name: (list(DRIVERS).index(name) if name in DRIVERS else len(DRIVERS), name))


def text(name: str) -> str:
    """A name as figures can show it in every format: PGF gives text to LaTeX, where a bare underscore is an error."""
    return name.replace("_", r"$\_$")


def wrapped(note: str, width_in: float) -> str:
    """A note in lines that fit a figure of that width."""
    return textwrap.fill(note, int(width_in * _NOTE_PER_IN))
