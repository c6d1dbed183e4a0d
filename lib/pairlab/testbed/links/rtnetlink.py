"""Requests to the kernel by rtnetlink(7), in the calling thread's network namespace.

Covers the requests that every testbed makes by the hundreds: one takes tens of microseconds besides the kernel's own
work; pyroute2 takes half a millisecond, after 80 ms to load. pyroute2 is for all other requests.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pairlab.errors import TestbedError

#: Types of message (linux/rtnetlink.h).
_NEWLINK, _DELLINK, _GETLINK, _NEWADDR, _NEWROUTE, _NEWNEIGH, _NEWQDISC = 16, 17, 18, 20, 24, 28, 36
#: Flags (netlink(7)): a request to be acknowledged; one that makes a new object; one that appends to others; one that
#: makes an object or replaces it.
_ASKED, _NEW, _FURTHER, _REPLACED = 0x01 | 0x04, 0x400 | 0x200, 0x400 | 0x800, 0x400 | 0x100
#: Requests that are sent before their answers are read: a socket's buffer holds some 200 answers, and drops the rest.
_AT_ONCE = 64
#: A link's flag (netdevice(7)).
_IFF_UP = 1
#: The loopback's index, in every network namespace.
LOOPBACK = 1
#: Address families: none for links, the bridge's for entries of forwarding tables.
_UNSPECIFIED, _INET, _BRIDGE = socket.AF_UNSPEC, socket.AF_INET, 7
#: States and flags of a forwarding entry: permanent or static; in the link's own table, or its bridge's.
_PERMANENT, _NOARP, _SELF, _MASTER = 0x80, 0x40, 0x02, 0x04
#: A flag of addresses: no duplicate address detection (linux/if_addr.h).
_NODAD = 0x02
#: A unicast route in the main table, set by an administrator, of universal scope (rtnetlink(7)).
_MAIN, _STATIC, _UNICAST, _UNIVERSE = 254, 4, 1, 0
#: The parent of a link's root queueing discipline; and the link layer whose rates need no table (linux/pkt_sched.h).
ROOT, _ETHERNET = 0xFFFFFFFF, 1
#: NETKIT_L2: both ends have hardware addresses and carry Ethernet frames. In the default mode they do neither.
NETKIT_L2 = 0

#: Encodes an attribute's value.
_Encoder = Callable[[Any], bytes]


def _packed(layout: str) -> _Encoder:
    return struct.Struct(layout).pack


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _mac(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


def _macvlan_mode(value: str) -> bytes:
    return struct.pack("=I", {"private": 1, "vepa": 2, "bridge": 4, "passthru": 8}[value])


_U8, _U16, _U32, _PORT = _packed("=B"), _packed("=H"), _packed("=I"), _packed(">H")

#: Attributes of links by pyroute2's names: their numbers in linux/if_link.h, and their encoders.
_OF_LINKS: Mapping[str, tuple[int, _Encoder]] = {
    "address": (1, _mac),
    "ifname": (3, _text),
    "mtu": (4, _U32),
    "link": (5, _U32),
    "master": (10, _U32),
    "net_ns_fd": (28, _U32),
}
#: Attributes of each kind of link.
_OF_KINDS: Mapping[str, Mapping[str, tuple[int, _Encoder]]] = {
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
#: IF_OPER_UP of RFC 2863: the kernel, and the link's bridge, have noticed the carrier.
_OPER_UP = 6


@contextlib.contextmanager
def refused(what: str) -> Iterator[None]:
    """Raises TestbedError, saying what could not be done, where the kernel refuses the block's requests."""
    try:
        yield
    except OSError as error:
        raise TestbedError(f"{what}: {error}") from error


def ask(*messages: bytes) -> None:
    """Sends these requests together; the kernel carries them out in order. Raises OSError for the first refused one."""
    codes = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        for first in range(0, len(messages), _AT_ONCE):
            part = messages[first : first + _AT_ONCE]
            kernel.send(b"".join(part))
            codes += [struct.unpack_from("=i", kernel.recv(65536), 16)[0] for _ in part]
    for code in filter(None, codes):
        raise OSError(-code, os.strerror(-code))


def is_operational(index: int) -> bool:
    """Whether the link of that index is up and has a carrier, of which the kernel has notified its bridge.

    The notification follows shortly after the carrier (net/core/link_watch.c). Raises OSError without such a link.
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
    """Whether `link` can encode these attributes for that kind."""
    of_peer = attributes.get("peer", {})
    return attributes.keys() <= {*_OF_LINKS, *_OF_KINDS.get(kind, ())} and of_peer.keys() <= _OF_LINKS.keys()


def link(name: str, kind: str, *, up: bool = False, **attributes: Any) -> bytes:
    """Makes a link. peer: the attributes of the other end of a pair."""
    own = {key: value for key, value in attributes.items() if key in _OF_LINKS}
    of_kind = {key: value for key, value in attributes.items() if key not in own}
    data = _encoded(of_kind, _OF_KINDS.get(kind, {}))
    info = _attribute(_INFO_KIND, _text(kind)) + (_attribute(_INFO_DATA, data) if data else b"")
    return _message(_NEWLINK, _NEW, _link_message({"ifname": name, **own}, up=up) + _attribute(_LINKINFO, info))


def up(index: int) -> bytes:
    """Sets up the link of that index."""
    return _message(_NEWLINK, 0, _link_message({}, index, up=True))


def change(index: int, *, up: bool = False, **attributes: Any) -> bytes:
    """Changes attributes of the link of that index, such as address or master."""
    return _message(_NEWLINK, 0, _link_message(attributes, index, up=up))


def removal(index: int) -> bytes:
    """Removes the link of that index."""
    return _message(_DELLINK, 0, _link_message({}, index))


def address(index: int, ip: str, prefix: int) -> bytes:
    """Gives the link of that index an address; one of IPv6 without asking whether another has it (RFC 4862, 5.4)."""
    family, packed = _packed_ip(ip)
    head = struct.pack("=4BI", family, prefix, _NODAD if family == socket.AF_INET6 else 0, _UNIVERSE, index)
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
    """Makes the VXLAN link of that index send frames for a hardware address to the host at `host`, beside others."""
    to = _attribute(1, socket.inet_aton(host)) + _attribute(2, _mac(mac))
    return _message(_NEWNEIGH, _FURTHER, _entry(index, _PERMANENT, _SELF) + to)


def bridge_port(index: int, mac: str) -> bytes:
    """Makes a bridge forward frames for a hardware address to its port of that index."""
    return _message(_NEWNEIGH, _NEW, _entry(index, _NOARP, _MASTER) + _attribute(2, _mac(mac)))


def neighbour(index: int, ip: str, mac: str) -> bytes:
    """Makes this the hardware address of an IP address on the link of that index, permanently."""
    family, packed = _packed_ip(ip)
    entry = _entry(index, _PERMANENT, 0, family)
    return _message(_NEWNEIGH, _REPLACED, entry + _attribute(1, packed) + _attribute(2, _mac(mac)))


def _packed_ip(ip: str) -> tuple[int, bytes]:
    """The family of an address, and the address as packets have it."""
    family = socket.AF_INET6 if ":" in ip else _INET
    return family, socket.inet_pton(family, ip)


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


def _entry(index: int, state: int, flags: int, family: int = _BRIDGE) -> bytes:
    """struct ndmsg."""
    return struct.pack("=B3xiHBB", family, index, state, flags, 0)


def _link_message(attributes: Mapping[str, Any], index: int = 0, *, up: bool = False) -> bytes:
    """struct ifinfomsg, and attributes of the link."""
    flags = _IFF_UP if up else 0
    head = struct.pack("=BxHiII", _UNSPECIFIED, 0, index, flags, flags)
    return head + _encoded(attributes, _OF_LINKS)


def _encoded(attributes: Mapping[str, Any], encoders: Mapping[str, tuple[int, _Encoder]]) -> bytes:
    return b"".join(_attribute(encoders[key][0], encoders[key][1](value)) for key, value in attributes.items())


def _attribute(number: int, value: bytes) -> bytes:
    """struct rtattr, padded."""
    return struct.pack("=HH", 4 + len(value), number) + value + bytes(-len(value) % 4)


def _message(kind: int, flags: int, body: bytes) -> bytes:
    """struct nlmsghdr, and the message's body."""
    return struct.pack("=IHHII", 16 + len(body), kind, _ASKED | flags, 0, 0) + body
