"""Pinnings: policies that bind each endpoint to one core."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar


class Pinning(ABC):
    """A policy that binds each endpoint to one core."""

    name: ClassVar[str]
    summary: ClassVar[str]
    least_cores: ClassVar[int] = 1
    """The smallest number of cores that the policy needs."""

    @abstractmethod
    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        """The core of each bound endpoint, by its name (client-0, server-0, client-1, …).

        cores: numbers of the available CPUs, each once; at least least_cores of them.
        """


class Unpinned(Pinning):
    """Binds no endpoint; the scheduler may use all of the spec's cores."""

    name = "none"
    summary = "each endpoint runs wherever the scheduler puts it"

    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        return {}


class SameCore(Pinning):
    """Both ends of a pair on one core; pairs take the cores in turn. Source: Boeira et al. 2021, figure 9."""

    name = "same-core"
    summary = "both ends of a pair on one core"

    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        return {f"{side}-{index}": cores[index % len(cores)] for index in range(pairs) for side in ("client", "server")}


class DifferentCores(Pinning):
    """Client and server of a pair on different cores. Source: Boeira et al. 2021, figure 9.

    Clients take the cores in turn, and servers with an offset, so that clients, servers and endpoints are
    all spread evenly: their numbers on any two cores differ by one at most.
    """

    name = "different-cores"
    summary = "client and server of a pair on different cores"
    least_cores = 2

    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        placed: dict[str, int] = {}
        count = len(cores)
        for index in range(pairs):
            round_, turn = divmod(index, count)
            remaining = pairs - round_ * count
            # Each round has another offset, as cores at some distance may be siblings. An incomplete last round has
            # its own: servers begin after the last client.
            offset = 1 + round_ % (count - 1) if remaining >= count else remaining
            placed[f"client-{index}"] = cores[turn]
            placed[f"server-{index}"] = cores[(turn + offset) % count]
        return placed
