"""CPU sleep states. A process on a sleeping CPU waits for the wake-up: some µs, in a virtual machine tens of µs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pairlab.errors import TestbedError
from pairlab.testbed.requirements import MissingRequirement, lacking, setting

#: While this file is open, CPUs use no idle state with a longer wake-up time than the one written into it: Linux,
#: Documentation/power/pm_qos_interface.rst.
REQUEST = Path("/dev/cpu_dma_latency")
#: The driver of the idle states.
DRIVER = Path("/sys/devices/system/cpu/cpuidle/current_driver")
CPUS = Path("/sys/devices/system/cpu")
#: The idle state in which a CPU does not sleep.
POLL = "POLL"


def driver() -> str:
    """The kernel's driver of idle states; empty: none, and CPUs sleep by the architecture's default."""
    name = setting(DRIVER) or ""
    return "" if name == "none" else name


def missing() -> list[MissingRequirement]:
    """Missing requirements for keeping this host's CPUs awake."""
    if not driver():
        return lacking("this kernel has no driver of idle states to tell (cpuidle)", "leave out cpus_awake")
    if not os.access(REQUEST, os.W_OK):
        return lacking(f"CPUs are kept awake by {REQUEST}, which only root may write", "run as root")
    return []


@contextlib.contextmanager
def prevented(wanted: bool = True) -> Iterator[None]:
    """Keeps this host's CPUs awake while the block runs, if wanted. Raises TestbedError if the kernel refuses."""
    if not wanted:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            request = os.open(REQUEST, os.O_WRONLY | os.O_CLOEXEC)
            stack.callback(os.close, request)
            os.write(request, (0).to_bytes(4, "little"))
        except OSError as error:
            raise TestbedError(f"CPUs cannot be kept awake: {REQUEST}: {error.strerror}") from error
        yield


def sleeps() -> dict[str, int]:
    """cpu_sleeps: entries of all CPUs into sleep states since boot; empty if the kernel does not count them."""
    count = 0
    states = sorted(CPUS.glob("cpu[0-9]*/cpuidle/state[0-9]*"))
    for state in states:
        if (state / "name").read_text().strip() != POLL:
            count += int((state / "usage").read_text())
    return {"cpu_sleeps": count} if states else {}
