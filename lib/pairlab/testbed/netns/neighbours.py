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

LINK = b"eth0"
#: ioctl(2) requests: netdevice(7), arp(7).
SIOCGIFHWADDR, SIOCDARP, SIOCSARP = 0x8927, 0x8953, 0x8955
#: Flags of an entry that is complete and permanent.
ATF_COM, ATF_PERM = 0x02, 0x04
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
        macs = {each.name: _packed(each.mac) for each in endpoints if with_remote}
        for endpoint in local:
            with inside(namespaces[endpoint.name]), _socket() as sock:
                macs[endpoint.name] = fcntl.ioctl(sock, SIOCGIFHWADDR, struct.pack("16s16x", LINK))[18:24]
                _send_to_itself(sock, endpoint, macs[endpoint.name])
        addresses = {each.name: each.address for each in endpoints}
        partners: dict[str, list[str]] = {each.name: [] for each in endpoints}
        for client, server in pairs_of(endpoints):
            partners[client.name].append(server.name)
            partners[server.name].append(client.name)
        meeting = [each.name for each in endpoints if each.meets_all]
        partners |= {name: [other for other in meeting if other != name] for name in meeting}
        for endpoint in local:
            with inside(namespaces[endpoint.name]), _socket() as sock:
                for partner in partners[endpoint.name]:
                    if partner in macs and ipaddress.ip_address(addresses[partner]) in _network(endpoint):
                        _set_neighbour(sock, addresses[partner], macs[partner])
                if endpoint.gateway:
                    _set_neighbour(sock, endpoint.gateway, _packed(mac_of(endpoint.gateway)))
        return {name: mac.hex(":") for name, mac in macs.items()}


def delete(address: str, sock: socket.socket) -> None:
    """Deletes that neighbour of eth0 in the socket's namespace, complete or not, so that ARP begins anew."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(sock, SIOCDARP, _arp_request(address, bytes(6)))


def set_static(link: str, macs: Mapping[str, str]) -> None:
    """Sets permanent neighbours of the present namespace on that link. macs: hardware addresses by IPv4 address.

    Raises TestbedError where the kernel refuses.
    """
    with rtnetlink.refused(_WHAT), _socket() as sock:
        for address, mac in macs.items():
            _set_neighbour(sock, address, _packed(mac), link.encode())


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _send_to_itself(sock: socket.socket, endpoint: EndpointPlan, mac: bytes) -> None:
    """Sends a frame from this MAC address to itself: switches learn the source's port, and do not forward the frame.

    The frame goes to an unused IP address, the network's last. (A packet socket would be plainer, but closing one
    takes the kernel milliseconds, packet_release's synchronize_net.)
    """
    unused = str(_network(endpoint).broadcast_address - 1)
    _set_neighbour(sock, unused, mac)
    sock.sendto(b"", (unused, DISCARD_PORT))
    fcntl.ioctl(sock, SIOCDARP, _arp_request(unused, mac))


def _network(endpoint: EndpointPlan) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Interface(f"{endpoint.address}/{endpoint.prefix}").network


def _packed(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _set_neighbour(sock: socket.socket, address: str, mac: bytes, link: bytes = LINK) -> None:
    fcntl.ioctl(sock, SIOCSARP, _arp_request(address, mac, link))


def _arp_request(address: str, mac: bytes, link: bytes = LINK) -> bytes:
    """struct arpreq: protocol address, hardware address, flags, netmask, device."""
    protocol = struct.pack("=H2x4s8x", socket.AF_INET, socket.inet_aton(address))
    hardware = struct.pack("=H6s8x", socket.AF_UNSPEC, mac)
    return struct.pack("16s16si16x16s", protocol, hardware, ATF_COM | ATF_PERM, link)
