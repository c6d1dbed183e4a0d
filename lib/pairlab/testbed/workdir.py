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

#: Removes a directory that is still there; again where somebody writes into it.
_REMOVE = 'for _ in 1 2 3 4 5; do [ -e "$1" ] || exit 0; rm -rf -- "$1" || sleep 1; done'


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """A directory in /tmp, gone afterwards, however this process ends. Raises TestbedError where none can be made.

    In /tmp and not in TMPDIR, as the path of a Unix socket has 107 bytes at most. Others may pass through by a name
    they know, as a container's user must, but not list it. What is left nonetheless, by a host that lost its power,
    `pairlab clean` finds by the owner in it.
    """
    with contextlib.ExitStack() as stack:
        try:
            directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)
            stack.enter_context(guarded(_REMOVE, str(directory)))
            stack.callback(shutil.rmtree, directory, ignore_errors=True)  # before the guard is let go
            directory.chmod(0o711)
            (directory / "owner").write_text(owner.me())
        except OSError as error:
            raise TestbedError(
                f"no working directory could be made in /tmp: {error.strerror or error}."
                " Make room there, or raise this user's limits (`ulimit -a`), and try again"
            ) from error
        yield directory
