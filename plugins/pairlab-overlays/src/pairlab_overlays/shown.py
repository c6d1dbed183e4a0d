"""How runs over these networks are shown, also where nothing of them is installed: by style, and in pictures."""

from collections.abc import Mapping
from typing import Any

#: Colour, marker and line, as pairlab.analysis.figures.style has those of its own.
_DOTS = (0, (1, 1))
FLANNEL_UDP = ("#6F2611", "<", _DOTS)
FLANNEL_VXLAN = ("#AD64F3", ">", _DOTS)
FLANNEL_HOST_GW = ("#6304C0", "h", (0, (3, 1, 1, 1)))


def picture_lines(facts: Mapping[str, Any]) -> list[str]:
    """What the picture of a host says besides its links, by the facts of its network."""
    lines = [f"flanneld, backend {facts['flannel']['backend']}"] if "flannel" in facts else []
    return [*lines, *(["weaver, carries frames in UDP"] if "weaver" in facts else [])]
