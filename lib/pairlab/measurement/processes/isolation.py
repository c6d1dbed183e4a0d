"""A driver that carries nothing: what its endpoints can reach is tried, and that they cannot is the result."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pairlab.measurement.processes.getting_ready import READY_S
from pairlab.measurement.reading import Row
from pairlab.model.records import Run
from pairlab.model.tables import table
from pairlab.testbed import token
from pairlab.testbed.contracts import Progress, Workload
from pairlab.testbed.endpoints import Endpoint, Pair
from pairlab.testbed.launch.conductor import UNPRIVILEGED
from pairlab.testbed.open import Testbed

#: An address beyond an endpoint's own, as drivers with a network give to endpoints: tried where there is only loopback.
BEYOND = "10.77.0.1"
LOOPBACK = "lo"
#: How long a connection may take.
LIMIT_S = 1.0


def shown(bed: Testbed, workload: Workload, recorded: Mapping[str, Any], progress: Progress) -> Run:
    """Each client tries to connect to its server, which listens, and to an address beyond its own namespace.

    The run counts where none of them came through: its flows are those connections, failed, with the kernel's words.
    facts["links"] has the links of each endpoint. recorded: the facts that are known before.
    """
    begun = datetime.now(UTC)
    token.write(bed.directory)
    told = bed.plan.of_tools
    servers = bed.conductor.start(
        [(pair.server, workload.server(pair, told, bed.site)) for pair in bed.pairs],
        options=[["--listen", str(pair.port), UNPRIVILEGED] for pair in bed.pairs],
    )
    bed.conductor.wait_ready(servers, READY_S, progress, "servers listening")
    links = {each.name: _links(each) for pair in bed.pairs for each in (pair.client, pair.server)}
    rows = [row for pair in bed.pairs for row in _tried(bed, pair, links[pair.client.name])]
    bed.conductor.stop(servers)
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
    argv = [bed.site.flowgen, "client", "--connect", f"{address}:{pair.port}", *token.options(bed.site)]
    done = pair.client.run([*argv, "--bytes", "1", "--limit", f"{LIMIT_S:g}"], unprivileged=True)
    error = json.loads(done.stdout.splitlines()[-1]).get("error", "") if done.stdout else done.stderr.strip()
    # The rest of its words is advice for another case.
    return {"status": "failed", "error": error.partition(";")[0]} if done.returncode else {"status": "ok", "error": ""}


def _links(endpoint: Endpoint) -> list[str]:
    """The names of an endpoint's links."""
    lines = endpoint.run(["cat", "/proc/net/dev"]).stdout.splitlines()
    return sorted(line.partition(":")[0].strip() for line in lines if ":" in line)
