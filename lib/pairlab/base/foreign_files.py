"""Files that others may have made: read only if regular and of a bounded size; texts shown without control codes."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pairlab.base import units

#: Control characters but tab and newline, those that reorder text (UAX #9), and halves of surrogate pairs: a terminal
#: obeys the first, readers misread the second, and no file takes the third.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@contextlib.contextmanager
def opened(path: Path, most_bytes: int) -> Iterator[int]:
    """A descriptor to read that file by. A FIFO or device would block, or never end.

    Raises ValueError if it is not a regular file or is larger, OSError if it cannot be opened or is a symbolic link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        if found.st_size > most_bytes:
            size, most = (units.with_prefix(size, "B") for size in (found.st_size, most_bytes))
            raise ValueError(f"{path.name} has {size}, and at most {most} are read")
        yield descriptor
    finally:
        os.close(descriptor)


def read_text(path: Path, most_bytes: int) -> str:
    """Its text, in UTF-8. Raises as `opened`, and UnicodeDecodeError, which is a ValueError."""
    with opened(path, most_bytes) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read(most_bytes).decode()


def visible(text: str) -> str:
    """The text with control characters as escapes, `\\x1b`, so that a terminal shows them and does not obey them."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def all_visible(value: Any) -> Any:
    """A value of JSON with all its texts visible, keys included."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(key): all_visible(each) for key, each in value.items()}
    return [all_visible(each) for each in value] if isinstance(value, list) else value
