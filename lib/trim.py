"""Trims a folder of runs to what is worth keeping in a repository: what the tools printed stays of one repetition.

Of every run stay its record, without the names of the machine's other processes, and its tables, and of the folder its
noise floor. Executed notebooks go, and so do runs that made room for others, drafts, and the output of the tools but
for the first repetition that counts of each cell, from which somebody else can parse it anew.
"""

import shutil
import sys
from pathlib import Path

from pairlab import load_runs
from pairlab.analysis.comparison import noise_floor
from pairlab.model import reasons
from pairlab.store.paths import METADATA


def trim(root: Path) -> None:
    kept = set()
    for run in sorted(load_runs(root, environment="all"), key=lambda run: run.spec.repetition):
        cell = run.spec.replace(repetition=0)
        (run.path / "notebook.ipynb").unlink(missing_ok=True)
        record = run.path / METADATA
        record.write_text(reasons.without_names(record.read_text()))
        if run.status == "ok" and cell not in kept:
            kept.add(cell)
        else:
            (run.path / "raw.zip").unlink(missing_ok=True)
    for hidden in [*root.glob(".*"), *root.glob("*/.*")]:
        if hidden.name != noise_floor.FOLDER:
            shutil.rmtree(hidden) if hidden.is_dir() else hidden.unlink()


if __name__ == "__main__":
    trim(Path(sys.argv[1]))
