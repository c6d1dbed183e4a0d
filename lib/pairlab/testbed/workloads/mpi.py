"""Programs of MPI as workloads: point to point by mpi4py, and the OSU micro-benchmarks.

Ranks reach each other by TCP over their endpoints' links, also those on one host, and never by shared memory. They are
started without mpiexec (testbed/mpi/join.py). MPICH polls, so that a rank that waits uses all of a CPU.
"""

import json
import re
from abc import abstractmethod
from typing import ClassVar

from pairlab.errors import BadSpec
from pairlab.testbed.contracts import Measured, Metric, Workload, transaction_totals
from pairlab.testbed.mpi.ranks import (
    MPI4PY,
    RANK_METRICS,
    USUAL_MESSAGE_BYTES,
    join,
    of_all,
    of_pair,
    program,
    require_messages,
    version_of_mpi4py,
)
from pairlab.testbed.requirements import Program, PythonPackage

_OSU = (
    "build the OSU micro-benchmarks (https://mvapich.cse.ohio-state.edu/benchmarks/) with MPICH's mpicc and put their"
    " programs on PATH"
)

#: How many rounds osu_alltoall times: as by itself for small messages.
OSU_ROUNDS = 1000
#: The largest message of osu_latency and osu_bw, which measure every power of two up to it in one go.
MOST_OSU_BYTES = 1 << 22


class _MpiPair(Workload):
    """One MPI program for each pair: the client is rank 0, which sends, and the server rank 1."""

    can = frozenset({"time", "message", "warmup"})
    programs = (PythonPackage("mpi4py", "", MPI4PY),)
    serves_once = True
    one_port = False
    pattern: ClassVar[str]
    """Which of point_to_point.PATTERNS it makes."""

    @classmethod
    def version_command(cls, flowgen):
        return version_of_mpi4py()

    def check(self, spec):
        if spec.message_bytes > MOST_OSU_BYTES:
            raise BadSpec(f"message_bytes: {self.name} sends at most {MOST_OSU_BYTES}, not {spec.message_bytes}")

    def server(self, pair, spec, site):
        return self._rank(pair, pair.server, spec, site)

    def client(self, pair, spec, site):
        return self._rank(pair, pair.client, spec, site)

    def _rank(self, pair, endpoint, spec, site):
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


class _Osu(Workload):
    """One of the OSU micro-benchmarks. Its own numbers of messages take the place of a time.

    duration_s is how long it may take. It tells numbers for each size, of which those of message_bytes count, and no
    bytes that were sent: what it tells is in metrics, and its flows carry nothing as far as pairlab knows. Its version
    is in the first line of what it printed (run.raw).
    """

    can = frozenset({"time", "message"})
    carries = False
    chooses_congestion_control = False
    serves_once = True
    one_port = False
    program: ClassVar[str]
    most_bytes: ClassVar[int] = MOST_OSU_BYTES
    line: ClassVar[re.Pattern]
    """A size's line; the first group is the size, and others what `told` reads."""

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        cls.programs = (Program(cls.program, "", _OSU),)

    def check(self, spec):
        size = spec.message_bytes
        if size > self.most_bytes or size & (size - 1):
            raise BadSpec(
                f"message_bytes: {self.program} measures powers of two up to {self.most_bytes}: {size} is none of them"
            )

    def server(self, pair, spec, site):
        return self._rank(pair, pair.server, spec, site)

    def client(self, pair, spec, site):
        return self._rank(pair, pair.client, spec, site)

    def _rank(self, pair, endpoint, spec, site):
        size = spec.message_bytes or USUAL_MESSAGE_BYTES
        argv = [self.program, *self.options(size)]
        return join(site, endpoint, self.place(pair, endpoint), argv, "--tell-all", str(size))

    def place(self, pair, endpoint):
        """As `join` takes it."""
        return of_pair(pair, endpoint)

    def options(self, size):
        """Its options for messages of that size."""
        return []

    @abstractmethod
    def told(self, numbers):
        """The metrics, from the numbers of the line."""

    def parse(self, stdout, served=""):
        *lines, last = stdout.splitlines() or [""]
        try:
            ended = json.loads(last)
            lasted_s, size = float(ended["lasted_s"]), int(ended["message_bytes"])
        except (ValueError, RecursionError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{self.name} printed no complete report: {error!r}") from None
        found = [match for line in lines if (match := self.line.fullmatch(line)) and int(match[1]) == size]
        if len(found) != 1:
            raise ValueError(f"{self.name} told {len(found)} results of messages of {size} B, and not one")
        return [Measured({"duration_s": lasted_s, **self.told(list(map(float, found[0].groups()[1:])))})]


class OsuAllToAll(_Osu):
    """osu_alltoall: rounds of MPI_Alltoall between all containers. Each pair has its figures, those of all ranks."""

    name = "osu-all-to-all"
    summary = "osu_alltoall, of the OSU micro-benchmarks: the mean round between all containers"
    program = "osu_alltoall"
    can = frozenset({"time", "message", "ranks"})
    all_connect = True
    metrics = (
        Metric("round_mean_s", "s", "mean round, over all ranks", less_is_better=True),
        *RANK_METRICS,
    )
    line = re.compile(r"(\d{1,10})" + 3 * r" {1,30}(\d{1,12}\.\d\d)" + r" {1,30}(\d{1,12})")
    most_bytes = 1 << 20

    def check(self, spec):
        require_messages(spec)
        super().check(spec)

    def server(self, pair, spec, site):
        if pair.server.name not in {rank.endpoint for rank in pair.ranks}:  # the last of an odd number: it has no rank
            return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port)]
        return super().server(pair, spec, site)

    def place(self, pair, endpoint):
        return of_all(pair, endpoint)

    def options(self, size):
        return ["-m", f"{size}:{size}", "-f", "-i", str(OSU_ROUNDS)]

    def told(self, numbers):
        mean_us, least_us, most_us, _ = numbers
        return {
            "round_mean_s": mean_us / 1e6,
            "rank_least_mean_s": least_us / 1e6,
            "rank_most_mean_s": most_us / 1e6,
        }


class OsuLatency(_Osu):
    """osu_latency: a message and an answer of the same size, one after the other; half of the mean time of both."""

    name = "osu-latency"
    times_messages = True
    summary = "osu_latency, of the OSU micro-benchmarks: half the time of a message there and back"
    program = "osu_latency"
    metrics = (
        Metric("one_way_mean_s", "s", "half of the mean time there and back", less_is_better=True, resolution=1e-8),
    )
    line = re.compile(r"(\d{1,10}) {1,30}(\d{1,12}\.\d\d)")

    def told(self, numbers):
        return {"one_way_mean_s": numbers[0] / 1e6}


class OsuBandwidth(_Osu):
    """osu_bw: windows of 64 messages that are sent at once, each answered once."""

    name = "osu-bandwidth"
    summary = "osu_bw, of the OSU micro-benchmarks: the rate of windows of 64 messages"
    program = "osu_bw"
    metrics = (Metric("bandwidth_bps", "bit/s", "rate of messages, as osu_bw tells it", resolution=8e4),)
    line = re.compile(r"(\d{1,10}) {1,30}(\d{1,12}\.\d\d)")

    def told(self, numbers):
        return {"bandwidth_bps": numbers[0] * 8e6}  # it tells 10⁶ bytes a second
