"""A figure as PGF, in which LaTeX sets the text: whatever characters it has, it reads as in the other formats."""

import io
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from matplotlib.backends import backend_pgf
from matplotlib.figure import Figure
from matplotlib.image import AxesImage, BboxImage, FigureImage

from pairlab.analysis.output import latex, texlive
from pairlab.base.temporary_folder import TemporaryFolder

NO_LATEX = f"pdflatex is not on PATH ({texlive.REMEDY}, for the paper only)"

_DOLLAR = re.compile(r"(?<!\\)\$")
#: The first error in what LaTeX printed.
_ERROR = re.compile(r"^! (.*)", re.MULTILINE)


def rendered(figure: Figure) -> tuple[bytes | None, str]:
    """The figure as PGF, or None and why there is none."""
    if figure.findobj(lambda part: part.get_rasterized() or isinstance(part, AxesImage | BboxImage | FigureImage)):
        return None, "a part of it is an image, as very many points are; the paper takes the PDF"
    if not shutil.which("pdflatex"):
        return None, NO_LATEX
    backend_pgf.TemporaryDirectory = TemporaryFolder  # LaTeX's log would stay where a kernel is killed
    buffer = io.BytesIO()
    try:
        with _literal_text():
            figure.savefig(buffer, format="pgf")
    except (RuntimeError, ValueError, OSError, backend_pgf.LatexError) as error:
        told = str(error).strip()
        why = _ERROR.search(told)
        return None, f"LaTeX did not set its text: {why[1] if why else told.splitlines()[0]}"
    return buffer.getvalue(), ""


class _Renderer(backend_pgf.RendererPgf):
    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        super().draw_text(gc, x, y, _for_latex(s, ismath), prop, angle, ismath, mtext)

    def get_text_width_height_descent(self, s, prop, ismath):
        return super().get_text_width_height_descent(_for_latex(s, ismath), prop, ismath)


@contextmanager
def _literal_text() -> Iterator[None]:
    """Inside, matplotlib draws PGF with our renderer, for which it has no option."""
    theirs = backend_pgf.RendererPgf
    backend_pgf.RendererPgf = _Renderer
    try:
        yield
    finally:
        backend_pgf.RendererPgf = theirs


def _for_latex(text: str, formulas: bool | str) -> str:
    """A line of text with its formulas, if it has some, as matplotlib understands it."""
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
    known = "-" if character == "−" else latex.literal(character)
    return known if known.startswith((r"\ensuremath", "-")) else rf"\mbox{{{known}}}"
