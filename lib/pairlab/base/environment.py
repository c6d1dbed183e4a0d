"""What surrounds this process: its environment variables, and the kernel's present start."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

#: Differs after each start of the kernel; the same in all containers of a host. random(4).
BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def setting(**variables: str) -> Iterator[None]:
    """In the block, this process and those that it starts have these variables; afterwards, what they were."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def boot_id() -> str:
    """32 hex digits. Raises OSError where /proc does not say."""
    return BOOT.read_text().strip().replace("-", "")
