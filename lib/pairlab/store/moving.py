"""Runs get another place: .replaced/, or one beside the others again."""

import errno
import os
import shutil
import subprocess
import time
from pathlib import Path

from pairlab.base.atomic import make_directory, sync, sync_tree
from pairlab.store.drafts import draft_name
from pairlab.store.paths import key_of


def archive(place: Path, *, may_copy: bool = True) -> Path:
    """Moves a run to .replaced/ beside it, or a draft that holds one; returns where it is now.

    may_copy: as `move` does. Raises OSError, and the run is where it was.
    """
    archived = place.parent / ".replaced" / f"{key_of(place.name)}-{time.time_ns()}"
    make_directory(archived.parent)
    if may_copy:
        move(place, archived, beside=place)
    else:
        place.rename(archived)
    sync(archived.parent)
    return archived


def move(place: Path, target: Path, *, beside: Path) -> None:
    """Renames a run's directory, or where that is not possible, copies it and removes the original.

    So it is with a directory of the lower layer of overlayfs, as of a container's image (rename(2), EXDEV). beside: a
    run in whose folder the copy is a draft until it is whole.
    """
    try:
        place.rename(target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    copy = beside.parent / draft_name(key_of(beside.name))
    try:
        # cp knows of holes, FIFOs and devices, which a damaged run may have; shutil would read them.
        done = subprocess.run(["cp", "-a", "--", place, copy], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(errno.EXDEV, f"{os.strerror(errno.EXDEV)}, and no copy could be made: {done.stderr.strip()}")
        sync_tree(copy)
        copy.rename(target)
    except BaseException:
        shutil.rmtree(copy, ignore_errors=True)
        raise
    shutil.rmtree(place)
