"""Hosts that are other machines, reached over ssh: the study's hosts.yaml names them."""

from pathlib import Path

#: The sockets that are carried over a host's ssh connection, by number: to the agent, to the relay of its launchers,
#: and to the keeper.
CARRIED = ("agent", "relay", "keeper")
#: A heartbeat follows when nothing was sent for so long; whoever hears nothing for longer takes the other for gone.
BEATS_EVERY_S, SILENT_S = 2.0, 8.0


def text_of(file: Path) -> str:
    """A file's bytes as text, from which `surrogateescape` makes the same bytes again."""
    return file.read_bytes().decode("utf-8", "surrogateescape")
