"""measure(spec) -> Run: the one place where testbed, workload, telemetry and store meet."""

import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pairlab import __version__, store
from pairlab.errors import HostBusy, PairlabError, Unavailable
from pairlab.records import Run, table
from pairlab.spec import Spec
from pairlab.testbed import facts, hostlock, registry
from pairlab.testbed.barrier import Process
from pairlab.testbed.bed import Testbed, open_testbed
from pairlab.testbed.contracts import Measured, Progress, Workload, silent
from pairlab.testbed.telemetry import CpuTelemetry

#: How long servers may take to listen, and clients to reach the gate: 150 pairs on two slow cores take seconds.
READY_S = 60.0


def resolve(spec: Spec) -> Spec:
    """The spec with `auto` replaced: iperf where the backend's endpoints have it, as in the papers, else flowgen.

    Raises UnknownName for a backend, driver or workload that there is not, BadSpec for what the workload cannot do.
    """
    backend = registry.backends.get(spec.backend)()
    registry.drivers.get(spec.driver)
    if spec.workload == "auto":
        iperf = registry.workloads.get("iperf")
        missing = any(backend.lacks_program(program) for program in iperf.programs)
        spec = spec.replace(workload="flowgen" if missing else "iperf")
    registry.workloads.get(spec.workload)().check(spec)
    return spec


def check(spec: Spec) -> None:
    """Raises UnknownName, BadSpec or Unavailable where `spec` cannot be measured on this host; builds nothing."""
    backend = registry.backends.get(spec.backend)()
    driver = registry.drivers.get(spec.driver)
    workload = registry.workloads.get(spec.workload)
    workload().check(spec)
    registry.require(backend.lacks(), f"backend {spec.backend!r}")
    registry.require(backend.lacks_for(driver), f"driver {spec.driver!r}")
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
    workload = registry.workloads.get(spec.workload)()
    measured_at = datetime.now(UTC)
    times = _Times()
    with open_testbed(spec, progress) as bed:
        times.spent["up_s"] = bed.up_s
        with times("facts_s"):
            known = _facts(bed, workload)
        with times("ready_s"):
            servers, clients, gate = _get_ready(bed, workload, progress)
        known["held"] = sorted({client.held for client in clients})
        telemetry = CpuTelemetry(spec.interval_s)
        with times("traffic_s"):
            telemetry.start()
            cpu_before = time.process_time()
            release_ns = gate.release()
            _watch(bed, clients, release_ns, spec.total_s + workload.ends_by_itself_s, progress)
            harness_cpu_s = time.process_time() - cpu_before
            telemetry.stop()
        with times("end_s"):
            bed.conductor.stop([*clients, *servers])
            bed.conductor.results([*clients, *servers])
        progress("taking down", 0, 0)
        begun = time.monotonic()
    times.spent["down_s"] = time.monotonic() - begun
    flows, intervals = _read_flows(spec, workload, clients, servers, release_ns)
    skew_s = _skew(clients)
    status, reasons = _verdict(spec, skew_s, servers, flows)
    return Run(
        spec,
        status,
        tuple(reasons),
        measured_at,
        skew_s=skew_s,
        harness_cpu_s=harness_cpu_s,
        times_s=times.spent,
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
    client = bed.pairs[0].client
    argv = workload.version_argv or (bed.site.flowgen, "version")
    return {
        "host": facts.host(),
        "network": {**facts.network(client, bed.site.flowgen, bed.site.interface), **bed.site.facts()},
        "tool": facts.version(client, argv),
        "pairlab": __version__,
    }


def _get_ready(bed: Testbed, workload: Workload, progress: Progress):
    """All servers listening, then all clients at one gate."""
    conductor, site, spec = bed.conductor, bed.site, bed.spec
    servers = conductor.start(
        [(pair.server, workload.server(pair, spec, site)) for pair in bed.pairs],
        listen=[p.port for p in bed.pairs],
    )
    conductor.wait_ready(servers, READY_S, progress, "servers listening")
    gate = conductor.gate()
    clients = conductor.start([(pair.client, workload.client(pair, spec, site)) for pair in bed.pairs], gate=gate)
    conductor.wait_ready(clients, READY_S, progress, "clients ready")
    return servers, clients, gate


def _watch(bed: Testbed, clients: Sequence[Process], release_ns: int, limit_s: float, progress: Progress) -> None:
    """Waits for the clients' end, and says every half second how far the measuring is."""
    total_s = bed.spec.total_s
    while (passed_s := (time.monotonic_ns() - release_ns) / 1e9) < limit_s:
        progress("measuring (s)", round(min(passed_s, total_s)), round(total_s))
        bed.conductor.wait_ended(clients, min(0.5, limit_s - passed_s))
        if all(client.over for client in clients):
            return


def _skew(clients: Sequence[Process]) -> float:
    """The last start less the first, in seconds; NaN where fewer than all started."""
    starts = [client.start_ns for client in clients]
    return float("nan") if None in starts else (max(starts) - min(starts)) / 1e9


def _read_flows(spec: Spec, workload: Workload, clients, servers, release_ns: int) -> tuple[list[dict], list[dict]]:
    flows, intervals = [], []
    for index, (client, server) in enumerate(zip(clients, servers, strict=True)):
        start_s = (client.start_ns - release_ns) / 1e9 if client.start_ns else None
        flow = {
            "pair": index,
            "flow": 0,
            "status": "ok",
            "error": "",
            "intended_start_s": 0.0,
            "start_s": start_s,
        }
        flow |= {"client_cpu_s": client.cpu_s, "server_cpu_s": server.cpu_s}
        try:
            if client.trouble:
                raise ValueError(client.trouble)
            measured = window(whole(workload.parse(client.stdout), spec.total_s), spec.warmup_s)
            flow |= measured.flow
            if measured.connected_ns:
                flow["connected_s"] = (measured.connected_ns - release_ns) / 1e9
            intervals += [
                {"pair": index, "flow": 0, **row}
                | {"start_s": row["start_s"] + start_s, "end_s": row["end_s"] + start_s}
                | {"warmup": row["start_s"] < spec.warmup_s - 1e-3}
                for row in measured.intervals
            ]
        except ValueError as error:
            told = " ".join(client.stderr.split())[-200:]
            flow |= {
                "status": "failed",
                "error": f"{error}" + (f" ({told})" if told and told not in str(error) else ""),
            }
        flows.append(flow)
    return flows, intervals


def whole(measured: Measured, total_s: float) -> Measured:
    """The same, where the flow lasted as long as it was to; iperf ends well when its connection breaks, too."""
    duration_s = measured.flow["duration_s"]
    if duration_s < 0.95 * total_s:
        raise ValueError(f"it ended after {duration_s:.2f} s of {total_s:g}")
    return measured


def window(measured: Measured, warmup_s: float) -> Measured:
    """What a flow did after its warm-up: totals over the intervals that begin later, all other columns as they are."""
    if not warmup_s:
        return measured
    kept = [row for row in measured.intervals if row["start_s"] >= warmup_s - 1e-3]
    duration_s = sum(row["end_s"] - row["start_s"] for row in kept)
    if duration_s <= 0:
        raise ValueError(f"it reported no interval after its warm-up of {warmup_s:g} s")
    flow_bytes = sum(row["interval_bytes"] for row in kept)
    flow = {"duration_s": duration_s, "flow_bytes": flow_bytes, "throughput_bps": flow_bytes * 8 / duration_s}
    if all(row.get("retransmits") is not None for row in kept):
        flow["retransmits"] = sum(row["retransmits"] for row in kept)
    return replace(measured, flow={**measured.flow, **flow})


def _verdict(spec: Spec, skew_s: float, servers: Sequence[Process], flows: Sequence[dict]) -> tuple[str, list[str]]:
    """ok, invalid or failed, with the reasons. A failed flow is a result and does not spoil the run; all failed do."""
    failed = [flow for flow in flows if flow["status"] != "ok"]
    if len(failed) == len(flows):
        return "failed", [f"all {len(flows)} flows failed, the first: {failed[0]['error']}"]
    reasons = []
    if skew_s > spec.max_skew_s:
        reasons.append(f"clients started within {skew_s:.3f} s, and max_skew_s is {spec.max_skew_s:g}")
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
