"""Servers that listen, and clients that wait at their gate."""

from collections.abc import Sequence
from typing import NamedTuple

from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Progress, Site, Workload
from pairlab.testbed.endpoints import Pair
from pairlab.testbed.launch.conductor import UNPRIVILEGED, Gate, Process
from pairlab.testbed.open import Testbed

#: How long servers may take to listen, and clients to reach the gate; 150 pairs on two slow cores take seconds.
READY_S = 60.0

#: How long servers may take to report what they received, after their clients ended.
REPORT_S = 5.0


class Ready(NamedTuple):
    """Servers and clients of some pairs, in their order, and the gate that these clients wait at."""

    servers: Sequence[Process]
    clients: Sequence[Process]
    gate: Gate


def servers_of(
    bed: Testbed, pairs: Sequence[Pair], workload: Workload, told: Spec, progress: Progress
) -> list[Process]:
    """Starts these pairs' servers, and waits until they listen. told: what the tools are to carry out."""
    servers = bed.conductor.start(
        [(pair.server, workload.server(pair, told, bed.site)) for pair in pairs],
        options=[_server_options(pair, workload, bed.site) for pair in pairs],
        keep_output=not workload.prints_payload,
    )
    bed.conductor.wait_ready(servers, READY_S, progress, "servers listening")
    return servers


def get_ready(bed: Testbed, workload: Workload, progress: Progress) -> Ready:
    """Starts all servers and waits until they listen, then all clients, which wait at one gate."""
    told, conductor = bed.plan.of_tools, bed.conductor
    servers = servers_of(bed, bed.pairs, workload, told, progress)
    gate = conductor.gate()
    clients = conductor.start(
        [(pair.client, workload.client(pair, told, bed.site)) for pair in bed.with_clients],
        gate=gate,
        options=[client_options(pair, bed.spec, workload, bed.site) for pair in bed.with_clients],
    )
    conductor.wait_ready(clients, READY_S, progress, "clients ready")
    return Ready(servers, clients, gate)


def link_options(pair: Pair, site: Site) -> list[str]:
    """Options of any client's launcher: the link whose packets are counted, and the neighbour to resolve."""
    return ["--link", site.interface_of(pair.client.name), *site.neighbour_options(pair.server.address), UNPRIVILEGED]


def still_reporting(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> list[Process]:
    """The servers that are about to end by themselves, and would report less if they were stopped now."""
    if not workload.serves_once:
        return []
    return [server for client, server in zip(clients, servers, strict=True) if client.over and not client.trouble]


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
        options += ["--diagnose-after", f"{workload.waits_s + spec.total_s - min(0.2, 0.1 * spec.total_s):g}"]
    return options
