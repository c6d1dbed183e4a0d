"""NAME=VALUE, as people write it on a command line."""

import re
from collections.abc import Iterable

from pairlab.errors import BadInput

_NAMED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def split(text: str) -> tuple[str, str] | None:
    """The name and the value, which may be empty or have an "=" of its own; None of what is no NAME=VALUE."""
    found = _NAMED.fullmatch(text)
    return (found[1], found[2]) if found else None


def by_name(texts: Iterable[str]) -> dict[str, list[str]]:
    """The values of each name, in their order: a name that is given several times has several. Raises BadInput."""
    found: dict[str, list[str]] = {}
    for text in texts:
        if (named := split(text)) is None:
            raise BadInput(f"{text!r} is no NAME=VALUE, such as driver=bridge")
        found.setdefault(named[0], []).append(named[1])
    return found
