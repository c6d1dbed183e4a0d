"""Why runs do not count, in groups: a reason with other figures, or naming other processes, counts as the same."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """So many cells have that status for the same reason, figures and names aside; reason is the last one's."""

    cells: int
    status: str
    reason: str


_FIGURE = re.compile(r"[-+]?\d+(?:[.,]\d+)*%?")
_NAMES = re.compile(r" \(the largest: [^\n]*?%\)")


def same(reason: str) -> str:
    """The reason without its figures and the names of processes: equal for reasons of one group."""
    return _FIGURE.sub("…", without_names(reason))


def without_names(text: str) -> str:
    """A text with reasons, and no names of processes in them."""
    return _NAMES.sub("", text)


def naming(reason: str, largest: Iterable[tuple[str, int, float]]) -> str:
    """The reason, and after it whose share of the CPU time was the largest: names, process ids and shares."""
    named = ", ".join(f"{name} (pid {pid}) {100 * share:.1f} %" for name, pid, share in largest)
    return f"{reason} (the largest: {named})" if named else reason


def grouped(ended: Iterable[tuple[str, str]]) -> tuple[Trouble, ...]:
    """Pairs of status and reason, in their order, as groups; those of most cells first."""
    found: dict[tuple[str, str], list[str]] = {}
    for status, reason in ended:
        found.setdefault((status, same(reason)), []).append(reason)
    groups = sorted(found.items(), key=lambda group: -len(group[1]))
    return tuple(Trouble(len(reasons), status, reasons[-1]) for (status, _), reasons in groups)
