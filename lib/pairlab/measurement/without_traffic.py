"""Measurements that send no traffic: of how long launches take, and of drivers that isolate endpoints."""

import json
import time
from collections.abc import Collection
from datetime import UTC, datetime

from pairlab.measurement.checks import Value, with_sum_of_others
from pairlab.measurement.getting_ready import READY_S, conditions_changed, facts_of
from pairlab.measurement.observer import HostLoad
from pairlab.measurement.parsed_flows import Row
from pairlab.measurement.verdict import unmet_reasons
from pairlab.model.records import Run
from pairlab.model.tables import table
from pairlab.testbed import registry
from pairlab.testbed.contracts import Progress, token_options, write_token
from pairlab.testbed.endpoints import Endpoint, Pair, with_port
from pairlab.testbed.host import foreign_load
from pairlab.testbed.open import Testbed
from pairlab.testbed.process_launcher import UNPRIVILEGED

#: The checks of launches.
_OF_LAUNCHES = ("foreign_cpu", "throttled", "quota_throttled", "steal", "clock_step_s", "frequency_change")
#: An address beyond an endpoint's own, as drivers with a network give to endpoints: tried where there is only loopback.
BEYOND = "10.77.0.1"
LOOPBACK = "lo"
#: How long a connection may take.
LIMIT_S = 1.0


def launch(bed: Testbed, progress: Progress) -> Run:
    """Launches the plan's endpoints as often as the spec says, after one round that warms the system up."""
    spec, plan = bed.spec, bed.plan
    workload = registry.workloads.get(spec.workload)
    pings = plan.pings
    measured_at = datetime.now(UTC)
    recorded = facts_of(bed, [workload()])
    begun = time.monotonic()
    bed.site.launch(plan.launched, spec.duration_s, pings)  # what is read or loaded the first time does not count
    rows = []
    engine = bed.site.engine()
    with HostLoad(bed) as load:
        for number in range(spec.launches):
            progress("launching", number, spec.launches)
            rows += [_row(bed, number, each) for each in bed.site.launch(plan.launched, spec.duration_s, pings)]
    progress("launching", spec.launches, spec.launches)
    launches = table("launches", rows)
    failed = int((launches["status"] != "ok").sum())
    checks = _disturbances(load, engine) | {"conditions_changed": conditions_changed(recorded, bed.site)}

    def largest(check: str) -> list[tuple[str, int, float]]:
        """The processes with the most CPU time for that check, without the engine's."""
        consumers = foreign_load.largest(load.before, load.after, check, most=3 + len(engine))
        return [each for each in consumers if each[1] not in engine][:3]

    reasons = unmet_reasons(spec, checks, largest)
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


def _disturbances(load: HostLoad, engine: Collection[int]) -> dict[str, Value]:
    """The checks of other load. engine: the engine's processes. Kernel threads create namespaces, and do not count."""
    checks = load.checks()
    if engine and checks["foreign_cpu"] is not None:
        checks["foreign_cpu"] = foreign_load.others_share(load.before, load.after, engine)
    return with_sum_of_others({name: checks[name] for name in _OF_LAUNCHES})


def _row(bed: Testbed, number: int, report: dict) -> dict:
    (endpoint,) = (each for each in bed.plan.launched if each.name == report["name"])
    host = bed.plan.hosts[endpoint.host].name if len(bed.plan.hosts) > 1 else ""
    place = {"launch": number, "pair": endpoint.pair, "side": endpoint.side, "host": host, "create_s": 0.0}
    return place | {key: value for key, value in report.items() if key != "name"}


def show_isolation(bed: Testbed, progress: Progress) -> Run:
    """Each client tries to connect to its server, which listens, and to an address beyond its own namespace.

    The run counts where none of them came through: its flows are those connections, failed, with the kernel's words.
    facts["links"] has the links of each endpoint.
    """
    workload = registry.workloads.get(bed.spec.workload)()
    recorded = facts_of(bed, [workload])
    begun = datetime.now(UTC)
    write_token(bed.directory)
    tool_spec = bed.plan.tool_spec
    servers = bed.launcher.start(
        [(pair.server, workload.server(pair, tool_spec, bed.site)) for pair in bed.pairs],
        options=[["--listen", str(pair.port), UNPRIVILEGED] for pair in bed.pairs],
    )
    bed.launcher.wait_ready(servers, READY_S, progress, "servers listening")
    links = {each.name: _links(each) for pair in bed.pairs for each in (pair.client, pair.server)}
    rows = [row for pair in bed.pairs for row in _tried(bed, pair, links[pair.client.name])]
    bed.launcher.stop(servers)
    reached = [row for row in rows if row["status"] == "ok"]
    reasons = [f"{len(reached)} of {len(rows)} connections came through, over driver {bed.spec.driver!r}"]
    return Run(
        bed.spec,
        "invalid" if reached else "ok",
        tuple(reasons if reached else ()),
        begun,
        times_s={"up_s": bed.up_s},
        facts={**recorded, "links": links},
        flows=table("flows", rows),
    )


def _tried(bed: Testbed, pair: Pair, links: list[str]) -> list[Row]:
    """The connections that this pair's client tried; beyond its own namespace only where it has no link to leave by."""
    addresses = [pair.target, *([BEYOND] if links == [LOOPBACK] else [])]
    return [
        {"pair": pair.index, "flow": number, "protocol": "tcp", **_outcome(bed, pair, address)}
        for number, address in enumerate(addresses)
    ]


def _outcome(bed: Testbed, pair: Pair, address: str) -> Row:
    argv = [bed.site.flowgen, "client", "--connect", with_port(address, pair.port), *token_options(bed.site)]
    done = pair.client.run([*argv, "--bytes", "1", "--limit", f"{LIMIT_S:g}"], unprivileged=True)
    error = json.loads(done.stdout.splitlines()[-1]).get("error", "") if done.stdout else done.stderr.strip()
    # The remaining text is advice for another case.
    return {"status": "failed", "error": error.partition(";")[0]} if done.returncode else {"status": "ok", "error": ""}


def _links(endpoint: Endpoint) -> list[str]:
    lines = endpoint.run(["cat", "/proc/net/dev"]).stdout.splitlines()
    return sorted(line.partition(":")[0].strip() for line in lines if ":" in line)
