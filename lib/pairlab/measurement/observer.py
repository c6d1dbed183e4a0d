"""Observes host and network while traffic flows, and computes checks from it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pairlab.measurement import crosschecks, steady_state
from pairlab.measurement.flow_rows import Reading
from pairlab.measurement.verdict import Value
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Workload
from pairlab.testbed.host import foreign_load
from pairlab.testbed.host.cpu_sampler import CpuTelemetry
from pairlab.testbed.host.link_telemetry import LinkTelemetry
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.netns import shaping
from pairlab.testbed.open import Testbed
from pairlab.testbed.profiling.counters import HostCounters
from pairlab.testbed.profiling.profiler import Profiler


class Observer:
    """Samples host and network before, during and after its block (a context manager).

    With Spec.telemetry off it samples nothing, so that the cost of sampling can be measured.
    """

    def __init__(self, bed: Testbed, clients: Sequence[Process], servers: Sequence[Process]):
        self._bed = bed
        self._counters = HostCounters() if bed.spec.telemetry else None
        self._profiler = Profiler(bed.spec.total_s) if bed.spec.profile else None
        self._processes = [*clients, *servers]
        spec = bed.spec
        seen = spec.telemetry and bed.plan.driver.isolated and not spec.flow_bytes
        self._links = LinkTelemetry(clients, bed.site.interface, spec.traffic_s) if seen else None
        self._telemetry = CpuTelemetry(bed.spec.interval_s) if bed.spec.telemetry else None
        self.harness_cpu_s = float("nan")
        """CPU time of pairlab's own process during the block."""

    def __enter__(self) -> "Observer":
        if self._telemetry:
            site = self._bed.site
            self._testbed = foreign_load.OwnProcesses(site.roots(), site.marks())
            self._ports_before = site.port_counts()
            self._before = foreign_load.take_sample(self._testbed)
            self._telemetry.__enter__()
        if self._links:
            self._links.__enter__()
        if self._counters:
            self._counters.__enter__()
        if self._profiler:
            self._profiler.__enter__()
        self._cpu_before_s = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.harness_cpu_s = time.process_time() - self._cpu_before_s
        if self._profiler:
            self._profiler.__exit__()
        if self._counters:
            self._counters.__exit__()
        if self._links:
            self._links.__exit__()
        if self._telemetry:
            self._telemetry.__exit__()
            reported_s = {each.pid: each.cpu_s for each in self._processes if each.over and each.pid}
            self._after = foreign_load.take_sample(replace(self._testbed, reported_s=reported_s))

    def read_ports(self) -> None:
        """Reads the port counters; call it when all traffic has arrived, before the network is removed."""
        self._ports_after = self._bed.site.port_counts() if self._telemetry else None

    def profile(self) -> list[dict]:
        """Rows of the table `profile`; none where it was not asked for."""
        return self._profiler.rows() if self._profiler else []

    def facts(self) -> dict[str, object]:
        """What of the facts was counted while traffic flowed: `counters` and `profile`."""
        counted = {"counters": self._counters.counted} if self._counters else {}
        return counted | ({"profile": self._profiler.facts()} if self._profiler else {})

    def cpu_rows(self, release_ns: int) -> list[dict]:
        """Rows of the table `cpu`."""
        return self._telemetry.rows(release_ns) if self._telemetry else []

    def silent_until_s(self, release_ns: int) -> Sequence[float | None]:
        """Until when each client had certainly not begun to send, from the release; empty where links are not seen."""
        return self._links.silent_until_s(release_ns) if self._links else ()

    def steadiness(self, reading: Reading, release_ns: int) -> dict[str, Value]:
        """Outliers and shifts of the total throughput after the warm-up, where all flows had it.

        By the links' counters where they are seen, as these have more steps than tools report, else by the tools'.
        """
        if self._bed.spec.flow_bytes or any(row["status"] != "ok" for row in reading.flows):
            return {"outliers": None, "shift": None}
        values: Sequence[float] = reading.steps_bytes
        if self._links and reading.spans:
            begin_s = max(begun_s for begun_s, _ in reading.spans) + self._bed.spec.warmup_s + reading.warmup_s
            by_links = self._links.total_bps(release_ns, begin_s, min(end_s for _, end_s in reading.spans))
            values = by_links or values
        return {"outliers": steady_state.outliers(values), "shift": steady_state.shift(values)}

    def checks(self, reading: Reading, servers: Sequence[Process], network: Mapping[str, object]) -> dict[str, Value]:
        """The checks that need samples. servers: after they ended. network: its facts."""
        if not self._telemetry:
            return {}
        driver = self._bed.plan.driver
        isolated = driver.isolated
        header = crosschecks.header_bytes(network)
        in_shared_namespace = () if isolated else [server.tcp_retransmits for server in servers]
        again_bytes = crosschecks.sent_again_bytes(reading, network, in_shared_namespace)
        rate_bps = self._bed.spec.link_rate_bps
        queued_bytes = len(servers) * shaping.bucket(rate_bps)["limit_bytes"] if rate_bps else 0
        links = [server.link for server in servers]
        ports_after = self._ports_after
        if not isolated and not self._bed.site.loopback_is_own:
            links = []  # other software uses this loopback too
        if driver.floods:
            links, ports_after = [], None
        return {
            **foreign_load.compare(self._before, self._after),
            "steal": self._telemetry.steal_share(),
            "clock_step_s": self._telemetry.clock_step_s(),
            "frequency_change": self._telemetry.frequency_change(),
            "telemetry_missed": self._telemetry.missed_share(),
            "interface_bytes": crosschecks.interface_bytes(reading, links, header, not isolated, again_bytes),
            # What link_loss drops has crossed the link, and no socket ever hears of it.
            "datagram_bytes": crosschecks.datagram_bytes(
                reading, [] if self._bed.spec.link_loss or not isolated else links, network
            ),
            "port_bytes": crosschecks.port_bytes(
                reading, len(servers), self._ports_before, ports_after, header, again_bytes + queued_bytes
            ),
        }


def checks_of_flows(
    spec: Spec, workload: Workload, reading: Reading, clients: Sequence[Process], servers: Sequence[Process]
) -> dict[str, Value]:
    """The checks that need the flows alone, with telemetry or without."""
    late_ns = [
        client.start_ns - 1e9 * spec.due_s(pair) for pair, client in enumerate(clients) if client.start_ns is not None
    ]
    last_s = max((row["start_s"] for row in reading.flows if row.get("start_s") is not None), default=None)
    return {
        "skew_s": (max(late_ns) - min(late_ns)) / 1e9 if late_ns else None,
        "killed": _killed(workload, clients, servers),
        "over_early": None if last_s is None else crosschecks.over_early(reading, last_s),
        "overlap": crosschecks.overlap(reading),
        "active_share": crosschecks.active_share(spec, reading, clients),
        "unread": reading.unread_share,
        "overrun": reading.overrun_share,
        "late_end": reading.late_end_share,
        "retransmits": crosschecks.retransmits(reading),
        "warmup_s": reading.warmup_s,
        "failed_flows": sum(row["status"] != "ok" for row in reading.flows),
        "settled": reading.settling.settled,
        "drift": reading.settling.drift,
    }


def _killed(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> int:
    """How many clients and servers something else than the network ended.

    A server that serves until it is stopped, and fails before its client has ended, was ended by something, too.
    Clients that never started, and servers that never listened, are told of elsewhere.
    """
    words = workload.says_when_signalled
    until_stopped = not workload.serves_once
    ended = [
        server.ready and (server.killed or (until_stopped and _failed_before(server, client)))
        for client, server in zip(clients, servers, strict=True)
    ]
    began = [each for each in clients if each.start_ns is not None]
    return sum(each.killed or bool(words and words in each.stdout) for each in began) + sum(ended)


def _failed_before(server: Process, client: Process) -> bool:
    if server.end_ns is None or client.end_ns is None:
        return False
    return server.ended_by_itself and bool(server.exit_code) and server.end_ns < client.end_ns
