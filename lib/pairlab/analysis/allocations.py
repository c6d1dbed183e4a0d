"""On which of paper M's allocations a run is, and by which names the paper knows its drivers there.

Source: paper M, section III-A and figure 2.
"""

from pairlab.model.spec import Spec

#: Its virtual machines are hosts here. 0 is none of them.
ALLOCATIONS = {
    1: "one host",
    2: "two hosts",
    3: "two hosts, 1 Gbit/s",
    4: "three hosts",
}
#: The rate of the paper's switch, in bit/s.
SWITCH_BPS = 1e9
#: Which drivers its containers had between hosts, where these are called otherwise here: without containers a host's
#: network is `process`, and a bridge reached from elsewhere is `nat`.
STANDS_FOR = {"process": "host", "nat": "bridge"}


def of(spec: Spec) -> int:
    """The allocation that a spec asks for; 0: none of the paper's."""
    return of_place(spec.hosts, spec.placement, spec.uplink_rate_bps)


def of_place(hosts: int, placement: str, uplink_rate_bps: float) -> int:
    """The same by its parts."""
    if hosts == 1:
        return 1
    if placement == "one-to-all" and hosts == 3:
        return 4
    if placement == "across" and hosts == 2:
        return {0.0: 2, SWITCH_BPS: 3}.get(uplink_rate_bps, 0)
    return 0


def known_as(driver: str, hosts: int) -> str:
    """The name that paper M has for a driver on so many hosts."""
    return STANDS_FOR.get(driver, driver) if hosts > 1 else driver
