"""Neighbours known before there is traffic: partners by their MAC address, and each MAC address by its switch's port.

Otherwise all connections begin with a broadcast, at once. On a bridge with a thousand ports each of these is a
thousand frames, more than the kernel's backlog takes; what is lost is asked again a second later, and after three
seconds a connection fails with "No route to host".
"""

import contextlib
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Mapping, Sequence

from pairlab.errors import TestbedError
from pairlab.testbed.endpoints import EndpointPlan, mac_of, pairs_of
from pairlab.testbed.netns.namespaces import inside

LINK = b"eth0"
#: ioctl(2) requests: netdevice(7), arp(7).
SIOCGIFHWADDR, SIOCDARP, SIOCSARP = 0x8927, 0x8953, 0x8955
#: Flags of an entry that is complete and permanent.
ATF_COM, ATF_PERM = 0x02, 0x04
DISCARD_PORT = 9


def introduce(namespaces: Mapping[str, int], endpoints: Sequence[EndpointPlan]) -> dict[str, str]:
    """Makes the ends of each pair, or all that meet all, permanent neighbours, and has every switch learn their ports.

    Where a partner is in another subnet, its gateway is the neighbour: see `know`. namespaces: descriptors by endpoint
    name, with eth0 up and addressed. Returns the endpoints' hardware addresses, by name. Raises TestbedError where the
    kernel refuses.
    """
    try:
        macs = {}
        for endpoint in endpoints:
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
        for endpoint in endpoints:
            with inside(namespaces[endpoint.name]), _socket() as sock:
                for partner in partners[endpoint.name]:
                    if ipaddress.ip_address(addresses[partner]) in _network(endpoint):
                        _set_neighbour(sock, addresses[partner], macs[partner])
                if endpoint.gateway:
                    _set_neighbour(sock, endpoint.gateway, _packed(mac_of(endpoint.gateway)))
        return {name: mac.hex(":") for name, mac in macs.items()}
    except OSError as error:
        raise TestbedError(f"neighbours could not be set: {error}") from error


def forget(address: str, sock: socket.socket) -> None:
    """Has the namespace of that socket ask anew for that neighbour of eth0, where it knows it or asks for it."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(sock, SIOCDARP, _arp_request(address, bytes(6)))


def know(link: str, macs: Mapping[str, str]) -> None:
    """Makes these permanent neighbours of the present namespace by that link: hardware addresses by IPv4 address.

    Raises TestbedError where the kernel refuses.
    """
    try:
        with _socket() as sock:
            for address, mac in macs.items():
                _set_neighbour(sock, address, _packed(mac), link.encode())
    except OSError as error:
        raise TestbedError(f"neighbours could not be set: {error}") from error


def _socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _send_to_itself(sock: socket.socket, endpoint: EndpointPlan, mac: bytes) -> None:
    """Sends a frame from this MAC address to itself: switches learn the port of its source, and forward it nowhere.

    Through an address that nobody has, the network's last. (A packet socket would be plainer; closing one takes the
    kernel milliseconds, packet_release's synchronize_net.)
    """
    nobody = str(_network(endpoint).broadcast_address - 1)
    _set_neighbour(sock, nobody, mac)
    sock.sendto(b"", (nobody, DISCARD_PORT))
    fcntl.ioctl(sock, SIOCDARP, _arp_request(nobody, mac))


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
