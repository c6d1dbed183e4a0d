"""Where runs lie below runs/, whether there are any or not."""

import os
import time
from pathlib import Path

from pairlab import paths
from pairlab.errors import StoreError
from pairlab.spec import Spec
from pairlab.store.durable import make_directory, sync


def directory_of(spec: Spec, root: Path | None = None) -> Path:
    """Where the run of that spec lies, or would. Raises StoreError where no Parquet file could have such a path."""
    place = (root or paths.runs()) / spec.experiment / spec.key
    try:
        str(place).encode()
    except UnicodeEncodeError:
        told = os.fsencode(place).decode(errors="backslashreplace")
        raise StoreError(f"runs cannot be kept in {told}: its name is not UTF-8; name the folder anew") from None
    return place


def directories(root: Path | None = None, experiment: str | None = None) -> list[Path]:
    """Every directory that claims to be a run, by name; hidden ones (drafts, replaced runs) are none."""
    root = root or paths.runs()
    found = [place for place in root.glob("[!.]*/*/") if is_key(place.name)]
    return sorted(place for place in found if experiment in (None, place.parent.name))


def is_key(name: str) -> bool:
    """Whether a directory of that name claims to be a run."""
    return len(name) == 16 and set(name) <= set("0123456789abcdef")


def set_aside(place: Path) -> Path:
    """Moves a run to .replaced/ beside it, or a draft that holds one; returns where it is now."""
    kept = place.parent / ".replaced" / f"{place.name.lstrip('.')[:16]}-{time.time_ns()}"
    make_directory(kept.parent)
    place.rename(kept)
    sync(kept.parent)
    return kept
