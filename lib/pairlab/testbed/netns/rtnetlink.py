"""Requests to the kernel by rtnetlink(7), in the network namespace that the calling thread is in.

Written out here for what every testbed is made of, as it has hundreds of links: a request takes tens of microseconds
besides the kernel's own work, and pyroute2's half a millisecond, after 80 ms to load it. pyroute2 is for the rest.
"""

import os
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

#: Types of message (linux/rtnetlink.h).
_NEWLINK, _DELLINK, _GETLINK, _NEWADDR, _NEWROUTE, _NEWNEIGH, _NEWQDISC = 16, 17, 18, 20, 24, 28, 36
#: Flags of a request (netlink(7)): it is one, to be acknowledged; what it makes is new; or may have others beside it.
_ASKED, _NEW, _FURTHER = 0x01 | 0x04, 0x400 | 0x200, 0x400 | 0x800
#: Of a link's flags (netdevice(7)).
_IFF_UP = 1
#: The loopback's index, in every network namespace.
LOOPBACK = 1
#: Families of addresses: links have none, and entries of forwarding tables have the bridge's.
_UNSPECIFIED, _INET, _BRIDGE = socket.AF_UNSPEC, socket.AF_INET, 7
#: Of an entry in a forwarding table: it stays as it is; it is the link's own, or its bridge's.
_PERMANENT, _NOARP, _SELF, _MASTER = 0x80, 0x40, 0x02, 0x04
#: A route to others, by an administrator, to anywhere (rtnetlink(7)).
_MAIN, _STATIC, _UNICAST, _UNIVERSE = 254, 4, 1, 0
#: Where a queueing discipline is at a link's root; and rates that need no table of times (linux/pkt_sched.h).
ROOT, _ETHERNET = 0xFFFFFFFF, 1
#: NETKIT_L2: its ends have hardware addresses and carry Ethernet frames. Without a mode, a link has neither.
NETKIT_L2 = 0

#: What an attribute's value is written with.
_Written = Callable[[Any], bytes]


def _packed(layout: str) -> _Written:
    return struct.Struct(layout).pack


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _mac(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


def _macvlan_mode(value: str) -> bytes:
    return struct.pack("=I", {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}[value])


_U8, _U16, _U32, _PORT = _packed("=B"), _packed("=H"), _packed("=I"), _packed(">H")

#: Attributes of links by pyroute2's names: their numbers in linux/if_link.h, and how they are written.
_OF_LINKS: Mapping[str, tuple[int, _Written]] = {
    "address": (1, _mac),
    "ifname": (3, _text),
    "mtu": (4, _U32),
    "link": (5, _U32),
    "master": (10, _U32),
    "net_ns_fd": (28, _U32),
}
#: Those of kinds of link.
_OF_KINDS: Mapping[str, Mapping[str, tuple[int, _Written]]] = {
    "bridge": {},
    "ipip": {"ipip_link": (1, _U32), "ipip_local": (2, socket.inet_aton), "ipip_remote": (3, socket.inet_aton)},
    "ipvlan": {"ipvlan_mode": (1, _U16)},
    "macvlan": {"macvlan_mode": (1, _macvlan_mode)},
    "netkit": {
        "peer": (1, lambda peer: _link_message(peer)),
        "netkit_policy": (3, _U32),
        "netkit_peer_policy": (4, _U32),
        "netkit_mode": (5, _U32),
    },
    "veth": {"peer": (1, lambda peer: _link_message(peer))},
    "vxlan": {
        "vxlan_id": (1, _U32),
        "vxlan_link": (3, _U32),
        "vxlan_local": (4, socket.inet_aton),
        "vxlan_learning": (7, _U8),
        "vxlan_port": (15, _PORT),
    },
}
_INFO_KIND, _INFO_DATA, _OPERSTATE, _LINKINFO = 1, 2, 16, 18
#: IF_OPER_UP of RFC 2863: the kernel has seen that the link has a carrier, and so has the bridge that it is in.
_OPER_UP = 6


def ask(*messages: bytes) -> None:
    """Sends these at once; the kernel does one after the other. Raises OSError for the first that it refuses."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(b"".join(messages))
        codes = [struct.unpack_from("=i", kernel.recv(65536), 16)[0] for _ in messages]
    for code in filter(None, codes):
        raise OSError(-code, os.strerror(-code))


def is_operational(index: int) -> bool:
    """Whether the link of that index is up, has a carrier, and the kernel has told all that are concerned.

    It tells them a moment after the carrier came (net/core/link_watch.c). Raises OSError where there is no such link.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(_message(_GETLINK, 0, _link_message({}, index)))
        answer = kernel.recv(65536)
    length, kind = struct.unpack_from("=IH", answer)
    if kind != _NEWLINK:
        (code,) = struct.unpack_from("=i", answer, 16)
        raise OSError(-code, os.strerror(-code))
    place = 32  # after the two headers
    while place < length:
        size, number = struct.unpack_from("=HH", answer, place)
        if number == _OPERSTATE:
            return answer[place + 4] == _OPER_UP
        place += size + -size % 4
    return False


def knows(kind: str, attributes: Mapping[str, Any]) -> bool:
    """Whether `link` can write such a link's attributes."""
    of_peer = attributes.get("peer", {})
    return attributes.keys() <= {*_OF_LINKS, *_OF_KINDS.get(kind, ())} and of_peer.keys() <= _OF_LINKS.keys()


def link(name: str, kind: str, *, up: bool = False, **attributes: Any) -> bytes:
    """Makes a link. peer: the attributes of its other end, where it is a pair."""
    own = {key: value for key, value in attributes.items() if key in _OF_LINKS}
    of_kind = {key: value for key, value in attributes.items() if key not in own}
    data = _written(of_kind, _OF_KINDS.get(kind, {}))
    info = _attribute(_INFO_KIND, _text(kind)) + (_attribute(_INFO_DATA, data) if data else b"")
    return _message(_NEWLINK, _NEW, _link_message({"ifname": name, **own}, up=up) + _attribute(_LINKINFO, info))


def up(index: int) -> bytes:
    """Sets up the link of that index."""
    return _message(_NEWLINK, 0, _link_message({}, index, up=True))


def hardware_address(index: int, mac: str) -> bytes:
    """Gives the link of that index another hardware address."""
    return _message(_NEWLINK, 0, _link_message({"address": mac}, index))


def removal(index: int) -> bytes:
    """Removes the link of that index."""
    return _message(_DELLINK, 0, _link_message({}, index))


def address(index: int, ipv4: str, prefix: int) -> bytes:
    """Gives the link of that index an IPv4 address."""
    head = struct.pack("=4BI", _INET, prefix, 0, _UNIVERSE, index)
    packed = socket.inet_aton(ipv4)
    return _message(_NEWADDR, _NEW, head + _attribute(1, packed) + _attribute(2, packed))


def route(destination: str, *, index: int = 0, gateway: str = "") -> bytes:
    """Makes a route to a network (10.129.0.0/16) by the link of that index, by a gateway, or both."""
    network, length = destination.split("/")
    head = struct.pack("=8BI", _INET, int(length), 0, 0, _MAIN, _STATIC, _UNIVERSE, _UNICAST, 0)
    attributes = [(1, socket.inet_aton(network))] if int(length) else []
    attributes += [(4, _U32(index))] if index else []
    attributes += [(5, socket.inet_aton(gateway))] if gateway else []
    return _message(_NEWROUTE, _NEW, head + b"".join(_attribute(*each) for each in attributes))


def forwarding(index: int, mac: str, host: str) -> bytes:
    """Has the VXLAN link of that index send what is for a hardware address to the host at `host`, beside others."""
    to = _attribute(1, socket.inet_aton(host)) + _attribute(2, _mac(mac))
    return _message(_NEWNEIGH, _FURTHER, _entry(index, _PERMANENT, _SELF) + to)


def bridge_port(index: int, mac: str) -> bytes:
    """Has the bridge of the port of that index find a hardware address there."""
    return _message(_NEWNEIGH, _NEW, _entry(index, _NOARP, _MASTER) + _attribute(2, _mac(mac)))


def token_bucket(
    index: int,
    *,
    rate: int,
    burst: int,
    limit: int,
    peak: int = 0,
    at_once: int = 0,
    parent: int = ROOT,
    handle: int = 0,
) -> bytes:
    """A token bucket filter on a link (tc-tbf(8)): rates in bytes a second, sizes in bytes. at_once: of peak's bucket.

    pyroute2 leaves the peak out.
    """
    rates = b"".join(struct.pack("=BBHhHI", 0, _ETHERNET, 0, 0, 0, each) for each in (rate, peak))
    options = _attribute(1, rates + struct.pack("=III", limit, 0, 0)) + _attribute(6, _U32(burst))
    options += _attribute(7, _U32(at_once)) if peak else b""
    head = struct.pack("=BxxxiIII", _UNSPECIFIED, index, handle, parent, 0)
    return _message(_NEWQDISC, _NEW, head + _attribute(1, _text("tbf")) + _attribute(2, options))


def _entry(index: int, state: int, flags: int) -> bytes:
    """struct ndmsg."""
    return struct.pack("=B3xiHBB", _BRIDGE, index, state, flags, 0)


def _link_message(attributes: Mapping[str, Any], index: int = 0, *, up: bool = False) -> bytes:
    """struct ifinfomsg, and attributes of the link."""
    flags = _IFF_UP if up else 0
    head = struct.pack("=BxHiII", _UNSPECIFIED, 0, index, flags, flags)
    return head + _written(attributes, _OF_LINKS)


def _written(attributes: Mapping[str, Any], known: Mapping[str, tuple[int, _Written]]) -> bytes:
    return b"".join(_attribute(known[key][0], known[key][1](value)) for key, value in attributes.items())


def _attribute(number: int, value: bytes) -> bytes:
    """struct rtattr, padded."""
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def _message(kind: int, flags: int, body: bytes) -> bytes:
    """struct nlmsghdr, and what it is the head of."""
    return struct.pack("=IHHII", 16 + len(body), kind, _ASKED | flags, 0, 0) + body
