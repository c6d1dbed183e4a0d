"""What a pinning is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar


class Pinning(ABC):
    """A policy that binds each endpoint to one core."""

    name: ClassVar[str]
    summary: ClassVar[str]
    least_cores: ClassVar[int] = 1
    """The fewest cores on which the policy makes sense."""

    @abstractmethod
    def place(self, pairs: int, cores: Sequence[int]) -> Mapping[str, int]:
        """The core of each endpoint (client-0, server-0, client-1, …), by name; endpoints left unbound are left out.

        cores: numbers of the available CPUs, each once; at least least_cores of them.
        """
