"""A process's working directory on this host: short-lived, and known by its owner."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pairlab.errors import TestbedError
from pairlab.testbed import owner
from pairlab.testbed.guard import guarded

PREFIX = "pairlab-"

#: Removes a directory that is still there, if it is ours; again where somebody writes into it.
_REMOVE = 'for _ in 1 2 3 4 5; do [ -O "$1" ] || exit 0; rm -rf -- "$1" || sleep 1; done'


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """A directory in /tmp, gone afterwards, however this process ends. Raises TestbedError where none can be made.

    In /tmp and not in TMPDIR, as the path of a Unix socket has 107 bytes at most. A container's user may pass through
    it by a name that it knows, but not list it; it lies in one of the same name that nobody else of this host may
    enter. What is left nonetheless, by a host that lost its power, `pairlab clean` finds by the owner in the outer one.
    """
    with contextlib.ExitStack() as stack:
        try:
            # The guard is there before what it is to remove: we may be killed between any two steps.
            outer = Path(tempfile.mktemp(prefix=PREFIX, dir="/tmp"))  # a name; mkdir takes none that is somebody's
            stack.enter_context(guarded(_REMOVE, str(outer)))
            outer.mkdir(mode=0o700)
            stack.callback(shutil.rmtree, outer, ignore_errors=True)  # before the guard is let go
            (outer / "owner").write_text(owner.me())
            directory = outer / outer.name
            directory.mkdir()
            directory.chmod(0o711)
        except OSError as error:
            raise TestbedError(
                f"no working directory could be made in /tmp: {error.strerror or error}."
                " Make room there, or raise this user's limits (`ulimit -a`), and try again"
            ) from error
        yield directory


def remove(directory: Path) -> None:
    """Removes a working directory with the one that it lies in: for who outlives its owner and the guard of it."""
    whole = directory.parent if directory.parent.name == directory.name else directory
    shutil.rmtree(whole, ignore_errors=True)
