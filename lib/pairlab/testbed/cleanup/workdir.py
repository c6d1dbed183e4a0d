"""A process's working directory on this host, with a file that names its owner."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from pairlab.errors import TestbedError
from pairlab.testbed.cleanup import ownership
from pairlab.testbed.cleanup.child_processes import guarded_directory

PREFIX = "pairlab-"

#: Removes a directory that still exists, if it is ours; repeatedly if a process writes into it.
_REMOVE = 'for _ in 1 2 3 4 5; do [ -O "$1" ] || exit 0; rm -rf -- "$1" || sleep 1; done'


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """A directory in /tmp, removed afterwards, however this process ends. Raises TestbedError where none can be made.

    In /tmp and not in TMPDIR, as the path of a Unix socket has at most 107 bytes. A container's user may open files in
    it by name, but not list it; it is in a directory of the same name that no other user of this host may enter. If the
    watchdog was killed too, or after a power failure, `pairlab clean` finds the directory by the file `owner` in the
    outer directory, which is locked while the owner lives.
    """
    with contextlib.ExitStack() as stack:
        try:
            outer = stack.enter_context(guarded_directory(_REMOVE, f"/tmp/{PREFIX}"))
            stack.enter_context(ownership.held(outer / "owner"))
            stack.callback(shutil.rmtree, outer, ignore_errors=True)  # before the lock is released
            directory = outer / outer.name
            directory.mkdir()
            directory.chmod(0o711)
        except OSError as error:
            raise TestbedError(
                f"no working directory could be made in /tmp: {error.strerror or error}."
                " Make room there, or raise this user's limits (`ulimit -a`), and try again"
            ) from error
        yield directory


def run_of(directory: Path) -> str:
    """The testbed's id, by its working directory."""
    return directory.name.removeprefix(PREFIX)


def lock_of(run: str) -> Path:
    """The file that the owner of that testbed locks while it lives, if the owner's /tmp is this host's."""
    return Path("/tmp", f"{PREFIX}{run}", "owner")


def remove(directory: Path) -> None:
    """Removes a working directory and its outer directory: for processes that outlive its owner and watchdog."""
    outer = directory.parent if directory.parent.name == directory.name else directory
    shutil.rmtree(outer, ignore_errors=True)
