"""Why cells are not done, in groups: the same reason with other figures in it counts as the same."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """So many cells have that status for the same reason, figures aside; reason is the last one's."""

    cells: int
    status: str
    reason: str


def same(reason: str) -> str:
    """What reasons have in common that differ in figures only."""
    return re.sub(r"[0-9][0-9.,]*", "#", reason)


def grouped(ended: Iterable[tuple[str, str]]) -> tuple[Trouble, ...]:
    """Pairs of status and reason, in their order, as groups; those of most cells first."""
    found: dict[tuple[str, str], list[str]] = {}
    for status, reason in ended:
        found.setdefault((status, same(reason)), []).append(reason)
    groups = sorted(found.items(), key=lambda group: -len(group[1]))
    return tuple(Trouble(len(reasons), status, reasons[-1]) for (status, _), reasons in groups)
