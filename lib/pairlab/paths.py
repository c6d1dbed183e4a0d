"""All paths: of the current study, and of the files that come with pairlab.

A study is a folder with a file pairlab.toml (`pairlab init` makes one): the current directory, or the nearest parent
with this file. The study's notebooks, sweeps, claims and paper are used beside pairlab's, and before those of the same
name. Outside any other study, the checkout of a called pairlab is the study. Relative paths from a user (options,
arguments, environment variables) count from the current directory.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

#: The file that makes a folder a study.
STUDY_FILE = "pairlab.toml"
#: The environment variables for users, each with the meaning of its path.
VARIABLES = {
    "PAIRLAB_RUNS": "folder of stored runs; default: runs/ in the study",
    "PAIRLAB_OUT": "folder that figures/ and paper/ are written to; default: the study",
    "PAIRLAB_STUDY": f"the study; default: the next folder with a {STUDY_FILE}, from the current one upwards",
    "PAIRLAB_FLOWGEN": "traffic generator; default: the one that comes with pairlab",
}

for _name in VARIABLES:  # kernels and other processes in other directories must see the same folders
    if os.environ.get(_name):
        os.environ[_name] = str(Path(os.environ[_name]).absolute())

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = (_PACKAGE / "shipped").is_dir()


def _study() -> Path:
    """The first that exists of PAIRLAB_STUDY, the nearest folder that is a study, the checkout, the current folder."""
    if named := os.environ.get("PAIRLAB_STUDY"):
        return Path(named).resolve()
    try:
        here = Path.cwd()
    except FileNotFoundError:  # removed
        here = Path("/")
    for folder in (here, *here.parents):
        if (folder / STUDY_FILE).is_file():
            os.environ["PAIRLAB_STUDY"] = str(folder)
            return folder
    return here if _INSTALLED else ROOT


#: The root of pairlab's own files: the checkout, or the part of it that a wheel contains.
ROOT = _PACKAGE / "shipped" if _INSTALLED else _PACKAGE.parents[1]
STUDY = _study()
NOTEBOOKS = ROOT / "notebooks"
EXPERIMENTS = NOTEBOOKS / "experiments"
ANALYSES = NOTEBOOKS / "analysis"
SWEEPS = ROOT / "sweeps"
FIGURES = ROOT / "figures"
PAPER = ROOT / "paper"
IMAGE = ROOT / "lib" / "image"
DATA = _PACKAGE / "data"
REFERENCE = ROOT / "runs" / "reference"


def runs() -> Path:
    """The folder that runs are stored in: PAIRLAB_RUNS, or runs/ in the study."""
    return Path(os.environ.get("PAIRLAB_RUNS") or STUDY / "runs").absolute()


def flowgen() -> Path:
    """The native flow generator: PAIRLAB_FLOWGEN, or the one in the wheel, or built by `make run`."""
    return Path(os.environ.get("PAIRLAB_FLOWGEN") or native() / "flowgen")


def native() -> Path:
    """The folder of what is compiled of lib/flowgen: in the wheel, or built by `make setup`."""
    return ROOT / "lib" / "flowgen" / "build"


def figures() -> Path:
    """The folder of figures from analysis notebooks: figures/ in PAIRLAB_OUT, or in the study."""
    return _output("figures")


def paper() -> Path:
    """The folder of the paper's values/ and tables/ from analysis notebooks: paper/ in PAIRLAB_OUT, or in the study."""
    return _output("paper")


def cache() -> Path:
    """The cache folder: .cache in a checkout, else pairlab/ in the user's cache folder (XDG_CACHE_HOME)."""
    if not _INSTALLED:
        return ROOT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pairlab"


def beside(folder: str, pattern: str) -> Iterator[Path]:
    """The files in a folder of pairlab, sorted by name, and then those in the same folder of the study."""
    for root in dict.fromkeys((ROOT, STUDY)):
        yield from sorted(filter(Path.is_file, (root / folder).glob(pattern)))


def notebook_name(notebook: Path) -> str:
    """The name of an experiment or analysis: the file's stem without the leading number (NN-name.ipynb)."""
    return re.sub(r"^\d\d-", "", notebook.stem)


def own_or_shipped(path: str) -> Path:
    """The study's file of that path if it exists, else pairlab's."""
    return STUDY / path if (STUDY / path).is_file() else ROOT / path


def existing(path: str | Path) -> Path:
    """The absolute path of a folder to read.

    A relative path counts from the current directory; if nothing is there, from the study, so that a notebook in any
    folder finds runs/; and then from pairlab's root (runs/reference of a checkout).
    """
    places = _places(path)
    return next((place for place in places if place.exists()), places[0])


def tried(path: str | Path) -> str:
    """The places where `existing` looks for the folder, for a message."""
    return " or ".join(dict.fromkeys(map(str, _places(path))))


def _places(path: str | Path) -> list[Path]:
    return [Path(path).absolute(), STUDY / path, *([] if _INSTALLED else [ROOT / path])]


def from_root(path: str | Path) -> str:
    """The path relative to the study or to pairlab's root, the same on every machine; else absolute."""
    path = Path(path).absolute()
    root = next((root for root in (STUDY, ROOT) if path.is_relative_to(root)), None)
    return str(path.relative_to(root)) if root else str(path)


def shown(path: str | Path) -> str:
    """The path for a reader: relative to the study if the current directory is in it, else absolute."""
    path = Path(path).absolute()
    from_study = Path.cwd().is_relative_to(STUDY) and path.is_relative_to(STUDY)
    return str(path.relative_to(STUDY)) if from_study else str(path)


def _output(name: str) -> Path:
    folder = os.environ.get("PAIRLAB_OUT")
    return (Path(folder).resolve() if folder else STUDY) / name
