"""Hosts with kernels of their own: what all kinds of them have in common."""

from pathlib import Path

#: Of a host: where its control socket and its gates are.
HERE = Path("/run/pairlab")
#: What a host says first.
TO_US = b"pairlab"
#: As many bytes may be on the way to a host's launchers that nobody there has read. A serial line of user-mode Linux is
#: dead once 4,096 less 128 are: its terminal is throttled then, and the kernel never hears of it again.
MOST_UNREAD_BYTES = 2000
