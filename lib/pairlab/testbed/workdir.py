"""A process's working directory on this host: short-lived, and known by its owner."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pairlab.testbed import owner

PREFIX = "pairlab-"


@contextlib.contextmanager
def working_directory() -> Iterator[Path]:
    """A directory in /tmp, gone afterwards; what an accident leaves, `pairlab clean` finds by the owner in it.

    In /tmp and not in TMPDIR, as the path of a Unix socket has 107 bytes at most. Others may pass through by a name
    they know, as a container's user must, but not list it.
    """
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))
    directory.chmod(0o711)
    (directory / "owner").write_text(owner.me())
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
