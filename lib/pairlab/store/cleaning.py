"""Leftovers of accidents among the runs, and their removal."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pairlab import paths
from pairlab.errors import DamagedRun, StoreError
from pairlab.model.records import Run
from pairlab.model.tables import TABLES
from pairlab.store.catalogue import directories, directories_of, free_directory
from pairlab.store.drafts import abandoned, is_draft, locked
from pairlab.store.moving import archive, move
from pairlab.store.paths import METADATA, is_key, key_of
from pairlab.store.runs import read


def leftovers(root: Path | None = None, *, with_replaced: bool = False) -> Iterator[tuple[Path, str]]:
    """What lies below runs/ and is no run that counts, with the reason: drafts of the dead, and damaged runs.

    with_replaced: runs that a newer one of the same key replaced, too.
    """
    root = root or paths.runs()
    for draft in abandoned(root):
        with contextlib.suppress(StoreError):  # of a newer pairlab, or not to be read just now
            if not is_draft(draft) or not (run := _whole(draft)):
                yield draft, "a draft that was never finished"
            elif _counts(run, draft):
                yield draft, "whole, only its name was missing: gets it"
            else:
                yield draft, "whole, but replaced by another: kept in .replaced/"
    for place in directories(root):
        with contextlib.suppress(StoreError):
            if _has_parts_of_a_run(place) and not _whole(place):
                yield place, "damaged, kept in .replaced/"
    if with_replaced:
        for place in sorted(root.glob("*/.replaced/*/")):
            if is_key(key_of(place.name)) and not place.is_symlink():
                yield place, "replaced"


def clean_up(place: Path) -> None:
    """Removes one of the `leftovers`; deletes no run, damaged or whole, except a replaced one. Raises StoreError.

    A damaged run moves to .replaced/. So does one that is not ok and was cut off between being replaced and being moved
    there; one that was cut off before it got its name gets it. All else is deleted.
    """
    try:
        if is_key(place.name):
            archive(place)
        elif is_draft(place) and (run := _whole(place)):
            _settle(place, run)
        elif place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # somebody else was faster
    except OSError as error:
        why = f"{place} could not be removed: {error.strerror or error}. Is it yours to remove?"
        raise StoreError(why) from error


def _has_parts_of_a_run(place: Path) -> bool:
    """A folder that is only named as runs are, or a link to elsewhere, is somebody else's."""
    parts = (METADATA, *(f"{name}.parquet" for name in TABLES))
    return not place.is_symlink() and any(os.path.lexists(place / part) for part in parts)


def _whole(place: Path) -> Run | None:
    """The run, if all of it can be read. Raises StoreError where that cannot be why now, or here."""
    try:
        run = read(place)
        for name in TABLES:
            getattr(run, name)
    except DamagedRun:
        return None
    return run


def _counts(run: Run, draft: Path) -> bool:
    """Whether a run that has no name yet gets one: it is ok, or there is no other of its spec."""
    return run.status == "ok" or not directories_of(run.spec, draft.parents[1])


def _settle(place: Path, run: Run) -> None:
    """Ends what writing a run began: the draft gets a name, or its place in .replaced/."""
    with locked(place.parent):
        if _counts(run, place):
            move(place, free_directory(run.spec, place.parents[1]), beside=place)
        else:
            archive(place)
