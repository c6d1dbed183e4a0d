"""The allocations of Mentz et al. 2020, and the paper's names of drivers there.

Source: Mentz et al. 2020, section III-A and figure 2.
"""

from pairlab.model.spec import Spec

#: The paper's virtual machines are hosts here. 0 is none of the allocations.
ALLOCATIONS = {
    1: "one host",
    2: "two hosts",
    3: "two hosts, 1 Gbit/s",
    4: "three hosts",
}
#: The rate of the paper's switch, in bit/s.
SWITCH_BPS = 1e9
#: The paper's names of drivers between hosts, if they differ: without containers a host's network is `process` here,
#: and a bridge reached from elsewhere is `nat`.
STANDS_FOR = {"process": "host", "nat": "bridge"}


def of(spec: Spec) -> int:
    """The allocation of a spec; 0: none of the paper's."""
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
    """The name in Mentz et al. 2020 of a driver on so many hosts."""
    return STANDS_FOR.get(driver, driver) if hosts > 1 else driver
