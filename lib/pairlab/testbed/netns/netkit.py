"""Netkit links (Linux 6.7), which pyroute2 does not know: their attributes, as linux/if_link.h has them."""

from typing import Any

from pyroute2.netlink import nla
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg, ifinfveth

#: NETKIT_L2: its ends have hardware addresses and carry Ethernet frames. Without a mode, a link has neither.
MODE_L2 = 0


class Netkit(nla):
    """Of IFLA_INFO_DATA. An attribute's place in the list is its number."""

    prefix = "IFLA_"
    nla_map = (
        ("IFLA_NETKIT_UNSPEC", "none"),
        ("IFLA_NETKIT_PEER_INFO", "info_peer"),
        ("IFLA_NETKIT_PRIMARY", "uint8"),
        ("IFLA_NETKIT_POLICY", "uint32"),
        ("IFLA_NETKIT_PEER_POLICY", "uint32"),
        ("IFLA_NETKIT_MODE", "uint32"),
    )

    @staticmethod
    def info_peer(self, *_, **__):  # pyroute2 calls it with the attribute
        return ifinfveth


ifinfmsg.ifinfo.register_link_kind(module={"netkit": Netkit})


def attributes(peer: dict[str, Any]) -> dict[str, Any]:
    """What makes a link of that kind one in mode l2, with that peer: its attributes as of a link."""
    described = {"attrs": [[ifinfmsg.name2nla(name), value] for name, value in peer.items()]}
    return {"netkit_peer_info": described, "netkit_mode": MODE_L2}
