"""What a file of captured packets has."""

import struct
from collections import Counter

Packets = list[tuple[bytes, int]]


def records(content: bytes) -> Packets:
    """Of each packet in a pcap file, what was kept of it and how long it was (pcap-savefile(5))."""
    assert content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1")
    found, at = [], 24
    while at < len(content):
        kept, length = struct.unpack_from("<II", content, at + 8)
        found.append((content[at + 16 : at + 16 + kept], length))
        at += 16 + kept
    return found


def by_tcp(packets: Packets) -> dict[frozenset, Counter]:
    """Of each two addresses that talk by TCP over IPv4, the bytes that each has sent."""
    found: dict[frozenset, Counter] = {}
    for frame, length in packets:
        if frame[12:14] == b"\x08\x00" and frame[23] == 6:
            source, target = frame[26:30], frame[30:34]
            found.setdefault(frozenset((source, target)), Counter())[source] += length
    return found


def most_sent_bytes(packets: Packets) -> int:
    """What one address has sent to another by TCP, where that is most."""
    return max(sent for both in by_tcp(packets).values() for sent in both.values())
