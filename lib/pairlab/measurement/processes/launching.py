"""Measures launches: endpoints that start on a testbed that is up, one round of them after the other."""

import time
from datetime import UTC, datetime

from pairlab.measurement.processes.recorded import facts_of
from pairlab.model.records import Run
from pairlab.model.tables import table
from pairlab.testbed import registry
from pairlab.testbed.contracts import Progress
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
    for number in range(spec.launches):
        progress("launching", number, spec.launches)
        rows += [_row(bed, number, each) for each in bed.site.launch(plan.launched, spec.duration_s, pings)]
    progress("launching", spec.launches, spec.launches)
    launches = table("launches", rows)
    failed = int((launches["status"] != "ok").sum())
    status, reasons = "ok", ()
    if failed == len(rows):
        status, reasons = "failed", (f"all {failed:,} launches failed, the first: {rows[0]['error']}",)
    return Run(
        spec,
        status,
        reasons,
        measured_at,
        times_s={"up_s": bed.up_s, "launches_s": time.monotonic() - begun},
        facts=recorded,
        launches=launches,
    )


def _row(bed: Testbed, number: int, found: dict) -> dict:
    (endpoint,) = (each for each in bed.plan.launched if each.name == found["name"])
    host = bed.plan.hosts[endpoint.host].name if len(bed.plan.hosts) > 1 else ""
    place = {"launch": number, "pair": endpoint.pair, "side": endpoint.side, "host": host, "create_s": 0.0}
    return place | {key: value for key, value in found.items() if key != "name"}
