"""Writing that survives a power cut: a file that has its final name is complete on the disk, and so is the name.

fsync(2) on a file does not sync its directory entry, so both are synced: the files, then, after the rename, the
directory. Otherwise a file system may write the rename first, and a power cut leaves a run of empty files.
"""

import ctypes
import errno
import os
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
#: Errors of renameat2(2) if the file system or the kernel cannot exchange names.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
#: Errors of fsync(2) if the file system cannot sync a directory.
_CANNOT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def sync(path: Path) -> None:
    """Waits until the file, or the directory's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:
            raise
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Waits until the directory and everything below it are on the disk."""
    for place, _, files in os.walk(root, topdown=False):
        for name in files:
            sync(Path(place, name))
        sync(Path(place))


def make_directory(path: Path) -> None:
    """Creates the directory and its missing parents, and waits until their names are on the disk."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        sync(path.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two names atomically, renameat2(2); returns False, without changes, where that is not supported."""
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
