"""Output of figures: SVG in the browser, PDF and PNG for people, PGF for LaTeX, each with its origin.

The same figure from the same runs gives the same bytes. Text in PDF, PNG and SVG is set in a Times look-alike that
comes with matplotlib, text in PGF in the document's own font.
"""

import io
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from matplotlib.backends import backend_pgf
from matplotlib.figure import Figure
from matplotlib.image import AxesImage, BboxImage, FigureImage

from pairlab import paths
from pairlab.analysis.figures import style
from pairlab.analysis.output import latex, texlive
from pairlab.analysis.output.provenance import Origin, write_atomically
from pairlab.base.printing import echo
from pairlab.base.temporary_folder import TemporaryFolder
from pairlab.errors import BadInput

#: Enlargement on a screen, which is read from farther away than a page.
_ON_SCREEN = 1.35
_SIZE = re.compile(r'(width|height)="([\d.]+)pt"')
#: The coordinates of lines, of which matplotlib writes millionths of a point; hundredths remain, for small files.
_PATH, _FURTHER_DIGITS = re.compile(r' d="[^"]*"'), re.compile(r"(?<=\.\d\d)\d+")
#: matplotlib's message on a formula that it cannot parse.
_NO_FORMULA = re.compile(r"Parse\w*Exception: (.*?)(?:  \(at char|$)", re.MULTILINE)
#: Control characters that XML forbids; matplotlib repeats the figure's text in the SVG's comments.
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\ufffe\uffff]")
_NAMELESS = dict.fromkeys(("Creator", "Producer", "CreationDate"))
NO_LATEX = f"pdflatex is not on PATH ({texlive.REMEDY}, for the paper only)"
_DOLLAR = re.compile(r"(?<!\\)\$")
#: An error in LaTeX's output.
_LATEX_ERROR = re.compile(r"^! (.*)", re.MULTILINE)


def use_style() -> None:
    """Sets the style of this process's figures, which a notebook then shows as SVG; call it before the first figure."""
    ipython = sys.modules.get("IPython")
    if shell := ipython and ipython.get_ipython():
        import matplotlib_inline.backend_inline  # noqa: F401  its import sets formats and parameters, so it comes first

        formatters = shell.display_formatter.formatters
        for formatter in formatters.values():
            formatter.pop(Figure, None)
        formatters["image/svg+xml"].for_type(Figure, on_screen)
    style.use()


def save(figure: Figure, name: str, origin: Origin) -> list[Path]:
    """Writes figures/<label>/<name>.pdf, .png, .svg and, if possible, .pgf. Returns the paths of these files.

    Each file names its origin: PDF in Subject, PNG and SVG in Description, PGF in a comment. PGF is left out, with a
    line on stderr, without LaTeX, and for a figure with a rasterized part or a formula unknown to LaTeX; the paper then
    takes the PDF. An older PGF of other runs is removed, so that the paper never mixes runs. Raises BadInput if the
    text between two dollar signs is no formula.
    """
    folder = paths.figures() / origin.label
    description = f"{name}: made from {origin}"
    drawn = {"svg": _bytes(figure, "svg", description)}
    with _as_laid_out(figure):
        drawn |= {kind: _bytes(figure, kind, description) for kind in ("pdf", "png")}
    files = [write_atomically(folder / f"{name}.{kind}", drawn[kind]) for kind in sorted(drawn)]
    with style.context():
        picture, why_not = as_pgf(figure)
    target = folder / f"{name}.pgf"
    header = origin.comment(name)
    if picture is not None:
        return [*files, write_atomically(target, header.encode() + picture)]
    echo(f"{name}.pgf left out: {why_not}", err=True)
    if target.exists() and (why_not != NO_LATEX or not target.read_bytes().startswith(header.encode())):
        target.unlink()
    return files


@contextmanager
def _as_laid_out(figure: Figure) -> Iterator[None]:
    """Inside, the figure keeps its last layout: to compute a layout takes longer than to draw the figure."""
    engine = figure.get_layout_engine()
    with style.context():  # else `None` is the layout of the user's configuration
        figure.set_layout_engine(None)
        try:
            yield
        finally:
            figure.set_layout_engine(engine)


def write(figure: Figure, path: Path, description: str) -> None:
    """Writes a figure that is not of runs to a .pdf, .png or .svg. Raises BadInput for another ending."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("pdf", "png", "svg"):
        raise BadInput(f"a figure is a .pdf, .png or .svg, not {path.name!r}: give the file one of these endings")
    write_atomically(path, _bytes(figure, kind, description), remedy="name another place")


def _bytes(figure: Figure, kind: str, description: str) -> bytes:
    if kind == "svg":
        return as_svg(figure, description).encode()
    metadata = {"pdf": {"Subject": description, **_NAMELESS}, "png": {"Description": description, "Software": None}}
    return _rendered(figure, kind, metadata[kind])


def as_svg(figure: Figure, description: str = "") -> str:
    """The figure as SVG, for a page. Reproducible: without a date; the same everywhere: with text as outlines."""
    metadata = {"Creator": None, "Date": None} | ({"Description": description} if description else {})
    drawn = _CONTROL.sub("", _rendered(figure, "svg", metadata).decode())
    drawn = _PATH.sub(lambda path: _FURTHER_DIGITS.sub("", path[0]), drawn)
    lines = drawn[drawn.index("<svg") :].splitlines()
    return " ".join(line.strip() for line in lines) + "\n"  # a single line, as notebooks are compared by lines


def as_png(figure: Figure) -> bytes:
    """The figure as an image, for slides."""
    return _rendered(figure, "png", {})


def on_screen(figure: Figure) -> str:
    """The figure as SVG in a notebook's size."""
    return _SIZE.sub(lambda size: f'{size[1]}="{float(size[2]) * _ON_SCREEN:.2f}pt"', as_svg(figure), count=2)


def _rendered(figure: Figure, kind: str, metadata: dict) -> bytes:
    buffer = io.BytesIO()
    try:
        with style.context():
            figure.savefig(buffer, format=kind, metadata=metadata)
    except ValueError as error:
        if not (match := _NO_FORMULA.search(str(error))):
            raise
        raise BadInput(
            f"a text of the figure is no formula, although it has two dollar signs: {match[1]}. Write \\$ for a dollar"
            " sign, or correct the formula"
        ) from None
    return buffer.getvalue()


def as_pgf(figure: Figure) -> tuple[bytes | None, str]:
    """The figure as PGF, whose text LaTeX sets and which reads as in other formats; or None and the reason."""
    if figure.findobj(lambda part: part.get_rasterized() or isinstance(part, AxesImage | BboxImage | FigureImage)):
        return None, "a part of it is an image, as very many points are; the paper takes the PDF"
    if not shutil.which("pdflatex"):
        return None, NO_LATEX
    backend_pgf.TemporaryDirectory = TemporaryFolder  # else LaTeX's log would remain if the kernel is killed
    buffer = io.BytesIO()
    try:
        with _literal_text():
            figure.savefig(buffer, format="pgf")
    except (RuntimeError, ValueError, OSError, backend_pgf.LatexError) as error:
        output = str(error).strip()
        match = _LATEX_ERROR.search(output)
        return None, f"LaTeX did not set its text: {match[1] if match else output.splitlines()[0]}"
    return buffer.getvalue(), ""


class _Renderer(backend_pgf.RendererPgf):
    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        # LaTeX would have the tops of all words at one height, "nat" with "host", and so their baselines apart.
        aligned = None if mtext and mtext.get_verticalalignment() == "top" else mtext
        super().draw_text(gc, x, y, _for_latex(s, ismath), prop, angle, ismath, aligned)

    def get_text_width_height_descent(self, s, prop, ismath):
        return super().get_text_width_height_descent(_for_latex(s, ismath), prop, ismath)


@contextmanager
def _literal_text() -> Iterator[None]:
    """Inside, matplotlib draws PGF with our renderer; it has no option for this."""
    matplotlibs = backend_pgf.RendererPgf
    backend_pgf.RendererPgf = _Renderer
    try:
        yield
    finally:
        backend_pgf.RendererPgf = matplotlibs


def _for_latex(text: str, formulas: bool | str) -> str:
    """LaTeX for a line of text that matplotlib takes literally, or with formulas between dollar signs."""
    if formulas == "TeX":
        return text
    if not formulas:
        return latex.literal(text)
    parts = _DOLLAR.split(text)
    parts[::2] = [latex.literal(part.replace(r"\$", "$")) for part in parts[::2]]
    parts[1::2] = ["".join(map(_in_formula, part)) for part in parts[1::2]]
    return "$".join(parts)


def _in_formula(character: str) -> str:
    if character.isascii():
        return character
    literal = "-" if character == "−" else latex.literal(character)
    return literal if literal.startswith((r"\ensuremath", "-")) else rf"\mbox{{{literal}}}"
