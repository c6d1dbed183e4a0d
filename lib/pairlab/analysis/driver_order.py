"""The order of drivers, the same in every table and figure."""

from collections.abc import Iterable

#: The drivers that the papers compare.
FIRST = ("bridge", "macvlan", "ovs", "host")


def rank(driver: str) -> tuple[int, str]:
    """The sort key of a driver: those of FIRST in their order, then the others by name."""
    return (FIRST.index(driver) if driver in FIRST else len(FIRST)), driver


def ordered(drivers: Iterable[str]) -> list[str]:
    """Each driver once, by rank."""
    return sorted(set(drivers), key=rank)
