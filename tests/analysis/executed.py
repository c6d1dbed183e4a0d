"""Executes analysis notebooks over made-up runs, and reads what they told and wrote."""

from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest

from pairlab import notebooks, paths


class Executed:
    """An analysis notebook, executed over a folder of runs into a folder of its own."""

    def __init__(self, name: str, runs: Path, place: Path, **parameters):
        """As a report executes it, by papermill in this process: its command line would load papermill each time."""
        self.out = place / "out"
        self.notebook = place / "done.ipynb"
        place.mkdir(parents=True, exist_ok=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PAIRLAB_OUT", str(self.out))
            notebooks.execute(paths.ANALYSES / f"{name}.ipynb", self.notebook, {"runs": str(runs), **parameters})

    def told(self, cell: str) -> str:
        """What a cell printed."""
        found = next(each for each in nbformat.read(self.notebook, 4).cells if each.id == cell)
        return "".join(output.get("text", "") for output in found.outputs if output.get("name") != "stderr")

    @property
    def made(self) -> set[str]:
        """The files written but PGF, which needs LaTeX, relative to the folder."""
        files = {str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file()}
        return {name for name in files if not name.endswith(".pgf")}

    def values(self, name: str) -> str:
        """The file of keyed values."""
        (path,) = (self.out / "paper" / "values").rglob(f"{name}.tex")
        return path.read_text()


def run_all(runs: Path, *, that_have: str = "") -> None:
    """Runs the code of every analysis notebook (that has such a text) over runs in this process, which is fast."""
    for path in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb")):
        if that_have not in path.read_text(encoding="utf-8"):
            continue
        names: dict = {}
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, f"{path.name}:{cell.id}", "exec"), names)
            if cell.id == "parameters":
                names["runs"] = str(runs)
        plt.close("all")


def figures(label: str, *names: str) -> set[str]:
    return {f"figures/{label}/{name}.{kind}" for name in names for kind in ("pdf", "png", "svg")}


def tables(label: str, *names: str) -> set[str]:
    return {f"paper/tables/{label}/{name}.tex" for name in names}
