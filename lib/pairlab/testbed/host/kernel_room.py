"""What the kernel refused for want of room in its tables: connections that it tracks, and neighbours.

Source: net/netfilter/nf_conntrack_standalone.c and net/core/neighbour.c, whose counts are in hexadecimal, a line a CPU.
"""

import contextlib
from pathlib import Path

#: Of the thread, as one may be in a network namespace of its own.
STATISTICS = Path("/proc/thread-self/net/stat")
#: Of connections: packets that found no room, and entries that had to go for others; of neighbours: entries refused.
_OF_CONNECTIONS, _OF_NEIGHBOURS = ("drop", "early_drop"), ("table_fulls",)


def refused_connections() -> int:
    """By conntrack of the present network namespace, so far; 0 where it tracks none, or does not tell."""
    return _sum(STATISTICS / "nf_conntrack", _OF_CONNECTIONS)


def refused_neighbours() -> int:
    """By the table of IPv4 neighbours, which all network namespaces share, so far; 0 where it cannot be seen."""
    return _sum(STATISTICS / "arp_cache", _OF_NEIGHBOURS)


def _sum(file: Path, names: tuple[str, ...]) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        head, *lines = (line.split() for line in file.read_text().splitlines())
        return sum(int(line[head.index(name)], 16) for name in names for line in lines)
    return 0
