"""Whether the kernel's table of neighbours has room for all endpoints (arp(7)).

It is one table for all network namespaces of the host, and in a full one nothing can be added: an endpoint whose
peer's address is asked for in vain ends with "No route to host", and a large testbed would lose a part of its flows.
"""

from pathlib import Path

from pairlab.spec import Spec
from pairlab.testbed.contracts import Lack, NetworkDriver

#: Hard limit of the table's entries, which only the host's own network namespace shows.
LIMIT = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
#: Entries left to the host itself and to what else runs on it.
SPARE = 16


def lacks(spec: Spec, driver: type[NetworkDriver]) -> list[Lack]:
    """What is missing for each client to know its server, and each server its client: an entry for every endpoint."""
    needed = 2 * spec.pairs + SPARE
    limit = _limit()
    if not driver.isolated or limit is None or needed <= limit:
        return []
    what = f"the kernel knows {limit} neighbours at most, and {spec.pairs} pairs need {needed}"
    return [Lack(what, f"sudo sysctl -w net.ipv4.neigh.default.gc_thresh3={2 * needed}, or fewer pairs")]


def _limit() -> int | None:
    try:
        return int(LIMIT.read_text())
    except (OSError, ValueError):
        return None
