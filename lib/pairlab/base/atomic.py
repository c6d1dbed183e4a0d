"""Writing that survives a power cut: a file that has its final name is complete on the disk, and so is the name.

fsync(2) on a file does not sync its directory entry, so both are synced: the files, then, after the rename, the
directory. Otherwise a file system may write the rename first, and a power cut leaves a run of empty files.
"""

import contextlib
import ctypes
import errno
import os
import stat
from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
#: Errors where the file system or the kernel cannot exchange names, renameat2(2), or sync a directory, fsync(2).
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def sync(path: Path) -> None:
    """Waits until the file, or the directory's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)


def sync_tree(root: Path) -> None:
    """Waits until the directory and all files and directories below it are on the disk."""
    for place, _, files in os.walk(root, topdown=False):
        for path in (Path(place, name) for name in files):
            if path.is_file() and not path.is_symlink():  # to open a FIFO would wait for a writer
                sync(path)
        sync(Path(place))


def make_directory(path: Path) -> None:
    """Creates the directory and its missing parents, and waits until their names are on the disk."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        give_to_owner(path)
        sync(path.parent)


def give_to_owner(path: Path) -> None:
    """Gives what root wrote into another user's folder to that user, who could not change or remove it otherwise.

    All that root owns at that path and below; nothing that is a link, or has another name elsewhere, as the user may
    have put it there meanwhile. Without the right to do so (chown(2)), it stays root's.
    """
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            owner = os.fstat(folder)
            if owner.st_uid == 0:
                return
            below = os.fwalk(path.name, topdown=False, follow_symlinks=False, dir_fd=folder)
            for _, folders, files, descriptor in below if path.is_dir() else ():
                for name in (*folders, *files):
                    _give(name, descriptor, owner)
            _give(path.name, folder, owner)
        finally:
            os.close(folder)


def _give(name: str, folder: int, owner: os.stat_result) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if found.st_uid == 0 and (stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)):
        os.chown(name, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


def exchange(one: Path, other: Path) -> bool:
    """Exchanges two names atomically, renameat2(2); returns False, without changes, where that is not supported."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number), str(one), None, str(other))
