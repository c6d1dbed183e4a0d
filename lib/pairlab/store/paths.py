"""Where runs lie below runs/: <experiment>/<key>, and <key>.2, <key>.3, … where the same spec was measured again."""

import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pairlab import paths
from pairlab.base.atomic import make_directory, sync
from pairlab.errors import StoreError
from pairlab.model.spec import Spec

#: What the directory of a run is called: its key, and a number from 2 on.
_NAME = re.compile(r"([0-9a-f]{16})(?:\.([1-9][0-9]{0,8}))?")


def directory_of(spec: Spec, root: Path | None = None) -> Path:
    """Where the first run of that spec lies, or would. Raises StoreError where no Parquet file can have such a path."""
    place = (root or paths.runs()) / spec.experiment / spec.key
    try:
        str(place).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(place).decode(errors="backslashreplace")
        raise StoreError(f"runs cannot be kept in {shown}: its name is not UTF-8; name the folder anew") from None
    return place


def directories_of(spec: Spec, root: Path | None = None) -> list[Path]:
    """Every directory that claims to be a run of that spec; the one that came last is the last."""
    first = directory_of(spec, root)
    return [_numbered(first, number) for number in _numbers(first.parent, first.name).get(first.name, ())]


def numbered(firsts: Iterable[Path]) -> Iterator[list[Path]]:
    """As directories_of, for each of these places of a first run; a folder is listed once for all of them."""
    listed: dict[Path, dict[str, list[int]]] = {}
    for first in firsts:
        if first.parent not in listed:
            listed[first.parent] = _numbers(first.parent)
        yield [_numbered(first, number) for number in listed[first.parent].get(first.name, ())]


def free_directory(spec: Spec, root: Path | None = None) -> Path:
    """Where a further run of that spec goes."""
    place = directory_of(spec, root)
    return _numbered(place, max(_numbers(place.parent, place.name).get(place.name, [0])) + 1)


def _numbered(place: Path, number: int) -> Path:
    return place if number == 1 else place.with_name(f"{place.name}.{number}")


def _numbers(folder: Path, key: str = "") -> dict[str, list[int]]:
    """By key, the numbers of the runs in the folder of an experiment, ascending; of thousands, one key's are cheap."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"{folder} could not be read: {error.strerror}; name another folder for the runs") from None
    found: dict[str, list[int]] = {}
    for named in filter(None, map(_NAME.fullmatch, (name for name in names if name.startswith(key)))):
        found.setdefault(named[1], []).append(int(named[2] or 1))
    return {key: sorted(numbers) for key, numbers in found.items()}


def directories(root: Path | None = None, experiment: str | None = None) -> list[Path]:
    """Every directory that claims to be a run, by name; hidden ones (drafts, replaced runs) are none."""
    root = root or paths.runs()
    found = [place for place in root.glob("[!.]*/*/") if is_key(place.name)]
    return sorted(place for place in found if experiment in (None, place.parent.name))


def is_key(name: str) -> bool:
    """Whether a directory of that name claims to be a run."""
    return _NAME.fullmatch(name) is not None


def key_of(name: str) -> str:
    """The key in the name of a run's directory, of a draft or of a replaced run."""
    return name.lstrip(".")[:16]


def set_aside(place: Path) -> Path:
    """Moves a run to .replaced/ beside it, or a draft that holds one; returns where it is now."""
    kept = place.parent / ".replaced" / f"{key_of(place.name)}-{time.time_ns()}"
    make_directory(kept.parent)
    place.rename(kept)
    sync(kept.parent)
    return kept
