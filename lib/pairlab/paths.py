"""Every path of the project.

Relative paths that a user gives (options, arguments, environment variables) count from the current directory. What
belongs to the checkout is found from its root, as notebooks run in different folders under JupyterLab, papermill and
nbval.
"""

import os
from pathlib import Path

#: The environment variables that users set, each a path, and what it names.
VARIABLES = {
    "PAIRLAB_RUNS": "folder of stored runs; default: runs/ in the checkout",
    "PAIRLAB_OUT": "folder that figures/ and paper/ are written to; default: the checkout",
    "PAIRLAB_ROOT": "checkout with the notebooks, sweeps and paper; default: the one pairlab was installed from",
    "PAIRLAB_FLOWGEN": "traffic generator; default: the one that `make run` builds",
}

for _name in VARIABLES:  # kernels and other processes that are started elsewhere must see the same folders
    if os.environ.get(_name):
        os.environ[_name] = str(Path(os.environ[_name]).absolute())


def _root() -> Path:
    """The checkout this package was installed from (it is installed editable), or PAIRLAB_ROOT."""
    named = os.environ.get("PAIRLAB_ROOT")
    return Path(named).resolve() if named else Path(__file__).resolve().parents[2]


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
    """The folder that runs are stored in: PAIRLAB_RUNS, or runs/ in the checkout."""
    return Path(os.environ.get("PAIRLAB_RUNS") or ROOT / "runs").absolute()


def flowgen() -> Path:
    """The native flow generator: PAIRLAB_FLOWGEN, or the one that `make run` builds."""
    return Path(os.environ.get("PAIRLAB_FLOWGEN") or ROOT / "lib" / "flowgen" / "build" / "flowgen")


def figures() -> Path:
    """The folder that analysis notebooks write figures to: figures/ in PAIRLAB_OUT, or in the checkout."""
    return _output("figures", FIGURES)


def paper() -> Path:
    """The folder that they write the paper's values/ and tables/ to: paper/ in PAIRLAB_OUT, or in the checkout."""
    return _output("paper", PAPER)


def existing(path: str | Path) -> Path:
    """The absolute path of a folder that is to be read.

    A relative one counts from the current directory; if it is not there, from the checkout's root, so that a notebook
    finds runs/reference from whatever folder it runs in.
    """
    here, in_checkout = Path(path).absolute(), ROOT / path
    return in_checkout if in_checkout.exists() and not here.exists() else here


def tried(path: str | Path) -> str:
    """Where `existing` looks for that folder, for a message."""
    return " or ".join(dict.fromkeys(map(str, (Path(path).absolute(), ROOT / path))))


def from_root(path: str | Path) -> str:
    """The path from the checkout's root where it lies below it, else absolute: the same on every machine."""
    path = Path(path).absolute()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def shown(path: str | Path) -> str:
    """The path for a reader: from the checkout's root for one who works in the checkout, else absolute."""
    return from_root(path) if Path.cwd().is_relative_to(ROOT) else str(Path(path).absolute())


def _output(name: str, default: Path) -> Path:
    folder = os.environ.get("PAIRLAB_OUT")
    return Path(folder).resolve() / name if folder else default
