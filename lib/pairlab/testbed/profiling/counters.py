"""What the kernel of this host counts while traffic flows: interrupts, context switches, soft interrupts, packets."""

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from pairlab.testbed import cpu_sleep
from pairlab.testbed.profiling.perf_events import ProcessorCounts

PROC = Path("/proc")

#: The first columns of a line of softnet_stat, one line per CPU (net/core/net-procfs.c).
_SOFTNET = ("softnet_processed", "softnet_dropped", "softnet_time_squeeze")
#: The kernel counts these with 32 bits for each CPU, so that they start anew at 0.
_OF_32_BITS = ("softirqs_", "softnet_")


class HostCounters:
    """Counts on this whole host while its block runs (a context manager)."""

    def __init__(self) -> None:
        self._processor = ProcessorCounts()
        self.counted: dict[str, int | float | list[str]] = {}
        """After the block: over_s, the seconds it took; the growth of `read`'s counts; those of the processor, as far
        as it counts (perf_events.COUNTED); lacks: what could not be counted and why, where that is so."""

    def __enter__(self) -> "HostCounters":
        self._processor.start()
        self._begun_s, self._before = time.monotonic(), read()
        return self

    def __exit__(self, *_: object) -> None:
        after, ended_s = read(), time.monotonic()
        counts = growth(self._before, after) | self._processor.stop()
        self.counted = {"over_s": round(ended_s - self._begun_s, 6), **counts}
        if self._processor.lacks:
            self.counted["lacks"] = self._processor.lacks


def read(proc: Path = PROC) -> dict[str, int]:
    """The counts since boot, of all CPUs together; what this host does not show is left out.

    interrupts and context_switches (proc_stat(5)); softirqs_<kind>: how often each kind of soft interrupt was handled;
    softnet_processed: packets that CPUs took from devices' queues, softnet_dropped: those dropped as a CPU's queue was
    full, softnet_time_squeeze: how often a CPU had to stop with packets left, as its time or its budget was over.
    cpu_sleeps: how often a CPU went to sleep.
    """
    found: dict[str, int] = {}
    for file, parse in ((proc / "stat", in_stat), (proc / "softirqs", softirqs), (proc / "net/softnet_stat", softnet)):
        try:
            found |= parse(file.read_text())
        except OSError:
            continue  # as in some containers
    with contextlib.suppress(OSError):
        found |= cpu_sleep.sleeps()
    return found


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each count has grown that was read both times."""
    return {
        name: (after[name] - count) % 2**32 if name.startswith(_OF_32_BITS) else after[name] - count
        for name, count in before.items()
        if name in after
    }


def in_stat(text: str) -> dict[str, int]:
    """interrupts and context_switches, from the text of proc_stat(5)."""
    names = {"intr": "interrupts", "ctxt": "context_switches"}
    lines = (line.split(None, 2) for line in text.splitlines())
    return {names[words[0]]: int(words[1]) for words in lines if words and words[0] in names}


def softirqs(text: str) -> dict[str, int]:
    """Soft interrupts by kind, of all CPUs together, from the text of /proc/softirqs."""
    lines = (line.split() for line in text.splitlines()[1:])
    return {f"softirqs_{name.rstrip(':').lower()}": sum(map(int, counts)) for name, *counts in lines}


def softnet(text: str) -> dict[str, int]:
    """Packets of all CPUs together, from the text of /proc/net/softnet_stat, which is in hexadecimal."""
    lines = [[int(word, 16) for word in line.split()[: len(_SOFTNET)]] for line in text.splitlines()]
    return {name: sum(column) for name, column in zip(_SOFTNET, zip(*lines, strict=True), strict=False)}
