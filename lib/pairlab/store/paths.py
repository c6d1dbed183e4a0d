"""Where runs lie below runs/: <experiment>/<key>-<tag>, and <key>.2-<tag>, … where the same spec was measured again.

The tag is drawn for each run, so that no directory of another store has its name: copied into one folder, no run takes
the place of another. Older runs have none. In a pack a run is <experiment>-<tag>.pack/<key>. The tag of a pack, and of
the note of a sweep, is of its content: files of the same name are the same. Older ones have none.
"""

import hashlib
import os
import re
import secrets
from pathlib import Path

from pairlab import paths
from pairlab.errors import StoreError
from pairlab.model.spec import Spec

#: What the directory of a run is called: its key, a number from 2 on, and a tag that tells it from all others.
NAME = r"^([0-9a-f]{16})(?:\.([1-9][0-9]{0,8}))?(?:-[0-9a-f]{8})?$"
_NAME = re.compile(NAME)

#: The file of a run's metadata, in its directory.
METADATA = "run.json"

#: How a file with many runs ends (packs).
SUFFIX = ".pack"


def directory_of(spec: Spec, root: Path | None = None) -> Path:
    """Where the first run of that spec lies, or would. Raises StoreError where no Parquet file can have such a path."""
    place = (root or paths.runs()) / spec.experiment / spec.key
    try:
        str(place).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(place).decode(errors="backslashreplace")
        raise StoreError(f"runs cannot be kept in {shown}: its name is not UTF-8; name the folder anew") from None
    return place


def identity(stat: os.stat_result) -> tuple[int, int, int]:
    """Inode, time and size: equal as long as it is the same file."""
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def is_key(name: str) -> bool:
    """Whether a directory of that name claims to be a run."""
    return _NAME.fullmatch(name) is not None


def key_of(name: str) -> str:
    """The key in the name of a run's directory, of a draft or of a replaced run."""
    return name.lstrip(".")[:16]


def number_of(name: str) -> int:
    """Which of the runs of its spec it is, from 1, by the name of its directory."""
    match = _NAME.fullmatch(name)
    return int(match[2] or 1) if match else 1


def order_of(name: str) -> tuple[int, str]:
    """Of the runs of a spec, in the order in which they were stored, as far as it is known."""
    return number_of(name), name


def untagged(name: str) -> str:
    """The name without the tag: what a run is called for its readers, if no other one in its store is."""
    return name.partition("-")[0]


def with_tag(name: str) -> str:
    """A name for a directory that is about to be stored."""
    return f"{name}-{secrets.token_hex(4)}"


def tagged_file(file: Path, content: Path) -> Path:
    """The name of that file once it has this content: with the beginning of its SHA-256."""
    with content.open("rb") as read:
        tag = hashlib.file_digest(read, "sha256").hexdigest()[:8]
    return file.with_name(f"{file.stem}-{tag}{file.suffix}")


def untagged_stem(file: Path) -> str:
    """What it was called before, without its end."""
    return re.sub(r"-[0-9a-f]{8}$", "", file.stem)


def pack_of(place: Path) -> Path | None:
    """The pack that a run's place lies in; None of one in a directory."""
    for path in (place.parent, place):  # a pack itself is the place of what cannot be read of it
        if SUFFIX in path.name and not os.path.isdir(path):
            return path
    return None
