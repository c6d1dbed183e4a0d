"""report: every analysis notebook over a set of runs, and the paper from what they made."""

from collections.abc import Callable
from pathlib import Path

from pairlab import paths, store
from pairlab.analysis import paper
from pairlab.errors import AnalysisError, by_name


def analyses() -> dict[str, Path]:
    """The analysis notebooks by name: notebooks/analysis/NN-name.ipynb."""
    return {path.stem[3:]: path for path in sorted(paths.ANALYSES.glob("[0-9][0-9]-*.ipynb"))}
