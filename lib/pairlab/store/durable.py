"""Writing that outlives the machine's power: what has its name is on the disk, and so is the name.

fsync(2) on a file says nothing of its directory's entry, so both are synced: the files, then the rename, then the
directory. Without it a file system may write the rename first, and a power cut leaves a run of empty files.
"""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
#: What renameat2(2) answers where the file system or the kernel cannot exchange.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
#: What fsync(2) answers for a directory where the file system knows no such thing.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def sync(path: Path) -> None:
    """Waits until that file, or that directory's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Waits until all below that directory is on the disk, and the directory too."""
    for place, _, files in os.walk(root, topdown=False):
        for name in files:
            sync(Path(place, name))
        sync(Path(place))


def make_directory(path: Path) -> None:
    """Makes the directory and its parents, where they are missing, and has their names on the disk."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two names in one step, renameat2(2); False where that cannot be done here, and nothing was."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
