"""The gallery: every figure of figures/reference, with the words of the notebook that draws it."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from pairlab import paths

FIGURES = paths.FIGURES / "reference"


class Drawn(NamedTuple):
    """A figure, where it was drawn: the notebook and its title, the section's heading and the text below that."""

    name: str
    notebook: Path
    title: str
    heading: str
    text: str


def page(notebooks: Sequence[Path]) -> str:
    """Markdown: a part for each notebook that has figures, and a figure in it for each.

    Raises ValueError for a file in figures/reference that no notebook draws.
    """
    found = {drawn.name: drawn for notebook in notebooks for drawn in figures_of(notebook)}
    there = sorted({file.stem for file in FIGURES.glob("*.png")})
    if lost := [name for name in there if name not in found]:
        raise ValueError(f"no notebook in notebooks/analysis draws {', '.join(lost)} of figures/reference")
    order = list(found)
    parts, title = [], None
    for drawn in sorted((found[name] for name in there), key=lambda drawn: order.index(drawn.name)):
        if drawn.title != title:
            title = drawn.title
            parts.append(f"## {title}\n\nAnalysis: [{drawn.notebook.stem}]({_up(drawn.notebook)})")
        parts.append(_figure(drawn))
    return "\n\n".join(parts)


def figures_of(notebook: Path) -> Iterator[Drawn]:
    """The figures that a notebook saves, in its order."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    title = re.sub(r"^# | \(E\d+\)$", "", texts[0][1].splitlines()[0])
    for variable, name in _saved(source for kind, source in texts if kind == "code"):
        yield Drawn(name, notebook, title, *_section(texts, variable))


def _saved(sources: Iterator[str]) -> Iterator[tuple[str, str]]:
    """What is drawn, as an assignment has it on its left, and the name it is saved under."""
    for source in sources:
        yield from ((rf'drawn["{name}"]', name) for name in re.findall(r'\bdrawn\["([^"]+)"\] = ', source))
        yield from re.findall(r'\b\w+\.save\((\w+), "([^"]+)"', source)


def _section(texts: Sequence[tuple[str, str]], variable: str) -> tuple[str, str]:
    """Heading and text of the section in which that is assigned."""
    heading, text = "", ""
    for kind, source in texts:
        if kind == "markdown":
            heading, _, text = source.partition("\n")
        elif re.search(rf"^\s*{re.escape(variable)} = ", source, re.MULTILINE):
            break
    return heading.lstrip("# "), " ".join(text.split())


def _figure(drawn: Drawn) -> str:
    picture = next(file for kind in ("svg", "png") if (file := FIGURES / f"{drawn.name}.{kind}").exists())
    lines = [
        '<figure class="figure" markdown="span">',
        f"[![{drawn.heading}]({_up(picture)})]({_up(drawn.notebook)})",
        f'<figcaption markdown="span">**{drawn.heading}.** {drawn.text} {_made_from(drawn.name)}</figcaption>',
        "</figure>",
    ]
    return "\n".join(lines)


def _made_from(name: str) -> str:
    """Which runs the figure's files say they were made from: figures.save puts that into each."""
    with Image.open(FIGURES / f"{name}.png") as picture:
        told = picture.info.get("Description", "")
    _, _, origin = told.partition("made from ")
    runs, _, _ = origin.partition(", keys ")
    return f"*Made from {runs}.*" if runs else ""


def _up(path: Path) -> str:
    return f"../{path.relative_to(paths.ROOT)}"
