"""How endpoints run a program of MPI, each as a rank: the command, and where the others are.

Ranks reach each other by TCP over their endpoints' links, also those on one host, and never by shared memory. They are
started without mpiexec (join.py).
"""

import sys
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from pairlab import Spec
from pairlab.testbed.contracts import USUAL_MESSAGE_BYTES, Site, Workload
from pairlab.testbed.endpoints import Endpoint, Pair

#: What runs in the endpoints.
_HERE = Path(__file__).parent

#: Of a rank: its number, how many there are, and where the process manager and this endpoint listen ("": it need not).
Place = tuple[int, int, str, str]

#: The largest message between two: that of osu_latency and osu_bw, which measure every power of two up to it in one go.
MOST_PAIR_BYTES = 1 << 22


class PairOfRanks(Workload):
    """One program of MPI for each pair: the client is rank 0, which sends, and the server rank 1."""

    serves_once = True
    one_port = False

    @abstractmethod
    def rank(self, pair: Pair, endpoint: Endpoint, spec: Spec, site: Site) -> list[str]:
        """The command of that endpoint, client or server of the pair."""

    def server(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return self.rank(pair, pair.server, spec, site)

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        return self.rank(pair, pair.client, spec, site)


def join(site: Site, endpoint: Endpoint, place: Place, argv: Sequence[str], *options: str) -> list[str]:
    """The command by which that endpoint runs argv as a rank of MPI. place: its rank, of how many, and two addresses.

    The addresses are where the process manager listens, and where this endpoint does: empty where it need not.
    options: others of join.py.
    """
    rank, ranks, manager, listen = place
    joined = [sys.executable, "-P", str(_HERE / "join.py"), "--rank", str(rank), "--ranks", str(ranks)]
    joined += ["--manager", manager, "--interface", site.interface_of(endpoint.name)]
    joined += ["--listen", listen] if listen else []
    return [*joined, *options, "--", *argv]


def of_all(pair: Pair, endpoint: Endpoint) -> Place:
    """The place of that endpoint among the ranks of all pairs."""
    (rank,) = [number for number, rank in enumerate(pair.ranks) if rank.endpoint == endpoint.name]
    first, mine = pair.ranks[0], pair.ranks[rank]
    listen = f"{mine.address}:{mine.port}" if endpoint == pair.server else ""
    return rank, len(pair.ranks), f"{first.address}:{first.port}", listen


def of_pair(pair: Pair, endpoint: Endpoint) -> Place:
    """The place of that endpoint where each pair is by itself: its client is rank 0, and its server listens."""
    server = f"{pair.server.address}:{pair.port}"
    return (1, 2, server, server) if endpoint == pair.server else (0, 2, server, "")


def program(file: str, spec: Spec, *first: str) -> list[str]:
    """The command of one of ours, in that file beside join.py."""
    size = str(spec.message_bytes or USUAL_MESSAGE_BYTES)
    return [sys.executable, "-P", str(_HERE / file), *first, size, f"{spec.warmup_s:g}", f"{spec.duration_s:g}"]
