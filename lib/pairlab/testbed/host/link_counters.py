"""What links have sent, by the kernel's counters."""

from collections.abc import Collection
from pathlib import Path


def sent_by(links: Collection[str]) -> tuple[int, int]:
    """Bytes and packets that these links of the present namespace have sent, together (proc_pid_net(5))."""
    sent = sent_in(Path("/proc/thread-self/net/dev").read_text())
    found = [sent[link] for link in set(links) if link in sent]
    return sum(each for each, _ in found), sum(each for _, each in found)


def sent_in(table: str) -> dict[str, tuple[int, int]]:
    """Bytes and packets that each link has sent, by its name, from the text of net/dev (proc_pid_net(5))."""
    found = {}
    for line in table.splitlines()[2:]:
        name, _, counts = line.partition(":")
        sent_bytes, packets = counts.split()[8:10]
        found[name.strip()] = int(sent_bytes), int(packets)
    return found
