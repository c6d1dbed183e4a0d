"""Links: requests to rtnetlink, which are those of pyroute2, byte for byte; kinds that the kernel lacks; what there is.

And a daemon beside them: what it is started with, and what is told of its end; this one is a shell of the test.
"""

import socket
import struct
from pathlib import Path

import pytest
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg

from pairlab.errors import TestbedError
from pairlab.testbed.host.description import describe
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.lan import Daemon, Lan
from pairlab.testbed.netns import sandbox

HEADER_BYTES = 16
RTM_GETLINK = 18  # linux/rtnetlink.h


def by_pyroute2(kind, attributes):
    """The body of its message for a link x of that kind."""
    described = [[ifinfmsg.name2nla(name), value] for name, value in attributes.items()]
    data = [["IFLA_INFO_DATA", {"attrs": described}]] if attributes else []
    message = ifinfmsg()
    info = ["IFLA_LINKINFO", {"attrs": [["IFLA_INFO_KIND", kind], *data]}]
    message["attrs"] = [["IFLA_IFNAME", "x"], ["IFLA_MTU", 1450], ["IFLA_MASTER", 4], info]
    message.encode()
    return bytes(message.data)[HEADER_BYTES:]


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("bridge", {}),
        ("ipip", {"ipip_link": 3, "ipip_local": "10.0.0.1", "ipip_remote": "10.0.0.2"}),
        ("ipvlan", {"ipvlan_mode": 1}),
        ("macvlan", {"macvlan_mode": "bridge"}),
        ("vxlan", {"vxlan_id": 7, "vxlan_link": 3, "vxlan_local": "10.0.0.1", "vxlan_learning": 0, "vxlan_port": 4789}),
    ],
)
def test_a_link_is_asked_for_as_pyroute2_asks_for_it(kind, attributes):
    ours = rtnetlink.link("x", kind, mtu=1450, master=4, **attributes)
    assert ours[HEADER_BYTES:] == by_pyroute2(kind, attributes)
    assert int.from_bytes(ours[:4], "little") == len(ours)


@pytest.mark.parametrize(("ip", "prefix", "flags"), [("10.77.0.1", 16, 0), ("fd00::a4d:1", 112, 0x02)])
def test_an_address_is_given_as_pyroute2_gives_it_and_one_of_ipv6_without_detection_of_duplicates(ip, prefix, flags):
    message = ifaddrmsg()
    message.update({"family": socket.AF_INET6 if ":" in ip else socket.AF_INET, "prefixlen": prefix, "index": 7})
    message.update({"flags": flags, "attrs": [["IFA_ADDRESS", ip], ["IFA_LOCAL", ip]]})
    message.encode()
    assert rtnetlink.address(7, ip, prefix)[HEADER_BYTES:] == bytes(message.data)[HEADER_BYTES:]


@pytest.mark.parametrize("ip", ["10.77.0.1", "fd00::a4d:1"])
def test_a_neighbour_is_made_permanent_as_pyroute2_makes_it(ip):
    message = ndmsg()
    message.update({"family": socket.AF_INET6 if ":" in ip else socket.AF_INET, "ifindex": 7, "state": 0x80})
    message["attrs"] = [["NDA_DST", ip], ["NDA_LLADDR", "02:42:0a:4d:00:01"]]
    message.encode()
    assert rtnetlink.neighbour(7, ip, "02:42:0a:4d:00:01")[HEADER_BYTES:] == bytes(message.data)[HEADER_BYTES:]


def test_what_it_has_no_number_for_is_left_to_pyroute2():
    assert rtnetlink.knows("vxlan", {"mtu": 1450, "vxlan_id": 7})
    assert not rtnetlink.knows("vxlan", {"vxlan_ttl": 7})
    assert not rtnetlink.knows("bridge", {"vxlan_id": 7})
    assert not rtnetlink.knows("veth", {"peer": {"ifname": "eth0", "txqlen": 7}})
    assert not rtnetlink.knows("geneve", {"geneve_id": 7})


def test_what_the_kernel_refuses_is_told_by_its_number():
    """Asked for links that there are not, which every user may ask for."""
    asked = [rtnetlink.up(2**30 + more) for more in (0, 1)]
    with pytest.raises(OSError, match="No such device") as refused:
        rtnetlink.ask(*(each[:4] + RTM_GETLINK.to_bytes(2, "little") + each[6:] for each in asked))
    assert refused.value.errno == 19


def test_more_requests_than_a_socket_holds_answers_are_all_answered_and_none_are_no_request():
    """As for one client's neighbours where it has hundreds of servers."""
    asked = [rtnetlink.up(2**30 + more) for more in range(1000)]
    with pytest.raises(OSError, match="No such device"):
        rtnetlink.ask(*(each[:4] + RTM_GETLINK.to_bytes(2, "little") + each[6:] for each in asked))
    rtnetlink.ask()


def test_a_master_for_a_pairs_other_end_is_refused_as_the_kernel_ignores_it(monkeypatch):
    asked = []
    monkeypatch.setattr(rtnetlink, "ask", lambda *messages: asked.extend(messages))
    lan = Lan({}, Path())
    asked.clear()
    with pytest.raises(TestbedError, match="set_up"):
        lan.add_link("a", "veth", peer={"ifname": "b", "master": 3})
    assert not asked


def test_a_netkit_pair_is_asked_for_in_mode_l2_with_the_numbers_of_the_kernels_header():
    words = rtnetlink.link("port", "netkit", peer={"ifname": "eth0"}, netkit_mode=rtnetlink.NETKIT_L2)
    peer = struct.pack("=HH16xHH", 4 + 16 + 12, 1, 9, 3) + b"eth0"  # IFLA_NETKIT_PEER_INFO, with IFLA_IFNAME
    assert peer in words
    assert words.endswith(struct.pack("=HHI", 8, 5, 0))  # IFLA_NETKIT_MODE, NETKIT_L2


def test_an_older_kernel_is_told_by_its_number_as_there_is_no_module_to_load(monkeypatch):
    monkeypatch.setattr(sandbox, "_probed", lambda name, kinds: dict.fromkeys(kinds, False))
    told = {lack.what: lack.remedy for lack in sandbox.missing_kinds(("netkit", "ipip"), "leave it out")}
    assert told == {
        "this kernel has no netkit links": "boot Linux 6.7 or newer, built with CONFIG_NETKIT, or leave it out",
        "this kernel has no ipip links": "sudo modprobe ipip, or leave it out",
    }


def test_a_link_that_has_gone_since_it_was_listed_is_left_out(monkeypatch):
    """Docker moves links into containers at any moment."""
    there, listed = describe(), socket.if_nameindex()
    monkeypatch.setattr(socket, "if_nameindex", lambda: [*listed, (2**31 - 1, "moved")])
    assert describe() == there


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # it ends with its sandbox, and here with the test's process
def test_a_daemon_runs_in_its_directory_with_the_variables_it_is_given_and_its_end_is_told(sockets_folder):
    said = ["/bin/sh", "-c", 'pwd; echo "$GIVEN ${NOT_GIVEN-unset}"; exit 1']
    daemon = Daemon("sh of host-0", said, sockets_folder, {"GIVEN": "1"})
    with pytest.raises(TestbedError, match=rf"^sh of host-0 has ended\. Its last words: {sockets_folder} \| 1 unset$"):
        daemon.await_output("what it never says", 20)
