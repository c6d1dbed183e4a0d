"""Observes host and network while traffic flows, and computes checks from it."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pairlab.measurement.checks import crosschecks, silence, steady_state
from pairlab.measurement.checks.check import Value
from pairlab.measurement.reading import Reading
from pairlab.measurement.window import expected_s
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Workload
from pairlab.testbed.host import foreign_load, kernel_room
from pairlab.testbed.host.cpu_sampler import CpuTelemetry
from pairlab.testbed.host.link_telemetry import DatagramCounter, LinkTelemetry
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.netns import shaping
from pairlab.testbed.open import Testbed
from pairlab.testbed.profiling.counters import HostCounters
from pairlab.testbed.profiling.profiler import Profiler


class Observer:
    """Samples host and network before, during and after its block (a context manager).

    With Spec.telemetry off it samples nothing, so that the cost of sampling can be measured. beside: processes of the
    testbed besides those of the pairs that are measured.
    """

    def __init__(
        self,
        bed: Testbed,
        clients: Sequence[Process],
        servers: Sequence[Process],
        beside: Sequence[Process] = (),
    ):
        self._bed = bed
        self._counters = HostCounters() if bed.spec.telemetry else None
        self._profiler = Profiler(bed.spec.traffic_s) if bed.spec.profile else None
        self._clients = clients
        self._processes = [*clients, *servers, *beside]
        spec = bed.spec
        one_client = bool(bed.plan.workload and bed.plan.workload.one_client)
        seen = spec.telemetry and bed.plan.driver.isolated and not one_client
        sending = senders(spec, clients, servers)
        self._links = LinkTelemetry(sending, bed.site.interface, expected_s(spec)) if seen else None
        # Whoever sends datagrams goes on where nobody takes them.
        by_udp = seen and spec.udp_share > 0
        self._takers = [pair.index for pair in bed.pairs if pair.task.protocol == "udp"] if by_udp else []
        takers = [servers[pair] for pair in self._takers]
        self._taken = LinkTelemetry(takers, bed.site.interface, expected_s(spec), DatagramCounter) if takers else None
        self._telemetry = CpuTelemetry(bed.spec.interval_s) if bed.spec.telemetry else None
        self._ports: list[tuple[int, int] | None] = []
        self._refused: list[tuple[int, int]] = []
        self._started = contextlib.ExitStack()
        self.harness_cpu_s = float("nan")
        """CPU time of pairlab's own process during the block."""

    def __enter__(self) -> "Observer":
        with contextlib.ExitStack() as started:
            if self._telemetry:
                site = self._bed.site
                self._testbed = foreign_load.OwnProcesses(site.roots(), site.marks())
                self._before = foreign_load.take_sample(self._testbed)
                started.enter_context(self._telemetry)
            for links in filter(None, [self._links, self._taken]):
                started.enter_context(links)
            if self._counters:
                started.enter_context(self._counters)
            if self._profiler:
                started.enter_context(self._profiler)
            self._began_s, self._cpu_before_s = time.monotonic(), time.process_time()
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.harness_cpu_s = time.process_time() - self._cpu_before_s
        self._lasted_s = time.monotonic() - self._began_s
        self._started.close()
        if self._telemetry:
            reported_s = {each.pid: each.cpu_s for each in self._processes if each.over and each.pid}
            self._after = foreign_load.take_sample(replace(self._testbed, reported_s=reported_s))

    def read_counts(self) -> None:
        """Reads the counts of ports and of what was refused; call it before any traffic, and when all has arrived."""
        if self._telemetry:
            self._ports.append(self._bed.site.port_counts())
            self._refused.append((self._bed.site.refused_connections(), kernel_room.refused_neighbours()))

    def profile(self) -> list[dict]:
        """Rows of the table `profile`; none where it was not asked for."""
        return self._profiler.rows() if self._profiler else []

    def facts(self) -> dict[str, object]:
        """What of the facts was counted while traffic flowed: `counters` and `profile`."""
        counted: dict[str, object] = {}
        if self._counters:
            refused = dict(zip(("refused_connections", "refused_neighbours"), self._newly_refused(), strict=True))
            counted = {"counters": self._counters.counted | refused}
        return counted | ({"profile": self._profiler.facts()} if self._profiler else {})

    def _newly_refused(self) -> list[int]:
        counts = self._refused or [(0, 0)]
        return [now - earlier for earlier, now in zip(counts[0], counts[-1], strict=True)]

    def largest(self, check: str) -> list[tuple[str, int, float]]:
        """Whose CPU time counts most to that check: see foreign_load.largest. Empty where nothing was sampled."""
        return foreign_load.largest(self._before, self._after, check) if self._telemetry else []

    def cpu_rows(self, release_ns: int) -> list[dict]:
        """Rows of the table `cpu`."""
        return self._telemetry.rows(release_ns) if self._telemetry else []

    def silent_until_s(self, release_ns: int) -> Sequence[float | None]:
        """Until when each pair's sender had certainly not begun, from the release; empty where links are not seen.

        Where both of a pair send, of its client.
        """
        return self._links.silent_until_s(release_ns) if self._links else ()

    def steadiness(self, reading: Reading, release_ns: int, waits_s: float) -> dict[str, Value]:
        """Outliers, shifts and silence of the total throughput after the warm-up, where all flows had it, and the
        longest silence of a flow.

        By the links' counters where they are seen, as these have more steps than tools report, else by the tools'.
        waits_s: how long a client waits before it sends; a flow's span begins when it is connected.
        """
        spec, workload = self._bed.spec, self._bed.plan.workload
        found: dict[str, Value] = dict.fromkeys(("outliers", "shift", "silent", "silence_s"))
        if not (workload and workload.carries) or reading.table is not None:
            return found | {"silence_s": reading.silence_s}
        links = self._links if self._links and reading.spans else None
        if spec.flows_end:
            spans_s = self._of_senders(_spans_s(reading))
            return found | ({"silence_s": silence.longest_s(links, release_ns, spans_s)} if links else {})
        begin_s = (
            max((begun_s for begun_s, _ in reading.spans), default=0.0) + spec.warmup_s + reading.warmup_s + waits_s
        )
        end_s = min((end_s for _, end_s in reading.spans), default=0.0) + waits_s
        if links:
            spans_s = self._of_senders(dict.fromkeys(_spans_s(reading), (begin_s, end_s)))
            found["silence_s"] = silence.longest_s(links, release_ns, spans_s)
        if self._taken:
            spans_s = dict.fromkeys(range(len(self._takers)), (begin_s, end_s))
            of_takers_s = silence.longest_s(self._taken, release_ns, spans_s)
            known_s = [each for each in (found["silence_s"], of_takers_s) if each is not None]
            found["silence_s"] = max(known_s, default=None)
        if reading.failed:
            return found
        values = (links and links.total_bps(release_ns, begin_s, end_s)) or reading.steps_bytes
        silent = silence.share(links, release_ns, begin_s, end_s) if links else None
        if silent is None:
            silent = silence.share_of_steps(reading.steps_bytes)
        return found | {
            "outliers": steady_state.outliers(values),
            "shift": steady_state.shift(values),
            "silent": silent,
        }

    def _of_senders(self, spans_s: Mapping[int, tuple[float, float]]) -> dict[int, tuple[float, float]]:
        """By the sender's place among the links, from spans by pair."""
        spec = self._bed.spec
        return {
            place * spec.pairs + pair: span_s
            for place in range(len(spec.directions))
            for pair, span_s in spans_s.items()
        }

    def _host_of(self, process: Process) -> int:
        return self._bed.site.hosts.get(process.endpoint.name, 0)

    def _retransmitted(self) -> list[int]:
        """What the hosts' own namespaces retransmitted, in all: of each, the largest count includes everything."""
        by_host: dict[int, int] = {}
        for each in self._processes:
            if each.tcp_retransmits is not None:
                host = self._host_of(each)
                by_host[host] = max(by_host.get(host, 0), each.tcp_retransmits)
        return [sum(by_host.values())] if by_host else []

    def _answered(
        self, clients: Sequence[Process], servers: Sequence[Process], network: Mapping[str, object]
    ) -> list[int]:
        """The pairs whose clients receive on the servers' links."""
        if network.get("link") == crosschecks.LOOPBACK:
            return list(range(len(servers)))
        if self._bed.plan.driver.isolated:
            return []
        of_servers = {self._host_of(each) for each in servers}
        return [pair for pair, client in enumerate(clients) if self._host_of(client) in of_servers]

    def checks(
        self,
        reading: Reading,
        clients: Sequence[Process],
        servers: Sequence[Process],
        network: Mapping[str, object],
    ) -> dict[str, Value]:
        """The checks that need samples, after all have ended. network: its facts.

        reading, clients, servers: of all pairs, the background's too.
        """
        if not self._telemetry:
            return {}
        driver = self._bed.plan.driver
        isolated = driver.isolated
        header = crosschecks.header_bytes(network)
        in_shared_namespace = () if isolated else self._retransmitted()
        again_bytes = crosschecks.sent_again_bytes(reading, network, in_shared_namespace)
        rate_bps = self._bed.spec.link_rate_bps
        queued_bytes = len(servers) * shaping.bucket(rate_bps)["limit_bytes"] if rate_bps else 0
        limited = self._bed.spec.limited_uplinks or self._bed.spec.hosts
        if uplink_bps := self._bed.spec.uplink_rate_bps:  # it has a queue on either side of the wire
            queued_bytes += 2 * limited * shaping.bucket(uplink_bps)["limit_bytes"]
            queued_bytes += limited * self._bed.spec.uplink_delay_s * uplink_bps / 8
        # A client that asks all servers receives everything, as clients do of flows down.
        down = self._bed.spec.direction == "down"
        receivers = clients if reading.table is not None or down else servers
        links = [] if down and self._bed.background else [each.link for each in receivers]
        ports_before, ports_after = self._ports
        if not isolated and not self._bed.site.interface_is_own:
            links = []  # other software uses this link too, or it does not carry all
        if self._bed.plan.all_connect and not isolated and self._bed.spec.hosts > 1:
            links = []  # what ranks on one host send each other is on its loopback
        if driver.floods:
            links, ports_after = [], None
        return {
            **foreign_load.compare(self._before, self._after),
            # Around the block pairlab itself takes the samples: some ms, which would be much of a run of few ms.
            "pairlab_cpu": self.harness_cpu_s / (self._lasted_s * foreign_load.cpus_online()),
            "steal": self._telemetry.steal_share(),
            "clock_step_s": self._telemetry.clock_step_s(),
            "frequency_change": self._telemetry.frequency_change(),
            "telemetry_missed": self._telemetry.missed_share(),
            "interface_bytes": crosschecks.interface_bytes(
                reading,
                links,
                header,
                not isolated,
                again_bytes,
                [self._host_of(each) for each in receivers],
                [] if reading.table is not None else self._answered(clients, servers, network),
            ),
            "refused": sum(self._newly_refused()),
            # What link_loss drops has crossed the link, and no socket ever hears of it.
            "datagram_bytes": crosschecks.datagram_bytes(
                reading, [] if self._bed.spec.link_loss or not isolated else links, network
            ),
            "port_bytes": crosschecks.port_bytes(
                reading, len(receivers), ports_before, ports_after, header, again_bytes + queued_bytes
            ),
        }


def _spans_s(reading: Reading) -> dict[int, tuple[float, float]]:
    """When the first of each pair's successful flows began, and the last one ended, from the release."""
    rows = (row for row in reading.flows if row["status"] == "ok")
    found: dict[int, tuple[float, float]] = {}
    for row, (begun_s, end_s) in zip(rows, reading.spans, strict=True):
        earlier_s, later_s = found.get(row["pair"], (begun_s, end_s))
        found[row["pair"]] = min(begun_s, earlier_s), max(end_s, later_s)
    return found


def senders(spec: Spec, clients: Sequence[Process], servers: Sequence[Process]) -> list[Process]:
    """Who sends the flows, by pair; where both do, the clients of all pairs come first."""
    return [*(clients if "up" in spec.directions else ()), *(servers if "down" in spec.directions else ())]


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
        "connect_s": crosschecks.connect_s(reading),
        "killed": _killed(workload, clients, servers),
        "over_early": None if last_s is None else crosschecks.over_early(reading, last_s),
        "overlap": crosschecks.overlap(reading),
        "active_share": crosschecks.active_share(spec, reading, clients),
        "unread": reading.unread_share,
        "overrun": reading.overrun_share,
        "late_end": reading.late_end_share,
        "retransmits": crosschecks.retransmits(reading),
        "warmup_s": reading.warmup_s,
        "failed_flows": reading.failed,
        "settled": reading.settling.settled,
        "drift": reading.settling.drift,
    } | ({} if reading.table is None else {"load": reading.load, "unbegun": reading.unbegun})


def _killed(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> int:
    """How many clients and servers something else than the network ended.

    A server that serves until it is stopped, and fails before its client has ended, was ended by something, too.
    Clients that never started, and servers that never listened, are told of elsewhere.
    """
    until_stopped = not workload.serves_once
    of_servers = [clients[0]] * len(servers) if workload.one_client else clients

    def says_so(process: Process) -> bool:
        words = workload.says_when_signalled
        return bool(words) and words in process.stdout

    ended = [
        server.killed
        or (server.ended_by_itself and says_so(server))
        or (until_stopped and _failed_before(server, client))
        for client, server in zip(of_servers, servers, strict=True)
        if server.ready
    ]
    began = [each for each in clients if each.start_ns is not None]
    return sum(each.killed or says_so(each) for each in began) + sum(ended)


def _failed_before(server: Process, client: Process) -> bool:
    if server.end_ns is None or client.end_ns is None:
        return False
    return server.ended_by_itself and bool(server.exit_code) and server.end_ns < client.end_ns
