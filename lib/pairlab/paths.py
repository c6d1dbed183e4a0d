"""Every path of the project, from the root of the checkout.

Notebooks run in different folders under JupyterLab, papermill and nbval, so none of them builds a path itself.
"""

import os
from pathlib import Path


def _root() -> Path:
    """The checkout this package was installed from (it is installed editable), or PAIRLAB_ROOT."""
    told = os.environ.get("PAIRLAB_ROOT")
    return Path(told).resolve() if told else Path(__file__).resolve().parents[2]


ROOT = _root()
NOTEBOOKS = ROOT / "notebooks"
EXPERIMENTS = NOTEBOOKS / "experiments"
ANALYSES = NOTEBOOKS / "analysis"
SWEEPS = ROOT / "sweeps"
FIGURES = ROOT / "figures"
PAPER = ROOT / "paper"
IMAGE = ROOT / "lib" / "image"
DATA = Path(__file__).resolve().parent / "data"
REFERENCE = ROOT / "runs" / "reference"


def runs() -> Path:
    """Where measurements go: PAIRLAB_RUNS, or runs/ in the checkout."""
    return within_root(os.environ.get("PAIRLAB_RUNS") or "runs")


def flowgen() -> Path:
    """The native flow generator: PAIRLAB_FLOWGEN, or the one that `make run` builds."""
    return Path(os.environ.get("PAIRLAB_FLOWGEN") or ROOT / "lib" / "flowgen" / "build" / "flowgen")


def figures() -> Path:
    """Where the analysis notebooks put figures: figures/ in PAIRLAB_OUT, or in the checkout."""
    return _out("figures", FIGURES)


def paper() -> Path:
    """Where the analysis notebooks put the paper's values/ and tables/: paper/ in PAIRLAB_OUT, or in the checkout."""
    return _out("paper", PAPER)


def within_root(path: str | Path) -> Path:
    """A path as a user writes it, in a notebook or in PAIRLAB_RUNS: relative ones count from the checkout's root."""
    path = Path(path)
    return path if path.is_absolute() else ROOT / path


def shown(path: str | Path) -> str:
    """The path as told to a person: from the root where it lies below it."""
    path = Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _out(name: str, default: Path) -> Path:
    told = os.environ.get("PAIRLAB_OUT")
    return Path(told).resolve() / name if told else default
