"""Executes analysis notebooks over made-up runs, and reads what they told and wrote."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from pairlab import paths


class Executed:
    """An analysis notebook, executed over a folder of runs into a folder of its own."""

    def __init__(self, name: str, runs: Path, place: Path, **parameters):
        """In this process: a kernel each would import everything and start LaTeX each time. CI has them (nbval)."""
        self.out = place / "out"
        with pytest.MonkeyPatch.context() as patch, shell() as python:
            patch.setenv("PAIRLAB_OUT", str(self.out))
            self._outputs = outputs_of(paths.ANALYSES / f"{name}.ipynb", python, runs=str(runs), **parameters)
        plt.close("all")

    def told(self, cell: str) -> str:
        """What a cell printed."""
        return "".join(text for kind, text in self._outputs[cell] if kind == "stdout")

    @property
    def made(self) -> set[str]:
        """The files written but PGF, which needs LaTeX, relative to the folder."""
        files = {str(path.relative_to(self.out)) for path in self.out.rglob("*") if path.is_file()}
        return {name for name in files if not name.endswith(".pgf")}

    def values(self, name: str) -> str:
        """The file of keyed values."""
        (path,) = (self.out / "paper" / "values").rglob(f"{name}.tex")
        return path.read_text()


def run_cells(path: Path, **parameters) -> None:
    """Runs the code of a notebook with these parameters in this process, which is fast."""
    names: dict = {}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, f"{path.name}:{cell.id}", "exec"), names)
        if cell.id == "parameters":
            names |= parameters


def run_all(runs: Path, *, that_have: str = "") -> None:
    """Runs the code of every analysis notebook (that has such a text) over runs in this process."""
    for path in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb")):
        if that_have in path.read_text(encoding="utf-8"):
            run_cells(path, runs=str(runs))
            plt.close("all")


def figures(label: str, *names: str) -> set[str]:
    return {f"figures/{label}/{name}.{kind}" for name in names for kind in ("pdf", "png", "svg")}


def tables(label: str, *names: str) -> set[str]:
    return {f"paper/tables/{label}/{name}.tex" for name in names}


@contextlib.contextmanager
def shell() -> Iterator[InteractiveShell]:
    """IPython in this process, with tables as wide as in the notebooks' kernels; afterwards there is none."""
    try:
        with pd.option_context("display.max_columns", 20):  # on a terminal, as many as fit
            yield InteractiveShell.instance()
    finally:
        InteractiveShell.clear_instance()


def outputs_of(path: Path, shell: InteractiveShell, **parameters) -> dict[str, list[tuple[str, str]]]:
    """Executes a notebook with these parameters in that shell.

    Returns what each cell printed and showed but its figures, by its id, as (MIME type, content).
    """
    shell.reset(new_session=False)
    found = {}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type != "code":
            continue
        with capture_output() as captured:
            shell.run_cell(cell.source, store_history=False).raise_error()
        found[cell.id] = [("stdout", captured.stdout)] if captured.stdout else []
        found[cell.id] += shown(output.data for output in captured.outputs)
        if cell.id == "parameters":
            shell.push(parameters)
    return found


def committed_outputs(path: Path) -> dict[str, list[tuple[str, str]]]:
    """What stands in the notebook, as `outputs_of` gives it, without what is marked as differing each time."""
    found = {}
    for cell in nbformat.read(path, 4).cells:
        if cell.cell_type == "code" and "nbval-ignore-output" not in cell.metadata.get("tags", []):
            texts = [output.text for output in cell.outputs if output.output_type == "stream"]
            found[cell.id] = [("stdout", "".join(texts))] if texts else []
            found[cell.id] += shown(output.data for output in cell.outputs if output.output_type == "display_data")
    return found


def shown(displayed: Iterable[Mapping[str, str]]) -> list[tuple[str, str]]:
    return [item for data in displayed if "image/svg+xml" not in data for item in sorted(data.items())]
