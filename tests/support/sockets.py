"""What a network namespace has, as the tables of /proc/PID/net tell it (proc(5))."""

import ipaddress
import struct
from pathlib import Path

from pairlab.testbed import registry

TABLES = ("tcp", "tcp6", "udp", "udp6")
LISTEN, UNCONNECTED = "0A", "07"  # of TCP and of UDP; include/net/tcp_states.h

#: /proc/net/arp's flag of an entry whose hardware address is known.
COMPLETE = 0x2


def listening(text):
    """(address, port) of the sockets in the text of such tables that wait for others."""
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[3] not in (LISTEN, UNCONNECTED) or words[2].partition(":")[2] != "0000":
            continue
        address, _, port = words[1].partition(":")
        packed = b"".join(struct.pack("=I", int(address[at : at + 8], 16)) for at in range(0, len(address), 8))
        yield ipaddress.ip_address(packed), int(port, 16)


def listening_in(place):
    tables = [Path(place, name) for name in TABLES]
    return set(listening("".join(table.read_text() for table in tables if table.exists())))


def listening_here():
    return listening_in("/proc/net")


def neighbours(place):
    """Addresses with a known hardware address."""
    rows = [line.split() for line in Path(place, "arp").read_text().splitlines()[1:]]
    return {row[0] for row in rows if int(row[2], 16) & COMPLETE}


def assert_inside(backend, driver, servers, new_on_the_host):
    ports = {server.port for server in servers}
    new = {(address, port) for address, port in new_on_the_host if port in ports}
    for server in servers:
        inside = {address for address, port in server.listening if port == server.port}
        assert inside == {ipaddress.ip_address(server.address)}
    kind = registry.drivers.get(driver)
    if kind.isolated or backend == "netns" or kind.docker.has_own_daemons:
        assert not new  # a testbed of its own, loopback and all
    else:
        assert {port for _, port in new} == ports
        assert all(address.is_loopback for address, _ in new)
