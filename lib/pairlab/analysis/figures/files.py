"""What becomes of a figure: SVG in the browser, PDF and PNG for people, PGF for LaTeX, each with its origin.

The same figure from the same runs gives the same bytes. Text in PDF, PNG and SVG is set in a Times look-alike that
comes with matplotlib, text in PGF in the document's own font.
"""

import io
import re
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from pairlab import paths
from pairlab.analysis.figures import pgf
from pairlab.analysis.figures.style import STYLE
from pairlab.analysis.output.provenance import Origin, write_atomically
from pairlab.errors import BadInput

#: Points of a page become so many on a screen, which is read from farther away.
_ON_SCREEN = 1.35
_SIZE = re.compile(r'(width|height)="([\d.]+)pt"')
#: What matplotlib says of a formula that it cannot parse.
_NO_FORMULA = re.compile(r"Parse\w*Exception: (.*?)(?:  \(at char|$)", re.MULTILINE)
#: Control characters, of which XML allows none: they stand in comments, where SVG repeats its text.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\ufffe\uffff]")
_NAMELESS = dict.fromkeys(("Creator", "Producer", "CreationDate"))


def use_style() -> None:
    """Sets the style of this process's figures, which a notebook shows as SVG; call it before the first figure."""
    plt.rcParams.update(STYLE)
    _show_as_svg()


def save(figure: Figure, name: str, origin: Origin) -> list[Path]:
    """Writes figures/<label>/<name>.pdf, .png, .svg and, where it can be, .pgf. Returns what was written.

    Each file says its origin: PDF in Subject, PNG and SVG in Description, PGF in a comment. Without LaTeX, and for a
    figure with a part that is an image or a formula that LaTeX does not know, it says in one line (stderr) that PGF is
    left out; then the paper takes the PDF. An older PGF that was made from other runs is removed, so that the paper
    never mixes them. Raises BadInput where what stands between two dollar signs is no formula.
    """
    place = paths.figures() / origin.label
    description = f"{name}: made from {origin}"
    in_png = {"Description": description, "Software": None}
    with mpl.rc_context(STYLE):
        files = [
            write_atomically(place / f"{name}.pdf", _rendered(figure, "pdf", {"Subject": description, **_NAMELESS})),
            write_atomically(place / f"{name}.png", _rendered(figure, "png", in_png)),
            write_atomically(place / f"{name}.svg", as_svg(figure, description).encode()),
        ]
        picture, why_not = pgf.rendered(figure)
    target = place / f"{name}.pgf"
    header = origin.comment(name)
    if picture is not None:
        return [*files, write_atomically(target, header.encode() + picture)]
    print(f"{name}.pgf left out: {why_not}", file=sys.stderr)
    if target.exists() and (why_not != pgf.NO_LATEX or not target.read_text().startswith(header)):
        target.unlink()
    return files


def write(figure: Figure, path: Path, description: str) -> None:
    """Writes a figure that no runs are behind to that .pdf, .png or .svg. Raises BadInput for another ending."""
    in_file = {".pdf": {"Subject": description, **_NAMELESS}, ".png": {"Description": description, "Software": None}}
    kind = path.suffix.lower()
    if kind not in (".svg", *in_file):
        raise BadInput(f"a figure is a .pdf, .png or .svg, not {path.name!r}: give the file one of these endings")
    with mpl.rc_context(STYLE):
        whole = as_svg(figure, description).encode() if kind == ".svg" else _rendered(figure, kind[1:], in_file[kind])
    write_atomically(path, whole, remedy="name another place")


def as_svg(figure: Figure, description: str = "") -> str:
    """The figure as SVG, for a page; the same each time, without a date, and everywhere, with text as outlines."""
    metadata = {"Creator": None, "Date": None} | ({"Description": description} if description else {})
    with mpl.rc_context(STYLE):
        drawn = _CONTROL.sub("", _rendered(figure, "svg", metadata).decode())
    lines = drawn[drawn.index("<svg") :].splitlines()
    return " ".join(line.strip() for line in lines) + "\n"  # a line, as notebooks are compared by lines


def on_screen(figure: Figure) -> str:
    """The figure as SVG in the size that a notebook shows it in."""
    return _SIZE.sub(lambda size: f'{size[1]}="{float(size[2]) * _ON_SCREEN:.2f}pt"', as_svg(figure), count=2)


def _show_as_svg() -> None:
    """Where this process is a notebook's kernel, it shows figures as SVG from now on; else nothing happens."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if not shell:
        return
    import matplotlib_inline.backend_inline  # noqa: F401  its import chooses a format, so it must come before

    formatters = shell.display_formatter.formatters
    formatters["image/png"].pop(Figure, None)
    formatters["image/svg+xml"].for_type(Figure, on_screen)


def _rendered(figure: Figure, kind: str, metadata: dict) -> bytes:
    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format=kind, metadata=metadata)
    except ValueError as error:
        if not (why := _NO_FORMULA.search(str(error))):
            raise
        raise BadInput(
            f"a text of the figure is no formula, although it has two dollar signs: {why[1]}. Write \\$ for a dollar"
            " sign, or correct the formula"
        ) from None
    return buffer.getvalue()
