"""What runs recorded of their conditions, beside spec and ground, and in which of it two sides differ."""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pairlab.errors import AnalysisError
from pairlab.model import cpu_use
from pairlab.model.records import Run

#: What a network namespace's TCP may hold: whoever has less of it is slower, whatever network carries it.
MEMORY = ("tcp_rmem", "tcp_wmem")
#: What links do for the kernel. A network may have links of another kind: then it is in what is compared.
LINKS = ("mtu_bytes", "tso", "gso", "gro", "rx_checksum", "tx_checksum", "scatter_gather")
#: What is compared by these has links of its own.
OF_LINKS = ("driver", "backend", "hosts", "placement", "mtu_bytes")
#: Recorded facts: of which part, and what they are called in words.
FACTS = {
    **{name: ("network", name) for name in (*MEMORY, *LINKS, "tcp_ecn", "tcp_sack", "tcp_timestamps")},
    **{name: ("host", name.replace("_", " ")) for name in ("default_qdisc", "rmem_max", "wmem_max")},
    **{name: ("host", name.replace("_", " ")) for name in ("cpu_governor", "cpuidle_driver", "memory_bytes")},
    "pairlab": ("versions", "the version of pairlab"),
    "harness_cpus": ("pinning", "the CPUs that pairlab may use"),
}
#: From this difference on, in shares of the CPU time, what others used is named.
FOREIGN = 0.05


class Difference(NamedTuple):
    """A fact in which two sides differ, and what each side's runs have of it."""

    name: str
    words: str
    values: tuple[tuple[str, ...], tuple[str, ...]]

    def __str__(self) -> str:
        one, other = (" or ".join(each) for each in self.values)
        return f"{self.words} ({one} against {other})"


def differing(sides: Sequence[Sequence[Run]]) -> list[Difference]:
    """Of FACTS, those that were recorded on both sides and are not the same on both."""
    found = []
    for name, (part, words) in FACTS.items():
        values = [_values(runs, part, name) for runs in sides]
        if all(values) and values[0] != values[1]:
            found.append(Difference(name, words, (values[0], values[1])))
    return found


def _values(runs: Iterable[Run], part: str, name: str) -> tuple[str, ...]:
    known = [(run.facts.get(part) or {}).get(name) for run in runs]
    return tuple(sorted({str(value) for value in known if value is not None}))


def notes(by: str, sides: Sequence[tuple[Hashable, Sequence[Run]]], despite: Sequence[str] = ()) -> list[str]:
    """A note for each condition that differs between the sides.

    Raises AnalysisError for one that surely matters, and is neither what is compared nor in `despite`.
    """
    runs = [its for _, its in sides]
    found = differing(runs)
    matters = (*MEMORY, *(() if by in OF_LINKS else LINKS))
    grave = [each for each in found if each.name in matters and each.name not in (by, *despite)]
    if grave:
        anyhow = " ".join(f"--despite {each.name}" for each in grave)
        raise AnalysisError(
            f"Not compared: the sides differ in {'; '.join(map(str, grave))}. Measure both alike, or compare them"
            f" nevertheless, with {anyhow}."
        )
    of_links = LINKS if by in OF_LINKS else ()
    told = [f"they differ in {each}, too" for each in found if each.name not in (by, *of_links)]
    shares = [float(np.mean([cpu_use.others_share(run) for run in its])) if its else 0.0 for its in runs]
    if abs(shares[0] - shares[1]) >= FOREIGN:
        told.append(
            f"others used {shares[0]:.0%} of the CPU time beside one side, and {shares[1]:.0%} beside the other"
        )
    return told
