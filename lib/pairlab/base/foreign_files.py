"""Files that others may have made: read only if regular and of a bounded size; texts shown without control codes."""

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pairlab.base import units

#: Control characters but tab and newline, those that reorder text (UAX #9), and halves of surrogate pairs: a terminal
#: obeys the first, readers misread the second, and no file takes the third.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
#: What JSON has if one of its texts has one of these, and is ASCII: json.loads takes no others as they are.
_ESCAPED = ("\\u", "\\b", "\\f", "\\r", "\x7f")


@contextlib.contextmanager
def open_untrusted(path: Path, most_bytes: int) -> Iterator[BinaryIO]:
    """That file, to read it by. A FIFO or device would block, or never end.

    Raises ValueError if it is not a regular file or is larger, OSError if it cannot be opened or is a symbolic link.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError(f"{path.name} is not a regular file")
        if found.st_size > most_bytes:
            size, most = (units.with_prefix(size, "B") for size in (found.st_size, most_bytes))
            raise ValueError(f"{path.name} has {size}, and at most {most} are read")
        yield file


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Its content. Raises as `open_untrusted`."""
    with open_untrusted(path, most_bytes) as file:
        return file.read(most_bytes)


def read_text(path: Path, most_bytes: int) -> str:
    """Its text, in UTF-8. Raises as `open_untrusted`, and UnicodeDecodeError, which is a ValueError."""
    return read_bytes(path, most_bytes).decode()


def escape_controls(text: str) -> str:
    """The text with control characters as escapes, `\\x1b`, so that a terminal shows them and does not obey them."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def load_json(text: str) -> Any:
    """What that JSON says, with all its texts visible. Raises ValueError, RecursionError."""
    value = json.loads(text)
    return value if text.isascii() and not any(map(text.__contains__, _ESCAPED)) else escape_all(value)


def escape_all(value: Any) -> Any:
    """A value of JSON with all its texts visible, keys included."""
    if isinstance(value, str):
        return escape_controls(value)
    if isinstance(value, dict):
        return {escape_controls(key): escape_all(each) for key, each in value.items()}
    return [escape_all(each) for each in value] if isinstance(value, list) else value
