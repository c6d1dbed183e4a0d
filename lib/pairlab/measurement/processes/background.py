"""Background pairs: they send from before the others start until these have ended."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from pairlab.base.threads import before_flows
from pairlab.measurement.checks import silence
from pairlab.measurement.checks.check import Value
from pairlab.measurement.processes.background_rows import read_background
from pairlab.measurement.processes.getting_ready import READY_S, REPORT_S, link_options, servers_of, still_reporting
from pairlab.measurement.processes.steady_rate import await_steady_rate
from pairlab.measurement.reading import Reading
from pairlab.measurement.window import expected_s
from pairlab.model.spec import Spec
from pairlab.model.time_steps import carried_bytes
from pairlab.testbed.contracts import Progress, Workload
from pairlab.testbed.host.link_telemetry import LinkCounter, LinkTelemetry
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.open import Testbed
from pairlab.testbed.plans import MOST_RISE_S

#: How long a client that is stopped may take to report; many at once wait for each other's CPU time.
GRACE_S = 3.0


class Background:
    """The background of one measurement, step by step. Of a spec without one, each step does nothing."""

    def __init__(self, bed: Testbed):
        self._bed = bed
        self._workload = bed.plan.background() if bed.plan.background else None
        self.servers: Sequence[Process] = ()
        self.clients: Sequence[Process] = ()
        self._is_steady = False
        self._links: LinkTelemetry | None = None
        self._ended: Sequence[Process] = ()

    @property
    def asked(self) -> list[tuple[Workload, Spec]]:
        """Its workload, and what that is to carry out; empty where there is none."""
        return [(self._workload, self._bed.plan.of_background)] if self._workload else []

    @property
    def processes(self) -> list[Process]:
        return [*self.clients, *self.servers]

    def get_ready(self, progress: Progress) -> None:
        """Starts its servers, and its clients, which then wait at a gate of their own."""
        if self._workload is None:
            return
        bed, workload, told = self._bed, self._workload, self._bed.plan.of_background
        self.servers = servers_of(bed, bed.background, workload, told, progress)
        self._gate = bed.conductor.gate()
        options = [[*link_options(pair, bed.site), "--grace", f"{GRACE_S:g}"] for pair in bed.background]
        commands = [(pair.client, workload.endless_client(pair, told, bed.site)) for pair in bed.background]
        self.clients = bed.conductor.start(commands, gate=self._gate, options=options)
        bed.conductor.wait_ready(self.clients, READY_S, progress, "background ready")

    def release(self, progress: Progress) -> None:
        """Lets it send, and waits until it does at a steady rate, or MOST_RISE_S at most."""
        if self._workload is None:
            return
        progress("background to its rate", 0, 0)
        site, conductor = self._bed.site, self._bed.conductor
        seen = self.clients
        if self._shares_links:  # those of a host have one
            seen = list({site.hosts.get(each.endpoint.name, 0): each for each in self.clients}.values())
        counters = [LinkCounter(each, site.interface_of(each.endpoint.name)) for each in seen]
        with before_flows():
            self._gate.release()
            self._is_steady = await_steady_rate(
                counters, MOST_RISE_S, lambda seconds: conductor.wait_ended(self.clients, seconds)
            )

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """While the others send, its links are sampled, where each of its clients has one."""
        spec = self._bed.spec
        if self._workload is None or self._shares_links or not spec.telemetry:
            yield
            return
        self._links = LinkTelemetry(self.clients, self._bed.site.interface, expected_s(spec))
        with self._links:
            yield

    @property
    def _shares_links(self) -> bool:
        return not self._bed.plan.driver.isolated or bool(self._bed.spec.background_driver)

    def note_ended(self) -> None:
        """Notes which of its clients have ended by themselves; call it when the others have."""
        self._bed.conductor.wait_ended(self.processes, 0.0)
        self._ended = [each for each in self.processes if each.over]

    def stop(self) -> None:
        """Ends it, and reads what it printed."""
        if self._workload is None:
            return
        conductor = self._bed.conductor
        conductor.stop(self.clients, 2 * GRACE_S)
        conductor.results(self.clients)
        conductor.wait_ended(still_reporting(self._workload, self.clients, self.servers), REPORT_S)
        conductor.stop(self.servers)
        conductor.results(self.servers)

    def read(self, release_ns: int, window_s: tuple[float, float]) -> Reading:
        """Its flows and intervals, as of the others. window_s: over which totals are taken, from their release."""
        if self._workload is None:
            return Reading()
        first, hosts = self._bed.spec.pairs, self._bed.plan.hosts_of_pairs
        return read_background(
            first, self._workload, self.clients, self.servers, self._ended, release_ns, window_s, hosts[first:]
        )

    def seen_with(
        self, reading: Reading, own: Reading, clients: Sequence[Process], servers: Sequence[Process]
    ) -> tuple[Reading, list[Process], list[Process]]:
        """What the counters of the pairs' network tell of: those that are measured, and the background if it is on it.

        reading, clients, servers: of the pairs that are measured; own: the background's.
        """
        if self._bed.spec.background_driver:
            return reading, [*clients], [*servers]
        return reading.and_background(own), [*clients, *self.clients], [*servers, *self.servers]

    def checks(self, reading: Reading, release_ns: int, window_s: tuple[float, float]) -> Mapping[str, Value]:
        """reading: its own. window_s: in which the others sent, from their release."""
        if self._workload is None:
            return {}
        found: dict[str, Value] = {
            "background_steady": self._is_steady,
            "background_failed": sum(row["status"] != "ok" for row in reading.flows),
        }
        if self._links:
            going_on = {number: window_s for number, row in enumerate(reading.flows) if row["status"] == "ok"}
            return found | {
                "background_silent": silence.share(self._links, release_ns, *window_s),
                "background_silence_s": silence.longest_s(self._links, release_ns, going_on),
            }
        return found | {"background_silent": self._silent_by_tool(reading, window_s)}

    def _silent_by_tool(self, reading: Reading, window_s: tuple[float, float]) -> float | None:
        """As silence.share, by what its tool tells of each interval of the window."""
        steps = max(1, round((window_s[1] - window_s[0]) / self._bed.spec.interval_s))
        edges_s = np.linspace(*window_s, steps + 1)
        rows = [
            [row for row in reading.intervals if row["pair"] == pair] for pair in {row["pair"] for row in reading.flows}
        ]
        columns = ("start_s", "end_s", "interval_bytes")
        carried = [carried_bytes(edges_s, *([row[key] for row in mine] for key in columns)) for mine in rows if mine]
        return silence.share_of_steps(np.sum(carried, axis=0).tolist()) if carried else None
