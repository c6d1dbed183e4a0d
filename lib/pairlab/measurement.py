"""measure(spec) -> Run: the one place where testbed, workload, telemetry and store meet."""

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pairlab import __version__, store
from pairlab.errors import BadSpec, HostBusy, PairlabError, TestbedError, Unavailable
from pairlab.flows import read_flows
from pairlab.observation import Observer, checks_of_flows
from pairlab.progress import automatic
from pairlab.records import Run, table
from pairlab.spec import Spec
from pairlab.testbed import congestion, facts, hostlock, limits, links, neighbours, registry
from pairlab.testbed.barrier import Process
from pairlab.testbed.bed import Testbed, open_testbed
from pairlab.testbed.contracts import FEATURES, Pair, Progress, Site, Workload
from pairlab.testbed.live import Sampler, Watch, next_s
from pairlab.verdict import judge

#: How long servers may take to listen, and clients to reach the gate: 150 pairs on two slow cores take seconds.
READY_S = 60.0

#: How long servers may take to say what they received, once their clients have ended.
TOLD_S = 5.0


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
    asked, shaped = limits.limits_of(spec), links.links_of(spec)
    registry.require(backend.lacks(), f"backend {spec.backend!r}")
    registry.require(backend.lacks_for(driver), f"driver {spec.driver!r}")
    registry.require(backend.lacks_limits(asked.values()), "limits of CPU use")
    registry.require(backend.lacks_links(shaped.values()), "shaped links")
    registry.require(neighbours.lacks(spec, driver), f"{spec.pairs} pairs")
    registry.require(congestion.lacks(spec.congestion_control, type(backend)), "congestion control")
    missing = [lack for program in workload.programs if (lack := backend.lacks_program(program))]
    registry.require(missing, f"workload {spec.workload!r}")


def measure(
    spec: Spec,
    *,
    fresh: bool = False,
    wait: bool = True,
    root: Path | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Run:
    """Measures `spec`, stores the run and returns it.

    A run of the same spec that is stored and counts is returned as it is; fresh=True measures again and keeps the old
    one in .replaced/. wait: for another measurement on this host to end (else HostBusy; so also in a
    notebook that `pairlab run --no-wait` executes). root: where runs are kept,
    by default runs/. progress: hears of each phase; by default what suits where this runs (pairlab.progress), and
    contracts.silent tells nobody. watch: is given a Sample of what flows every half second while clients send; it must
    be quick.

    Raises BadInput or Unavailable before anything is built; what this host cannot do is stored as skipped, with the
    reason. A measurement that does not come off is stored as failed, and raised as MeasurementFailed or TestbedError.
    """
    if progress is None:
        with automatic() as progress:
            return measure(spec, fresh=fresh, wait=wait, root=root, progress=progress, watch=watch)
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
    with hostlock.measuring(wait and hostlock.may_wait(), lambda text: progress(text, 0, 0)):
        try:
            run = _measure(spec, progress, watch)
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


def _measure(spec: Spec, progress: Progress, watch: Watch | None) -> Run:
    run = None
    try:
        with open_testbed(spec, progress) as bed:
            run = _take(bed, progress, watch)
            progress("taking down", 0, 0)
            begun = time.monotonic()
    except TestbedError as error:
        if run is None:
            raise
        # What was measured stands. That the host is not as it was must be heard of all the same.
        warnings.warn(f"{spec} was measured, but not taken down whole: {error}", stacklevel=3)
        run = replace(run, facts={**run.facts, "left_behind": str(error)})
    return replace(run, times_s={**run.times_s, "down_s": time.monotonic() - begun})


def _take(bed: Testbed, progress: Progress, watch: Watch | None) -> Run:
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
    observer = Observer(bed)
    isolated = registry.drivers.get(spec.driver).isolated
    sampling = Sampler(clients, bed.site, isolated, spec.total_s, watch) if watch else contextlib.nullcontext()
    with times("traffic_s"), sampling as sampler, observer:
        release_ns = gate.release()
        _watch(bed, clients, release_ns, _longest_s(spec, workload), _beat(spec.total_s, progress, sampler))
        if sampler:
            sampler.look(_since_s(release_ns), last=True)
        hung = sum(not client.over for client in clients)
    with times("end_s"):
        bed.conductor.wait_ended(_still_telling(workload, clients, servers), TOLD_S)
        bed.conductor.stop([*clients, *servers])
        bed.conductor.results([*clients, *servers])
        observer.look_at_ports()
    reading = read_flows(spec, workload, clients, servers, release_ns, isolated=isolated)
    checks = (
        checks_of_flows(reading, clients, isolated)
        | {"hung": hung}
        | observer.checks(reading, servers, known["network"])
    )
    status, reasons = judge(spec, checks, clients, servers, reading, unmet)
    return Run(
        spec,
        status,
        tuple(reasons),
        measured_at,
        skew_s=float("nan") if checks["skew_s"] is None else checks["skew_s"],
        harness_cpu_s=observer.harness_cpu_s,
        times_s={"up_s": bed.up_s, **times.spent},
        facts=known,
        checks=checks,
        flows=table("flows", reading.flows),
        intervals=table("intervals", reading.intervals),
        cpu=table("cpu", observer.cpu_rows(release_ns)),
        raw=_printed([*clients, *servers]),
    )


class _Times:
    """How long each step took, by name."""

    def __init__(self):
        self.spent: dict[str, float] = {}

    @contextlib.contextmanager
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
        "waits_s": workload.waits_s,
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
        options=[_where_it_listens(pair, site) for pair in bed.pairs],
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


def _where_it_listens(pair: Pair, site: Site) -> list[str]:
    """Options of the server's launcher: the port that makes it ready, and the link whose packets are counted."""
    return ["--listen-udp" if pair.task.protocol == "udp" else "--listen", str(pair.port), "--link", site.interface]


def _how_it_sends(pair: Pair, spec: Spec, workload: Workload, site: Site) -> list[str]:
    """Options of the client's launcher: what it reads, and when the kernel is asked what its sockets retransmitted.

    That is shortly before a flow without an end is over, as nobody can ask of a socket that is gone.
    """
    options = []
    if file := workload.client_reads(pair, spec, site):
        options += ["--stdin", file]
    if spec.telemetry and not pair.task.flow_bytes and pair.task.protocol == "tcp":
        options += ["--diagnose-after", f"{workload.waits_s + spec.total_s - min(0.2, 0.1 * spec.total_s):g}"]
    return options


def _still_telling(workload: Workload, clients: Sequence[Process], servers: Sequence[Process]) -> list[Process]:
    """The servers that are about to end by themselves, and would not tell all if they were ended now."""
    if not workload.serves_once:
        return []
    return [server for client, server in zip(clients, servers, strict=True) if client.over and not client.trouble]


def _longest_s(spec: Spec, workload: Workload) -> float:
    """How long after the release a client may run before it counts as hung."""
    return workload.waits_s + spec.total_s + workload.ends_by_itself_s


def _watch(
    bed: Testbed, clients: Sequence[Process], release_ns: int, limit_s: float, beat: Callable[[float], None]
) -> None:
    """Waits for the clients' end; calls `beat` at once, with 0, and every half second, with the time since release."""
    passed_s = 0.0
    while passed_s < limit_s:
        beat(passed_s)
        now_s = _since_s(release_ns)  # a slow beat leaves out others, and makes no client look hung
        bed.conductor.wait_ended(clients, min(next_s(now_s), limit_s) - now_s)
        if all(client.over for client in clients):
            return
        passed_s = _since_s(release_ns)


def _beat(total_s: float, progress: Progress, sampler: Sampler | None) -> Callable[[float], None]:
    """What is told every half second: what flows, where somebody watches, and how far the measuring is."""

    def beat(passed_s: float) -> None:
        if sampler:
            sampler.look(passed_s)
        progress("measuring (s)", round(min(passed_s, total_s), 1), total_s)

    return beat


def _since_s(moment_ns: int) -> float:
    return (time.monotonic_ns() - moment_ns) / 1e9


def _printed(processes: Sequence[Process]) -> dict[str, str]:
    """What each tool printed, by file name; empty output is left out."""
    texts = {}
    for process in processes:
        for kind, text in (("out", process.stdout), ("err", process.stderr)):
            if text:
                texts[f"{process.endpoint.name}.{kind}"] = text
    return texts
