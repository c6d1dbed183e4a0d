"""What is ready before the release: servers that listen, clients that wait at their gate, facts of the testbed."""

from collections.abc import Sequence

from pairlab._version import __version__
from pairlab.model import metrics
from pairlab.model.conditions import packed, unpacked
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Progress, Site, Workload
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.environment import code_of
from pairlab.testbed.host import conditions, facts
from pairlab.testbed.open import Testbed
from pairlab.testbed.process_launcher import UNPRIVILEGED, Gate, Process

#: How long servers may take to listen, and clients to reach the gate; 150 pairs on two slow cores take seconds.
READY_S = 60.0

#: How long servers may take to report what they received, after their clients ended.
REPORT_S = 5.0


def servers_of(
    bed: Testbed, pairs: Sequence[Pair], workload: Workload, tool_spec: Spec, progress: Progress
) -> list[Process]:
    """Starts these pairs' servers, and waits until they listen. tool_spec: of the commands (Plan.tool_spec)."""
    servers = bed.launcher.start(
        [(pair.server, workload.server(pair, tool_spec, bed.site)) for pair in pairs],
        options=[_server_options(pair, workload, bed.site) for pair in pairs],
        keep_output=not workload.prints_payload,
    )
    bed.launcher.wait_ready(servers, READY_S, progress, "servers listening")
    return servers


def get_ready(
    bed: Testbed, workload: Workload, progress: Progress
) -> tuple[Sequence[Process], Sequence[Process], Gate]:
    """Starts all servers until they listen, then all clients; returns both, and the gate at which clients wait."""
    tool_spec, launcher = bed.plan.tool_spec, bed.launcher
    servers = servers_of(bed, bed.pairs, workload, tool_spec, progress)
    gate = launcher.gate()
    clients = launcher.start(
        [(pair.client, workload.client(pair, tool_spec, bed.site)) for pair in bed.with_clients],
        gate=gate,
        options=[client_options(pair, bed.spec, workload, bed.site) for pair in bed.with_clients],
    )
    launcher.wait_ready(clients, READY_S, progress, "clients ready")
    return servers, clients, gate


def link_options(pair: Pair, site: Site) -> list[str]:
    """Options of any client's launcher: the link whose packets are counted, and the neighbour to resolve."""
    return ["--link", site.interface_of(pair.client.name), *site.neighbour_options(pair.server.address), UNPRIVILEGED]


def still_reporting(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> list[Process]:
    """Servers that are about to exit, whose report would be incomplete if they were stopped now."""
    if not workload.serves_once:
        return []
    return [server for client, server in zip(clients, servers, strict=True) if client.ended and not client.failure]


def _server_options(pair: Pair, workload: Workload, site: Site) -> list[str]:
    """Options of the server's launcher: the port that it is ready at, and the link whose packets are counted."""
    listen = "--listen-udp" if pair.task.protocol == "udp" and not workload.listens_by_tcp else "--listen"
    return [listen, str(pair.port), "--link", site.interface_of(pair.server.name), UNPRIVILEGED]


def client_options(pair: Pair, spec: Spec, workload: Workload, site: Site) -> list[str]:
    """Options of the client's launcher, besides: when it starts, the file to read, and when to query the kernel for
    retransmissions of its sockets.

    That is shortly before a timed flow ends, as a closed socket cannot be queried.
    """
    options = link_options(pair, site)
    if due_s := spec.due_s(pair.index):
        options += ["--start-after", f"{due_s:.9f}"]
    if file := workload.client_reads(pair, spec, site):
        options += ["--stdin", file]
    if spec.telemetry and not spec.flows_end and pair.task.protocol == "tcp":
        options += ["--diagnose-after", f"{workload.start_delay_s + spec.total_s - min(0.2, 0.1 * spec.total_s):g}"]
    return options


def conditions_now(site: Site) -> dict[str, str]:
    """The settings of this machine, and of the site's other ones."""
    return conditions.read() | site.conditions()


def conditions_changed(recorded: dict, site: Site) -> int:
    """How many of the recorded conditions are others now; these come to the facts, with both values."""
    changed = conditions.changed(unpacked(recorded["conditions"]), conditions_now(site))
    if changed:
        recorded["conditions_changed"] = changed
    return len(changed)


def facts_of(bed: Testbed, workloads: Sequence[Workload]) -> dict:
    """The facts of the testbed before the traffic. workloads: first the one of the measured pairs."""
    client, flowgen = bed.first, bed.site.flowgen
    versions = {"pairlab": __version__, "flowgen": facts.version(client, (flowgen, "version"))}
    for workload in workloads:
        if command := workload.version_command(flowgen):
            versions[workload.name] = facts.version(client, command)
    network = dict(bed.site.facts())
    kind = network.get("host_kind", bed.plan.backend.host_kind)
    machines = [each["machine"] for each in network.get("kernels", ()) if "machine" in each]
    return {
        "host": facts.host(),
        "conditions": packed(conditions_now(bed.site)),
        "hosts": facts.hosts(bed.plan.hosts, kind, machines),
        "network": network,
        "versions": versions,
        "waits_s": workloads[0].start_delay_s,
        **({"code": code} if (code := code_of(bed.plan.spec)) else {}),
        **metrics.as_fact(tuple(workloads[0].metrics)),
    }
