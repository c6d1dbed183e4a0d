"""What the kernel says that it refused, from its own words."""

import pytest

from pairlab.testbed.host import kernel_counters

#: Of Linux 6.18, with two CPUs.
CONNTRACK = """\
entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error
000001f4  00000000 00000003 00000000 00000000 00000000 00000000 00000000 00000000 00000007 0000001a 00000005 00000000
000001f4  00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000100 00000000 00000000
"""
NEIGHBOURS = """\
entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast unresolved_discards table_fulls
0000000c 000094df 000097f2 00000002   0001ecc6 00003f93 00000064   00000000         00000009           00000002
0000000c 00000000 00000000 00000000   00000000 00000000 00000000   00000000         00000000           00000001
"""


@pytest.fixture
def statistics(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_counters, "STATISTICS", tmp_path)
    return tmp_path


def test_what_found_no_room_is_counted_and_what_failed_otherwise_is_not(statistics):
    (statistics / "nf_conntrack").write_text(CONNTRACK)
    (statistics / "arp_cache").write_text(NEIGHBOURS)
    assert kernel_counters.refused_connections() == 0x1A + 5 + 0x100
    assert kernel_counters.refused_neighbours() == 3


@pytest.mark.parametrize(
    "content", [None, "", "entries found\n00000001 00000002\n", "drop early_drop\n1\n", "drop early_drop\nx y\n"]
)
def test_a_kernel_that_tracks_nothing_or_tells_otherwise_has_refused_nothing(statistics, content):
    if content is not None:
        (statistics / "nf_conntrack").write_text(content)
    assert kernel_counters.refused_connections() == 0
