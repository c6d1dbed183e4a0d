"""stress-ng, for containers' costs besides the network: a fixed number of calculations, and the memory rate.

Suo et al. 2018 (figure 1) measured both. Nothing is sent: the client computes, and the server only listens.
"""

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowgenWorkload, FlowReport, Metric, Site, incomplete
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.requirements import MissingRequirement, Program

#: A stressor's report: the number of its operations, and their time in s. Since 0.15.05 it is a line of metrics.
DONE = re.compile(r"(?:metrc|info): {1,2}\[\d{1,10}\] (?:cpu|stream) {1,40}(\d{1,18}) {1,20}(\d{1,9}\.\d{1,9}) ")
#: Memory's rates, in a line of the stressor's own and in lines of metrics, whose words changed their order in 0.16.
RATE = re.compile(r"stream: memory rate: (\d{1,12}\.\d{1,9}) MB read/sec, (\d{1,12}\.\d{1,9}) MB write/sec")
RATES = tuple(
    re.compile(
        r"metrc: \[\d{1,10}\] stream {1,40}(\d{1,12}\.\d{1,9})"
        rf" (?:MB per sec memory {way} rate|memory {way} rate \(MB per sec\)) \("
    )
    for way in ("read", "write")
)
#: Before 0.15 there is one rate, of reads and writes together.
RATE_OF_BOTH = re.compile(r"stream: memory rate: \d{1,12}\.\d{1,9} MB/sec")
ERROR = re.compile(r"stress-ng: error: \[\d{1,10}\] ([^\n]{1,200})")
ENDED = re.compile(r"^stress-ng: info:  \[\d{1,10}\] (?:un)?successful run completed in \d[^\n]{0,40}\n", re.MULTILINE)
_SHORT = "run duration too short"

#: The number of CPU operations of a run, and their kind: each is some thousand integer calculations of 64 bits.
OPERATIONS, METHOD = 10_000, "int64"
#: The first version with a rate of reads and one of writes.
LEAST_STREAM_VERSION = (0, 15)
_ONE_RATE = "stress-ng before version 0.15 reports one memory rate, of reads and writes together"
_NEWER = "install stress-ng 0.15 or newer, which Debian 12 and Ubuntu 24.04 have"
#: The shortest time for which stress-ng prints memory's rate.
LEAST_STREAM_S = 5
#: stress-ng's MB.
MB_BYTES = 1 << 20


@dataclass(frozen=True)
class _WithRates(Program):
    """stress-ng of a version that reports rates of memory."""

    def missing(self) -> MissingRequirement | None:
        version = re.match(r"stress-ng, version (\d{1,4})\.(\d{1,4})", self.first_line("--version"))
        if version and tuple(map(int, version.groups())) < LEAST_STREAM_VERSION:
            return MissingRequirement(f"{_ONE_RATE}; this is {version[1]}.{version[2]}", _NEWER)
        return super().missing()


class _StressNg(FlowgenWorkload):
    """One stressor in each client's endpoint; flows carry nothing, and duration_s is the longest time."""

    features = frozenset({"time"})
    sends_traffic = False
    chooses_congestion_control = True  # irrelevant without traffic
    programs = (Program("stress-ng", "stress-ng"),)
    version_argv = ("stress-ng", "--version")

    @abstractmethod
    def stressor(self, spec: Spec) -> list[str]:
        """stress-ng's options for the stressor."""

    @classmethod
    def version_command(cls, flowgen: str) -> Sequence[str]:
        return cls.version_argv

    def client(self, pair: Pair, spec: Spec, site: Site) -> list[str]:
        argv = ["stress-ng", *self.stressor(spec), "-t", str(math.ceil(spec.duration_s))]
        return [*argv, "--metrics", "--stdout", "--temp-path", "/tmp"]

    def done(self, stdout: str) -> tuple[int, float]:
        """The number of operations, and their time in s. Raises ValueError if they are not reported."""
        counts = DONE.search(stdout)
        if not (counts and ENDED.search(stdout)):
            failed = ERROR.search(stdout)
            expected = "successful run completed in SECONDS" if counts else "metrc: … STRESSOR OPERATIONS SECONDS …"
            raise ValueError(f"{self.name}: {failed[1]}") if failed else incomplete(self.name, stdout, expected)
        return int(counts[1]), float(counts[2])


class StressNgCpu(_StressNg):
    """A fixed number of operations, and their time, by stress-ng's clock in steps of 10 ms.

    An operation is other work in each version: ten thousand take 0.2 s by 0.13.12 where they take 7 s by 0.17.06. Times
    of two versions are not comparable, and pairlab does not compare them (metrics.PER_VERSION).
    """

    name = "stress-ng-cpu"
    summary = f"stress-ng: the time of {OPERATIONS:,} CPU operations; sends nothing"
    metrics = (Metric("calculation_s", "s", f"time of {OPERATIONS:,} CPU operations", less_is_better=True),)

    def stressor(self, spec: Spec) -> list[str]:
        return ["--cpu", "1", "--cpu-method", METHOD, "--cpu-ops", str(OPERATIONS)]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        operations, took_s = self.done(stdout)
        if operations < OPERATIONS:
            raise ValueError(
                f"{operations:,} of {OPERATIONS:,} operations were done in the time: make duration_s longer"
            )
        return [FlowReport({"duration_s": took_s, "calculation_s": took_s})]


class StressNgStream(_StressNg):
    """A variant of STREAM: the total rates of reads and writes of its four kernels (copy, scale, add, triad).

    stress-ng runs them in turn without separate rates. Its authors ask not to submit these as results of STREAM.
    """

    name = "stress-ng-stream"
    summary = "stress-ng: what STREAM's kernels read and write of memory; sends nothing"
    programs = (_WithRates("stress-ng", "stress-ng"),)
    metrics = (
        Metric("memory_read_bps", "bit/s", "memory read by STREAM's kernels"),
        Metric("memory_write_bps", "bit/s", "memory written by STREAM's kernels"),
    )

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if spec.duration_s < LEAST_STREAM_S:
            raise BadSpec(
                f"{self.name} reports the rate of memory from {LEAST_STREAM_S} s on: make duration_s that long, not"
                f" {spec.duration_s:g}"
            )

    def stressor(self, spec: Spec) -> list[str]:
        return ["--stream", "1"]

    def parse(self, stdout: str, served: str = "") -> list[FlowReport]:
        if _SHORT in stdout:
            raise ValueError(f"{self.name} had too little time to report the rate of memory: make duration_s longer")
        if RATE_OF_BOTH.search(stdout):
            raise ValueError(f"{self.name}: {_ONE_RATE}: {_NEWER}")
        _, took_s = self.done(stdout)
        rates = RATE.search(stdout)
        printed = rates.groups() if rates else [found[1] for each in RATES if (found := each.search(stdout))]
        if len(printed) != len(RATES):
            raise incomplete(self.name, stdout, "stream: memory rate: NUMBER MB read/sec, NUMBER MB write/sec")
        read_bps, write_bps = (float(rate) * MB_BYTES * 8 for rate in printed)
        return [FlowReport({"duration_s": took_s, "memory_read_bps": read_bps, "memory_write_bps": write_bps})]
