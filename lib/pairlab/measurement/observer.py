"""Observes host and network while traffic flows, and computes checks from it."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pairlab.measurement.checks import Value, crosschecks, steady_state, with_sum_of_others
from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.measurement.window import expected_s
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Workload
from pairlab.testbed.host import cpu_sampler, foreign_load, kernel_counters
from pairlab.testbed.host.foreign_load import OwnProcesses
from pairlab.testbed.host.halts import HaltSampler
from pairlab.testbed.host.kernel_counters import HostCounters
from pairlab.testbed.host.link_telemetry import LinkTelemetry
from pairlab.testbed.host.profiler import Profiler
from pairlab.testbed.netns import shaping
from pairlab.testbed.open import Testbed
from pairlab.testbed.process_launcher import Process


class HostLoad:
    """CPU use by time and by process during its block (a context manager).

    processes: of the testbed; the launcher reports the CPU time of those that have ended.
    """

    def __init__(self, bed: Testbed, processes: Sequence[Process] = ()):
        self._site, self._processes, self._lasts_s = bed.site, processes, expected_s(bed.spec)
        self.own = OwnProcesses(bed.site.root_pids(), bed.site.process_marks())
        self.cpus = cpu_sampler.CpuTelemetry(bed.spec.interval_s)
        self._kernels_before: list[str] = []
        self._kernels_after: list[str] = []
        self._elsewhere: list[dict[str, float | None]] = []

    def __enter__(self) -> "HostLoad":
        self.before = foreign_load.take_sample(self.own)
        self._kernels_before = self._site.cpu_counts()
        self._site.begin_load(self._lasts_s)
        self.cpus.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self.cpus.__exit__(*raised)
        if raised[0] is None:  # else the hosts may be gone
            self._kernels_after = self._site.cpu_counts()
            self._elsewhere = self._site.end_load()
        reported_s = {each.pid: each.cpu_s for each in self._processes if each.ended and each.pid}
        self.after = foreign_load.take_sample(replace(self.own, reported_s=reported_s))

    def kernels_cpu_s(self) -> list[dict[str, float]]:
        """CPU time by kind for each host with a kernel of its own, by that kernel's counts."""
        counts = zip(self._kernels_before, self._kernels_after, strict=True)
        return [cpu_sampler.spent_s(*map(cpu_sampler.times_of_all, each)) for each in counts]

    def checks(self) -> dict[str, Value]:
        """The checks of other load, CPUs and clocks, of all machines the worst; halts only of other machines."""
        here = foreign_load.compare(self.before, self.after) | {"halted": 0.0, "regrouped": 0}
        return {
            **foreign_load.worst([here, *self._elsewhere]),
            "steal": self.cpus.steal_share(),
            "clock_step_s": self.cpus.clock_step_s(),
            "frequency_change": self.cpus.frequency_change(),
        }


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
        self._processes = [*clients, *servers, *beside]
        spec = bed.spec
        one_client = bool(bed.plan.workload and bed.plan.workload.one_client)
        has_links = spec.telemetry and bed.plan.driver.isolated and not one_client
        sending = senders(spec, clients, servers)
        self._links = LinkTelemetry(sending, bed.site, expected_s(spec)) if has_links else None
        self._load = HostLoad(bed, self._processes) if spec.telemetry else None
        self._halts = HaltSampler(self._load.own, expected_s(spec)) if self._load else None
        self._ports: list[tuple[int, int] | None] = []
        self._refused: list[tuple[int, int]] = []
        self._started = contextlib.ExitStack()
        self.harness_cpu_s = float("nan")
        """CPU time of pairlab's own process during the flows: from note_begin to the last note_end."""

    def __enter__(self) -> "Observer":
        with contextlib.ExitStack() as started:
            for each in (self._load, self._links, self._halts, self._counters, self._profiler):
                started.enter_context(each or contextlib.nullcontext())
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def note_begin(self) -> None:
        """Call it in the block, just before flows begin."""
        self._began_s, self._cpu_before_s = time.monotonic(), time.process_time()

    def note_end(self) -> None:
        """Call it whenever flows may be over, and before anything else is done."""
        self.harness_cpu_s = time.process_time() - self._cpu_before_s
        self._lasted_s = time.monotonic() - self._began_s

    def read_counts(self) -> None:
        """Reads the counts of ports and refused packets; call it before any traffic, and after all arrivals."""
        if self._load:
            self._ports.append(self._bed.site.port_counts())
            self._refused.append((self._bed.site.refused_connections(), kernel_counters.refused_neighbours()))

    def profile(self) -> list[dict]:
        """Rows of the table `profile`; none where the spec has no profile."""
        return self._profiler.rows() if self._profiler else []

    def facts(self) -> dict[str, object]:
        """The facts counted during the traffic: `counters`, `kernels_cpu_s` and `profile`."""
        counted: dict[str, object] = {}
        if self._counters:
            refused = dict(zip(("refused_connections", "refused_neighbours"), self._newly_refused(), strict=True))
            counted = {"counters": self._counters.counted | refused}
        if self._load and (spent := self._load.kernels_cpu_s()):
            counted["kernels_cpu_s"] = spent
        return counted | ({"profile": self._profiler.facts()} if self._profiler else {})

    def _newly_refused(self) -> list[int]:
        counts = self._refused or [(0, 0)]
        return [now - earlier for earlier, now in zip(counts[0], counts[-1], strict=True)]

    def largest(self, check: str) -> list[tuple[str, int, float]]:
        """The processes to name for that check: foreign_load.largest, HaltSampler.shares; empty without samples."""
        if check in ("halted", "regrouped"):
            return self._shares(check)[:1]
        return foreign_load.largest(self._load.before, self._load.after, check) if self._load else []

    def _shares(self, check: str) -> list[tuple[str, int, float]]:
        return self._halts.shares(check, self._began_s, self._began_s + self._lasted_s) if self._halts else []

    def cpu_rows(self, release_ns: int) -> list[dict]:
        return self._load.cpus.rows(release_ns) if self._load else []

    def silent_until_s(self, release_ns: int) -> Sequence[float | None]:
        """End of the certain silence of each pair's sender, from the release; empty if links are not sampled.

        If both ends of a pair send, the silence of the client.
        """
        return self._links.silent_until_s(release_ns) if self._links else ()

    def steadiness(self, parsed: ParsedFlows, release_ns: int, waits_s: float) -> dict[str, Value]:
        """Changes of level and silence of the total throughput after the warm-up, where all flows had it, and the
        longest silence of a flow.

        By the links' counters if they are sampled, as these have more steps, else by the tools' intervals.
        waits_s: how long a client waits before it sends; a flow's span begins when it is connected.
        """
        spec, workload = self._bed.spec, self._bed.plan.workload
        checks: dict[str, Value] = dict.fromkeys(("shift", "silent", "silence_s"))
        if not (workload and workload.sends_traffic) or parsed.table is not None:
            return checks
        links = self._links if self._links and parsed.spans else None
        if spec.flows_end:
            spans_s = self._of_senders(_spans_s(parsed))
            return checks | ({"silence_s": _longest_silence_s(links, release_ns, spans_s)} if links else {})
        begin_s = max((begun_s for begun_s, _ in parsed.spans), default=0.0) + spec.warmup_s + parsed.warmup_s + waits_s
        end_s = min((end_s for _, end_s in parsed.spans), default=0.0) + waits_s
        if links:
            spans_s = self._of_senders(dict.fromkeys(_spans_s(parsed), (begin_s, end_s)))
            checks["silence_s"] = _longest_silence_s(links, release_ns, spans_s)
        if parsed.failed:
            return checks
        values = (links and links.total_bps(release_ns, begin_s, end_s)) or parsed.steps_bytes
        steps = links.steps(release_ns, begin_s, end_s) if links else None
        return checks | {
            "shift": steady_state.shift(values),
            "silent": None if steps is None else steady_state.silent_share(*steps),
        }

    def _of_senders(self, spans_s: Mapping[int, tuple[float, float]]) -> dict[int, tuple[float, float]]:
        """Spans by the sender's index among the links, from spans by pair."""
        spec = self._bed.spec
        return {
            place * spec.pairs + pair: span_s
            for place in range(len(spec.directions))
            for pair, span_s in spans_s.items()
        }

    def _host_of(self, process: Process) -> int:
        return self._bed.site.hosts.get(process.endpoint.name, 0)

    def _retransmitted(self) -> list[int]:
        """Segments retransmitted in the hosts' own namespaces: the largest count of a host includes its others."""
        counted = [each for each in self._processes if each.tcp_retransmits is not None]
        counts = [each.tcp_retransmits or 0 for each in counted]
        return [crosschecks.sum_of_hosts(map(self._host_of, counted), counts)] if counted else []

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
        parsed: ParsedFlows,
        clients: Sequence[Process],
        servers: Sequence[Process],
        network: Mapping[str, object],
    ) -> dict[str, Value]:
        """The checks that need samples, after all processes have ended. network: its facts.

        parsed, clients, servers: of all pairs, the background's too.
        """
        if not self._load:
            return {}
        spec, driver = self._bed.spec, self._bed.plan.driver
        isolated = driver.isolated
        header = crosschecks.header_bytes(network, spec.ip_version)
        in_shared_namespace = () if isolated else self._retransmitted()
        again_bytes = crosschecks.sent_again_bytes(parsed, network, in_shared_namespace)
        queued_bytes = len(servers) * shaping.bucket(spec.link_rate_bps)["limit_bytes"] if spec.link_rate_bps else 0
        limited = spec.limited_uplinks or spec.hosts
        if uplink_bps := spec.uplink_rate_bps:  # it has a queue on either side of the wire
            queued_bytes += 2 * limited * shaping.bucket(uplink_bps)["limit_bytes"]
            queued_bytes += limited * spec.uplink_delay_s * uplink_bps / 8
        # A client that asks all servers receives everything, as clients do of flows down.
        down = spec.direction == "down"
        receivers = clients if parsed.table is not None or down else servers
        links = [] if down and self._bed.background else [each.link for each in receivers]
        ports_before, ports_after = self._ports
        if not isolated and not self._bed.site.interface_is_own:
            links = []  # other software uses this link too, or it does not carry all
        if self._bed.plan.all_connect and not isolated and spec.hosts > 1:
            links = []  # traffic between ranks on one host is on the host's loopback
        if driver.floods:
            links, ports_after = [], None
        of_host = {
            **self._load.checks(),
            # Not around the flows, where pairlab takes the samples: some ms, a large part of a run of few ms.
            "pairlab_cpu": self.harness_cpu_s / (self._lasted_s * foreign_load.cpus_online()),
        }
        here = {
            "regrouped": len(self._shares("regrouped")),
            "halted": max((share for *_, share in self._shares("halted")), default=0.0),
        }
        return with_sum_of_others(of_host) | {
            **{name: max(value, of_host[name] or 0) for name, value in here.items()},
            "telemetry_missed": self._load.cpus.missed_share(),
            "clock_error_s": self._bed.site.clock_error_s(),
            "interface_bytes": crosschecks.interface_bytes(
                parsed,
                links,
                header,
                not isolated,
                again_bytes,
                [self._host_of(each) for each in receivers],
                [] if parsed.table is not None else self._answered(clients, servers, network),
            ),
            "refused": sum(self._newly_refused()),
            # Packets that link_loss drops have crossed the link, and reach no socket.
            "datagram_bytes": crosschecks.datagram_bytes(
                parsed, [] if spec.link_loss or not isolated else links, network, spec.ip_version
            ),
            "port_bytes": crosschecks.port_bytes(
                parsed, len(receivers), ports_before, ports_after, header, again_bytes + queued_bytes
            ),
        }


def _longest_silence_s(
    links: LinkTelemetry, release_ns: int, spans_s: Mapping[int, tuple[float, float]]
) -> float | None:
    """The longest time in which one of these clients sent next to nothing; None where one cannot be seen.

    spans_s: by the client's place among the links, from when to when it is to send, from the release.
    """
    steps = [links.steps(release_ns, *span_s, client) for client, span_s in spans_s.items()]
    known = [each for each in steps if each is not None]
    if len(known) < len(steps):
        return None
    return max((steady_state.longest_silence_s(*each) for each in known), default=None)


def _spans_s(parsed: ParsedFlows) -> dict[int, tuple[float, float]]:
    """Begin of the first and end of the last successful flow of each pair, from the release."""
    rows = (row for row in parsed.flows if row["status"] == "ok")
    spans_s: dict[int, tuple[float, float]] = {}
    for row, (begun_s, end_s) in zip(rows, parsed.spans, strict=True):
        earlier_s, later_s = spans_s.get(row["pair"], (begun_s, end_s))
        spans_s[row["pair"]] = min(begun_s, earlier_s), max(end_s, later_s)
    return spans_s


def senders(spec: Spec, clients: Sequence[Process], servers: Sequence[Process]) -> list[Process]:
    """The sending processes, by pair; for both directions, the clients of all pairs first."""
    return [*(clients if "up" in spec.directions else ()), *(servers if "down" in spec.directions else ())]


def checks_of_flows(
    spec: Spec,
    workload: Workload,
    parsed: ParsedFlows,
    clients: Sequence[Process],
    servers: Sequence[Process],
    beside: Sequence[Process] = (),
) -> dict[str, Value]:
    """The checks that need the flows and the launchers' reports alone, with telemetry or without.

    beside: processes of the background, the interference and the capture.
    """
    late_ns = [
        client.start_ns - 1e9 * spec.due_s(pair) for pair, client in enumerate(clients) if client.start_ns is not None
    ]
    last_s = max((row["start_s"] for row in parsed.flows if row.get("start_s") is not None), default=None)
    return {
        "skew_s": (max(late_ns) - min(late_ns)) / 1e9 if late_ns else None,
        "connect_s": crosschecks.connect_s(parsed),
        "killed": _killed(workload, clients, servers),
        "stopped": _stopped_share(workload, clients, servers),
        **({"beside_stopped": _stopped_beside(clients, beside)} if beside else {}),
        "affinity_changed": sum(
            each.cpus != each.cpus_at_end for each in (*clients, *servers) if each.cpus and each.cpus_at_end
        ),
        "over_early": None if last_s is None else crosschecks.over_early(parsed, last_s),
        "overlap": crosschecks.overlap(parsed),
        "active_share": crosschecks.active_share(spec, parsed, clients),
        "retransmits": crosschecks.retransmits(parsed),
        "warmup_s": parsed.warmup_s,
        "failed_flows": parsed.failed,
        **parsed.checks,
    }


def _killed(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> int:
    """The number of clients and servers that something other than the network ended.

    A server that serves until it is stopped, and fails before its client has ended, was ended by something, too.
    Clients that never started, and servers that never listened, are reasons of their own (verdict.judge).
    """
    until_stopped = not workload.serves_once
    of_servers = _clients_of(workload, clients, servers)

    def reports_signal(process: Process) -> bool:
        words = workload.signal_message
        return bool(words) and words in process.stdout

    ended = [
        server.killed
        or (server.ended_by_itself and reports_signal(server))
        or (until_stopped and server.ended_by_itself and server.exit_code and _ended_before(server, client))
        for client, server in zip(of_servers, servers, strict=True)
        if server.ready
    ]
    began = [each for each in clients if each.start_ns is not None]
    return sum(each.killed or reports_signal(each) for each in began) + sum(map(bool, ended))


def _clients_of(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> Sequence[Process]:
    """The client of each server."""
    return [clients[0]] * len(servers) if workload.one_client else clients


def _stopped_share(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> float | None:
    """See CHECKS; None where no launcher has reported."""
    shares = [
        process.stopped_s / max(1e-9, client.lasted_s)
        for processes, of in ((clients, clients), (servers, _clients_of(workload, clients, servers)))
        for process, client in zip(processes, of, strict=True)
        if process.stopped_s is not None and client.lasted_s is not None
    ]
    return min(1.0, max(shares)) if shares else None


def _stopped_beside(clients: Sequence[Process], beside: Sequence[Process]) -> float | None:
    """See CHECKS; None where no launcher has reported."""
    lasted_s = [each.lasted_s for each in clients if each.lasted_s is not None]
    stopped_s = [each.stopped_s for each in beside if each.stopped_s is not None]
    return min(1.0, max(stopped_s) / max(1e-9, *lasted_s)) if stopped_s and lasted_s else None


def _ended_before(server: Process, client: Process) -> bool:
    return server.end_ns is not None and client.end_ns is not None and server.end_ns < client.end_ns
