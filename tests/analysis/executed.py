"""Executes analysis notebooks over made-up runs, and reads what they told and wrote."""

import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat

from pairlab import paths


class Executed:
    """An analysis notebook, executed over a folder of runs into a folder of its own."""

    def __init__(self, name: str, runs: Path, place: Path, **parameters):
        self.out = place / "out"
        self.notebook = place / "done.ipynb"
        given = [str(each) for key, value in ({"runs": runs} | parameters).items() for each in ("-p", key, value)]
        source = paths.ANALYSES / f"{name}.ipynb"
        command = [sys.executable, "-m", "papermill", "-k", "python3", "--no-progress-bar", str(source)]
        done = subprocess.run(
            [*command, str(self.notebook), *given],
            env=os.environ | {"PAIRLAB_OUT": str(self.out)},
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

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


def run_all(runs: Path) -> None:
    """Runs the code of every analysis notebook over a folder of runs in this process, which is fast."""
    for path in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb")):
        names: dict = {}
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, f"{path.name}:{cell.id}", "exec"), names)
            if cell.id == "parameters":
                names["runs"] = str(runs)
        plt.close("all")


def figures(label: str, *names: str) -> set[str]:
    return {f"figures/{label}/{name}.{kind}" for name in names for kind in ("pdf", "png")}


def tables(label: str, *names: str) -> set[str]:
    return {f"paper/tables/{label}/{name}.tex" for name in names}
