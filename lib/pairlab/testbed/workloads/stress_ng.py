"""stress-ng, for what containers cost beside their network: a fixed number of calculations, and memory's rate.

Paper S measured both in its figure 1. Nothing is sent: the client computes, and its server only listens.
"""

import math
import re
from abc import abstractmethod

from pairlab.errors import BadSpec
from pairlab.testbed import token
from pairlab.testbed.contracts import Measured, Metric, Workload, incomplete
from pairlab.testbed.requirements import Program

#: Of its report of one stressor: how often it did what it does, and in how many seconds.
DONE = re.compile(r"metrc: \[\d{1,10}\] (?:cpu|stream) {1,40}(\d{1,18}) {1,20}(\d{1,9}\.\d{1,9}) ")
RATE = re.compile(r"stream: memory rate: (\d{1,12}\.\d{1,9}) MB read/sec, (\d{1,12}\.\d{1,9}) MB write/sec")
ERROR = re.compile(r"stress-ng: error: \[\d{1,10}\] ([^\n]{1,200})")
ENDED = re.compile(r"^stress-ng: info:  \[\d{1,10}\] (?:un)?successful run completed in \d[^\n]{0,40}\n", re.MULTILINE)
_SHORT = "run duration too short"

#: What it does so often in a run: a fixed number of operations, each some thousand integer calculations of 64 bits.
OPERATIONS, METHOD = 10_000, "int64"
#: Below that it does not tell memory's rate.
LEAST_STREAM_S = 5
#: What it calls MB.
MB_BYTES = 1 << 20


class _StressNg(Workload):
    """One stressor in each client's endpoint; its flows carry nothing, and duration_s is how long it may take."""

    can = frozenset({"time"})
    carries = False
    chooses_congestion_control = True  # none is in the way of what it does
    programs = (Program("stress-ng", "stress-ng"),)
    version_argv = ("stress-ng", "--version")

    @abstractmethod
    def stressor(self, spec) -> list[str]:
        """The options for what it does."""

    def prepare(self, spec, directory):
        token.write(directory)

    def server(self, pair, spec, site):
        return [site.flowgen, "server", "--bind", pair.server.address, "--port", str(pair.port), *token.options(site)]

    def client(self, pair, spec, site):
        argv = ["stress-ng", *self.stressor(spec), "-t", str(math.ceil(spec.duration_s))]
        return [*argv, "--metrics-brief", "--stdout", "--temp-path", "/tmp"]

    def done(self, stdout) -> tuple[int, float]:
        """How often it did what it does, and in how many seconds. Raises ValueError where it does not tell."""
        found = DONE.search(stdout)
        if not (found and ENDED.search(stdout)):
            failed = ERROR.search(stdout)
            expected = "successful run completed in SECONDS" if found else "metrc: … STRESSOR OPERATIONS SECONDS …"
            raise ValueError(f"{self.name}: {failed[1]}") if failed else incomplete(self.name, stdout, expected)
        return int(found[1]), float(found[2])


class StressNgCpu(_StressNg):
    """A fixed number of operations, and the time that they took, by stress-ng's clock in steps of 10 ms."""

    name = "stress-ng-cpu"
    summary = f"stress-ng: the time of {OPERATIONS:,} CPU operations; sends nothing"
    metrics = (Metric("calculation_s", "s", f"time of {OPERATIONS:,} CPU operations", less_is_better=True),)

    def stressor(self, spec):
        return ["--cpu", "1", "--cpu-method", METHOD, "--cpu-ops", str(OPERATIONS)]

    def parse(self, stdout, served=""):
        operations, took_s = self.done(stdout)
        if operations < OPERATIONS:
            raise ValueError(
                f"{operations:,} of {OPERATIONS:,} operations were done in the time: make duration_s longer"
            )
        return [Measured({"duration_s": took_s, "calculation_s": took_s})]


class StressNgStream(_StressNg):
    """A variant of STREAM: how much its four kernels (copy, scale, add, triad) read and write together.

    stress-ng takes them in turn and tells no rate of each. Its authors ask not to submit these as results of STREAM.
    """

    name = "stress-ng-stream"
    summary = "stress-ng: what STREAM's kernels read and write of memory; sends nothing"
    metrics = (
        Metric("memory_read_bps", "bit/s", "memory read by STREAM's kernels"),
        Metric("memory_write_bps", "bit/s", "memory written by STREAM's kernels"),
    )

    def check(self, spec):
        super().check(spec)
        if spec.duration_s < LEAST_STREAM_S:
            raise BadSpec(
                f"{self.name} tells memory's rate from {LEAST_STREAM_S} s on: make duration_s that long, not"
                f" {spec.duration_s:g}"
            )

    def stressor(self, spec):
        return ["--stream", "1"]

    def parse(self, stdout, served=""):
        if _SHORT in stdout:
            raise ValueError(f"{self.name} had too little time to tell memory's rate: make duration_s longer")
        _, took_s = self.done(stdout)
        rates = RATE.search(stdout)
        if not rates:
            raise incomplete(self.name, stdout, "stream: memory rate: NUMBER MB read/sec, NUMBER MB write/sec")
        read_bps, write_bps = (float(rate) * MB_BYTES * 8 for rate in rates.groups())
        return [Measured({"duration_s": took_s, "memory_read_bps": read_bps, "memory_write_bps": write_bps})]
