"""What is looked at while traffic flows, and the checks that come of it."""

import time
from collections.abc import Mapping, Sequence

from pairlab import crosschecks
from pairlab.flows import Reading
from pairlab.testbed import registry, shaping, watch
from pairlab.testbed.barrier import Process
from pairlab.testbed.bed import Testbed
from pairlab.testbed.telemetry import CpuTelemetry
from pairlab.verdict import Value


class Observer:
    """Looks at the host and the network before, during and after its block (a context manager).

    With Spec.telemetry off it looks at nothing, so that what looking costs can be measured.
    """

    def __init__(self, bed: Testbed):
        self._bed = bed
        self._telemetry = CpuTelemetry(bed.spec.interval_s) if bed.spec.telemetry else None
        self.harness_cpu_s = float("nan")
        """CPU time of pairlab's own process meanwhile."""

    def __enter__(self) -> "Observer":
        if self._telemetry:
            self._marks = self._bed.site.marks()
            self._ports_before = self._bed.site.port_counts()
            self._before = watch.look(self._marks)
            self._telemetry.__enter__()
        self._cpu_before_s = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.harness_cpu_s = time.process_time() - self._cpu_before_s
        if self._telemetry:
            self._telemetry.__exit__()
            self._after = watch.look(self._marks)

    def look_at_ports(self) -> None:
        """To be called when all has arrived, and the network still stands."""
        self._ports_after = self._bed.site.port_counts() if self._telemetry else None

    def cpu_rows(self, release_ns: int) -> list[dict]:
        """Rows of the table `cpu`."""
        return self._telemetry.rows(release_ns) if self._telemetry else []

    def checks(self, reading: Reading, servers: Sequence[Process], network: Mapping[str, object]) -> dict[str, Value]:
        """Those that need what was looked at. servers: when they have ended. network: its facts."""
        if not self._telemetry:
            return {}
        driver = registry.drivers.get(self._bed.spec.driver)
        isolated = driver.isolated
        header = crosschecks.header_bytes(network)
        in_shared_namespace = () if isolated else [server.tcp_retransmits for server in servers]
        again_bytes = crosschecks.sent_again_bytes(reading, network, in_shared_namespace)
        rate_bps = self._bed.spec.link_rate_bps
        queued_bytes = len(servers) * shaping.bucket(rate_bps)["limit_bytes"] if rate_bps else 0
        links = [server.link for server in servers]
        ports_after = self._ports_after
        if not isolated and not self._bed.site.loopback_is_own:
            links = []  # others use this loopback too
        if driver.floods:
            links, ports_after = [], None
        return {
            **watch.compare(self._before, self._after),
            "steal": self._telemetry.steal_share(),
            "frequency_change": self._telemetry.frequency_change(),
            "telemetry_missed": self._telemetry.missed_share(),
            "interface_bytes": crosschecks.interface_bytes(reading, links, header, not isolated, again_bytes),
            "port_bytes": crosschecks.port_bytes(
                reading, len(servers), self._ports_before, ports_after, header, again_bytes + queued_bytes
            ),
        }


def checks_of_flows(reading: Reading, clients: Sequence[Process], isolated: bool) -> dict[str, Value]:
    """The checks that the flows alone tell, looked at or not.

    isolated: whether each client has a network namespace, and so the kernel's counts, of its own.
    """
    starts = [client.start_ns for client in clients if client.start_ns is not None]
    last_s = max((row["start_s"] for row in reading.flows if row.get("start_s") is not None), default=None)
    # Until the client's end, as a tool counts no longer than that, and what it has not sent by then the kernel sends.
    kernel = {pair: client.tcp_retransmits_by_end for pair, client in enumerate(clients)} if isolated else {}
    return {
        "skew_s": (max(starts) - min(starts)) / 1e9 if starts else None,
        "over_early": None if last_s is None else crosschecks.over_early(reading, last_s),
        "overlap": crosschecks.overlap(reading),
        "retransmits": crosschecks.retransmits(reading, kernel),
        "warmup_s": reading.warmup_s,
        "failed_flows": sum(row["status"] != "ok" for row in reading.flows),
        "settled": reading.settling.settled,
        "drift": reading.settling.drift,
    }
