"""The capture of packets in chosen endpoints, by tcpdump(8)."""

from collections.abc import Sequence

from pairlab.model.spec import Spec
from pairlab.testbed.requirements import Program

TCPDUMP = Program("tcpdump", "tcpdump")
#: The captured bytes of each packet: the headers of Ethernet, IP and TCP with options.
SNAP_BYTES = 96
#: The largest number of captured packets in an endpoint, the first ones: 56 MB before compression.
MOST_PACKETS = 500_000
#: The largest file: its own header, and each packet's (pcap-savefile(5)).
MOST_BYTES = 24 + MOST_PACKETS * (16 + SNAP_BYTES)
#: The kernel's buffer for packets that tcpdump has not yet read.
_BUFFER_KIB = 16_384


def endpoints(spec: Spec) -> Sequence[str]:
    """The names of the captured endpoints."""
    return spec.capture.split(",") if spec.capture else ()


def command(interface: str, file: str) -> list[str]:
    """The command that captures that link's packets until it is stopped, or has MOST_PACKETS.

    tcpdump keeps its user, who alone may write to the testbed's directory, and makes no link promiscuous.
    """
    limits = ["-s", str(SNAP_BYTES), "-c", str(MOST_PACKETS), "-B", str(_BUFFER_KIB)]
    return [TCPDUMP.command, "-n", "-p", "-Z", "root", "-i", interface, *limits, "-w", file]
