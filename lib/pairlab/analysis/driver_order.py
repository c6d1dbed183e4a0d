"""The order of drivers, the same in every table and figure."""

from collections.abc import Iterable

#: The drivers that the papers compare.
FIRST = ("bridge", "macvlan", "ovs", "host")
#: After `host` comes what is the host's own network between namespaces.
_ORDER = (*FIRST, "process")


def rank(driver: str) -> tuple[int, str]:
    """The sort key of a driver: those of _ORDER in that order, then the others by name."""
    return (_ORDER.index(driver) if driver in _ORDER else len(_ORDER)), driver


def ordered(drivers: Iterable[str]) -> list[str]:
    """Each driver once, by rank."""
    return sorted(set(drivers), key=rank)
