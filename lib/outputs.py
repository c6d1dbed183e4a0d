"""Runs the analysis notebooks in place, so that their outputs, figures, tables and values are those of the runs.

Without arguments all of them, and then, where none failed, makes paper/reference.pdf and reference-report.pdf of what
they wrote.
"""

import copy
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from pairlab import paths
from pairlab.analysis.output import paper
from pairlab.batch.kernels import OwnKernelManager


def remake(path: Path) -> None:
    """Executes a notebook in place; its metadata stay, and no times are recorded.

    Raises CellExecutionError, and ValueError where an output names the folder of this checkout, which is another one
    for every reader.
    """
    notebook = nbformat.read(path, 4)
    metadata = copy.deepcopy(notebook.metadata)
    folder = {"metadata": {"path": path.parent}}
    # Coalesced: else how a text is split into outputs depends on when its parts came.
    options = {"timeout": None, "record_timing": False, "coalesce_streams": True, "resources": folder}
    with tempfile.TemporaryDirectory() as temporary:  # a kernel that is ended leaves what LaTeX had there
        client = NotebookClient(notebook, kernel_manager_class=OwnKernelManager, **options)
        client.execute(env=os.environ | {"TMPDIR": temporary})
    notebook.metadata = metadata
    if str(paths.ROOT) in nbformat.writes(notebook):
        raise ValueError(f"not written, as an output names {paths.ROOT}: print paths by pairlab.paths.shown")
    nbformat.write(notebook, path)


def remove_older(than_s: float) -> None:
    """Removes what runs of before have left and these no longer make: a table or figure of theirs would still be shown.

    than_s: a time since the epoch.
    """
    made = (paths.FIGURES, paths.PAPER / "tables", paths.PAPER / "values")
    for path in (path for folder in made for path in (folder / "reference").iterdir()):
        if path.stat().st_mtime < than_s:
            path.unlink()


if __name__ == "__main__":
    began_s = time.time()
    named = [Path(each) for each in sys.argv[1:]]
    failed = []
    for each in named or sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb")):
        print(each.name, flush=True)
        try:
            remake(each)
        except (CellExecutionError, ValueError) as error:
            failed.append(f"{each.name}: {error}")
    if failed:
        sys.exit("\n\n".join(failed))
    if not named:
        remove_older(began_s)
        built = paper.build("reference", runs=paths.REFERENCE)
        shutil.copyfile(built, paths.PAPER / "reference.pdf")
        shutil.copyfile(built.with_name("report.pdf"), paths.PAPER / "reference-report.pdf")
