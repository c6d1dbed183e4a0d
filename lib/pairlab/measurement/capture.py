"""The capture of a measurement: its processes, the packets they kept, and what they cost."""

import re
import time
from collections.abc import Mapping, Sequence

from pairlab.errors import MeasurementFailed
from pairlab.measurement.getting_ready import READY_S
from pairlab.testbed import capture
from pairlab.testbed.contracts import Progress
from pairlab.testbed.open import Testbed
from pairlab.testbed.process_launcher import Process

#: The interval between checks for tcpdump's start; and how late the kernel delivers packets to tcpdump, at most a
#: second (tcpdump's read timeout).
_EVERY_S, _LATE_S = 0.02, 1.1
#: tcpdump's output when the capture has begun, and when it has ended.
_BEGUN = "listening on"
_COUNTS = re.compile(r"^(\d+) packets? captured\n(\d+) packets? received by filter$", re.MULTILINE)


class Capture:
    """The capture of one measurement, step by step. Of a spec without one, each step does nothing."""

    def __init__(self, bed: Testbed):
        self._bed = bed
        self.processes: Sequence[Process] = ()

    def begin(self, progress: Progress) -> None:
        """Starts a tcpdump in each endpoint, and returns when all capture. Raises MeasurementFailed."""
        bed = self._bed
        names = capture.endpoints(bed.spec)
        if not names:
            return
        ends = {each.name: each for pair in (*bed.pairs, *bed.background) for each in (pair.client, pair.server)}
        files = {name: f"{bed.site.directory}/{name}.pcap" for name in names}
        self.processes = bed.launcher.start(
            [(ends[name], capture.command(bed.site.interface_of(name), file)) for name, file in files.items()]
        )
        deadline_s = time.monotonic() + READY_S
        while not all(_BEGUN in each.stderr for each in self.processes):
            progress("packet capture to begin", 0, 0)
            bed.launcher.wait_ended(self.processes, _EVERY_S)
            late = time.monotonic() > deadline_s
            silent = [each for each in bed.launcher.results(self.processes) if _BEGUN not in each.stderr]
            if lost := [each for each in silent if each.ended or late]:
                why = lost[0].failure if lost[0].ended else f"not within {READY_S:g} s"
                raise MeasurementFailed(
                    f"the packet capture in {lost[0].endpoint.name} did not begin: {why}; see whether tcpdump works on"
                    " this host, or leave capture out"
                )

    def stop(self) -> None:
        """Stops tcpdump once it has the last packets, and reads the output."""
        if not self.processes:
            return
        self._bed.launcher.wait_ended(self.processes, _LATE_S)
        self._bed.launcher.stop(self.processes)
        self._bed.launcher.results(self.processes)

    def facts(self) -> Mapping[str, object]:
        """By endpoint: how many packets were kept; how many others tcpdump had no time for, or were later than the last
        that it may keep (full); and the CPUs that it used while it ran.
        """
        if not self.processes:
            return {}
        return {
            "capture": {
                each.endpoint.name: {
                    **_counts(each),
                    "full": each.ended_by_itself,
                    "cpus_used": each.cpus_used,
                }
                for each in self.processes
            }
        }

    def raw(self) -> Mapping[str, str | bytes]:
        """The files of packets (pcap), by name."""
        names = [f"{each.endpoint.name}.pcap" for each in self.processes]
        if names:
            self._bed.site.fetch_files(names, self._bed.directory)
        files = ((name, self._bed.directory / name) for name in names)
        return {name: file.read_bytes() for name, file in files if file.exists()}


def _counts(process: Process) -> dict[str, int | None]:
    """Packets captured and missed; None if tcpdump printed no counts, as when it was killed."""
    match = _COUNTS.search(process.stderr)
    captured, received = (int(match[1]), int(match[2])) if match else (None, None)
    return {"packets": captured, "missed": None if received is None or captured is None else received - captured}
