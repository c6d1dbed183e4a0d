"""Which congestion control the endpoints of this host may choose (tcp(7))."""

from pathlib import Path

from pairlab.testbed.contracts import Backend, Lack

SETTINGS = Path("/proc/sys/net/ipv4")


def lacks(name: str, backend: type[Backend]) -> list[Lack]:
    """What is missing for TCP to use the congestion control of that name; an empty name is the kernel's default.

    Without CAP_NET_ADMIN over its network, a process may choose only what the host allows to all.
    """
    there = _listed("tcp_available_congestion_control")
    if not name or there is None:
        return []
    if name not in there:
        what = f"this kernel has no congestion control {name!r}, it has: {', '.join(there)}"
        return [Lack(what, f"sudo modprobe tcp_{name}, or choose another")]
    allowed = _listed("tcp_allowed_congestion_control") or there
    if backend.administers or name in allowed:
        return []
    what = f"containers may not choose the congestion control {name!r}, only: {', '.join(allowed)}"
    return [Lack(what, f"sudo sysctl -w net.ipv4.tcp_allowed_congestion_control='{' '.join([*allowed, name])}'")]


def _listed(setting: str) -> list[str] | None:
    try:
        return (SETTINGS / setting).read_text().split()
    except OSError:  # in a network namespace of its own a process does not see the host's
        return None
