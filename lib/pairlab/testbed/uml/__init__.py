"""Hosts with kernels of their own: user-mode Linux."""

from pathlib import Path

#: Of a host: where its control socket and its gates are, and the device that becomes its uplink.
HERE, VECTOR = Path("/run/pairlab"), "vec0"
#: What a host says first.
TO_US = b"pairlab"
#: A serial line of a host is dead once this much was sent over it, in bytes, that nobody there had read: its terminal
#: is throttled then (4,096 bytes less 128), and the kernel never hears of the line again. We stay well below.
MOST_UNREAD_BYTES = 2000
