"""What accidents left among the runs, and how it goes."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from pairlab import paths
from pairlab.errors import DamagedRun, StoreError
from pairlab.records import TABLES
from pairlab.store.drafts import abandoned, is_draft, locked
from pairlab.store.places import directories, is_key, set_aside
from pairlab.store.runs import read


def debris(root: Path | None = None, *, with_replaced: bool = False) -> Iterator[tuple[Path, str]]:
    """What lies below runs/ and is no run that counts, with the reason: drafts of the dead, and damaged runs.

    with_replaced: runs that a newer one of the same key replaced, too.
    """
    root = root or paths.runs()
    for draft in abandoned(root):
        with contextlib.suppress(StoreError):  # of a newer pairlab, or not to be read just now
            if not is_draft(draft) or not _is_whole(draft):
                yield draft, "a draft that was never finished"
            elif _its_place(draft).exists():
                yield draft, "whole, but another has its name: kept in .replaced/"
            else:
                yield draft, "whole, only its name was missing: gets it"
    for place in directories(root):
        with contextlib.suppress(StoreError):
            if not _is_whole(place):
                yield place, "damaged, kept in .replaced/"
    if with_replaced:
        for place in sorted(root.glob("*/.replaced/*/")):
            yield place, "replaced"


def discard(place: Path) -> None:
    """Sees to what `debris` found, and deletes no run, damaged or whole, but a replaced one. Raises StoreError.

    A damaged run moves to .replaced/. So does a whole one that was cut off between being replaced and being moved
    there; one that was cut off before it got its name gets it. All else is deleted.
    """
    try:
        if is_key(place.name):
            set_aside(place)
        elif is_draft(place) and _is_whole(place):
            _settle(place)
        elif place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # somebody else was faster
    except OSError as error:
        told = f"{paths.shown(place)} could not be removed: {error.strerror or error}. Is it yours to remove?"
        raise StoreError(told) from error


def _is_whole(place: Path) -> bool:
    """Whether all of a run can be read. Raises StoreError where that cannot be told now, or here."""
    try:
        run = read(place)
        for name in TABLES:
            getattr(run, name)
    except DamagedRun:
        return False
    return True


def _its_place(draft: Path) -> Path:
    return draft.with_name(draft.name[1:17])


def _settle(draft: Path) -> None:
    """Ends what writing a run began: the draft gets the name, or, where another has it, its place in .replaced/."""
    with locked(draft.parent):
        if _its_place(draft).exists():
            set_aside(draft)
        else:
            draft.rename(_its_place(draft))
