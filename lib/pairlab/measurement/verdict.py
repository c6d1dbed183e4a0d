"""Whether a run is valid: the checks, their bounds, and the reasons where it is not.

Each check is one number, recorded in Run.checks under its name; None where this host or workload cannot provide it. A
run is invalid if one is out of bounds. Failed flows do not make a run invalid, as failures are results; it is failed if
all flows failed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pairlab.base import html_repr
from pairlab.measurement.checks import steady_state
from pairlab.measurement.checks.check import Check, Value
from pairlab.measurement.reading import Reading
from pairlab.model.reasons import naming
from pairlab.model.records import TONES, Run
from pairlab.model.spec import Spec
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.plans import MOST_RISE_S

#: A process may wait so long for a CPU, where hundreds share one.
MOST_SILENCE_S = 0.5


def _at(bound: float) -> Callable[[Spec], float]:
    return lambda spec: bound


def _clock_bound_s(spec: Spec) -> float:
    """NTP slews a clock by 500 ppm at most (adjtimex(2)); a larger change is a step."""
    return 0.002 + 0.001 * spec.traffic_s


def _least_overlap(spec: Spec) -> float:
    """Of what was asked: clients that start one after the other are not active together at the begin and the end."""
    return 0.0 if spec.flows_end else 0.8 * (spec.total_s - spec.last_due_s) / spec.traffic_s


def _longest_connect_s(spec: Spec) -> float:
    """Of flows with an end, the wait for a connection is part of what is measured."""
    round_trip_s = 2 * spec.uplink_delay_s  # a connection takes one
    return float("inf") if spec.flows_end else max(spec.max_skew_s, 0.1 * spec.total_s) + round_trip_s


def _unless_lossy(most: float) -> Callable[[Spec], float]:
    """That bound; none where links are to lose packets, as flows then wait for timeouts."""
    return lambda spec: float("inf") if spec.link_loss else most


def _crosscheck(meaning: str, sentence: str) -> Check:
    """The same quantity from the tool and from the kernel, which may differ by 1 % (crosschecks)."""
    sentence += ": see the tool's output, in raw.zip, and whether another workload disagrees too"
    return Check("share", meaning, sentence, most=_at(0.01), least=_at(-0.01))


CHECKS: dict[str, Check] = {
    "skew_s": Check(
        "s",
        "spread of client start times, each less when it was due: last minus first",
        "client start times are spread over {value:.3f} s; max_skew_s is {bound:g}",
        most=lambda spec: spec.max_skew_s,
        by_machine=True,
    ),
    "connect_s": Check(
        "s",
        "the longest time from when a flow was due until it was connected and sent",
        "a connection took {value:.3f} s, and {bound:g} s are allowed, for flows to send together",
        most=_longest_connect_s,
        by_machine=True,
    ),
    "over_early": Check(
        "share",
        "for flows of a fixed size: the share that completed before the last client started; bounded where all are"
        " released together",
        "{percent:.0f} % of the flows completed before the last client started: use larger flows or fewer pairs",
        most=lambda spec: float("inf") if spec.start_spacing_s else 0.1,
    ),
    "hung": Check(
        "clients",
        "clients of timed flows that had to be killed after their time",
        "{value} clients had to be killed after their time",
        most=lambda spec: float("inf") if spec.flows_end else 0,
    ),
    "killed": Check(
        "processes",
        "clients and servers that a signal ended, or that never ran: not by the network",
        "{value} clients or servers were killed, or could not run: see the flows' errors, and in `dmesg` whether memory"
        " ran out",
        most=_at(0),
        by_machine=True,
    ),
    "network_changed": Check(
        "endpoints",
        "endpoints whose network was set otherwise at the end than before the release: TCP's settings, their link's"
        " MTU, offloads and queues",
        'the network settings of {value} endpoints were changed during the measurement: facts["network_changed"] has'
        " them",
        most=_at(0),
    ),
    "background_steady": Check(
        "",
        "whether the background sent at a steady rate before the others were released, by its links' counters",
        f"the background did not come to a steady rate within {MOST_RISE_S:g} s, or its links cannot be seen from here:"
        " measure again, or take fewer background pairs",
        least=_at(1),
        by_machine=True,
    ),
    "background_failed": Check(
        "pairs",
        "background pairs that failed, or ended before the others did",
        "{value} background pairs failed, or ended before the others did: background_flows has their errors",
        most=_at(0),
    ),
    "background_silent": Check(
        "share",
        "share of the measured time in which the background, all together, sent next to nothing (silence.share)",
        "the background was silent in {percent:.0f} % of the time: something held it up; measure again",
        most=_at(0.03),
        by_machine=True,
    ),
    "background_silence_s": Check(
        "s",
        "the longest time in which a background pair sent nothing, and nothing again (silence.of_steps)",
        "a background pair was silent for {value:.1f} s: its client or server stood still; measure again",
        most=_at(MOST_SILENCE_S),
        by_machine=True,
    ),
    "interference_running": Check(
        "",
        "whether all workers of the interference used CPU time before the pairs were released",
        "not all workers of the interference were seen to use CPU time before the pairs were released: measure again,"
        " or take fewer",
        least=_at(1),
        by_machine=True,
    ),
    "interference_ended": Check(
        "workers",
        "workers of the interference that ended before the pairs did",
        "{value} workers of the interference had ended before the pairs did: see in `dmesg` whether memory ran out",
        most=_at(0),
        by_machine=True,
    ),
    "interference_silence_s": Check(
        "s",
        "the longest time in which a worker of the interference used no CPU time while the pairs sent",
        "a worker of the interference used no CPU time for {value:.1f} s: it stood still; measure again",
        most=_at(MOST_SILENCE_S),
        by_machine=True,
    ),
    "overlap": Check(
        "share",
        "share of the time, from the first flow's start to the last one's end, in which all flows were active",
        "all flows were active in only {percent:.0f} % of the time: use a longer duration_s",
        least=_least_overlap,
        by_machine=True,
    ),
    "active_share": Check(
        "share", "mean share of the timed flows that were active; failed flows were until their client's end"
    ),
    "foreign_cpu": Check(
        "share",
        "share of all CPU time used by processes outside the testbed (proc_pid_stat(5))",
        "other processes used {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}: stop them, or allow more",
        most=lambda spec: spec.max_foreign_cpu,
        by_machine=True,
    ),
    "hidden_cpu": Check(
        "share",
        "share of all CPU time that nothing visible accounts for: processes of other PID namespaces, or that ended"
        " unnoticed; where kernel threads are hidden, theirs too (proc_stat(5))",
        "something that cannot be seen from here used {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}:"
        " run pairlab in the host's PID namespace (docker run --pid=host) to see what, stop it, or allow more",
        most=lambda spec: spec.max_foreign_cpu,
        by_machine=True,
    ),
    "kernel_cpu": Check(
        "share",
        "share of all CPU time used by kernel threads that do not process packets",
        "kernel threads used {percent:.1f} % of the CPU time on other work than packets; max_foreign_cpu is {bound:g}",
        most=lambda spec: spec.max_foreign_cpu,
        by_machine=True,
    ),
    "pairlab_cpu": Check(
        "share",
        "share of all CPU time used by the process that measures, all its threads included",
        "the process that measures used {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}: do nothing else"
        " in it meanwhile",
        most=lambda spec: spec.max_foreign_cpu,
        by_machine=True,
    ),
    "steal": Check(
        "share",
        "share of all CPU time that the hypervisor gave to other machines (proc_stat(5))",
        "the hypervisor took {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}",
        most=lambda spec: spec.max_foreign_cpu,
        by_machine=True,
    ),
    "clock_step_s": Check(
        "s",
        "largest change of the wall clock against the monotonic clock since the release, at any sample",
        "the wall clock was changed by {value:.3f} s during the measurement, and tools may use it",
        most=lambda spec: _clock_bound_s(spec),
        least=lambda spec: -_clock_bound_s(spec),
        by_machine=True,
    ),
    "throttled": Check(
        "events",
        "thermal throttling events of the cores",
        "cores were thermally throttled {value:.0f} times during the measurement",
        most=_at(0),
        by_machine=True,
    ),
    "quota_throttled": Check(
        "share",
        "share of the periods in which a CPU quota on pairlab's own control groups held it up (cgroups(7), cpu.stat)",
        "a CPU quota on pairlab itself held it up in {percent:.0f} % of its periods: run it without one (systemd's"
        " CPUQuota, docker run --cpus, a Kubernetes limit)",
        most=_at(0.01),
    ),
    "frequency_change": Check(
        "share",
        "mean core frequency in the second half of the traffic, relative to the first half",
        "the core frequency changed by {percent:+.0f} % during the measurement: fix it (cpupower frequency-set)",
        most=_at(0.1),
        least=_at(-0.1),
        by_machine=True,
    ),
    "telemetry_missed": Check(
        "share",
        "share of the traffic's time in which CPU samples were late",
        "CPU use was not sampled in {percent:.0f} % of the time",
        most=_at(0.2),
        by_machine=True,
    ),
    "interface_bytes": _crosscheck(
        "payload received on the servers' links, by the kernel's counters, relative to the tool's count, minus 1",
        "the servers' links carried {apart} payload than the tool reported",
    ),
    "datagram_bytes": _crosscheck(
        "UDP payload received on the servers' links, relative to what the tool received or the kernel dropped for want"
        " of room, minus 1",
        "the servers' links carried {apart} UDP payload than the tool reported and the kernel dropped",
    ),
    "port_bytes": _crosscheck(
        "payload sent to endpoints at the network's ports, relative to the tool's count, minus 1",
        "the ports of the network carried {apart} payload than the tool reported",
    ),
    "refused": Check(
        "packets",
        "what the kernel refused for want of room in its tables of connections (conntrack) and neighbours",
        "the kernel refused {value:.0f} packets for want of room in its tables of connections or neighbours: raise"
        " net.netfilter.nf_conntrack_max, or net.ipv4.neigh.default.gc_thresh3, or take fewer pairs or connections",
        most=_at(0),
    ),
    "unread": Check(
        "share",
        "payload that was sent and not read by the servers when the time was over, as a share of what was (iperf3)",
        "{percent:.1f} % more payload was sent than the servers had read when the time was over: measure again, or use"
        " a longer duration_s",
        most=_at(0.03),
        by_machine=True,
    ),
    "overrun": Check(
        "share",
        "by how much of the time that was asked the last UDP datagrams were received after it",
        "the last UDP datagrams were received {percent:.1f} % of the time after all should have been sent: measure"
        " again, or use a longer duration_s",
        most=_at(0.03),
        by_machine=True,
    ),
    "late_end": Check(
        "share",
        "by how much the total throughput is more over the time that was asked than over the time that TCP flows took",
        "flows ended late, and carried little by then: over the time that was asked, the total throughput is {apart}:"
        " measure again, or use a longer duration_s",
        most=_at(0.01),  # what buffers held at the end comes on top
        by_machine=True,
    ),
    "retransmits": _crosscheck(
        "retransmitted segments by the tool's count, relative to the count of the clients' namespaces, minus 1",
        "the tool's count of retransmitted segments is {apart} than the kernel's",
    ),
    "load": Check(
        "share",
        "payload of all flows over the time in which they were due, or 0.1 s less than until the last was complete if"
        " that is more, relative to offered_load_bps, minus 1",
        "the load was {apart} than offered_load_bps: hosts or network are saturated, or flows failed",
        most=_at(0.02),
        least=_at(-0.02),
    ),
    "unbegun": Check(
        "share",
        "share of the requests that had not begun when duration_s was over",
        "{percent:.1f} % of the requests had not begun within duration_s: give more time, or fewer requests",
        most=_at(0),
    ),
    "failed_flows": Check("flows", "failed flows: results, which do not make a run invalid"),
    "warmup_s": Check("s", "warm-up that was detected beyond warmup_s: not in the flows' totals"),
    "settled": Check(
        "",
        "whether the total throughput was steady after the warm-up (steady_state.settle)",
        "the throughput never settled: use a longer duration_s",
        least=_at(1),
        by_machine=True,
    ),
    "outliers": Check(
        "share",
        "by how much outlying intervals, after the warm-up, change the mean of the total throughput"
        " (steady_state.outliers)",
        "outlying moments, as of a stall, make the total throughput {apart}: measure again, or use a longer duration_s",
        most=_at(0.03),
        least=_at(-0.03),
        by_machine=True,
    ),
    "silent": Check(
        "share",
        "share of the time after the warm-up in which all flows together sent next to nothing (silence.share)",
        "all flows together were silent in {percent:.0f} % of the time: something held them up; measure again",
        most=_unless_lossy(0.03),
        by_machine=True,
    ),
    "silence_s": Check(
        "s",
        "the longest time in which a flow sent nothing, and nothing again (silence.of_steps)",
        "a flow was silent for {value:.1f} s, without a segment that was sent again: its client or server stood still;"
        " measure again",
        most=_unless_lossy(MOST_SILENCE_S),
        by_machine=True,
    ),
    "shift": Check(
        "share",
        "clearest change of level of the total throughput after the warm-up, of the higher level (steady_state.shift)",
        "the total throughput changed its level by {percent:+.0f} % on the way: measure again, or use a longer"
        " duration_s",
        most=_at(steady_state.MOST_DRIFT),
        least=_at(-steady_state.MOST_DRIFT),
        by_machine=True,
    ),
    "drift": Check(
        "share", "relative change of the total throughput from start to end, after the warm-up (steady_state.drift)"
    ),
}


class Checked(NamedTuple):
    """One check of a run: its value and bounds, with units. met: None where it has no bounds or no value."""

    name: str
    value: str
    bounds: str
    met: bool | None
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """The status of a run, its reasons, and every check."""

    status: str
    reasons: tuple[str, ...]
    checks: tuple[Checked, ...]

    def __str__(self) -> str:
        lines = [f"{self.status}{f': {why}' if (why := '; '.join(self.reasons)) else ''}"]
        width = max((len(check.name) for check in self.checks), default=0)
        for check in self.checks:
            bounds = f" ({check.bounds})" if check.bounds else ""
            lines.append(f"  {check.name:{width}}  {_MET[check.met]:8}  {check.value}{bounds}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(check.name, _MET[check.met], check.value, check.bounds, check.meaning) for check in self.checks]
        return html_repr.summary(
            "Verdict",
            [("reasons", "\n".join(self.reasons))],
            badge=self.status,
            tone=TONES[self.status],
            body=html_repr.table(("check", "", "value", "bounds", "meaning"), rows) if rows else "",
            note="" if rows else "This run was measured before checks were recorded.",
        )


#: The outcome of a check, in words.
_MET = {True: "met", False: "not met", None: "–"}


def of(run: Run) -> Verdict:
    """The verdict of a run, with each of CHECKS that is recorded in it."""
    found = [
        Checked(name, check.shown(run.checks[name]), check.bounds(run.spec), _met(check, run, name), check.meaning)
        for name, check in CHECKS.items()
        if name in run.checks
    ]
    return Verdict(run.status, tuple(run.reasons), tuple(found))


def _met(check: Check, run: Run, name: str) -> bool | None:
    value = run.checks[name]
    return None if value is None or not check.bounds(run.spec) else check.reason(value, run.spec) is None


def spoilt_by_machine(run: Run) -> bool:
    """Whether a run is invalid for what else the machine did, and for nothing else: see Check.by_machine."""
    unmet = [check for name, check in CHECKS.items() if check.reason(run.checks.get(name), run.spec)]
    return run.status == "invalid" and len(unmet) == len(run.reasons) and all(check.by_machine for check in unmet)


def judge(
    spec: Spec,
    checks: Mapping[str, Value],
    clients: Sequence[Process],
    servers: Sequence[Process],
    reading: Reading,
    unmet: Sequence[str] = (),
    largest: Callable[[str], Iterable[tuple[str, int, float]]] = lambda check: (),
) -> tuple[str, list[str]]:
    """ok, invalid or failed, with the reasons.

    Failed flows are results; only if all failed, the run failed. Flows that did not run together with the others did
    not compete: starts too far from when they were due, late connections, clients that never started. unmet: sentences
    on other requests that were not met. largest: by the name of a check, the processes to name where it is not met.

    For flows of a fixed size only the starts count: if some completed before another connected, that is an effect of
    contention.
    """
    if reading.failed == reading.count:
        refused = CHECKS["refused"].reason(checks.get("refused"), spec)
        failed = f"all {reading.count:,} flows failed, the first: {reading.first_error}"
        return "failed", [failed, *filter(None, [refused])]
    reasons = list(unmet)
    if missing := sum(client.start_ns is None for client in clients):
        reasons.append(f"{missing} of {len(clients)} clients never started")
    if silent := [server for server in servers if not server.ready]:
        reasons.append(f"{len(silent)} of {len(servers)} servers never listened, the first: {silent[0].trouble}")
    reasons += unmet_reasons(spec, checks, largest)
    return ("invalid", reasons) if reasons else ("ok", [])


def unmet_reasons(
    spec: Spec,
    checks: Mapping[str, Value],
    largest: Callable[[str], Iterable[tuple[str, int, float]]] = lambda check: (),
) -> list[str]:
    """A sentence for each check that is out of its bounds."""
    found = ((name, CHECKS[name].reason(value, spec)) for name, value in checks.items())
    return [naming(reason, largest(name)) for name, reason in found if reason]
