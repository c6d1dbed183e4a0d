"""A sampling profile: which functions of the kernel the CPUs run while traffic flows.

A timer on each CPU (perf's software event cpu-clock, as there may be no PMU) notes what runs just then. Where the
kernel has interrupts off, the timer waits: such time shows up where they are switched on again.
"""

import contextlib
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pairlab.testbed.profiling import perf_events, symbols
from pairlab.testbed.profiling.perf_events import CPU_CLOCK, SOFTWARE, Ring
from pairlab.testbed.requirements import Lack

#: Not a multiple of any frequency of the kernel's own tick, so that the two are not in step.
FREQUENCY_HZ = 499
#: Samples of one run: in long ones they are taken less often.
MOST_SAMPLES = 100_000
#: Room for a sample in the kernel's buffer: some 40 functions deep on average, a packet's way through two namespaces.
SAMPLE_BYTES = 512
#: How much longer than asked the traffic may take.
_SPARE_S = 5.0

_LOST, _COMM, _SAMPLE = 2, 3, 9  # types of records
_MODE, _KERNEL = 7, 1  # where it was: bits of misc
_LEAST_MARK = 2**64 - 4095  # a call chain has marks between its parts (PERF_CONTEXT_MAX)


class Sample(NamedTuple):
    """Who ran, and what: addresses in the kernel from the one that ran to the entry; none: it was not in the kernel."""

    pid: int
    chain: tuple[int, ...]


class Decoded(NamedTuple):
    """The records of a buffer: samples, the names that processes took, and how many samples were lost."""

    samples: Counter[Sample]
    names: dict[int, str]
    lost: int


def lacks() -> list[Lack]:
    """What this host lacks to be profiled by us. Leaves nothing behind."""
    try:
        with Profiler(0.0):
            pass
    except OSError as error:
        return [perf_events.lack_of(error, "samples")]
    return [lack] if (lack := symbols.lack()) else []


class Profiler:
    """Profiles all CPUs while its block runs (a context manager). lasts_s: how long the traffic is to take.

    Nothing of ours runs meanwhile: the kernel writes to buffers that are read at the end. Entering raises OSError where
    the kernel refuses; see `lacks`.
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
        stacks = folded(self._decoded.samples, names, symbols.Symbols(symbols.FILE.read_text()))
        return [{"stack": stack, "samples": count} for stack, count in stacks.most_common()]

    def facts(self) -> dict[str, int]:
        """How it was sampled, after the block: on each CPU, how often in a second; samples of all, and how many were
        lost.
        """
        counts = {"samples": self._decoded.samples.total(), "lost": self._decoded.lost}
        return {"frequency_hz": self._frequency_hz, **counts}


def program_names(proc: Path = Path("/proc")) -> dict[int, str]:
    """The name of each process, by its id; that of the idle CPU is swapper, as elsewhere."""
    found = {0: "swapper"}
    for name in os.listdir(proc):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                found[int(name)] = (proc / name / "comm").read_text(errors="replace").strip()
    return found


def decode(records: bytes) -> Decoded:
    """Reads what the kernel wrote for sampling events of open_event (perf_event_open(2), "MMAP layout")."""
    found = Decoded(Counter(), {}, 0)
    lost = 0
    for kind, misc, body in _records(records):
        if kind == _SAMPLE:
            _, pid, _, length = struct.unpack_from("=QIIQ", body)
            chain = struct.unpack_from(f"={length}Q", body, 24) if misc & _MODE == _KERNEL else ()
            found.samples[Sample(pid, tuple(each for each in chain if each < _LEAST_MARK))] += 1
        elif kind == _COMM:
            pid, thread = struct.unpack_from("=II", body)
            if pid == thread:  # else a thread of it has named itself
                found.names[pid] = body[8:].partition(b"\0")[0].decode(errors="replace")
        elif kind == _LOST:
            lost += struct.unpack_from("=QQ", body)[1]
    return found._replace(lost=lost)


def _records(records: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + 8 <= len(records):
        kind, misc, size = struct.unpack_from("=IHH", records, at)
        if size < 8 or at + size > len(records):
            return  # the last one was not whole
        yield kind, misc, records[at + 8 : at + size]
        at += size


def folded(samples: Mapping[Sample, int], names: Mapping[int, str], functions: symbols.Symbols) -> Counter[str]:
    """Collapsed stacks, as flame graphs take them: the program, then functions from the entry on, joined by ";"."""
    found: Counter[str] = Counter()
    for (pid, chain), count in samples.items():
        program = names.get(pid, "[unknown]").replace(";", ":") or "[unknown]"
        if chain:
            ran, *callers = chain
            # A caller's address is the one after its call, which may be the next function's first.
            frames = [*(functions.name(address - 1) for address in reversed(callers)), functions.name(ran)]
        else:
            frames = ["[user]"]
        found[";".join([program, *frames])] += count
    return found
