"""Runs the analysis notebooks in place, so that their outputs, figures, tables and values are those of the runs."""

import copy
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ANALYSES = Path(__file__).resolve().parent.parent / "notebooks" / "analysis"


def remake(path: Path) -> None:
    """Executes a notebook in place; its metadata stay, and no times are recorded."""
    notebook = nbformat.read(path, 4)
    metadata = copy.deepcopy(notebook.metadata)
    client = NotebookClient(notebook, timeout=None, record_timing=False, resources={"metadata": {"path": path.parent}})
    client.execute()
    notebook.metadata = metadata
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for each in map(Path, sys.argv[1:] or sorted(map(str, ANALYSES.glob("[0-9][0-9]-*.ipynb")))):
        print(each.name, flush=True)
        remake(each)
