"""Hosts that are other machines, reached over ssh: the study's hosts.yaml names them."""

import base64
import zlib
from pathlib import Path

from pairlab.errors import TestbedError

#: The sockets that are carried over a host's ssh connection, by number: to the agent, to the relay of its launchers,
#: and to the keeper.
CARRIED = ("agent", "relay", "keeper")
#: A heartbeat follows when nothing was sent for so long; whoever hears nothing for longer takes the other for gone.
BEATS_EVERY_S, SILENT_S = 2.0, 8.0


def text_of(file: Path) -> str:
    """A file's bytes as text, from which `surrogateescape` makes the same bytes again."""
    return file.read_bytes().decode("utf-8", "surrogateescape")


def packed(content: bytes) -> str:
    """Bytes as text, compressed."""
    return base64.b64encode(zlib.compress(content, 1)).decode()


def unpacked(text: str, most_bytes: int) -> bytes:
    """The bytes that were packed, or as many of them. Raises TestbedError for what is not packed."""
    try:
        return zlib.decompressobj().decompress(base64.b64decode(text, validate=True), most_bytes)
    except (ValueError, zlib.error) as error:
        raise TestbedError(f"a file came damaged: {error}") from None
