"""Netkit links: how the kernel is asked for them, and what is said where the kernel has none."""

import struct

from pairlab.testbed.netns import rtnetlink, sandbox


def test_a_pair_is_asked_for_in_mode_l2_with_the_numbers_of_the_kernels_header():
    words = rtnetlink.link("port", "netkit", peer={"ifname": "eth0"}, netkit_mode=rtnetlink.NETKIT_L2)
    peer = struct.pack("=HH16xHH", 4 + 16 + 12, 1, 9, 3) + b"eth0"  # IFLA_NETKIT_PEER_INFO, with IFLA_IFNAME
    assert peer in words
    assert words.endswith(struct.pack("=HHI", 8, 5, 0))  # IFLA_NETKIT_MODE, NETKIT_L2


def test_an_older_kernel_is_told_by_its_number_as_there_is_no_module_to_load(monkeypatch):
    monkeypatch.setattr(sandbox, "_known_links", lambda kinds: dict.fromkeys(kinds, False))
    told = {lack.what: lack.remedy for lack in sandbox.missing_kinds(("netkit", "ipip"), "leave it out")}
    assert told == {
        "this kernel has no netkit links": "boot Linux 6.7 or newer, built with CONFIG_NETKIT, or leave it out",
        "this kernel has no ipip links": "sudo modprobe ipip, or leave it out",
    }
