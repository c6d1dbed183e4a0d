"""Background pairs: they send from before the others start until these have ended."""

import contextlib
import inspect
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pairlab.base.threads import before_flows
from pairlab.errors import located
from pairlab.measurement import own_columns
from pairlab.measurement.checks import Value
from pairlab.measurement.flow_rows import begun_s, started
from pairlab.measurement.getting_ready import READY_S, REPORT_S, link_options, servers_of, still_reporting
from pairlab.measurement.parsed_flows import Hosts, ParsedFlows, Row, carried_in
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport, Progress, Workload, reports
from pairlab.testbed.endpoints import BACKGROUND
from pairlab.testbed.host.link_recorder import LinkCounter, may_open
from pairlab.testbed.open import Testbed
from pairlab.testbed.plans import MOST_RISE_S
from pairlab.testbed.process_launcher import Process

#: How often links are read.
EVERY_S = 0.1
#: A rate is that of so long, and steady if it is at most so much more than that of as long before.
OVER_S, MOST_RISE = 0.5, 0.1
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
        self._ended: Sequence[Process] = ()

    @property
    def workloads(self) -> list[tuple[Workload, Spec]]:
        """The background's workload, with the spec of its commands; empty without a background."""
        return [(self._workload, self._bed.plan.background_spec)] if self._workload else []

    @property
    def processes(self) -> list[Process]:
        return [*self.clients, *self.servers]

    def get_ready(self, progress: Progress) -> None:
        """Starts the background's servers and clients; the clients wait at a gate of their own."""
        if self._workload is None:
            return
        bed, workload, tool_spec = self._bed, self._workload, self._bed.plan.background_spec
        self.servers = servers_of(bed, bed.background, workload, tool_spec, progress)
        self._gate = bed.launcher.gate()
        options = [[*link_options(pair, bed.site), "--grace", f"{GRACE_S:g}"] for pair in bed.background]
        commands = [(pair.client, workload.endless_client(pair, tool_spec, bed.site)) for pair in bed.background]
        self.clients = bed.launcher.start(commands, gate=self._gate, options=options)
        bed.launcher.wait_ready(self.clients, READY_S, progress, "background ready")

    def release(self, progress: Progress) -> None:
        """Releases the background, and waits for a steady rate, at most MOST_RISE_S."""
        if self._workload is None:
            return
        progress("background to its rate", 0, 0)
        site, launcher = self._bed.site, self._bed.launcher
        sampled = self.clients
        if self._shares_links:  # those of a host have one
            sampled = list({site.hosts.get(each.endpoint.name, 0): each for each in self.clients}.values())
        counters = [LinkCounter(each, site.interface_of(each.endpoint.name)) for each in sampled]
        with before_flows():
            self._gate.release()
            self._is_steady = await_steady_rate(
                counters, MOST_RISE_S, lambda seconds: launcher.wait_ended(self.clients, seconds)
            )

    @property
    def _shares_links(self) -> bool:
        return not self._bed.plan.driver.isolated or bool(self._bed.spec.background_driver)

    def note_ended(self) -> None:
        """Notes which background processes have exited; call it when the measured clients have ended."""
        self._bed.launcher.wait_ended(self.processes, 0.0)
        self._ended = [each for each in self.processes if each.ended]

    def stop(self) -> None:
        """Stops the background, and reads the processes' output."""
        if self._workload is None:
            return
        launcher = self._bed.launcher
        launcher.stop(self.clients, 2 * GRACE_S)
        launcher.results(self.clients)
        launcher.wait_ended(still_reporting(self._workload, self.clients, self.servers), REPORT_S)
        launcher.stop(self.servers)
        launcher.results(self.servers)

    def read(self, release_ns: int, window_s: tuple[float, float]) -> ParsedFlows:
        """Flows and intervals of the background. window_s: begin and end of the totals, from the pairs' release."""
        if self._workload is None:
            return ParsedFlows()
        first, hosts = self._bed.spec.pairs, self._bed.plan.hosts_of_pairs
        return read_background(
            first, self._workload, self.clients, self.servers, self._ended, release_ns, window_s, hosts[first:]
        )

    def seen_with(
        self, parsed: ParsedFlows, own: ParsedFlows, clients: Sequence[Process], servers: Sequence[Process]
    ) -> tuple[ParsedFlows, list[Process], list[Process]]:
        """Whose traffic the counters of the pairs' network count: the background's too, if it is on that network.

        parsed, clients, servers: of the pairs that are measured; own: the background's.
        """
        if self._bed.spec.background_driver:
            return parsed, [*clients], [*servers]
        return parsed.and_background(own), [*clients, *self.clients], [*servers, *self.servers]

    def checks(self, parsed: ParsedFlows) -> Mapping[str, Value]:
        """parsed: the background's."""
        if self._workload is None:
            return {}
        return {
            "background_steady": self._is_steady,
            "background_failed": sum(row["status"] != "ok" for row in parsed.flows),
        }


def read_background(
    first_pair: int,
    workload: Workload,
    clients: Sequence[Process],
    servers: Sequence[Process],
    ended: Collection[Process],
    release_ns: int,
    window_s: tuple[float, float],
    hosts: Hosts = (),
) -> ParsedFlows:
    """The rows of each pair's flow, and what was received in all, for the cross-checks.

    first_pair: its number. ended: processes that had ended before the others did. release_ns: of the pairs that are
    measured; all times are from it. window_s: totals are of what was carried between these.
    """
    parsed = ParsedFlows(late_share=0.0)
    for number, (client, server) in enumerate(zip(clients, servers, strict=True)):
        pair = first_pair + number
        row: Row = {"pair": pair, "flow": 0, "protocol": "tcp", "role": BACKGROUND}
        row |= started(client, release_ns)
        if hosts:
            row["client_host"], row["server_host"] = hosts[number]
        measured = _measured(workload, client, server, ended)
        if measured.error:
            parsed.flows.append({**row, "status": "failed", "error": measured.error})
            continue
        if measured.connected_ns is not None:
            row["connected_s"] = (measured.connected_ns - release_ns) / 1e9
        begin_s = begun_s(measured, row)
        intervals = [_interval(each, pair, begin_s, window_s) for each in measured.intervals]
        (flow_bytes,) = carried_in(window_s, intervals)
        duration_s = window_s[1] - window_s[0]
        row["congestion_control"] = measured.flow.get("congestion_control") or ""
        parsed.flows.append({**row, "status": "ok", "error": "", **reports.totals(duration_s, flow_bytes)})
        parsed.intervals += intervals
        if measured.received_bytes is not None:
            parsed.received_bytes[pair] = measured.received_bytes
        parsed.retransmits[pair] = measured.flow.get("retransmits") or 0.0
        if measured.flow["duration_s"]:
            parsed.late_share = max(parsed.late_share, workload.counter_lag_s / measured.flow["duration_s"])
    return parsed


def _measured(workload: Workload, client: Process, server: Process, ended: Collection[Process]) -> FlowReport:
    """The one flow that the client reports, or one with the reason why it failed."""
    for which, process in (("client", client), ("server", server)):
        if process in ended:
            return FlowReport(
                {}, error=f"its {which} ended before the pairs that are measured: {process.failure or 'ok'}"
            )
    try:
        (measured,) = workload.parse_stopped(client.stdout, server.stdout)
        own_columns.require_declared(workload, [measured])
    except Exception as error:  # whatever a plugin raises is this client's failure, and no other's
        return FlowReport({}, error=client.failure or located(error, inspect.getfile(type(workload))))
    if not measured.error and not measured.intervals:
        return FlowReport({}, error=f"{workload.name} reported no intervals, which tell what was carried when")
    own = {each.name for each in workload.metrics}  # the table's columns are those of the workload that is measured
    return replace(measured, flow={name: value for name, value in measured.flow.items() if name not in own})


def _interval(row: Mapping[str, Any], pair: int, begin_s: float, window_s: tuple[float, float]) -> Row:
    """An interval, with times from the release; outside the window it counts as warm-up."""
    start_s, end_s = row["start_s"] + begin_s, row["end_s"] + begin_s
    outside = end_s <= window_s[0] or start_s >= window_s[1]
    return {**row, "pair": pair, "flow": 0, "start_s": start_s, "end_s": end_s, "warmup": outside}


def await_steady_rate(counters: Sequence[LinkCounter], most_s: float, pause: Callable[[float], None]) -> bool:
    """Waits until all of these links carry something, and all together no longer more and more.

    most_s: how long at most. pause: waits so many seconds. Returns whether they do; False also where a link cannot be
    seen.
    """
    if not may_open(len(counters)):
        return False
    samples: deque[tuple[float, list[int]]] = deque(maxlen=2 * round(OVER_S / EVERY_S) + 1)
    with contextlib.ExitStack() as stack:
        for each in counters:
            stack.enter_context(contextlib.closing(each))
            each.open()
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < most_s:
            sent_bytes = [each.sent_bytes() for each in counters]
            if None in sent_bytes:
                return False
            samples.append((time.monotonic(), [each or 0 for each in sent_bytes]))
            if len(samples) == samples.maxlen and is_steady(samples):
                return True
            pause(EVERY_S)
    return False


def is_steady(samples: Sequence[tuple[float, Sequence[int]]]) -> bool:
    """Whether all links carried something in the later half of these samples, and all together hardly more than before.

    samples: moments in s, each with the bytes that each link had sent by then; an odd number.
    """
    (begun_s, first), (middle_s, middle), (end_s, last) = (samples[place] for place in (0, len(samples) // 2, -1))
    if not all(now > before for before, now in zip(middle, last, strict=True)):
        return False
    earlier_bps, later_bps = (
        8 * (sum(after) - sum(before)) / took_s
        for before, after, took_s in ((first, middle, middle_s - begun_s), (middle, last, end_s - middle_s))
    )
    return later_bps <= (1 + MOST_RISE) * earlier_bps
