"""The gallery: every figure of figures/reference, with the words of the notebook that draws it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pairlab import paths

FIGURES = paths.FIGURES / "reference"


class Drawn(NamedTuple):
    """A figure, where it was drawn: the notebook and its title, the section's heading and the text below that."""

    name: str
    notebook: Path
    title: str
    heading: str
    text: str


def page() -> str:
    """Markdown: a part for each notebook that has figures, and a thumbnail in it for each.

    Raises ValueError for a file in figures/reference that no notebook draws.
    """
    there = {file.stem for file in FIGURES.glob("*.svg")}
    parts = []
    for notebook in analyses():
        drawn = {each.name: each for each in figures_of(notebook) if each.name in there}
        there -= drawn.keys()
        if drawn:
            title = next(iter(drawn.values())).title
            parts += [f"## {title}", f"Analysis: [{notebook.stem}]({_up(notebook)})"]
            parts += ['<div class="gallery">', *map(_figure, drawn.values()), "</div>"]
    if there:
        raise ValueError(f"no notebook in notebooks/analysis draws {', '.join(sorted(there))} of figures/reference")
    return "\n\n".join(parts)


def analyses() -> list[Path]:
    """The analysis notebooks, in their order."""
    return sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb"))


def figures_of(notebook: Path) -> Iterator[Drawn]:
    """The figures that a notebook draws, in its order, each with the heading and text of its section."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    title, heading, text = texts[0][1].splitlines()[0].removeprefix("# "), "", ""
    for kind, source in texts:
        if kind == "markdown":
            heading, _, text = source.partition("\n")
        for call in re.findall(r"\.draw\(([^)]*)\)", source) if kind == "code" else ():
            for name in re.findall(r'"([^"]+)"', call):
                yield Drawn(name, notebook, title, heading.lstrip("# "), " ".join(text.split()))


def _figure(drawn: Drawn) -> str:
    picture = FIGURES / f"{drawn.name}.svg"
    words = " ".join(filter(None, [f"**{drawn.heading}.**", drawn.text, _made_from(picture)]))
    return f"[![{drawn.heading}]({_up(picture)})]({_up(drawn.notebook)})\n{words}"


def _made_from(picture: Path) -> str:
    """Which runs the figure says it was made from: figures.save puts that into each."""
    found = re.search(r"made from (.*?), keys ", picture.read_text(encoding="utf-8"))
    return f"*Made from {found[1]}.*" if found else ""


def _up(path: Path) -> str:
    return f"../{path.relative_to(paths.ROOT)}"
