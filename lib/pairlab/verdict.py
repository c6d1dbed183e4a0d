"""Whether a run can be trusted: what is checked, within which bounds, and the reasons where it is not.

Each check is one number, recorded in Run.checks under its name; None where this host or this workload does not tell.
A run is invalid when one is out of its bounds. That flows fail is no reason: failures are results; all failing is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pairlab import cards, quantities
from pairlab.flows import Reading
from pairlab.records import TONES, Run
from pairlab.spec import Spec
from pairlab.testbed.barrier import Process

Value = float | bool | None


class Check(NamedTuple):
    """One number a run is judged by. most, least: its bounds, where it has such; told: the reason, in a sentence.

    The sentence may have the value, the bound, the value in percent, and how far `apart` from another it tells to be.
    """

    unit: str
    meaning: str
    told: str = ""
    most: Callable[[Spec], float] | None = None
    least: Callable[[Spec], float] | None = None

    def reason(self, value: Value, spec: Spec) -> str | None:
        """Why this value spoils a run of that spec, or None."""
        if value is None:
            return None
        if self.most and value > (bound := self.most(spec)):
            return self._told(value, bound)
        if self.least and value < (bound := self.least(spec)):
            return self._told(value, bound)
        return None

    def bounds(self, spec: Spec) -> str:
        """Within which values a run of that spec is one that counts, as text; empty: any."""
        least, most = (bound and bound(spec) for bound in (self.least, self.most))
        if not self.unit:
            return "" if least is None else "yes"
        if least is not None and most is not None:
            return f"{self.shown(least)} to {self.shown(most)}"
        if least is not None:
            return f"at least {self.shown(least)}"
        return "" if most in (None, float("inf")) else f"at most {self.shown(most)}"

    def shown(self, value: Value) -> str:
        """The value with its unit."""
        if value is None:
            return "not told"
        if not self.unit:
            return "yes" if value else "no"
        if self.unit == "share":
            told = f"{100 * value:.3g} %"
        else:
            told = quantities.told(value, "s") if self.unit == "s" else f"{value:g} {self.unit}"
        return told.replace("-", "−")

    def _told(self, value: float | bool, bound: float) -> str:
        percent = 100 * value
        apart = f"{abs(percent):.1f} % {'less' if value < 0 else 'more'}"
        return self.told.format(value=value, bound=bound, percent=percent, apart=apart)


def _at(bound: float) -> Callable[[Spec], float]:
    return lambda spec: bound


def _clock_bound_s(spec: Spec) -> float:
    """NTP may slew a clock by 500 ppm (adjtimex(2)); what is beyond that was a step."""
    return 0.002 + 0.001 * spec.total_s


def _twofold(meaning: str, told: str) -> Check:
    """The same thing by the tool and by the kernel, which may be 1 % apart (crosschecks)."""
    told += ": see what the tool printed, in raw/, and whether another workload disagrees too"
    return Check("share", meaning, told, most=_at(0.01), least=_at(-0.01))


CHECKS: dict[str, Check] = {
    "skew_s": Check(
        "s",
        "the last client's start less the first's",
        "clients started within {value:.3f} s, and max_skew_s is {bound:g}",
        most=lambda spec: spec.max_skew_s,
    ),
    "over_early": Check(
        "share",
        "of flows with an end, those that were complete before the last client had started",
        "{percent:.0f} % of the flows were over before the last client had started: larger flows, or fewer pairs, meet",
        most=_at(0.1),
    ),
    "hung": Check(
        "clients",
        "clients of flows without an end that did not end when their time was over, and were ended",
        "{value} clients did not end by themselves when their time was over",
        most=lambda spec: float("inf") if spec.flow_bytes else 0,
    ),
    "overlap": Check(
        "share",
        "of the time from the first flow's begin to the last one's end, that in which all were active",
        "all flows were active in {percent:.0f} % of the time only; a longer duration_s makes late starts weigh less",
        least=lambda spec: 0.0 if spec.flow_bytes else 0.8,
    ),
    "foreign_cpu": Check(
        "share",
        "of all CPU time, what processes took that are not this testbed's (proc_pid_stat(5))",
        "other processes took {percent:.1f} % of the CPU time, and max_foreign_cpu is {bound:g}: see what runs here",
        most=lambda spec: spec.max_foreign_cpu,
    ),
    "steal": Check(
        "share",
        "of all CPU time, what the hypervisor gave to other machines (proc_stat(5))",
        "the hypervisor took {percent:.1f} % of the CPU time, and max_foreign_cpu is {bound:g}",
        most=lambda spec: spec.max_foreign_cpu,
    ),
    "clock_step_s": Check(
        "s",
        "how far the wall clock moved against the monotonic one",
        "the wall clock was set by {value:.3f} s meanwhile, and tools may measure with it",
        most=lambda spec: _clock_bound_s(spec),
        least=lambda spec: -_clock_bound_s(spec),
    ),
    "throttled": Check(
        "events",
        "how often cores were throttled for heat",
        "cores were throttled for heat {value:.0f} times meanwhile",
        most=_at(0),
    ),
    "frequency_change": Check(
        "share",
        "mean frequency of the cores in the later half of the traffic, against the earlier half",
        "the cores' frequency changed by {percent:+.0f} % meanwhile: set a fixed one (cpupower frequency-set)",
        most=_at(0.1),
        least=_at(-0.1),
    ),
    "telemetry_missed": Check(
        "share",
        "of the traffic's time, that in which samples of CPU use were late",
        "CPU use was not sampled in {percent:.0f} % of the time",
        most=_at(0.2),
    ),
    "interface_bytes": _twofold(
        "payload that the servers' links received by the kernel's counters, over what the tool received, less 1",
        "the servers' links carried {apart} payload than the tool reported",
    ),
    "port_bytes": _twofold(
        "payload that went out to endpoints at the network's ports, over what the tool received, less 1",
        "the ports of the network carried {apart} payload than the tool reported",
    ),
    "retransmits": _twofold(
        "retransmitted segments by the tool's count, over the kernel's count in the clients' namespaces, less 1",
        "the tool's count of retransmitted segments is {apart} than the kernel's",
    ),
    "failed_flows": Check("flows", "flows that failed on their way: results, which spoil nothing"),
    "warmup_s": Check("s", "warm-up that was found, after the spec's: left out of every flow's totals"),
    "settled": Check(
        "",
        "whether the total throughput was steady after the warm-up (steady.settle)",
        "the throughput never settled: a longer duration_s shows whether it ever does",
        least=_at(1),
    ),
    "drift": Check(
        "share", "how far the total throughput ended above where it began, after the warm-up (steady.drift)"
    ),
}


class Checked(NamedTuple):
    """One check of a run: its value and its bounds, with units. met: None where it has no bounds, or no value."""

    name: str
    value: str
    bounds: str
    met: bool | None
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """What a run was found to be, why, and every check behind it."""

    status: str
    reasons: tuple[str, ...]
    checks: tuple[Checked, ...]

    def __str__(self) -> str:
        told = [f"{self.status}{f': {why}' if (why := '; '.join(self.reasons)) else ''}"]
        width = max((len(check.name) for check in self.checks), default=0)
        for check in self.checks:
            bounds = f" ({check.bounds})" if check.bounds else ""
            told.append(f"  {check.name:{width}}  {_MET[check.met]:8}  {check.value}{bounds}")
        return "\n".join(told)

    def _repr_html_(self) -> str:
        rows = [(check.name, _MET[check.met], check.value, check.bounds, check.meaning) for check in self.checks]
        return cards.card(
            "Verdict",
            [("reasons", "\n".join(self.reasons))],
            badge=self.status,
            tone=TONES[self.status],
            body=cards.grid(("check", "", "value", "bounds", "what it is"), rows) if rows else "",
            note="" if rows else "This run was made before its checks were recorded.",
        )


#: How a check came out, in a word.
_MET = {True: "met", False: "not met", None: "–"}


def of(run: Run) -> Verdict:
    """The verdict that a run was given, with each of CHECKS that was recorded in it."""
    found = [
        Checked(name, check.shown(run.checks[name]), check.bounds(run.spec), _met(check, run, name), check.meaning)
        for name, check in CHECKS.items()
        if name in run.checks
    ]
    return Verdict(run.status, tuple(run.reasons), tuple(found))


def _met(check: Check, run: Run, name: str) -> bool | None:
    value = run.checks[name]
    return None if value is None or not check.bounds(run.spec) else check.reason(value, run.spec) is None


def judge(
    spec: Spec,
    checks: Mapping[str, Value],
    clients: Sequence[Process],
    servers: Sequence[Process],
    reading: Reading,
    unmet: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """ok, invalid or failed, with the reasons.

    A flow that failed on its way is a result, and does not spoil the run; all failed do. What never ran together with
    the others is no contention: starts too far apart, connections that came late, clients that never started. unmet:
    sentences on what else was not as asked.

    Of flows with an end, only the starts are held against the run. That such a flow waited for its connection is part
    of its completion time, and the others are the reason; that some were over before it stood is contention's outcome.
    """
    flows = reading.flows
    failed = [flow for flow in flows if flow["status"] != "ok"]
    if len(failed) == len(flows):
        return "failed", [f"all {len(flows)} flows failed, the first: {failed[0]['error']}"]
    reasons = list(unmet)
    late_s = float("inf") if spec.flow_bytes else max(spec.max_skew_s, 0.1 * spec.total_s)
    if late := [begun_s for begun_s, _ in reading.spans if begun_s > late_s]:
        reasons.append(
            f"{len(late)} of {len(flows)} connections stood only after {late_s:g} s, the last at {max(late):.3f} s"
        )
    if missing := sum(client.start_ns is None for client in clients):
        reasons.append(f"{missing} of {len(clients)} clients never started")
    if deaf := [server for server in servers if not server.ready]:
        reasons.append(f"{len(deaf)} of {len(servers)} servers never listened, the first: {deaf[0].trouble}")
    reasons += _out_of_bounds(spec, checks)
    return ("invalid", reasons) if reasons else ("ok", [])


def _out_of_bounds(spec: Spec, checks: Mapping[str, Value]) -> list[str]:
    found = [CHECKS[name].reason(value, spec) for name, value in checks.items()]
    return [reason for reason in found if reason]
