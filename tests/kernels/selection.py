"""Which tests run in the virtual machine, by what of its kernel they use: what project machines' kernels may lack.

They ask for function and nothing of how fast or how exact: a machine without KVM is late by tens of milliseconds.
"""

from collections.abc import Sequence

FOLDER = "tests/host/testbed"
FILES = ("test_testbed.py", "test_hosts.py", "test_shaping.py", "test_neighbours.py")
#: As pytest's -k takes it. A test with a parameter is named by it.
SUBJECTS = {
    "ovs": "netns-ovs or over_switches or test_a_first_packet_reaches_its_receiver_and_floods_no_other_port[ovs]",
    "ipip": "netns-ipip",
    "ipvlan": "netns-ipvlan",
    "netem": "delay",
    "netkit": "netns-netkit",
    # A measurement takes minutes here, and no swarm's overlay came up: Docker gave up attaching after 20 s.
    "docker": "(docker-ipvlan or docker-ipip or docker-ovs) and (test_testbed or test_hosts) and not a_measurement",
}
#: Those of the default kernel. Netkit takes Linux 6.7 and so another package.
DEFAULT = ("ovs", "ipip", "ipvlan", "netem")
#: What Open vSwitch is too slow for here: the first packet of a flow, which its daemon handles, takes 0.1 to 0.4 s. A
#: connection may take 0.1 s of a second that is measured; and most datagrams that come meanwhile are dropped.
TOO_LATE = ("test_datagrams_of_the_mtu and netns-ovs", "test_a_measurement_over_it and netns-ovs")


def words(subjects: Sequence[str], expression: str) -> list[str]:
    """Words for pytest: the tests of these subjects, or where there is none of the default ones, that match."""
    chosen = " or ".join(f"({SUBJECTS[subject]})" for subject in subjects or DEFAULT)
    asked = f"({chosen}) and not ({' or '.join(TOO_LATE)})"
    files = [f"{FOLDER}/{name}" for name in FILES]
    return [*files, "-k", f"{asked} and ({expression})" if expression else asked]
