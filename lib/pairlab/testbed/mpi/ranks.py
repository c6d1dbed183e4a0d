"""What workloads of ranks share: messages, metrics, and the command by which an endpoint runs a program of MPI."""

import sys
from pathlib import Path

from pairlab.errors import BadSpec
from pairlab.model.metrics.declared import Metric
from pairlab.testbed import mpi

#: The largest message that is exchanged in rounds, by flowgen too: alltoall.c.
MOST_MESSAGE_BYTES = 1 << 20

#: What a message has where the spec does not say: as in paper S.
USUAL_MESSAGE_BYTES = 1024

#: Of each pair's ranks; the mean over all ranks is the mean latency of the transactions.
RANK_METRICS = (
    Metric("rank_least_mean_s", "s", "mean round of the rank with the shortest", less_is_better=True, of_run="min"),
    Metric("rank_most_mean_s", "s", "mean round of the rank with the longest", less_is_better=True, of_run="max"),
)

MPI4PY = (
    "install both packages of lib/requirements/mpi.lock into pairlab's Python, with pip install --require-hashes -r"
)

#: What runs in the endpoints.
_HERE = Path(mpi.__file__).parent


def require_messages(spec):
    """Raises BadSpec for messages that are too large to be exchanged in rounds."""
    if spec.message_bytes > MOST_MESSAGE_BYTES:
        raise BadSpec(f"message_bytes: all-to-all sends at most {MOST_MESSAGE_BYTES}, not {spec.message_bytes}")


def join(site, endpoint, place, argv, *options):
    """The command by which that endpoint runs argv as a rank of MPI. place: its rank, of how many, and two addresses.

    The addresses are where the process manager listens, and where this endpoint does: empty where it need not.
    options: others of join.py.
    """
    rank, ranks, manager, listen = place
    joined = [sys.executable, "-P", str(_HERE / "join.py"), "--rank", str(rank), "--ranks", str(ranks)]
    joined += ["--manager", manager, "--interface", site.interface_of(endpoint.name)]
    joined += ["--listen", listen] if listen else []
    return [*joined, *options, "--", *argv]


def of_all(pair, endpoint):
    """The place of that endpoint among the ranks of all pairs."""
    (rank,) = [number for number, rank in enumerate(pair.ranks) if rank.endpoint == endpoint.name]
    first, mine = pair.ranks[0], pair.ranks[rank]
    listen = f"{mine.address}:{mine.port}" if endpoint == pair.server else ""
    return rank, len(pair.ranks), f"{first.address}:{first.port}", listen


def of_pair(pair, endpoint):
    """The place of that endpoint where each pair is by itself: its client is rank 0, and its server listens."""
    server = f"{pair.server.address}:{pair.port}"
    return (1, 2, server, server) if endpoint == pair.server else (0, 2, server, "")


def program(file, spec, *first):
    """The command of one of ours, in that file beside join.py."""
    size = str(spec.message_bytes or USUAL_MESSAGE_BYTES)
    return [sys.executable, "-P", str(_HERE / file), *first, size, f"{spec.warmup_s:g}", f"{spec.duration_s:g}"]


def version_of_mpi4py():
    told = "from mpi4py import MPI; print('mpi4py', MPI.Get_library_version().split('\\n')[0])"
    return (sys.executable, "-P", "-c", told)
