"""MPI by mpi4py and MPICH: rounds between all containers, and messages between the two of each pair.

MPICH polls, so that a rank that waits uses all of a CPU.
"""

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pairlab import Spec
from pairlab.testbed.contracts import AllToAllWorkload, FlowReport, Metric, Site, reports
from pairlab.testbed.endpoints import Endpoint, Pair
from pairlab.testbed.requirements import PythonPackage
from pairlab_mpi.ranks import MOST_PAIR_BYTES, PairOfRanks, join, of_all, of_pair, program

_MPI4PY = (
    "install both packages of plugins/pairlab-mpi/mpi.lock into pairlab's Python, with pip install --require-hashes -r"
)


def version_of_mpi4py() -> Sequence[str]:
    """The command that prints it, and MPICH's."""
    told = "from mpi4py import MPI; print('mpi4py', MPI.Get_library_version().split('\\n')[0])"
    return (sys.executable, "-P", "-c", told)


class MpiAllToAll(AllToAllWorkload):
    """MPI_Alltoall in rounds: all-to-all as programs of MPI have it, with the algorithms and the polling of MPICH."""

    name = "mpi-all-to-all"
    summary = "MPI_Alltoall by MPICH and mpi4py: rounds between all containers, and their latencies"
    features = frozenset({"time", "message", "warmup", "ranks"})
    programs = (PythonPackage("mpi4py", "", f"{_MPI4PY}, or take workload 'all-to-all', which needs neither"),)
    most_ranks = 256  # as all-to-all, which it is held against
    serves_once = True

    @classmethod
    def version_command(cls, flowgen: str) -> Sequence[str]:
        return version_of_mpi4py()

    def rank(self, pair: Pair, endpoint: Endpoint, spec: Spec, site: Site) -> list[str]:
        return join(site, endpoint, of_all(pair, endpoint), program("rounds.py", spec))


class _MpiPair(PairOfRanks):
    """Messages between the two of a pair, as point_to_point.py makes them."""

    features = frozenset({"time", "message", "warmup"})
    takes: ClassVar[Mapping[str, tuple[int, int]]] = {"message_bytes": (1, MOST_PAIR_BYTES)}
    programs = (PythonPackage("mpi4py", "", _MPI4PY),)
    pattern: ClassVar[str]
    """Which of point_to_point.PATTERNS it makes."""

    @classmethod
    def version_command(cls, flowgen: str) -> Sequence[str]:
        return version_of_mpi4py()

    def rank(self, pair: Pair, endpoint: Endpoint, spec: Spec, site: Site) -> list[str]:
        return join(site, endpoint, of_pair(pair, endpoint), program("point_to_point.py", spec, self.pattern))

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        lines = reports.json_lines(self.name, stdout)
        with reports.read(self.name):
            totals = [line for line in lines if line["event"] == "sender"]
            if len(totals) != 1:
                raise ValueError(f"{self.name}'s report is incomplete: {len(totals)} totals, not one")
            buckets = [bucket for line in lines if line["event"] == "latencies" for bucket in line["buckets"]]
            return [self.measured(totals[0], buckets)]

    @abstractmethod
    def measured(self, total: Mapping[str, Any], buckets: Sequence[Sequence[Any]]) -> FlowReport:
        """The pair's flow, from the sender's total and from how many messages or windows took how long, in ns."""


class MpiLatency(_MpiPair):
    """A message and an answer of the same size, one after the other, as osu_latency does it, but for a given time.

    A transaction is both. osu_latency's figure is half of their mean: one_way_mean_s.
    """

    name = "mpi-latency"
    times_messages = True
    summary = "osu_latency's method by MPICH and mpi4py: a message there and back, one at a time"
    pattern = "ping-pong"
    metrics = (Metric("one_way_mean_s", "s", "half of the mean time there and back", less_is_better=True),)

    def measured(self, total: Mapping[str, Any], buckets: Sequence[Sequence[Any]]) -> FlowReport:
        transactions, duration_s = int(total["count"]), float(total["duration_s"])
        flow = reports.transaction_totals(duration_s, transactions, 2 * int(total["message_bytes"]))
        return FlowReport(
            flow | {"one_way_mean_s": float(total["mean_s"]) / 2},
            connected_ns=int(total["connected_ns"]),
            lasted_s=float(total["lasted_s"]),
            latencies=reports.latencies_s(self.name, buckets, transactions),
            windowed=True,
        )


class MpiBandwidth(_MpiPair):
    """Windows of 64 messages that are sent at once and answered by 4 bytes, as osu_bw does it, but for a given time."""

    name = "mpi-bandwidth"
    summary = "osu_bw's method by MPICH and mpi4py: windows of 64 messages, each answered once"
    pattern = "windows"

    def measured(self, total: Mapping[str, Any], buckets: Sequence[Sequence[Any]]) -> FlowReport:
        flow_bytes, duration_s = int(total["count"]) * int(total["message_bytes"]), float(total["duration_s"])
        return FlowReport(
            reports.totals(duration_s, flow_bytes),
            connected_ns=int(total["connected_ns"]),
            lasted_s=float(total["lasted_s"]),
            windowed=True,
        )
