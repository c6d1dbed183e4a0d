"""Files that tell others that this process lives: a forked child that kept them open would tell so after its death.

A program that is started does not have them, as they are close-on-exec.
"""

import os
import weakref
from typing import IO

_files: "weakref.WeakSet[IO[bytes]]" = weakref.WeakSet()


def closed_in_forks(file: IO[bytes]) -> None:
    """Has every child that Python forks from now on (os.fork, multiprocessing) close that file at once."""
    _files.add(file)


def _close() -> None:
    for each in list(_files):
        each.close()


os.register_at_fork(after_in_child=_close)
