"""Interference: processes that use CPU time beside the pairs."""

import time
from collections.abc import Mapping, Sequence

from pairlab.base.threads import before_flows
from pairlab.measurement.checks import Value
from pairlab.measurement.getting_ready import READY_S
from pairlab.testbed.contracts import Progress
from pairlab.testbed.host.foreign_load import used_by_s
from pairlab.testbed.interference import command
from pairlab.testbed.open import Testbed
from pairlab.testbed.process_launcher import UNPRIVILEGED, Process

#: Time limit for all workers to use CPU time, and the interval between checks of it.
RUNNING_S, EVERY_S = 10.0, 0.02
#: How long a worker that is stopped may take to end its own processes.
GRACE_S = 1.0


class Interference:
    """The interference of one measurement, step by step. Of a spec without one, each step does nothing."""

    def __init__(self, bed: Testbed):
        self._bed = bed
        self.processes: Sequence[Process] = ()
        self._are_running = False
        self._ended = 0

    def get_ready(self, progress: Progress) -> None:
        """Starts the workers, which then wait at a gate of their own."""
        bed = self._bed
        if not bed.workers:
            return
        self._gate = bed.launcher.gate()
        commands = [(worker, command(bed.spec, bed.site.flowgen)) for worker in bed.workers]
        options = [[UNPRIVILEGED, "--grace", f"{GRACE_S:g}"]] * len(commands)
        self.processes = bed.launcher.start(commands, gate=self._gate, options=options)
        bed.launcher.wait_ready(self.processes, READY_S, progress, "interference ready")

    def release(self) -> None:
        """Releases the workers, and waits until each has used CPU time, at most RUNNING_S."""
        if not self.processes:
            return
        with before_flows():
            before_s = self._used_s()  # held as yet
            self._gate.release()
            begun_s = time.monotonic()
            while not self._are_running and time.monotonic() - begun_s < RUNNING_S:
                self._bed.launcher.wait_ended(self.processes, EVERY_S)
                rising = sum(now_s > earlier_s for now_s, earlier_s in zip(self._used_s(), before_s, strict=True))
                self._are_running = rising == len(self.processes)

    def _used_s(self) -> list[float]:
        """The CPU time of each worker."""
        there = self._bed.site.used_s([each.slot for each in self.processes])
        return used_by_s([each.pid for each in self.processes]) if there is None else there

    def note_ended(self) -> None:
        """Notes how many workers have exited; call it when the pairs have ended."""
        self._bed.launcher.wait_ended(self.processes, 0.0)
        self._ended = sum(each.ended for each in self.processes)

    def stop(self) -> None:
        self._bed.launcher.stop(self.processes)
        self._bed.launcher.results(self.processes)

    def facts(self) -> Mapping[str, object]:
        """The CPUs that each worker used: CPU time (getrusage) over the time from start to end."""
        if not self.processes:
            return {}
        hosts = self._bed.plan.hosts
        return {
            "interference": [
                {
                    "name": each.endpoint.name,
                    "host": hosts[self._bed.site.hosts.get(each.endpoint.name, 0)].name,
                    "cpus_used": each.cpus_used,
                }
                for each in self.processes
            ]
        }

    def checks(self) -> Mapping[str, Value]:
        if not self.processes:
            return {}
        return {"interference_running": self._are_running, "interference_ended": self._ended}
