"""`pairlab init`: the folder of a new study, with an example of each part that a study can have."""

import shutil
import subprocess
from pathlib import Path

from pairlab import paths
from pairlab.errors import BadInput, StoreError

TEMPLATE = paths.DATA / "study"


def create(place: Path) -> bool:
    """Makes the study, and a git repository if git is installed and the folder is in no repository.

    Returns whether the folder is in git. Raises BadInput if it is not empty, StoreError if it cannot be written.
    """
    place = place.absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise BadInput(f"{place} is not empty: name a folder that is not there yet")
    try:
        for source in sorted(TEMPLATE.rglob("*")):
            if source.is_file() and "__pycache__" not in source.parts:
                _copy(source, place / _name(source), place.name)
    except OSError as error:
        raise StoreError(f"{place} cannot be written: {error.strerror or error}") from None
    return _git("init", "--quiet", folder=place) if not _git("rev-parse", folder=place) else True


def _name(source: Path) -> Path:
    first, *others = source.relative_to(TEMPLATE).parts
    return Path(f".{first}" if first in ("gitignore", "github") else first, *others)


def _copy(source: Path, target: Path, study: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    text = source.read_text(encoding="utf-8")
    target.write_text(text.replace("{study}", study) if source.name == "README.md" else text, encoding="utf-8")


def _git(*words: str, folder: Path) -> bool:
    if not shutil.which("git"):
        return False
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=False)
    return done.returncode == 0
