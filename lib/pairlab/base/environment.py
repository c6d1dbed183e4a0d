"""What surrounds this process: its environment variables, what it can import, and the kernel's present start."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@contextlib.contextmanager
def without(module: str) -> Iterator[None]:
    """In the block, that module cannot be imported, unless it was imported before."""
    modules: dict[str, Any] = sys.modules
    if module in modules:
        yield
        return
    modules[module] = None  # so it is not found, says Python's reference (5.3.1, the module cache)
    try:
        yield
    finally:
        del modules[module]


def boot_id() -> str:
    """32 hex digits. Raises OSError where /proc does not say."""
    return BOOT.read_text().strip().replace("-", "")
