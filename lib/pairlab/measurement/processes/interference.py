"""Interference: processes that use CPU time beside the pairs."""

import time
from collections.abc import Mapping, Sequence

from pairlab.base.threads import before_flows
from pairlab.measurement.checks.check import Value
from pairlab.measurement.processes.getting_ready import READY_S
from pairlab.testbed.cleanup.process_table import read_processes
from pairlab.testbed.contracts import Progress
from pairlab.testbed.host.foreign_load import cpu_clock_s
from pairlab.testbed.interference import command
from pairlab.testbed.launch.conductor import UNPRIVILEGED, Process
from pairlab.testbed.open import Testbed

#: How long all may take until they use CPU time, and how often that is looked at.
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
        self._gate = bed.conductor.gate()
        commands = [(worker, command(bed.spec, bed.site.flowgen)) for worker in bed.workers]
        options = [[UNPRIVILEGED, "--grace", f"{GRACE_S:g}"]] * len(commands)
        self.processes = bed.conductor.start(commands, gate=self._gate, options=options)
        bed.conductor.wait_ready(self.processes, READY_S, progress, "interference ready")

    def release(self) -> None:
        """Lets them run, and waits until each has used CPU time, or RUNNING_S at most."""
        if not self.processes:
            return
        with before_flows():
            used_s = _used_s(self.processes)  # held as yet
            self._gate.release()
            begun_s = time.monotonic()
            while not self._are_running and time.monotonic() - begun_s < RUNNING_S:
                self._bed.conductor.wait_ended(self.processes, EVERY_S)
                now_s = _used_s(self.processes)
                rising = sum(now_s.get(pid, 0.0) > before_s for pid, before_s in used_s.items())
                self._are_running = rising == len(self.processes)

    def note_ended(self) -> None:
        """Notes how many have ended by themselves; call it when the pairs have."""
        self._bed.conductor.wait_ended(self.processes, 0.0)
        self._ended = sum(each.over for each in self.processes)

    def stop(self) -> None:
        self._bed.conductor.stop(self.processes)
        self._bed.conductor.results(self.processes)

    def facts(self) -> Mapping[str, object]:
        """What each worker used, as CPUs: its CPU time (getrusage) over the time from its start to its end."""
        if not self.processes:
            return {}
        hosts = self._bed.plan.hosts
        return {
            "interference": [
                {
                    "name": each.endpoint.name,
                    "host": hosts[self._bed.site.hosts.get(each.endpoint.name, 0)].name,
                    "cpus_used": _cpus_used(each),
                }
                for each in self.processes
            ]
        }

    def checks(self) -> Mapping[str, Value]:
        if not self.processes:
            return {}
        return {"interference_running": self._are_running, "interference_ended": self._ended}


def _used_s(workers: Sequence[Process]) -> dict[int, float]:
    """The CPU time of each worker by its launcher's process id: that of the processes that have started no others."""
    every = read_processes()
    parents = {each.parent for each in every.values()}
    used_s = {each.pid: 0.0 for each in workers if each.pid}
    for process in every.values():
        above: int | None = process.parent
        while above in every and above not in used_s:
            above = every[above].parent
        if above in used_s and process.pid not in parents:
            used_s[above] += cpu_clock_s(process.pid) or 0.0
    return used_s


def _cpus_used(process: Process) -> float | None:
    if process.start_ns is None or process.end_ns is None:
        return None
    return process.cpu_s / ((process.end_ns - process.start_ns) / 1e9)
