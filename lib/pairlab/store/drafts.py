"""Drafts: hidden names under which things are written before they get their own, locked while their process lives.

A draft that is not locked is abandoned: its process ended before it could remove it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pairlab import paths
from pairlab.base.atomic import make_directory, sync
from pairlab.model.spec import Spec
from pairlab.store.file_errors import writing
from pairlab.store.places import directory_of, is_key, key_of

#: The end of each draft's name: files without it are somebody else's, and are left alone.
MARK = ".pairlab-draft"


@contextlib.contextmanager
def draft(spec: Spec, root: Path | None = None) -> Iterator[Path]:
    """A hidden directory beside the run of that spec, gone afterwards; `debris` finds it after an accident."""
    place = directory_of(spec, root)
    with contextlib.ExitStack() as stack:
        with writing(place):
            make_directory(place.parent)
            with locked(place.parent):  # else it could be taken for debris before it is locked itself
                made = Path(tempfile.mkdtemp(MARK, f".{spec.key}-", place.parent))
                stack.callback(_remove, made, made.stat().st_ino)
                stack.enter_context(locked(made))
            made.chmod(0o755)
        yield made


def _remove(made: Path, inode: int) -> None:
    """Takes the draft away, but not an older run that has got its name meanwhile, and was not yet set aside."""
    with contextlib.suppress(FileNotFoundError):
        if made.stat().st_ino == inode:
            shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def draft_file(target: Path) -> Iterator[Path]:
    """A hidden file beside `target`, which becomes it when it is left, at once and whole; gone where that fails."""
    with writing(target), contextlib.ExitStack() as stack:
        make_directory(target.parent)
        with locked(target.parent):
            descriptor, name = tempfile.mkstemp(MARK, f".{target.name}-", target.parent)
            made = Path(name)
            stack.callback(made.unlink, missing_ok=True)
            os.close(descriptor)
            stack.enter_context(locked(made))
        made.chmod(0o644)
        yield made
        sync(made)
        made.rename(target)
        sync(target.parent)


def abandoned(root: Path | None = None) -> Iterator[Path]:
    """The drafts below runs/ whose processes are gone, of runs and of files. A symbolic link is nobody's draft."""
    root = root or paths.runs()
    for place in sorted(root.glob(f"*/.*-*{MARK}/")):
        if is_draft(place) and not place.is_symlink() and _is_abandoned(place):
            yield place
    for file in sorted([*root.glob(f"*/*/.notebook.ipynb-*{MARK}"), *root.glob(f".sweeps/*/.*-*{MARK}")]):
        if file.is_file() and not file.is_symlink() and _is_abandoned(file):
            yield file


def is_draft(place: Path) -> bool:
    """Whether it is called as a run's draft is."""
    return place.name.startswith(".") and is_key(key_of(place.name)) and place.name[17:].endswith(MARK)


def _is_abandoned(draft: Path) -> bool:
    with contextlib.suppress(OSError), locked(draft.parent), locked(draft, fcntl.LOCK_NB) as ours:
        return ours
    return False


@contextlib.contextmanager
def locked(path: Path, how: int = 0) -> Iterator[bool]:
    """Holds the lock of a file or directory; False where another has it (LOCK_NB), or there are no locks."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | how)
            held = True
        except OSError:
            held = False
        yield held
    finally:
        os.close(descriptor)
