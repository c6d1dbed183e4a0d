"""Requests to rtnetlink, written out: they are those of pyroute2, byte for byte."""

import pytest
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from pairlab.testbed.netns import rtnetlink

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
