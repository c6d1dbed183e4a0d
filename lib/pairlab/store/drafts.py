"""Drafts: hidden names under which things are written before they get their own, locked while their process lives.

A draft of this host's present start that is not locked is abandoned: its process ended before it could remove it. Of
another one nothing is known: locks are not seen from other hosts, on NFS and 9p for instance, where the folder of runs
may be shared. So each draft names the start of the kernel that it was made on (boot_id), and others' are left alone.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from pairlab import paths
from pairlab.base.atomic import give_to_owner, make_directory, sync
from pairlab.base.environment import boot_id
from pairlab.model.spec import Spec
from pairlab.store.file_errors import writing
from pairlab.store.paths import SUFFIX, directory_of, is_key, key_of, tagged_file

#: The end of each draft's name: files without it are somebody else's, and are left alone.
MARK = ".pairlab-draft"
#: What begins with a dot and the name that it is to get ends in this: whose it is, and what tells it from others.
_END = re.compile(rf"-([0-9a-f]+)-[0-9a-f]+{re.escape(MARK)}")


@contextlib.contextmanager
def draft(spec: Spec, root: Path | None = None) -> Iterator[Path]:
    """A hidden directory beside the run of that spec, gone afterwards; `leftovers` finds it after an accident."""
    place = directory_of(spec, root)
    with contextlib.ExitStack() as stack:
        with writing(place):
            make_directory(place.parent)
            with locked(place.parent):  # else it could be taken for leftovers before it is locked itself
                made = place.parent / draft_name(spec.key)
                made.mkdir()
                stack.callback(_remove, made, made.stat().st_ino)
                stack.enter_context(locked(made))
        yield made


def draft_name(of: str) -> str:
    """A name for the draft of that key, or file."""
    return f".{of}-{boot_id()[:12]}-{secrets.token_hex(4)}{MARK}"


def _remove(made: Path, inode: int) -> None:
    """Takes the draft away, but not an older run that has got its name meanwhile, and was not yet set aside."""
    with contextlib.suppress(FileNotFoundError):
        if made.stat().st_ino == inode:
            shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def draft_file(target: Path, *, tagged: bool = False) -> Iterator[Path]:
    """A hidden file beside `target`, which becomes it when it is left, at once and whole; gone where that fails.

    tagged: it gets the name that its content gives it (`tagged_file`).
    """
    with writing(target), contextlib.ExitStack() as stack:
        make_directory(target.parent)
        with locked(target.parent):
            made = target.parent / draft_name(target.name)
            made.touch(exist_ok=False)
            stack.callback(made.unlink, missing_ok=True)
            stack.enter_context(locked(made))
        yield made
        give_to_owner(made)
        sync(made)
        made.rename(tagged_file(target, made) if tagged else target)
        sync(target.parent)


def abandoned(root: Path | None = None) -> Iterator[Path]:
    """The drafts below runs/ whose processes are gone, of runs and of files. A symbolic link is nobody's draft."""
    for place in _drafts(root):
        if _is_of_this_boot(place) and _is_abandoned(place):
            yield place


def drafts_of_others(root: Path | None = None) -> list[Path]:
    """The drafts below runs/ that another host may still write to, or that are from before this one was started."""
    return [place for place in _drafts(root) if not _is_of_this_boot(place)]


def _drafts(root: Path | None) -> Iterator[Path]:
    root = root or paths.runs()
    of_runs = (place for place in sorted(root.glob(f"*/.*-*{MARK}/")) if is_draft(place))
    of_files = (f"*/*/.notebook.ipynb-*{MARK}", f".sweeps/*/.*-*{MARK}", f".*{SUFFIX}-*{MARK}")
    files = sorted(file for pattern in of_files for file in root.glob(pattern))
    for place in (*of_runs, *(file for file in files if file.is_file())):
        if not place.is_symlink():
            yield place


def _is_of_this_boot(draft: Path) -> bool:
    end = _END.search(draft.name)
    return end is not None and end[1] == boot_id()[:12]


def is_draft(place: Path) -> bool:
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
