"""Measures launches: endpoints that start on a testbed that is up, one round of them after the other."""

import time
from datetime import UTC, datetime

from pairlab.measurement.checks.check import Value
from pairlab.measurement.processes.recorded import facts_of
from pairlab.measurement.verdict import unmet_reasons
from pairlab.model.records import Run
from pairlab.model.tables import table
from pairlab.testbed import registry
from pairlab.testbed.contracts import Progress
from pairlab.testbed.host import foreign_load
from pairlab.testbed.host.cpu_sampler import CpuTelemetry
from pairlab.testbed.open import Testbed


def take(bed: Testbed, progress: Progress) -> Run:
    """Launches the plan's endpoints as often as the spec says, after one round that warms the system up."""
    spec, plan = bed.spec, bed.plan
    workload = registry.workloads.get(spec.workload)
    pings = plan.pings
    measured_at = datetime.now(UTC)
    recorded = facts_of(bed, [workload()])
    begun = time.monotonic()
    bed.site.launch(plan.launched, spec.duration_s, pings)  # what is read or loaded the first time does not count
    rows = []
    with Disturbances(bed) as disturbances:
        for number in range(spec.launches):
            progress("launching", number, spec.launches)
            rows += [_row(bed, number, each) for each in bed.site.launch(plan.launched, spec.duration_s, pings)]
    progress("launching", spec.launches, spec.launches)
    launches = table("launches", rows)
    failed = int((launches["status"] != "ok").sum())
    checks = disturbances.checks()
    reasons = unmet_reasons(spec, checks, disturbances.largest)
    status = "invalid" if reasons else "ok"
    if failed == len(rows):
        status, reasons = "failed", [f"all {failed:,} launches failed, the first: {rows[0]['error']}"]
    return Run(
        spec,
        status,
        tuple(reasons),
        measured_at,
        times_s={"up_s": bed.up_s, "launches_s": time.monotonic() - begun},
        facts=recorded,
        checks=checks,
        launches=launches,
    )


class Disturbances:
    """What else the machine did while endpoints were launched: a context manager. Without telemetry it does nothing."""

    def __init__(self, bed: Testbed):
        self._spec = bed.spec
        self._engine = bed.site.engine()
        self._own = foreign_load.OwnProcesses(bed.site.roots(), bed.site.marks())
        self._telemetry = CpuTelemetry(bed.spec.interval_s)

    def __enter__(self) -> "Disturbances":
        if self._spec.telemetry:
            self._before = foreign_load.take_sample(self._own)
            self._telemetry.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._spec.telemetry:
            self._telemetry.__exit__(*raised)
            self._after = foreign_load.take_sample(self._own)

    def largest(self, check: str) -> list[tuple[str, int, float]]:
        """Whose CPU time counts most to that check; an engine's counts to none."""
        found = foreign_load.largest(self._before, self._after, check, most=3 + len(self._engine))
        return [each for each in found if each[1] not in self._engine][:3]

    def checks(self) -> dict[str, Value]:
        """Of verdict.CHECKS, those of what others did. The kernel's own threads make namespaces, so theirs is none."""
        if not self._spec.telemetry:
            return {}
        found = foreign_load.compare(self._before, self._after)
        if found["foreign_cpu"] is not None:
            found["foreign_cpu"] = foreign_load.others_share(self._before, self._after, self._engine)
        return {
            **{name: found[name] for name in ("foreign_cpu", "throttled", "quota_throttled")},
            "steal": self._telemetry.steal_share(),
            "clock_step_s": self._telemetry.clock_step_s(),
            "frequency_change": self._telemetry.frequency_change(),
        }


def _row(bed: Testbed, number: int, found: dict) -> dict:
    (endpoint,) = (each for each in bed.plan.launched if each.name == found["name"])
    host = bed.plan.hosts[endpoint.host].name if len(bed.plan.hosts) > 1 else ""
    place = {"launch": number, "pair": endpoint.pair, "side": endpoint.side, "host": host, "create_s": 0.0}
    return place | {key: value for key, value in found.items() if key != "name"}
