"""MPI by mpi4py and MPICH: rounds between all containers, and messages between the two of each pair.

MPICH polls, so that a rank that waits uses all of a CPU.
"""

import json
import sys
from abc import abstractmethod
from typing import ClassVar

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import AllToAllWorkload, Measured, Metric, transaction_totals
from pairlab.testbed.requirements import PythonPackage
from pairlab_mpi.ranks import MOST_PAIR_BYTES, PairOfRanks, join, of_all, of_pair, program

_MPI4PY = (
    "install both packages of plugins/pairlab-mpi/mpi.lock into pairlab's Python, with pip install --require-hashes -r"
)


def version_of_mpi4py():
    """The command that prints it, and MPICH's."""
    told = "from mpi4py import MPI; print('mpi4py', MPI.Get_library_version().split('\\n')[0])"
    return (sys.executable, "-P", "-c", told)


class MpiAllToAll(AllToAllWorkload):
    """MPI_Alltoall in rounds: all-to-all as programs of MPI have it, with the algorithms and the polling of MPICH."""

    name = "mpi-all-to-all"
    summary = "MPI_Alltoall by MPICH and mpi4py: rounds between all containers, and their latencies"
    can = frozenset({"time", "message", "warmup", "ranks"})
    programs = (PythonPackage("mpi4py", "", f"{_MPI4PY}, or take workload 'all-to-all', which needs neither"),)
    most_ranks = 256  # as all-to-all, which it is held against
    serves_once = True

    @classmethod
    def version_command(cls, flowgen):
        return version_of_mpi4py()

    def rank(self, pair, endpoint, spec, site):
        return join(site, endpoint, of_all(pair, endpoint), program("rounds.py", spec))


class _MpiPair(PairOfRanks):
    """Messages between the two of a pair, as point_to_point.py makes them."""

    can = frozenset({"time", "message", "warmup"})
    programs = (PythonPackage("mpi4py", "", _MPI4PY),)
    pattern: ClassVar[str]
    """Which of point_to_point.PATTERNS it makes."""

    @classmethod
    def version_command(cls, flowgen):
        return version_of_mpi4py()

    def check(self, spec):
        if spec.message_bytes > MOST_PAIR_BYTES:
            raise BadSpec(f"message_bytes: {self.name} sends at most {MOST_PAIR_BYTES}, not {spec.message_bytes}")

    def rank(self, pair, endpoint, spec, site):
        return join(site, endpoint, of_pair(pair, endpoint), program("point_to_point.py", spec, self.pattern))

    def parse(self, stdout, served=""):
        try:
            lines = [json.loads(line) for line in stdout.splitlines()]
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{self.name} printed no complete report: {error}") from None
        try:
            (total,) = [line for line in lines if line["event"] == "sender"]
            buckets = [bucket for line in lines if line["event"] == "latencies" for bucket in line["buckets"]]
            return [self.measured(total, [(int(value_ns) / 1e9, int(count)) for value_ns, count in buckets])]
        except (KeyError, TypeError, AttributeError, OverflowError, ZeroDivisionError, ValueError) as error:
            raise ValueError(f"{self.name}'s report is incomplete: {error!r}") from None

    @abstractmethod
    def measured(self, total, latencies):
        """The pair's flow, from the sender's total and from how many messages or windows took how long, in s."""


class MpiLatency(_MpiPair):
    """A message and an answer of the same size, one after the other, as osu_latency does it, but for a given time.

    A transaction is both. osu_latency's figure is half of their mean: one_way_mean_s.
    """

    name = "mpi-latency"
    times_messages = True
    summary = "osu_latency's method by MPICH and mpi4py: a message there and back, one at a time"
    pattern = "ping-pong"
    metrics = (Metric("one_way_mean_s", "s", "half of the mean time there and back", less_is_better=True),)

    def measured(self, total, latencies):
        transactions, duration_s = int(total["count"]), float(total["duration_s"])
        if sum(count for _, count in latencies) != transactions:
            raise ValueError("the histogram has not as many latencies as there were transactions")
        flow = transaction_totals(duration_s, transactions, 2 * int(total["message_bytes"]))
        return Measured(
            flow | {"one_way_mean_s": float(total["mean_s"]) / 2},
            connected_ns=int(total["connected_ns"]),
            lasted_s=float(total["lasted_s"]),
            latencies=latencies,
            windowed=True,
        )


class MpiBandwidth(_MpiPair):
    """Windows of 64 messages that are sent at once and answered by 4 bytes, as osu_bw does it, but for a given time."""

    name = "mpi-bandwidth"
    summary = "osu_bw's method by MPICH and mpi4py: windows of 64 messages, each answered once"
    pattern = "windows"

    def measured(self, total, latencies):
        flow_bytes, duration_s = int(total["count"]) * int(total["message_bytes"]), float(total["duration_s"])
        return Measured(
            {"flow_bytes": flow_bytes, "duration_s": duration_s, "throughput_bps": flow_bytes * 8 / duration_s},
            connected_ns=int(total["connected_ns"]),
            lasted_s=float(total["lasted_s"]),
            windowed=True,
        )
