"""Observes host and network while traffic flows, and computes checks from it."""

import time
from collections.abc import Mapping, Sequence

from pairlab.measurement import crosschecks
from pairlab.measurement.flow_rows import Reading
from pairlab.measurement.verdict import Value
from pairlab.testbed.host import foreign_load
from pairlab.testbed.host.cpu_sampler import CpuTelemetry
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.netns import shaping
from pairlab.testbed.open import Testbed


class Observer:
    """Samples host and network before, during and after its block (a context manager).

    With Spec.telemetry off it samples nothing, so that the cost of sampling can be measured.
    """

    def __init__(self, bed: Testbed):
        self._bed = bed
        self._telemetry = CpuTelemetry(bed.spec.interval_s) if bed.spec.telemetry else None
        self.harness_cpu_s = float("nan")
        """CPU time of pairlab's own process during the block."""

    def __enter__(self) -> "Observer":
        if self._telemetry:
            self._marks = self._bed.site.marks()
            self._ports_before = self._bed.site.port_counts()
            self._before = foreign_load.take_sample(self._marks)
            self._telemetry.__enter__()
        self._cpu_before_s = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.harness_cpu_s = time.process_time() - self._cpu_before_s
        if self._telemetry:
            self._telemetry.__exit__()
            self._after = foreign_load.take_sample(self._marks)

    def read_ports(self) -> None:
        """Reads the port counters; call it when all traffic has arrived, before the network is removed."""
        self._ports_after = self._bed.site.port_counts() if self._telemetry else None

    def cpu_rows(self, release_ns: int) -> list[dict]:
        """Rows of the table `cpu`."""
        return self._telemetry.rows(release_ns) if self._telemetry else []

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


def checks_of_flows(reading: Reading, clients: Sequence[Process], isolated: bool) -> dict[str, Value]:
    """The checks that need the flows alone, with telemetry or without.

    isolated: whether each client has its own network namespace, and so its own kernel counters.
    """
    starts = [client.start_ns for client in clients if client.start_ns is not None]
    last_s = max((row["start_s"] for row in reading.flows if row.get("start_s") is not None), default=None)
    return {
        "skew_s": (max(starts) - min(starts)) / 1e9 if starts else None,
        "over_early": None if last_s is None else crosschecks.over_early(reading, last_s),
        "overlap": crosschecks.overlap(reading),
        "retransmits": crosschecks.retransmits(reading),
        "warmup_s": reading.warmup_s,
        "failed_flows": sum(row["status"] != "ok" for row in reading.flows),
        "settled": reading.settling.settled,
        "drift": reading.settling.drift,
    }
