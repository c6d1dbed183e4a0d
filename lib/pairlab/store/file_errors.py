"""Errors over a run's files, as pairlab's own."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from pairlab.base.foreign_files import escape_controls
from pairlab.errors import DamagedRun, SchemaMismatch, StoreError
from pairlab.store.paths import pack_of

#: Errors over a file that are about a run's contents: a part of it is missing, a symbolic link or no file; or, with
#: None, what pyarrow found in it. All others are about the machine.
_ABOUT_CONTENTS = (None, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO)


@contextlib.contextmanager
def reading(place: Path) -> Iterator[None]:
    """Any error over a run's files, as DamagedRun or StoreError."""
    try:
        yield
    except SchemaMismatch:
        raise
    except Exception as error:  # pyarrow alone raises a dozen kinds over damaged files
        shown = escape_controls(str(place))
        if isinstance(error, OSError) and error.errno not in _ABOUT_CONTENTS:
            raise StoreError(
                f"{shown} could not be read: {error.strerror or error}. The run may well be whole:"
                " see to its permissions, the disk and `ulimit -n`, then try again"
            ) from error
        why = " ".join(str(error).split()) if isinstance(error, (OSError, ValueError)) else repr(error)
        remedy = "`pairlab clean` moves it to .replaced/, and measuring again replaces it"
        if pack_of(place):
            remedy = "get that pack anew from where it came"
        raise DamagedRun(
            f"{shown} is not a whole run: {escape_controls(why)}. It is of no use to any analysis; {remedy}"
        ) from error


def newer(place: Path, how: str) -> SchemaMismatch:
    return SchemaMismatch(f"{place} was written by a newer pairlab, {how}: update pairlab to read it")


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """An OSError as a StoreError with place, cause and remedy. place: the path to be written."""
    try:
        yield
    except OSError as error:
        what = f"the run could not be written to {place.parent}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = f"{what}. Make room (`pairlab clean --dry-run` lists what can go); finished runs are whole"
        else:
            why = f"{what}. Is the folder yours to write? PAIRLAB_RUNS names another one; finished runs are whole"
        raise StoreError(why) from error
