"""Neighbours known before there is traffic: partners by their MAC address, and each MAC address by its switch's port.

Otherwise all connections begin with a broadcast, at once. On a bridge with a thousand ports each broadcast is a
thousand frames, more than the kernel's backlog takes; a lost request is repeated a second later, and after three
seconds a connection fails with "No route to host".
"""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Mapping, Sequence

from pairlab.testbed.endpoints import EndpointPlan, mac_of, pairs_of
from pairlab.testbed.links import rtnetlink
from pairlab.testbed.links.namespaces import inside

LINK = "eth0"
#: ioctl(2) requests: netdevice(7), arp(7).
SIOCGIFHWADDR, SIOCDARP = 0x8927, 0x8953
DISCARD_PORT = 9
_WHAT = "neighbours could not be set"


def set_partners(
    namespaces: Mapping[str, int], endpoints: Sequence[EndpointPlan], *, with_remote: bool = False
) -> dict[str, str]:
    """Makes the ends of each pair, or all endpoints that meet all, permanent neighbours; switches learn their ports.

    For a partner in another subnet, the gateway is the neighbour (set_static). namespaces: descriptors by endpoint
    name, with eth0 up and addressed; endpoints without one are in another kernel. with_remote: whether these get
    entries with their planned hardware addresses, or are left to ARP. Returns the endpoints' hardware addresses, by
    name. Raises TestbedError where the kernel refuses.
    """
    with rtnetlink.refused(_WHAT):
        local = [each for each in endpoints if each.name in namespaces]
        macs = {each.name: each.mac for each in endpoints if with_remote}
        for endpoint in local:
            with inside(namespaces[endpoint.name]), _socket() as sock:
                asked = fcntl.ioctl(sock, SIOCGIFHWADDR, struct.pack("16s16x", LINK.encode()))
                macs[endpoint.name] = asked[18:24].hex(":")
                _send_to_itself(sock, endpoint, macs[endpoint.name])
        by_name = {each.name: each for each in endpoints}
        partners: dict[str, list[str]] = {each.name: [] for each in endpoints}
        for client, server in pairs_of(endpoints):
            partners[client.name].append(server.name)
            partners[server.name].append(client.name)
        meeting = [each.name for each in endpoints if each.meets_all]
        partners |= {name: [other for other in meeting if other != name] for name in meeting}
        for endpoint in local:
            known = {endpoint.gateway: mac_of(endpoint.gateway)} if endpoint.gateway else {}
            for partner in (by_name[name] for name in partners[endpoint.name] if name in macs):
                if ipaddress.ip_address(partner.address) in _network(endpoint):
                    known |= dict.fromkeys((partner.address, partner.traffic_address), macs[partner.name])
            with inside(namespaces[endpoint.name]):
                _set(LINK, known)
        return macs


def delete(address: str, sock: socket.socket) -> None:
    """Deletes that neighbour of eth0 in the socket's namespace, complete or not, so that ARP begins anew."""
    protocol = struct.pack("=H2x4s8x", socket.AF_INET, socket.inet_aton(address))
    with contextlib.suppress(OSError):
        fcntl.ioctl(sock, SIOCDARP, struct.pack("16s36x16s", protocol, LINK.encode()))  # struct arpreq


def set_static(link: str, macs: Mapping[str, str]) -> None:
    """Sets permanent neighbours of the present namespace on that link. macs: hardware addresses by IP address.

    Raises TestbedError where the kernel refuses.
    """
    with rtnetlink.refused(_WHAT):
        _set(link, macs)


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _send_to_itself(sock: socket.socket, endpoint: EndpointPlan, mac: str) -> None:
    """Sends a frame from this MAC address to itself: switches learn the source's port, and do not forward the frame.

    The frame goes to an unused IP address, the network's last. (A packet socket would be plainer, but closing one
    takes the kernel milliseconds, packet_release's synchronize_net.)
    """
    unused = str(_network(endpoint).broadcast_address - 1)
    _set(LINK, {unused: mac})
    sock.sendto(b"", (unused, DISCARD_PORT))
    delete(unused, sock)


def _network(endpoint: EndpointPlan) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Interface(f"{endpoint.address}/{endpoint.prefix}").network


def _set(link: str, macs: Mapping[str, str]) -> None:
    index = socket.if_nametoindex(link)
    rtnetlink.ask(*(rtnetlink.neighbour(index, address, mac) for address, mac in macs.items()))
