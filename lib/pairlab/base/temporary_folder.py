"""Temporary folders that `pairlab clean` finds where their process was killed: by their name, and by a lock it held."""

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "pairlab-temporary-"
#: A folder is not locked yet for an instant after it was made; one that still is not after that time is abandoned.
LOCKED_WITHIN_S = 60.0


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A TemporaryDirectory, locked (flock(2)) until it is removed or this process has ended."""

    def __init__(self) -> None:
        super().__init__(prefix=PREFIX)
        self._lock = os.open(self.name, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def cleanup(self) -> None:
        super().cleanup()
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


def abandoned() -> Iterator[Path]:
    """Those of this user, among the temporary files, that no process holds."""
    for place in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        with contextlib.suppress(OSError):
            known = place.lstat()
            if known.st_uid == os.geteuid() and time.time() - known.st_mtime > LOCKED_WITHIN_S and not is_held(place):
                yield place


def is_held(place: Path) -> bool:
    """Whether a process that lives has made that folder with `TemporaryFolder`. Raises OSError where it is gone."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
