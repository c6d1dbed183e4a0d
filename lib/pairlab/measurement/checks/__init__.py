"""The checks that a run is judged by: one number each, with its bounds.

Run.checks has the value under the name of the check; None if this host or workload cannot provide it.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pairlab.base import units
from pairlab.model.spec import Spec
from pairlab.testbed.plans import MOST_RISE_S

Value = float | bool | None
_Bound = Callable[[Spec], float]


class Check(NamedTuple):
    """One number that a run is judged by.

    most, least: its bounds, if any. sentence: the reason for a value out of bounds, a format string over `value`,
    `bound`, `percent` (the value in percent) and `apart` ("1.2 % more"). retryable: a value out of bounds is due to
    other load or the machine's state, so that measuring again may help.
    """

    unit: str
    meaning: str
    sentence: str = ""
    most: _Bound | None = None
    least: _Bound | None = None
    retryable: bool = False

    def reason(self, value: Value, spec: Spec) -> str | None:
        """Why this value makes a run of that spec invalid, or None."""
        if value is None:
            return None
        if self.most and value > (bound := self.most(spec)):
            return self._reason(value, bound)
        if self.least and value < (bound := self.least(spec)):
            return self._reason(value, bound)
        return None

    def bounds(self, spec: Spec) -> str:
        """The values that are valid for that spec, as text; empty: any."""
        least, most = (bound and bound(spec) for bound in (self.least, self.most))
        if not self.unit:
            return "" if least is None else "yes"
        if least is not None and most is not None:
            return f"{self.shown(least)} to {self.shown(most)}"
        if least is not None:
            return f"at least {self.shown(least)}"
        return "" if most in (None, float("inf")) else f"at most {self.shown(most)}"

    def shown(self, value: Value) -> str:
        if value is None:
            return "unknown"
        if not self.unit:
            return "yes" if value else "no"
        if self.unit == "share":
            text = f"{100 * value:.3g} %"
        else:
            text = units.with_prefix(value, "s") if self.unit == "s" else f"{value:g} {self.unit}"
        return text.replace("-", "−")

    def _reason(self, value: float | bool, bound: float) -> str:
        percent = 100 * value
        apart = f"{abs(percent):.1f} % {'less' if value < 0 else 'more'}"
        return self.sentence.format(value=value, bound=bound, percent=percent, apart=apart)


#: The largest share of its time for which a process of a flow may be stopped; and one beside the flows.
MOST_STOPPED, MOST_STOPPED_BESIDE = 0.02, 0.05
#: Others that run before all else: where they hold up 1 % of the requests, the 99th percentile is theirs.
MOST_REALTIME = 0.01


def _at(bound: float) -> Callable[[Spec], float]:
    return lambda spec: bound


def _clock_bound_s(spec: Spec) -> float:
    """NTP slews a clock by 500 ppm at most (adjtimex(2)); a larger change is a step."""
    return 0.002 + 0.001 * spec.traffic_s


def _least_overlap(spec: Spec) -> float:
    """A share of the requested time: clients that start apart do not overlap at its begin and end."""
    return 0.0 if spec.flows_end else 0.8 * (spec.total_s - spec.last_due_s) / spec.traffic_s


def _longest_connect_s(spec: Spec) -> float:
    """Unbounded for flows of a fixed size, whose completion time includes the wait for a connection."""
    round_trip_s = 2 * spec.uplink_delay_s  # a connection takes one
    return float("inf") if spec.flows_end else max(spec.max_skew_s, 0.1 * spec.total_s) + round_trip_s


def _crosscheck(meaning: str, sentence: str) -> Check:
    """The same quantity from the tool and from the kernel, which may differ by 1 % (crosschecks)."""
    sentence += ": see the tool's output, in raw.zip, and whether another workload disagrees too"
    return Check("share", meaning, sentence, most=_at(0.01), least=_at(-0.01))


def _of_cpus(meaning: str, sentence: str) -> Check:
    """A share of all CPU time used by others than the testbed."""
    return _disturbable("share", f"share of all CPU time {meaning}", sentence, lambda spec: spec.max_foreign_cpu)


def _disturbable(
    unit: str, meaning: str, sentence: str, most: _Bound | None = None, least: _Bound | None = None
) -> Check:
    """A check that other load, or the machine's state, can fail."""
    return Check(unit, meaning, sentence, most, least, retryable=True)


#: The checks of CPU time that others had. Their sum has the bound of each: a run does not mind who took the time.
OF_OTHERS = ("foreign_cpu", "hidden_cpu", "kernel_cpu", "pairlab_cpu", "steal")

CHECKS: dict[str, Check] = {
    "skew_s": _disturbable(
        "s",
        "spread of client start times, each less when it was due: last minus first",
        "client start times are spread over {value:.3f} s; max_skew_s is {bound:g}",
        most=lambda spec: spec.max_skew_s,
    ),
    "clock_error_s": _disturbable(
        "s",
        "by how much moments of hosts with clocks of their own may be apart: half of the shortest round trip to each,"
        " and by how much its clock drifted until the end",
        "the clocks of the hosts are known to {value:.4f} s only; max_skew_s is {bound:g}",
        most=lambda spec: spec.max_skew_s,
    ),
    "connect_s": _disturbable(
        "s",
        "the longest time from when a flow was due until it was connected and sent",
        "a connection took {value:.3f} s, and {bound:g} s are allowed, for flows to send together",
        most=_longest_connect_s,
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
    "killed": _disturbable(
        "processes",
        "clients and servers that a signal ended, or that never ran: not by the network",
        "{value} clients or servers were killed, or could not run: see the flows' errors, and in `dmesg` whether memory"
        " ran out",
        most=_at(0),
    ),
    "stopped": _disturbable(
        "share",
        "the largest share of a flow's time for which a signal had stopped its client or server, as their launchers saw"
        " it (waitpid(2), WUNTRACED)",
        "a client or server was stopped for {percent:.1f} % of its flow's time, by a signal such as SIGSTOP: measure"
        " again, and leave it alone",
        most=_at(MOST_STOPPED),
    ),
    "beside_stopped": _disturbable(
        "share",
        "the largest share of the flows' time for which a signal had stopped a process of the background or the"
        " interference, as their launchers saw it",
        "a process of the background or the interference was stopped for {percent:.1f} % of the time, by a signal such"
        " as SIGSTOP: measure again, and leave it alone",
        most=_at(MOST_STOPPED_BESIDE),
    ),
    "halted": _disturbable(
        "share",
        "the largest share of the flows' time for which a process of the testbed, or pairlab itself, was stopped,"
        " traced or frozen, by samples (proc_pid_stat(5), cgroups(7))",
        "a process of the testbed was stopped, traced or frozen (SIGSTOP, a debugger, `docker pause`) for"
        " {percent:.1f} % of the time: measure again, and leave it alone",
        most=_at(MOST_STOPPED),
    ),
    "regrouped": Check(
        "processes",
        "processes of the testbed that were in another control group on the way than before (cgroups(7)), by samples",
        "{value} processes of the testbed were moved to another control group during the measurement, and not by"
        " pairlab: its limits were not those of the spec",
        most=_at(0),
    ),
    "network_changed": Check(
        "endpoints",
        "endpoints whose network was set otherwise at the end than before the release (TCP's settings, their link's"
        " MTU, offloads and queues), or whose link was changed on the way (rtnetlink(7))",
        'the network settings of {value} endpoints were changed during the measurement: facts["network_changed"] has'
        " them",
        most=_at(0),
    ),
    "affinity_changed": Check(
        "processes",
        "clients and servers that might run on other CPUs at their end than when they were ready (sched_setaffinity(2),"
        " cpusets)",
        "{value} clients or servers were moved to other CPUs during the measurement, and not by pairlab: leave taskset,"
        " cpusets and `docker update` alone meanwhile",
        most=_at(0),
    ),
    "conditions_changed": Check(
        "settings",
        "settings of this machine that were others at the end than before the release: sysctls, idle states,"
        " frequencies, CPUs online, modules' parameters",
        '{value} settings of this machine were changed during the measurement: facts["conditions_changed"] has them',
        most=_at(0),
    ),
    "background_steady": _disturbable(
        "",
        "whether the background sent at a steady rate before the others were released, by its links' counters",
        f"the background did not come to a steady rate within {MOST_RISE_S:g} s, or its links cannot be seen from here:"
        " measure again, or take fewer background pairs",
        least=_at(1),
    ),
    "background_failed": Check(
        "pairs",
        "background pairs that failed, or ended before the others did",
        "{value} background pairs failed, or ended before the others did: background_flows has their errors",
        most=_at(0),
    ),
    "interference_running": _disturbable(
        "",
        "whether all workers of the interference used CPU time before the pairs were released",
        "not all workers of the interference were seen to use CPU time before the pairs were released: measure again,"
        " or take fewer",
        least=_at(1),
    ),
    "interference_ended": _disturbable(
        "workers",
        "workers of the interference that ended before the pairs did",
        "{value} workers of the interference had ended before the pairs did: see in `dmesg` whether memory ran out",
        most=_at(0),
    ),
    "overlap": _disturbable(
        "share",
        "share of the time, from the first flow's start to the last one's end, in which all flows were active",
        "all flows were active in only {percent:.0f} % of the time: use a longer duration_s",
        least=_least_overlap,
    ),
    "active_share": Check(
        "share", "mean share of the timed flows that were active; failed flows were until their client's end"
    ),
    "foreign_cpu": _of_cpus(
        "used by processes outside the testbed (proc_pid_stat(5))",
        "other processes used {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}: stop them, or allow more",
    ),
    "realtime_cpu": _disturbable(
        "share",
        "share of all CPU time used by processes outside the testbed that are of real-time class and run before all"
        " others (sched(7)); of foreign_cpu",
        "processes of real-time class, which run before all others, used {percent:.1f} % of the CPU time: stop them"
        " (`ps -eo pid,cls,comm` lists them: FF, RR, DLN)",
        most=_at(MOST_REALTIME),
    ),
    "hidden_cpu": _of_cpus(
        "that nothing visible accounts for: processes of other PID namespaces, or that ended"
        " unnoticed; where kernel threads are hidden, theirs too (proc_stat(5))",
        "something that cannot be seen from here used {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}:"
        " run pairlab in the host's PID namespace (docker run --pid=host) to see what, stop it, or allow more",
    ),
    "kernel_cpu": _of_cpus(
        "used by kernel threads that do not process packets",
        "kernel threads used {percent:.1f} % of the CPU time on other work than packets; max_foreign_cpu is {bound:g}",
    ),
    "pairlab_cpu": _of_cpus(
        "used by the process that measures, all its threads included",
        "the process that measures used {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}: do nothing else"
        " in it meanwhile",
    ),
    "steal": _of_cpus(
        "that the hypervisor gave to other machines (proc_stat(5))",
        "the hypervisor took {percent:.1f} % of the CPU time; max_foreign_cpu is {bound:g}",
    ),
    "others_cpu": _of_cpus(
        f"that others than the testbed had: {', '.join(OF_OTHERS[:-1])} and {OF_OTHERS[-1]} together",
        "other processes, kernel threads, pairlab itself and the hypervisor had {percent:.1f} % of the CPU time"
        " together; max_foreign_cpu is {bound:g}: stop what runs beside, or allow more",
    ),
    "clock_step_s": _disturbable(
        "s",
        "largest change of the wall clock against the monotonic clock since the release, at any sample",
        "the wall clock was changed by {value:.3f} s during the measurement, and tools may use it",
        most=_clock_bound_s,
        least=lambda spec: -_clock_bound_s(spec),
    ),
    "throttled": _disturbable(
        "events",
        "thermal throttling events of the cores",
        "cores were thermally throttled {value:.0f} times during the measurement",
        most=_at(0),
    ),
    "quota_throttled": Check(
        "share",
        "share of the periods in which a CPU quota on pairlab's own control groups held it up (cgroups(7), cpu.stat)",
        "a CPU quota on pairlab itself held it up in {percent:.0f} % of its periods: run it without one (systemd's"
        " CPUQuota, docker run --cpus, a Kubernetes limit)",
        most=_at(0.01),
    ),
    "frequency_change": _disturbable(
        "share",
        "mean core frequency in the second half of the traffic, relative to the first half",
        "the core frequency changed by {percent:+.0f} % during the measurement: fix it (cpupower frequency-set)",
        most=_at(0.1),
        least=_at(-0.1),
    ),
    "telemetry_missed": _disturbable(
        "share",
        "share of the traffic's time in which CPU samples were late",
        "CPU use was not sampled in {percent:.0f} % of the time",
        most=_at(0.2),
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
    "unread": _disturbable(
        "share",
        "payload that was sent and not read by the servers when the time was over, as a share of what was (iperf3)",
        "{percent:.1f} % more payload was sent than the servers had read when the time was over: measure again, or use"
        " a longer duration_s",
        most=_at(0.03),
    ),
    "overrun": _disturbable(
        "share",
        "how long after the requested time the last UDP datagrams were received, as a share of it",
        "the last UDP datagrams were received {percent:.1f} % of the time after all should have been sent: measure"
        " again, or use a longer duration_s",
        most=_at(0.03),
    ),
    "retransmits": _crosscheck(
        "retransmitted segments by the tool's count, relative to the count of the clients' namespaces, minus 1",
        "the tool's count of retransmitted segments is {apart} than the kernel's",
    ),
    "load": Check(
        "share",
        "payload of all flows over the time in which they were due, or 0.1 s less than until the last was complete if"
        " that is more, relative to offered_load_bps, minus 1; may be any less where requests may fall behind",
        "the load was {apart} than offered_load_bps: hosts or network are saturated, or flows failed",
        most=_at(0.02),
        least=lambda spec: -1.0 if spec.may_fall_behind else -0.02,
    ),
    "unbegun": Check(
        "share",
        "share of the requests that had not begun when duration_s was over",
        "{percent:.1f} % of the requests had not begun within duration_s: give more time, or fewer requests",
        most=_at(0),
    ),
    "incomplete": Check(
        "share",
        "where requests may fall behind: the share of them that began, and were not complete when duration_s was over",
        "{percent:.1f} % of the requests were not complete within duration_s: give more time, or fewer requests",
        most=_at(0),
    ),
    "failed_flows": Check("flows", "failed flows: results, which do not make a run invalid"),
    "warmup_s": Check("s", "warm-up that was detected beyond warmup_s: not in the flows' totals"),
    "settled": _disturbable(
        "",
        "whether the total throughput came to a level: not below half of it for half of the time, nor rising from there"
        " all the way (steady_state.settle)",
        "the throughput never settled: use a longer duration_s",
        least=_at(1),
    ),
    "late_end": Check(
        "share",
        "total throughput over the requested time, relative to that over the time that TCP flows took, minus 1: a"
        " result",
    ),
    "shift": Check(
        "share",
        "clearest change of level of the total throughput after the warm-up, of the higher level (steady_state.shift):"
        " a result",
    ),
    "silent": Check(
        "share",
        "share of the time after the warm-up in which all flows together sent next to nothing"
        " (steady_state.silent_share): a result",
    ),
    "silence_s": Check("s", "the longest time in which a flow sent next to nothing: a result"),
}


def with_sum_of_others(values: dict[str, Value]) -> dict[str, Value]:
    """The values, and that of others_cpu beside those of OF_OTHERS that are known; none where none is."""
    known = [value for name in OF_OTHERS if (value := values.get(name)) is not None]
    return values | ({"others_cpu": sum(known)} if known else {})


def unmet(values: Mapping[str, Value], spec: Spec) -> dict[str, str]:
    """By its name, why each check out of its bounds makes a run invalid, in the order of the values.

    The sum of what others had is left out where one of them is out of bounds, which says more; and samples of who was
    halted, where a launcher knows.
    """
    reasons = {name: CHECKS[name].reason(value, spec) for name, value in values.items() if name in CHECKS}
    found = {name: reason for name, reason in reasons.items() if reason}
    if not found.keys().isdisjoint(OF_OTHERS):
        found.pop("others_cpu", None)
    if not found.keys().isdisjoint(("stopped", "beside_stopped")):
        found.pop("halted", None)
    return found
