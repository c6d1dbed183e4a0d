"""Which start of which kernel this is."""

from pathlib import Path

#: Differs after each start of the kernel; the same in all containers of a host. random(4).
FILE = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """32 hex digits. Raises OSError where /proc does not say."""
    return FILE.read_text().strip().replace("-", "")
