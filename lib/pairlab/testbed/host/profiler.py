"""A sampling profile of the kernel's functions on all CPUs during traffic.

A timer on each CPU (perf's software event cpu-clock, as there may be no PMU) samples the running code. While the
kernel has interrupts off, the timer waits: that time is charged to the function that switches them on again.
"""

import contextlib
import os
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.testbed.host import perf_events
from pairlab.testbed.host.perf_events import CPU_CLOCK, SOFTWARE, Ring
from pairlab.testbed.requirements import MissingRequirement, setting

FILE = Path("/proc/kallsyms")
RESTRICT = Path("/proc/sys/kernel/kptr_restrict")


class Symbols:
    """The functions of a kernel. text: of /proc/kallsyms: "ffffffff81000110 T __switch_to_asm [module]"."""

    def __init__(self, text: str):
        functions: dict[int, str] = {}
        for line in text.splitlines():
            words = line.split()
            if len(words) >= 3 and words[1] in "tTwW":
                name = words[2].partition(".")[0]  # name.isra.0 and name.cold are parts of that function
                functions.setdefault(int(words[0], 16), " ".join([name, *words[3:]]))
        self._addresses = sorted(functions)
        self._names = [functions[address] for address in self._addresses]

    def name(self, address: int) -> str:
        """The function at that address, with its module in brackets."""
        index = bisect_right(self._addresses, address) - 1
        return self._names[index] if index >= 0 else "[unknown]"


def missing_symbols(file: Path = FILE) -> MissingRequirement | None:
    """The missing requirement for the kernel's addresses, or None; without permission all addresses read as 0."""
    try:
        with open(file) as lines:
            visible = any(int(line.split()[0], 16) for line, _ in zip(lines, range(100), strict=False))
    except OSError as error:
        return MissingRequirement(f"{file} cannot be read: {error.strerror}", "a kernel with CONFIG_KALLSYMS")
    if visible:
        return None
    return MissingRequirement(
        f"the kernel hides the addresses of its functions (kptr_restrict is {setting(RESTRICT) or 'unknown'})",
        "run pairlab as root, or sudo sysctl -w kernel.kptr_restrict=0",
    )


#: No multiple of any frequency of the kernel's tick, so that the two do not synchronize.
FREQUENCY_HZ = 499
#: The largest number of samples of a run: long runs have a lower frequency.
MOST_SAMPLES = 100_000
#: A sample's bytes in the kernel's buffer: about 40 functions on average, a packet's path through two namespaces.
SAMPLE_BYTES = 512
#: The traffic's excess over its planned time, at most.
_SPARE_S = 5.0

_LOST, _COMM, _SAMPLE = 2, 3, 9  # types of records
_MODE, _KERNEL = 7, 1  # CPU mode: bits of misc
_LEAST_MARK = 2**64 - 4095  # markers between parts of a call chain begin here (PERF_CONTEXT_MAX)


class Sample(NamedTuple):
    """The running process and its kernel call chain: addresses from the current one to the entry; empty: user mode."""

    pid: int
    chain: tuple[int, ...]


class Decoded(NamedTuple):
    """The records of a buffer: samples, new names of processes, and the number of lost samples."""

    samples: Counter[Sample]
    names: dict[int, str]
    lost: int


def missing() -> list[MissingRequirement]:
    """This host's missing requirements for profiling. Leaves nothing behind."""
    try:
        with Profiler(0.0):
            pass
    except OSError as error:
        return [perf_events.missing_counter(error, "samples")]
    return [*filter(None, [missing_symbols()])]


class Profiler:
    """Profiles all CPUs while its block runs (a context manager). lasts_s: the traffic's planned time.

    No code of ours runs meanwhile: the kernel writes to buffers that are read at the end. Entering raises OSError if
    the kernel refuses; see `missing`.
    """

    def __init__(self, lasts_s: float):
        self._cpus = perf_events.online_cpus()
        most_hz = MOST_SAMPLES / (len(self._cpus) * (lasts_s + _SPARE_S))
        self._frequency_hz = min(FREQUENCY_HZ, max(1, int(most_hz)))
        self._ring_bytes = int(self._frequency_hz * (lasts_s + _SPARE_S) * SAMPLE_BYTES)
        self._open = contextlib.ExitStack()
        self._descriptors: list[int] = []
        self._rings: list[Ring] = []
        self._records: list[bytes] = []
        self._names: dict[int, str] = {}

    def __enter__(self) -> "Profiler":
        with contextlib.ExitStack() as opened:
            for cpu in self._cpus:
                descriptor = perf_events.open_event(SOFTWARE, CPU_CLOCK, cpu, 10**9 // self._frequency_hz)
                opened.callback(os.close, descriptor)
                self._descriptors.append(descriptor)
                ring = Ring(descriptor, self._ring_bytes)
                opened.callback(ring.close)
                self._rings.append(ring)
            self._names = program_names()
            perf_events.enable(self._descriptors)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        with self._open:
            perf_events.disable(self._descriptors)
            self._records = [ring.records() for ring in self._rings]
        self._names = program_names() | self._names

    @cached_property
    def _decoded(self) -> Decoded:
        parts = [decode(each) for each in self._records]
        samples: Counter[Sample] = Counter()
        names: dict[int, str] = {}
        for each in parts:
            samples.update(each.samples)
            names |= each.names
        return Decoded(samples, names, sum(each.lost for each in parts))

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table `profile`, after the block; the most frequent stack first."""
        names = self._names | self._decoded.names
        stacks = folded(self._decoded.samples, names, Symbols(FILE.read_text()))
        return [{"stack": stack, "samples": count} for stack, count in stacks.most_common()]

    def facts(self) -> dict[str, int]:
        """Facts after the block: the frequency on each CPU, and the numbers of samples and of lost samples."""
        counts = {"samples": self._decoded.samples.total(), "lost": self._decoded.lost}
        return {"frequency_hz": self._frequency_hz, **counts}


def program_names(proc: Path = Path("/proc")) -> dict[int, str]:
    """The name of each process, by its id; an idle CPU's is swapper, as in other tools."""
    names = {0: "swapper"}
    for name in os.listdir(proc):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                names[int(name)] = (proc / name / "comm").read_text(errors="replace").strip()
    return names


def decode(records: bytes) -> Decoded:
    """Decodes the kernel's records of open_event's sampling events (perf_event_open(2), "MMAP layout")."""
    decoded = Decoded(Counter(), {}, 0)
    lost = 0
    for kind, misc, body in _records(records):
        if kind == _SAMPLE:
            _, pid, _, length = struct.unpack_from("=QIIQ", body)
            chain = struct.unpack_from(f"={length}Q", body, 24) if misc & _MODE == _KERNEL else ()
            decoded.samples[Sample(pid, tuple(each for each in chain if each < _LEAST_MARK))] += 1
        elif kind == _COMM:
            pid, thread = struct.unpack_from("=II", body)
            if pid == thread:  # else one of its threads has named itself
                decoded.names[pid] = body[8:].partition(b"\0")[0].decode(errors="replace")
        elif kind == _LOST:
            lost += struct.unpack_from("=QQ", body)[1]
    return decoded._replace(lost=lost)


def _records(records: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + 8 <= len(records):
        kind, misc, size = struct.unpack_from("=IHH", records, at)
        if size < 8 or at + size > len(records):
            return  # the last record is incomplete
        yield kind, misc, records[at + 8 : at + size]
        at += size


def folded(samples: Mapping[Sample, int], names: Mapping[int, str], functions: Symbols) -> Counter[str]:
    """Collapsed stacks for flame graphs: the program, then functions from the entry on, joined by ";"."""
    stacks: Counter[str] = Counter()
    for (pid, chain), count in samples.items():
        program = names.get(pid, "[unknown]").replace(";", ":") or "[unknown]"
        if chain:
            current, *callers = chain
            # A caller's address is the return address, which may be the next function's first.
            frames = [*(functions.name(address - 1) for address in reversed(callers)), functions.name(current)]
        else:
            frames = ["[user]"]
        stacks[";".join([program, *frames])] += count
    return stacks
