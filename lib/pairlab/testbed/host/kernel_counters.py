"""The kernel's counters: of a network namespace, traffic sent by links, and refusals of full tables; of this host,
interrupts, context switches, soft interrupts and packets.

The tables of tracked connections and of neighbours have counts in hexadecimal, a line per CPU: sources
net/netfilter/nf_conntrack_standalone.c and net/core/neighbour.c.
"""

import contextlib
import time
from collections.abc import Collection, Mapping
from pathlib import Path

from pairlab.testbed import cpu_sleep
from pairlab.testbed.host.perf_events import ProcessorCounts

PROC = Path("/proc")
#: Of the thread, which may be in a network namespace of its own.
STATISTICS = Path("/proc/thread-self/net/stat")
#: Of connections: packets dropped because the table was full, and evicted entries; of neighbours: refused entries.
_OF_CONNECTIONS, _OF_NEIGHBOURS = ("drop", "early_drop"), ("table_fulls",)
#: The first columns of a line of softnet_stat, one line per CPU (net/core/net-procfs.c).
_SOFTNET = ("softnet_processed", "softnet_dropped", "softnet_time_squeeze")
#: Counters of 32 bits for each CPU, which wrap around.
_OF_32_BITS = ("softirqs_", "softnet_")


def sent_by(links: Collection[str]) -> tuple[int, int]:
    """Total bytes and packets sent by these links of the present namespace (proc_pid_net(5))."""
    sent = sent_in(Path("/proc/thread-self/net/dev").read_text())
    counts = [sent[link] for link in set(links) if link in sent]
    return sum(sent_bytes for sent_bytes, _ in counts), sum(packets for _, packets in counts)


def sent_in(table: str) -> dict[str, tuple[int, int]]:
    """Bytes and packets sent by each link, by its name, from the text of net/dev (proc_pid_net(5))."""
    sent = {}
    for line in table.splitlines()[2:]:
        name, _, counts = line.partition(":")
        sent_bytes, packets = counts.split()[8:10]
        sent[name.strip()] = int(sent_bytes), int(packets)
    return sent


def refused_connections() -> int:
    """Packets refused by conntrack of the present network namespace so far; 0 without conntrack or its counts."""
    return _sum(STATISTICS / "nf_conntrack", _OF_CONNECTIONS)


def refused_neighbours() -> int:
    """Entries refused by the IPv4 neighbour table, shared by all network namespaces, so far; 0 if invisible."""
    return _sum(STATISTICS / "arp_cache", _OF_NEIGHBOURS)


def _sum(file: Path, names: tuple[str, ...]) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        head, *lines = (line.split() for line in file.read_text().splitlines())
        return sum(int(line[head.index(name)], 16) for name in names for line in lines)
    return 0


class HostCounters:
    """Counts of this whole host while its block runs (a context manager)."""

    def __init__(self) -> None:
        self._processor = ProcessorCounts()
        self.counted: dict[str, int | float | list[str]] = {}
        """After the block: over_s, its duration; the growth of `read`'s counts; the processor's counts, as far as
        available (perf_events.COUNTED); lacks: missing counts with reasons, if any."""

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
    """The counts since boot, of all CPUs together; without those that this host does not show.

    interrupts and context_switches (proc_stat(5)); softirqs_<kind>: soft interrupts of each kind; softnet_processed:
    packets that CPUs took from devices' queues; softnet_dropped: packets dropped because a CPU's queue was full;
    softnet_time_squeeze: how often a CPU stopped with packets left, out of time or budget; cpu_sleeps: entries into
    sleep states.
    """
    counts: dict[str, int] = {}
    for file, parse in ((proc / "stat", in_stat), (proc / "softirqs", softirqs), (proc / "net/softnet_stat", softnet)):
        try:
            counts |= parse(file.read_text())
        except OSError:
            continue  # as in some containers
    with contextlib.suppress(OSError):
        counts |= cpu_sleep.sleeps()
    return counts


def growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The growth of each count in both readings."""
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
