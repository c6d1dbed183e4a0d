"""perf_event_open(2) on all CPUs: counts of the processor, and samples of the running code.

The system call is used directly, so no program has to be installed, started or ended: events end with this process.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path

from pairlab.testbed.requirements import MissingRequirement, setting

#: The permission (Documentation/admin-guide/sysctl/kernel.rst). Events on all CPUs need 0 or less, or CAP_PERFMON.
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
ONLINE = Path("/sys/devices/system/cpu/online")

#: The number of the system call, by architecture (asm/unistd.h).
_NUMBERS = {"x86_64": 298, "i686": 336, "ppc64le": 319, "s390x": 331, "aarch64": 241, "riscv64": 241}
_NUMBER = _NUMBERS.get(platform.machine())
_CLOSE_ON_EXEC = 1 << 3
_LIBC = ctypes.CDLL(None, use_errno=True)

#: struct perf_event_attr as far as its first published size: type, size, config, sample_period, sample_type,
#: read_format, flags, wakeup_events, bp_type, config1.
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
HARDWARE, SOFTWARE = 0, 1  # types
CPU_CLOCK = 0  # config of SOFTWARE
_DISABLED, _COMM, _NO_USER_CALLCHAIN = 1 << 0, 1 << 9, 1 << 22  # flags
_IP, _TID, _CALLCHAIN = 1 << 0, 1 << 1, 1 << 5  # sample_type
_ENABLED_S, _RUNNING_S = 1 << 0, 1 << 1  # read_format
_ENABLE, _DISABLE = 0x2400, 0x2401  # ioctls

#: The processor's counts, each with its config of HARDWARE.
COUNTED = {"cycles": 0, "instructions": 1, "cache_references": 2, "cache_misses": 3}


def online_cpus(file: Path = ONLINE) -> list[int]:
    """Numbers of the CPUs that are online: "0-2,5" is 0, 1, 2, 5."""
    ends = (part.partition("-") for part in file.read_text().strip().split(","))
    return [cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)]


def open_event(kind: int, config: int, cpu: int, period_ns: int = 0) -> int:
    """The descriptor of a new event on that CPU, for all processes, not yet enabled. Raises OSError.

    period_ns: for the software clocks, the time between samples, each with the process and the kernel's call chain;
    0: count only.
    """
    if _NUMBER is None:
        raise OSError(errno.ENOSYS, f"the number of perf_event_open is not known on {platform.machine()}")
    sampled = _IP | _TID | _CALLCHAIN if period_ns else 0
    flags = _DISABLED | ((_COMM | _NO_USER_CALLCHAIN) if period_ns else 0)
    read_format = _ENABLED_S | _RUNNING_S
    size = _ATTRIBUTES.size
    attributes = _ATTRIBUTES.pack(kind, size, config, period_ns, sampled, read_format, flags, 0, 0, 0)
    every_process, no_group = -1, -1
    words = (ctypes.c_long(word) for word in (every_process, cpu, no_group, _CLOSE_ON_EXEC))
    descriptor = _LIBC.syscall(ctypes.c_long(_NUMBER), ctypes.create_string_buffer(attributes, size), *words)
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


def missing_counter(error: OSError, what: str) -> MissingRequirement:
    """The missing requirement behind an error. what: the requested counts or samples, in words."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return MissingRequirement(
            f"{what} of all CPUs may not be read here (perf_event_paranoid is {setting(PARANOID) or 'unknown'})",
            "run pairlab as root, or sudo sysctl -w kernel.perf_event_paranoid=-1",
        )
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return MissingRequirement(
            f"this machine has no counter of {what}", "measure on hardware, or on a virtual machine with a PMU"
        )
    return MissingRequirement(
        f"{what} cannot be read: {error.strerror}", "a kernel with perf events (CONFIG_PERF_EVENTS)"
    )


class ProcessorCounts:
    """Counts COUNTED on all CPUs together from `start` to `stop`, as far as this machine has the counters."""

    def __init__(self) -> None:
        self._opened: dict[str, list[int]] = {}
        self.lacks: list[str] = []
        """The missing counts, with reasons."""

    def start(self) -> None:
        """Opens and enables the available counters."""
        refused: dict[int | None, tuple[OSError, list[str]]] = {}
        for name, config in COUNTED.items():
            self._opened[name] = []
            try:
                for cpu in online_cpus():
                    self._opened[name].append(open_event(HARDWARE, config, cpu))
            except OSError as error:
                self._close(self._opened.pop(name))
                refused.setdefault(error.errno, (error, []))[1].append(name.replace("_", " "))
        self.lacks = [str(missing_counter(error, ", ".join(names))) for error, names in refused.values()]
        enable(self._all)

    def stop(self) -> dict[str, int]:
        """The counts by name; scaled to the whole time if the processor has too few counters and multiplexes them."""
        disable(self._all)
        counts = {}
        for name, descriptors in self._opened.items():
            read = [struct.unpack("=QQQ", os.read(each, 24)) for each in descriptors]
            if all(running for _, _, running in read):
                counts[name] = round(sum(count * enabled / running for count, enabled, running in read))
            else:
                self.lacks.append(f"{name.replace('_', ' ')} had no free counter of the processor")
        self.close()
        return counts

    def close(self) -> None:
        """Closes all events."""
        self._close(self._all)
        self._opened = {}

    @property
    def _all(self) -> list[int]:
        return [each for opened in self._opened.values() for each in opened]

    @staticmethod
    def _close(descriptors: Sequence[int]) -> None:
        for each in descriptors:
            os.close(each)


def enable(descriptors: Sequence[int]) -> None:
    """Starts counting these events."""
    for each in descriptors:
        fcntl.ioctl(each, _ENABLE, 0)


def disable(descriptors: Sequence[int]) -> None:
    """Stops counting these events."""
    for each in descriptors:
        fcntl.ioctl(each, _DISABLE, 0)


class Ring:
    """The kernel's buffer of one sampling event. It is read only at the end, so its data begins at offset 0.

    most_bytes: its capacity, rounded up to a power of two of pages; records beyond it are lost, and counted.
    """

    def __init__(self, descriptor: int, most_bytes: int):
        pages = 1
        while pages * mmap.PAGESIZE < most_bytes:
            pages *= 2
        self._mapped = mmap.mmap(descriptor, (1 + pages) * mmap.PAGESIZE)

    def records(self) -> bytes:
        """All records in the buffer."""
        (written,) = struct.unpack_from("=Q", self._mapped, 1024)  # data_head of struct perf_event_mmap_page
        return self._mapped[mmap.PAGESIZE : mmap.PAGESIZE + written]

    def close(self) -> None:
        """Unmaps the buffer."""
        self._mapped.close()
