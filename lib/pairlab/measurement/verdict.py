"""Whether a run is valid: its status, and the reasons where a check is not met.

A run is invalid if a check is out of bounds. Failed flows do not make a run invalid, as failures are results; it is
failed if all flows failed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pairlab.base import html_repr
from pairlab.measurement.checks import CHECKS, Value, unmet
from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.model.reasons import naming
from pairlab.model.records import TONES, Run
from pairlab.model.spec import Spec
from pairlab.testbed.process_launcher import Process

#: By the name of a check, whose CPU time counts most to it: names, process ids and shares.
Largest = Callable[[str], Iterable[tuple[str, int, float]]]


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
    checked = []
    for name, check in CHECKS.items():
        if name in run.checks:
            value, bounds = run.checks[name], check.bounds(run.spec)
            met = None if value is None or not bounds else check.reason(value, run.spec) is None
            checked.append(Checked(name, check.shown(value), bounds, met, check.meaning))
    return Verdict(run.status, tuple(run.reasons), tuple(checked))


def worth_retrying(run: Run) -> bool:
    """Whether a run is invalid for what else the machine did, and for nothing else: see Check.retryable."""
    names = unmet(run.checks, run.spec)
    return run.status == "invalid" and len(names) == len(run.reasons) and all(CHECKS[name].retryable for name in names)


def judge(
    spec: Spec,
    checks: Mapping[str, Value],
    clients: Sequence[Process],
    servers: Sequence[Process],
    parsed: ParsedFlows,
    not_as_asked: Sequence[str] = (),
    largest: Largest = lambda check: (),
) -> tuple[str, list[str]]:
    """ok, invalid or failed, with the reasons.

    Failed flows are results; only if all failed, the run failed. Flows that did not run together with the others did
    not compete: starts too far from when they were due, late connections, clients that never started. not_as_asked:
    sentences on other requests that were not met. largest: by the name of a check, the processes to name where it is
    not met.

    For flows of a fixed size only the starts count: if some completed before another connected, that is an effect of
    contention.
    """
    if parsed.failed == parsed.count:
        refused = CHECKS["refused"].reason(checks.get("refused"), spec)
        failed = f"all {parsed.count:,} flows failed, the first: {parsed.first_error}"
        return "failed", [failed, *filter(None, [refused])]
    reasons = list(not_as_asked)
    if missing := sum(client.start_ns is None for client in clients):
        reasons.append(f"{missing} of {len(clients)} clients never started")
    if silent := [server for server in servers if not server.ready]:
        reasons.append(f"{len(silent)} of {len(servers)} servers never listened, the first: {silent[0].failure}")
    reasons += unmet_reasons(spec, checks, largest)
    return ("invalid", reasons) if reasons else ("ok", [])


def unmet_reasons(spec: Spec, checks: Mapping[str, Value], largest: Largest = lambda check: ()) -> list[str]:
    """A sentence for each check that is out of its bounds."""
    return [naming(reason, largest(name)) for name, reason in unmet(checks, spec).items()]
