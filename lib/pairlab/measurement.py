"""measure(spec) -> Run: the one place where testbed, workload, telemetry and store meet."""

import os
import time
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pairlab import __version__, store
from pairlab.errors import BadSpec, HostBusy, PairlabError, TestbedError, Unavailable
from pairlab.flows import read_flows
from pairlab.records import Run, table
from pairlab.spec import Spec
from pairlab.testbed import congestion, facts, hostlock, limits, registry
from pairlab.testbed.barrier import Process
from pairlab.testbed.bed import Testbed, open_testbed
from pairlab.testbed.contracts import FEATURES, Pair, Progress, Site, Workload, silent
from pairlab.testbed.telemetry import CpuTelemetry

#: How long servers may take to listen, and clients to reach the gate: 150 pairs on two slow cores take seconds.
READY_S = 60.0


def resolve(spec: Spec) -> Spec:
    """The spec with `auto` replaced: iperf where the backend's endpoints have it, as in the papers, else flowgen.

    What iperf cannot do exactly, flows with an end and UDP, is flowgen's.

    Raises UnknownName for a backend, driver, workload or pinning that there is not, BadSpec for what the workload
    cannot do.
    """
    backend = registry.backends.get(spec.backend)()
    most = registry.drivers.get(spec.driver).max_endpoints
    if most and 2 * spec.pairs > most:
        raise BadSpec(f"pairs: {spec.driver!r} can have {most // 2} at most, not {spec.pairs}")
    registry.pinnings.get(spec.pinning)
    if spec.workload == "auto":
        iperf = registry.workloads.get("iperf")
        missing = any(backend.lacks_program(program) for program in iperf.programs)
        spec = spec.replace(workload="flowgen" if missing or spec.flow_bytes or spec.udp_share else "iperf")
    _suit(spec)
    return spec


def _suit(spec: Spec) -> None:
    """Raises BadSpec where the spec's workload cannot do what it asks, and names those that can."""
    workload = registry.workloads.get(spec.workload)
    asked = {feature for feature, (asks, _) in FEATURES.items() if asks(spec)}
    if missing := asked - workload.can:
        able = [name for name in registry.workloads.names() if asked <= registry.workloads.get(name).can]
        raise BadSpec(
            f"workload {spec.workload!r} cannot {', nor '.join(FEATURES[feature][1] for feature in sorted(missing))};"
            f" what can do all that is asked: {', '.join(able) or 'none'}"
        )
    workload().check(spec)


def check(spec: Spec) -> None:
    """Raises UnknownName, BadSpec or Unavailable where `spec` cannot be measured on this host; builds nothing."""
    backend = registry.backends.get(spec.backend)()
    driver = registry.drivers.get(spec.driver)
    workload = registry.workloads.get(spec.workload)
    _suit(spec)
    asked = limits.limits_of(spec)
    registry.require(backend.lacks(), f"backend {spec.backend!r}")
    registry.require(backend.lacks_for(driver), f"driver {spec.driver!r}")
    registry.require(backend.lacks_limits(asked.values()), "limits of CPU use")
    registry.require(congestion.lacks(spec.congestion_control, type(backend)), "congestion control")
    missing = [lack for program in workload.programs if (lack := backend.lacks_program(program))]
    registry.require(missing, f"workload {spec.workload!r}")


def measure(
    spec: Spec,
    *,
    fresh: bool = False,
    wait: bool = True,
    root: Path | None = None,
    progress: Progress = silent,
) -> Run:
    """Measures `spec`, stores the run and returns it.

    A run of the same spec that is stored and counts is returned as it is; fresh=True measures again and keeps the old
    one in .replaced/. wait: for another measurement on this host to end (else HostBusy). root: where runs are kept,
    by default runs/.

    Raises BadInput or Unavailable before anything is built; what this host cannot do is stored as skipped, with the
    reason. A measurement that does not come off is stored as failed, and raised as MeasurementFailed or TestbedError.
    """
    spec = resolve(spec)
    try:
        check(spec)
    except Unavailable as error:
        _note(Run(spec, "skipped", (str(error),), datetime.now(UTC)), root)
        raise
    stored = store.find(spec, root)
    if stored and stored.status == "ok" and not fresh:
        progress(f"stored already, measured {stored.measured_at:%Y-%m-%d %H:%M} UTC", 1, 1)
        return stored
    with hostlock.measuring(wait, lambda text: progress(text, 0, 0)):
        try:
            run = _measure(spec, progress)
        except HostBusy:
            raise
        except PairlabError as error:
            _note(Run(spec, "failed", (str(error),), datetime.now(UTC), facts={"host": facts.host()}), root)
            raise
        return store.write(run, root)


def _note(run: Run, root: Path | None) -> None:
    """Stores that a run was skipped or failed, but never in the place of one that counts."""
    stored = store.find(run.spec, root)
    if not stored or stored.status != "ok":
        store.write(run, root)


def _measure(spec: Spec, progress: Progress) -> Run:
    run = None
    try:
        with open_testbed(spec, progress) as bed:
            run = _take(bed, progress)
            progress("taking down", 0, 0)
            begun = time.monotonic()
    except TestbedError as error:
        if run is None:
            raise
        # What was measured stands. That the host is not as it was must be heard of all the same.
        warnings.warn(f"{spec} was measured, but not taken down whole: {error}", stacklevel=3)
        run = replace(run, facts={**run.facts, "left_behind": str(error)})
    return replace(run, times_s={**run.times_s, "down_s": time.monotonic() - begun})


def _take(bed: Testbed, progress: Progress) -> Run:
    """The measurement itself, from idle pairs to a whole Run."""
    spec, times = bed.spec, _Times()
    workload = registry.workloads.get(spec.workload)()
    measured_at = datetime.now(UTC)
    with times("facts_s"):
        known = _facts(bed, workload)
    with times("ready_s"):
        servers, clients, gate = _get_ready(bed, workload, progress)
    known["held"] = sorted({client.held for client in clients})
    known["urgency"] = sorted({client.urgency for client in clients})
    known["pinning"], unmet = _limits(bed, [*servers, *clients])
    with times("traffic_s"), CpuTelemetry(spec.interval_s) as telemetry:
        cpu_before = time.process_time()
        release_ns = gate.release()
        _watch(bed, clients, release_ns, _longest_s(spec, workload), progress)
        harness_cpu_s = time.process_time() - cpu_before
    with times("end_s"):
        bed.conductor.stop([*clients, *servers])
        bed.conductor.results([*clients, *servers])
    isolated = registry.drivers.get(spec.driver).isolated
    flows, intervals = read_flows(spec, workload, clients, servers, release_ns, isolated=isolated)
    skew_s = _skew(clients)
    status, reasons = _verdict(spec, skew_s, clients, servers, flows, unmet)
    return Run(
        spec,
        status,
        tuple(reasons),
        measured_at,
        skew_s=skew_s,
        harness_cpu_s=harness_cpu_s,
        times_s={"up_s": bed.up_s, **times.spent},
        facts=known,
        flows=table("flows", flows),
        intervals=table("intervals", intervals),
        cpu=table("cpu", telemetry.rows(release_ns)),
        raw=_printed([*clients, *servers]),
    )


class _Times:
    """How long each step took, by name."""

    def __init__(self):
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str):
        begun = time.monotonic()
        yield
        self.spent[name] = time.monotonic() - begun


def _facts(bed: Testbed, workload: Workload) -> dict:
    client, flowgen = bed.pairs[0].client, bed.site.flowgen
    versions = {"pairlab": __version__, "flowgen": facts.version(client, (flowgen, "version"))}
    if workload.version_argv:
        versions[workload.name] = facts.version(client, workload.version_argv)
    return {
        "host": facts.host(),
        "network": {**facts.network(client, flowgen, bed.site.interface), **bed.site.facts()},
        "versions": versions,
    }


def _limits(bed: Testbed, processes: Sequence[Process]) -> tuple[dict, list[str]]:
    """What the endpoints were held to, for the record, and why that is not what was asked; both as the kernel says."""
    seen = sorted({(process.endpoint.name, process.cpus) for process in processes if process.ready})
    of_groups = bed.site.limits_in_force()
    held = limits.in_force(seen, of_groups)
    held["harness_cpus"] = limits.cpu_list(os.sched_getaffinity(0))  # pairlab and its switches are not limited
    return held, limits.unmet(bed.limits, seen, of_groups)


def _get_ready(bed: Testbed, workload: Workload, progress: Progress):
    """All servers listening, then all clients at one gate."""
    conductor, site, spec = bed.conductor, bed.site, bed.spec
    workload.prepare(spec, bed.directory)
    servers = conductor.start(
        [(pair.server, workload.server(pair, spec, site)) for pair in bed.pairs],
        options=[_where_it_listens(pair) for pair in bed.pairs],
        keep_output=not workload.prints_payload,
    )
    conductor.wait_ready(servers, READY_S, progress, "servers listening")
    gate = conductor.gate()
    clients = conductor.start(
        [(pair.client, workload.client(pair, spec, site)) for pair in bed.pairs],
        gate=gate,
        options=[_how_it_sends(pair, spec, workload, site) for pair in bed.pairs],
    )
    conductor.wait_ready(clients, READY_S, progress, "clients ready")
    return servers, clients, gate


def _where_it_listens(pair: Pair) -> list[str]:
    """Options of the server's launcher: the port that makes it ready."""
    return ["--listen-udp" if pair.task.protocol == "udp" else "--listen", str(pair.port)]


def _how_it_sends(pair: Pair, spec: Spec, workload: Workload, site: Site) -> list[str]:
    """Options of the client's launcher: what it reads, and when the kernel is asked what its sockets retransmitted.

    That is shortly before a flow without an end is over, as nobody can ask of a socket that is gone.
    """
    options = []
    if file := workload.client_reads(pair, spec, site):
        options += ["--stdin", file]
    if not pair.task.flow_bytes and pair.task.protocol == "tcp":
        options += ["--diagnose-after", f"{workload.waits_s + spec.total_s - min(0.2, 0.1 * spec.total_s):g}"]
    return options


def _longest_s(spec: Spec, workload: Workload) -> float:
    """How long after the release a client may run before it counts as hung."""
    return workload.waits_s + spec.total_s + workload.ends_by_itself_s


def _watch(bed: Testbed, clients: Sequence[Process], release_ns: int, limit_s: float, progress: Progress) -> None:
    """Waits for the clients' end, and says every half second how far the measuring is."""
    total_s = bed.spec.total_s
    while (passed_s := (time.monotonic_ns() - release_ns) / 1e9) < limit_s:
        progress("measuring (s)", round(min(passed_s, total_s)), round(total_s))
        bed.conductor.wait_ended(clients, min(0.5, limit_s - passed_s))
        if all(client.over for client in clients):
            return


def _skew(clients: Sequence[Process]) -> float:
    """The last start less the first, in seconds, over those that started; NaN where none did."""
    starts = [client.start_ns for client in clients if client.start_ns is not None]
    return (max(starts) - min(starts)) / 1e9 if starts else float("nan")


def _verdict(
    spec: Spec,
    skew_s: float,
    clients: Sequence[Process],
    servers: Sequence[Process],
    flows: Sequence[dict],
    unmet: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """ok, invalid or failed, with the reasons.

    A flow that failed on its way is a result, and does not spoil the run; all failed do. What never ran together with
    the others is no contention: starts too far apart, connections that came late, clients that never started. unmet:
    limits of CPU use that were asked and not kept.

    Of flows with an end, only the starts are held against the run. That such a flow waited for its connection is part
    of its completion time, and the others are the reason; that some were over before it stood is contention's outcome.
    """
    failed = [flow for flow in flows if flow["status"] != "ok"]
    if len(failed) == len(flows):
        return "failed", [f"all {len(flows)} flows failed, the first: {failed[0]['error']}"]
    reasons = list(unmet)
    if skew_s > spec.max_skew_s:
        reasons.append(f"clients started within {skew_s:.3f} s, and max_skew_s is {spec.max_skew_s:g}")
    late_s = float("inf") if spec.flow_bytes else max(spec.max_skew_s, 0.1 * spec.total_s)
    if late := [flow["connected_s"] for flow in flows if flow.get("connected_s", 0.0) > late_s]:
        reasons.append(
            f"{len(late)} of {len(flows)} connections stood only after {late_s:g} s, the last at {max(late):.3f} s"
        )
    if missing := sum(client.start_ns is None for client in clients):
        reasons.append(f"{missing} of {len(clients)} clients never started")
    if deaf := [server for server in servers if not server.ready]:
        reasons.append(f"{len(deaf)} of {len(servers)} servers never listened, the first: {deaf[0].trouble}")
    return ("invalid", reasons) if reasons else ("ok", [])


def _printed(processes: Sequence[Process]) -> dict[str, str]:
    """What each tool printed, by file name; empty output is left out."""
    texts = {}
    for process in processes:
        for kind, text in (("out", process.stdout), ("err", process.stderr)):
            if text:
                texts[f"{process.endpoint.name}.{kind}"] = text
    return texts
