"""Idle CPUs sleep, and a process that is woken on one waits until it is awake: some µs, in a virtual machine tens."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from pairlab.errors import TestbedError
from pairlab.testbed.requirements import Lack

#: While it is open, CPUs have no idle state from which they wake up later than written into it: Linux,
#: Documentation/power/pm_qos_interface.rst.
REQUEST = Path("/dev/cpu_dma_latency")
#: The driver of the idle states.
DRIVER = Path("/sys/devices/system/cpu/cpuidle/current_driver")
CPUS = Path("/sys/devices/system/cpu")
#: The idle state in which a CPU does not sleep.
POLL = "POLL"


def driver() -> str:
    """The kernel's driver of idle states; empty: it has none, and CPUs sleep as the architecture has it."""
    try:
        name = DRIVER.read_text().strip()
    except OSError:
        return ""
    return "" if name == "none" else name


def lacks() -> list[Lack]:
    """What is missing to keep this host's CPUs awake."""
    if not driver():
        return [Lack("this kernel has no driver of idle states to tell (cpuidle)", "leave out cpus_awake")]
    if not os.access(REQUEST, os.W_OK):
        return [Lack(f"CPUs are kept awake by {REQUEST}, which only root may write", "run as root")]
    return []


@contextlib.contextmanager
def prevented(wanted: bool = True) -> Iterator[None]:
    """No CPU of this host sleeps while the block runs, if that is wanted. Raises TestbedError where it is refused."""
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
    """cpu_sleeps: how often CPUs have gone to sleep since boot, all together; empty where the kernel does not say."""
    found = 0
    states = sorted(CPUS.glob("cpu[0-9]*/cpuidle/state[0-9]*"))
    for state in states:
        if (state / "name").read_text().strip() != POLL:
            found += int((state / "usage").read_text())
    return {"cpu_sleeps": found} if states else {}
