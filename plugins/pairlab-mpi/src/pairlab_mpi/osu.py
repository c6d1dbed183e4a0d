"""The OSU micro-benchmarks, as they are: they count messages in place of a time, and print means."""

import json
import re
from abc import abstractmethod
from typing import Any, ClassVar

from pairlab import Spec
from pairlab.errors import BadSpec
from pairlab.testbed.contracts import USUAL_MESSAGE_BYTES, AllToAllWorkload, FlowReport, Metric, Site, Workload
from pairlab.testbed.endpoints import Endpoint, Pair
from pairlab.testbed.requirements import Program
from pairlab_mpi.ranks import MOST_PAIR_BYTES, PairOfRanks, Place, join, of_all, of_pair

_OSU = (
    "build the OSU micro-benchmarks (https://mvapich.cse.ohio-state.edu/benchmarks/) with MPICH's mpicc and put their"
    " programs on PATH"
)

#: How many rounds osu_alltoall times: as by itself for small messages.
OSU_ROUNDS = 1000


class _Osu(Workload):
    """One of the OSU micro-benchmarks. Its own numbers of messages take the place of a time.

    duration_s is how long it may take. It tells numbers for each size, of which those of message_bytes count, and no
    bytes that were sent: what it tells is in metrics, and its flows carry nothing as far as pairlab knows. Its version
    is in the first line of what it printed (run.raw).
    """

    features = frozenset({"time", "message"})
    sends_traffic = False
    serves_once = True
    program: ClassVar[str]
    most_bytes: ClassVar[int] = MOST_PAIR_BYTES
    line: ClassVar[re.Pattern]
    """A size's line; the first group is the size, and others what `told` reads."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.programs = (Program(cls.program, "", _OSU),)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        size = spec.message_bytes
        if size > self.most_bytes or size & (size - 1):
            raise BadSpec(
                f"message_bytes: {self.program} measures powers of two up to {self.most_bytes}: {size} is none of them"
            )

    def rank(self, pair: Pair, endpoint: Endpoint, spec: Spec, site: Site) -> list[str]:
        size = spec.message_bytes or USUAL_MESSAGE_BYTES
        argv = [self.program, *self.options(size)]
        return join(site, endpoint, self.place(pair, endpoint), argv, "--tell-all", str(size))

    def place(self, pair: Pair, endpoint: Endpoint) -> Place:
        """As `join` takes it."""
        return of_pair(pair, endpoint)

    def options(self, size: int) -> list[str]:
        """Its options for messages of that size."""
        return []

    @abstractmethod
    def told(self, numbers: list[float]) -> dict[str, float]:
        """The metrics, from the numbers of the line."""

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        *lines, last = stdout.splitlines() or [""]
        try:
            ended = json.loads(last)
            lasted_s, size = float(ended["lasted_s"]), int(ended["message_bytes"])
        except (ValueError, RecursionError, KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{self.name} printed no complete report: {error!r}") from None
        found = [match for line in lines if (match := self.line.fullmatch(line)) and int(match[1]) == size]
        if len(found) != 1:
            raise ValueError(f"{self.name} told {len(found)} results of messages of {size} B, and not one")
        return [FlowReport({"duration_s": lasted_s, **self.told(list(map(float, found[0].groups()[1:])))})]


class OsuAllToAll(_Osu, AllToAllWorkload):
    """osu_alltoall: rounds of MPI_Alltoall between all containers. Each pair has its figures, those of all ranks."""

    name = "osu-all-to-all"
    summary = "osu_alltoall, of the OSU micro-benchmarks: the mean round between all containers"
    program = "osu_alltoall"
    features = frozenset({"time", "message", "ranks"})
    metrics = (
        Metric("round_mean_s", "s", "mean round, over all ranks", less_is_better=True),
        *AllToAllWorkload.metrics,
    )
    line = re.compile(r"(\d{1,10})" + 3 * r" {1,30}(\d{1,12}\.\d\d)" + r" {1,30}(\d{1,12})")
    most_bytes = 1 << 20

    def place(self, pair: Pair, endpoint: Endpoint) -> Place:
        return of_all(pair, endpoint)

    def options(self, size: int) -> list[str]:
        return ["-m", f"{size}:{size}", "-f", "-i", str(OSU_ROUNDS)]

    def told(self, numbers: list[float]) -> dict[str, float]:
        mean_us, least_us, most_us, _ = numbers
        return {
            "round_mean_s": mean_us / 1e6,
            "rank_least_mean_s": least_us / 1e6,
            "rank_most_mean_s": most_us / 1e6,
        }


class OsuLatency(_Osu, PairOfRanks):
    """osu_latency: a message and an answer of the same size, one after the other; half of the mean time of both."""

    name = "osu-latency"
    times_messages = True
    summary = "osu_latency, of the OSU micro-benchmarks: half the time of a message there and back"
    program = "osu_latency"
    metrics = (
        Metric("one_way_mean_s", "s", "half of the mean time there and back", less_is_better=True, resolution=1e-8),
    )
    line = re.compile(r"(\d{1,10}) {1,30}(\d{1,12}\.\d\d)")

    def told(self, numbers: list[float]) -> dict[str, float]:
        return {"one_way_mean_s": numbers[0] / 1e6}


class OsuBandwidth(_Osu, PairOfRanks):
    """osu_bw: windows of 64 messages that are sent at once, each answered once."""

    name = "osu-bandwidth"
    summary = "osu_bw, of the OSU micro-benchmarks: the rate of windows of 64 messages"
    program = "osu_bw"
    metrics = (Metric("bandwidth_bps", "bit/s", "rate of messages, as osu_bw tells it", resolution=8e4),)
    line = re.compile(r"(\d{1,10}) {1,30}(\d{1,12}\.\d\d)")

    def told(self, numbers: list[float]) -> dict[str, float]:
        return {"bandwidth_bps": numbers[0] * 8e6}  # it tells 10⁶ bytes a second
