"""The links, addresses and routes of a network namespace, from the kernel."""

import errno
import socket
from collections.abc import Collection
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink import nla
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg, ifinfveth

#: Kinds of link whose many settings are omitted, as they are the kernel's defaults.
_PLAIN = ("", "bridge", "veth", "tun")
#: A flag of links (netdevice(7)).
IFF_UP = 1
#: The main routing table (rtnetlink(7)).
_MAIN = 254


class _Netkit(nla):
    """The attributes of netkit links, which pyroute2 lacks; an attribute's index in the list is its number."""

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
    def info_peer(self: Any, *_: Any, **__: Any) -> Any:  # pyroute2 calls it with the attribute
        return ifinfveth


ifinfmsg.ifinfo.register_link_kind(module={"netkit": _Netkit})


def describe(but: Collection[str] = ()) -> dict[str, list]:
    """Links and IPv4 routes of the present namespace. but: links to leave out."""
    with IPRoute() as ipr:
        names = dict(socket.if_nameindex())
        addresses: dict[int, list[str]] = {}
        for each in ipr.get_addr(family=socket.AF_INET):
            addresses.setdefault(each["index"], []).append(f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}")
        messages = [each for index, name in names.items() if name not in but for each in _message(ipr, index)]
        # Links that are down are not ours: a tunnel's module adds one to every namespace.
        links = [_link(each, names, addresses) for each in messages if each["flags"] & IFF_UP]
        routes = [_route(each, names) for each in ipr.get_routes(family=socket.AF_INET, table=_MAIN)]
    return {"links": links, "routes": routes}


def _message(ipr: IPRoute, index: int) -> tuple:
    """The kernel's message about that link; () if it is gone by now: a daemon moves links into its containers."""
    try:
        return ipr.link("get", index=index)
    except NetlinkError as error:
        if error.code == errno.ENODEV:
            return ()
        raise


def _link(message: Any, names: dict[int, str], addresses: dict[int, list[str]]) -> dict[str, Any]:
    info = message.get_attr("IFLA_LINKINFO")
    kind = (info and info.get_attr("IFLA_INFO_KIND")) or ""
    master = message.get_attr("IFLA_MASTER")
    columns = {
        "name": message.get_attr("IFLA_IFNAME"),
        "kind": kind or ("loopback" if message.get_attr("IFLA_IFNAME") == "lo" else "other"),
        "mtu_bytes": message.get_attr("IFLA_MTU"),
        "mac": message.get_attr("IFLA_ADDRESS"),
        "addresses": addresses.get(message["index"], []),
        "master": names.get(master, "") if master else "",
        "settings": _settings(kind, info.get_attr("IFLA_INFO_DATA")) if info and kind not in _PLAIN else {},
    }
    return {name: value for name, value in columns.items() if value}


def _settings(kind: str, data: Any) -> dict[str, Any]:
    prefix = f"IFLA_{kind.upper()}_"
    attributes = data["attrs"] if data else []
    plain = {name: value for name, value in attributes if isinstance(value, (int, str))}
    return {name.removeprefix(prefix).lower(): value for name, value in plain.items()}


def _route(message: Any, names: dict[int, str]) -> str:
    """A route in the notation of ip-route(8)."""
    target = message.get_attr("RTA_DST")
    gateway, link = message.get_attr("RTA_GATEWAY"), names.get(message.get_attr("RTA_OIF") or 0, "")
    words = [f"{target}/{message['dst_len']}" if target else "default"]
    words += ["via", gateway] if gateway else []
    return " ".join([*words, *(["dev", link] if link else [])])
