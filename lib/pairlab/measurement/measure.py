"""measure(spec) -> Run: the one place where testbed, workload, telemetry and store meet."""

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from pairlab import store
from pairlab.base.caller import caller
from pairlab.base.threads import before_flows
from pairlab.errors import BadSpec, HostBusy, PairlabError, TestbedError, Unavailable
from pairlab.measurement import congestion, in_store, own_columns
from pairlab.measurement.flow_rows import read_flows
from pairlab.measurement.observer import Observer, checks_of_flows, senders
from pairlab.measurement.processes import isolation, launching
from pairlab.measurement.processes.background import Background
from pairlab.measurement.processes.getting_ready import REPORT_S, get_ready, still_reporting
from pairlab.measurement.processes.interference import Interference
from pairlab.measurement.processes.recorded import facts_of
from pairlab.measurement.traffic.flow_table import read_table
from pairlab.measurement.verdict import judge, spoilt_by_machine
from pairlab.measurement.window import of_background_s
from pairlab.model.records import Run
from pairlab.model.spec import Spec, require_spec
from pairlab.model.tables import table
from pairlab.progress import automatic, relay
from pairlab.testbed import cpu_sleep, limits, plans, registry
from pairlab.testbed.contracts import FEATURES, Progress
from pairlab.testbed.host import facts, lock
from pairlab.testbed.host.live_sampler import Sampler, Watch, next_s
from pairlab.testbed.launch.conductor import Process
from pairlab.testbed.open import Testbed, open_testbed
from pairlab.testbed.placement import most_on_a_host
from pairlab.testbed.plans import Plan


def resolve(spec: Spec, *, auto: str = "") -> Spec:
    """The spec with `auto` replaced: iperf if the backend's endpoints have it, as in the papers, else flowgen.

    Flows of a fixed size and UDP, which iperf cannot do exactly, use flowgen, and flows from a distribution traffic.
    auto: use this workload instead of iperf.

    Raises UnknownName for a backend, driver, workload or pinning that does not exist, BadSpec for what the workload
    cannot do.
    """
    backend = registry.backends.get(spec.backend)()
    driver = registry.drivers.get(spec.driver)
    if not driver.carries_traffic and not spec.launches and spec.workload != "flowgen":
        raise BadSpec(
            f"driver {spec.driver!r} carries no traffic: take another to measure it, or workload 'flowgen', which shows"
            " that it carries none"
        )
    if spec.launches and driver.pairs_apart and not driver.pair_shares:
        raise BadSpec(
            f"launches: driver {spec.driver!r} connects the ends of a pair to each other, so that there is no network"
            " before both are there: take another"
        )
    most, pairs = driver.max_endpoints, spec.pairs + spec.background_pairs + spec.idle_pairs
    if most and spec.hosts == 1 and 2 * pairs > most:
        raise BadSpec(f"pairs: {spec.driver!r} can have at most {most // 2}, not {pairs}")
    if most and (there := most_on_a_host(spec)) > most:
        raise BadSpec(f"pairs: {spec.driver!r} can have at most {most} containers on a host, not {there}")
    registry.pinnings.get(spec.pinning)
    if spec.workload == "auto":
        if not auto:
            auto = "flowgen" if backend.lacks_programs(registry.workloads.get("iperf").programs, driver) else "iperf"
        exact = "flowgen" if spec.flow_bytes or spec.udp_share or spec.launches else auto
        spec = spec.replace(workload="traffic" if spec.flow_sizes else exact)
    _require_features(spec)
    return spec


def _require_features(spec: Spec) -> None:
    """Raises BadSpec where the spec's workload cannot do what the spec asks, and names those that can."""
    workload = registry.workloads.get(spec.workload)
    asked = {feature for feature, (asks, _) in FEATURES.items() if asks(spec)}
    if missing := asked - workload.can:
        others = {name: registry.workloads.get(name) for name in registry.workloads.names()}
        able = [name for name, other in others.items() if asked <= other.can and other.carries]
        raise BadSpec(
            f"workload {spec.workload!r} cannot {', nor '.join(FEATURES[feature][1] for feature in sorted(missing))};"
            f" these can: {', '.join(able) or 'none'}"
        )
    own_columns.require(workload)
    if not workload.one_port and registry.drivers.get(spec.driver).publishes:
        raise BadSpec(
            f"driver {spec.driver!r} publishes one port of each server, and {spec.workload!r} connects to others, too:"
            " take another driver, or another workload"
        )
    workload().check(spec)
    if spec.background_pairs:
        _require_endless(spec)


def _require_endless(spec: Spec) -> None:
    """Raises BadSpec where the background's workload cannot be it, and names those that can."""
    workload = registry.workloads.get(spec.background_workload)
    if not workload.endless:
        able = [name for name in registry.workloads.names() if registry.workloads.get(name).endless]
        raise BadSpec(
            f"background_workload: {spec.background_workload!r} does not send until it is stopped and then report it;"
            f" these can: {', '.join(able)}"
        )
    workload().check(plans.layout(spec).of_background)


def check(spec: Spec) -> Plan:
    """The plan of a spec that this host can measure; builds nothing. Raises UnknownName, BadSpec, Unavailable."""
    _require_features(spec)
    plan = plans.layout(spec)
    plan.require()
    return plan


class Cell:
    """A resolved spec, and what is known of it before it is measured on this host: looked up once, when first needed.

    root: the folder of runs, by default runs/.
    """

    def __init__(self, spec: Spec, root: Path | None = None):
        self.spec, self.root = spec, root

    @cached_property
    def stored(self) -> Run | None:
        """The run that the store has of it on this ground: one that is ok if there is any."""
        return in_store.find(self.spec, self.root)

    @property
    def is_done(self) -> bool:
        """Whether the store has a run of it that is ok."""
        return self.stored is not None and self.stored.status == "ok"

    @property
    def plan(self) -> Plan | None:
        """None: it cannot be measured here."""
        return self._checked[0]

    @property
    def missing(self) -> Unavailable | BadSpec | None:
        """Why it cannot be measured here; None: it can."""
        return self._checked[1]

    @cached_property
    def _checked(self) -> tuple[Plan | None, Unavailable | BadSpec | None]:
        try:
            return check(self.spec), None
        except (Unavailable, BadSpec) as error:
            return None, error


def measure(
    spec: Spec,
    *,
    fresh: bool = False,
    wait: bool = True,
    root: Path | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
    attempts: int | None = None,
) -> Run:
    """Measures `spec`, stores the run and returns it.

    A run of the same spec that was measured on the same ground (this host, its kernel, the same versions of the tools),
    is stored and ok, is returned as it is; fresh=True measures again and keeps the older one as a repetition of the
    same cell. Runs of other grounds stay as they are. wait: for another measurement on this host to end (else HostBusy;
    so also in a notebook that `pairlab run --no-wait` executes). root: where runs are kept,
    by default runs/. progress: hears of each phase; by default what suits where this runs (pairlab.progress), and
    contracts.silent tells nobody. watch: is given a Sample of what flows every half second while clients send; it must
    be quick. attempts: how often it is measured, at most, while only the machine spoils it (verdict.spoilt_by_machine);
    by default once, or as the sweep says that runs this notebook. facts["attempts"] has each with its reasons.

    Raises BadInput or Unavailable before anything is built; what this host cannot do is stored as skipped, with the
    reason. A measurement that fails is stored as failed, and raises MeasurementFailed or TestbedError.
    """
    require_spec(spec, "measure")
    if progress is None:
        with automatic() as progress:
            return measure(spec, fresh=fresh, wait=wait, root=root, progress=progress, watch=watch, attempts=attempts)
    spec = resolve(spec)
    cell = Cell(spec, root)
    if isinstance(cell.missing, Unavailable):
        note(spec, "skipped", str(cell.missing), root)
    if cell.missing:
        raise cell.missing
    if not fresh and cell.is_done:
        return _from_store(cell.stored, progress)
    if expected := cell.plan.overload():
        progress(expected, 0, 0)
    waited_for = []

    def waits(text: str) -> None:
        waited_for.append(text)
        progress(text, 0, 0)

    with lock.measuring(wait and caller().wait, waits):
        if waited_for and not fresh and (meanwhile := Cell(spec, root)).is_done:
            return _from_store(meanwhile.stored, progress)
        try:
            run = _attempt(cell.plan, progress, watch, attempts or caller().attempts)
        except HostBusy:
            raise
        except PairlabError as error:
            note(spec, "failed", str(error), root)
            raise
        return _reported(store.write(run, root))


def _from_store(stored: Run, progress: Progress) -> Run:
    progress(f"from the store, {stored.measured}", 1, 1)
    return _reported(stored)


def _reported(run: Run) -> Run:
    """The stored run, which is made known to the process that executes this notebook, if one does."""
    relay.report_run(run.spec.key, str(run.spec), run.path.absolute())
    return run


def _attempt(plan: Plan, progress: Progress, watch: Watch | None, attempts: int) -> Run:
    """The first measurement that the machine did not spoil, or the last one that may be made."""
    made = []
    while True:
        run = _measure(plan, progress, watch)
        made.append({"measured_at": run.measured_at.isoformat(), "reasons": list(run.reasons)})
        if len(made) >= attempts or not spoilt_by_machine(run) or "left_behind" in run.facts:
            return replace(run, facts={**run.facts, "attempts": made})
        progress(f"measuring again: {'; '.join(run.reasons)}", 0, 0)


def note(spec: Spec, status: str, why: str, root: Path | None = None) -> None:
    """Stores that `spec` was skipped or failed on this ground, but not beside a run of it that counts."""
    if in_store.status(spec, root) != "ok":
        _reported(store.write(Run(spec, status, (why,), datetime.now(UTC), facts={"host": facts.host()}), root))


def _measure(plan: Plan, progress: Progress, watch: Watch | None) -> Run:
    run = None
    try:
        with cpu_sleep.prevented(plan.spec.cpus_awake), open_testbed(plan, progress) as bed:
            if plan.launched:
                run = launching.take(bed, progress)
            elif bed.plan.driver.carries_traffic:
                run = _take(bed, progress, watch)
            else:
                workload = bed.plan.workload()
                run = isolation.shown(bed, workload, facts_of(bed, [workload]), progress)
            progress("taking down", 0, 0)
            begun = time.monotonic()
    except TestbedError as error:
        if run is None:
            raise
        # The measurement is valid, but the user must know that the host is not as it was.
        warnings.warn(f"{plan.spec} was measured, but cleanup was incomplete: {error}", stacklevel=3)
        run = replace(run, facts={**run.facts, "left_behind": str(error)})
    return replace(run, times_s={**run.times_s, "down_s": time.monotonic() - begun})


def _take(bed: Testbed, progress: Progress, watch: Watch | None) -> Run:
    """The measurement itself, from idle pairs to a Run."""
    spec, times = bed.spec, _Times()
    workload = bed.plan.workload()
    background, interference = Background(bed), Interference(bed)
    measured_at = datetime.now(UTC)
    with times("facts_s"):
        recorded = facts_of(bed, [workload, *(each for each, _ in background.asked)])
    with times("ready_s"):
        for each, told in ((workload, bed.plan.of_tools), *background.asked):
            each.prepare(told, bed.directory)
        servers, clients, gate = get_ready(bed, workload, progress)
        background.get_ready(progress)
        interference.get_ready(progress)
    recorded["network"] = {**clients[0].network, **recorded["network"]}
    recorded["held"] = sorted({client.held for client in clients})
    recorded["urgency"] = sorted({client.urgency for client in clients})
    beside = [*background.processes, *interference.processes]
    recorded["pinning"], unmet = _limits(bed, [*servers, *clients, *beside])
    unmet += _other_mtu(bed, [*servers, *clients])
    observer = Observer(bed, clients, servers, beside)
    observer.read_counts()
    with times("beside_s") if beside else contextlib.nullcontext():
        interference.release()
        background.release(progress)
    isolated = bed.plan.driver.isolated
    sending = servers if workload.one_client else senders(spec, clients, servers)
    seen = sending, bed.site, isolated, spec.traffic_s
    sampling = Sampler(*seen, watch, alone=not bed.background, pairs=spec.pairs) if watch else contextlib.nullcontext()
    with (
        times("traffic_s"),
        sampling as sampler,
        observer,
        background.watched(),
        interference.watched(),
        before_flows(),
    ):
        release_ns = gate.release()
        _watch(bed, clients, release_ns, _beat(spec.traffic_s, progress, sampler))
        ended_s = _since_s(release_ns)
        if sampler:
            sampler.look(_since_s(release_ns), last=True)
        hung = sum(not client.over for client in clients)
        background.note_ended()
        interference.note_ended()
    with times("end_s"):
        interference.stop()
        background.stop()
        bed.conductor.wait_ended(still_reporting(workload, clients, servers), REPORT_S)
        bed.conductor.wait_ended(servers, bed.plan.drain_s)  # else links count what a server had no time to read
        bed.conductor.stop([*clients, *servers])
        bed.conductor.results([*clients, *servers])
        observer.read_counts()
    silent_until_s = observer.silent_until_s(release_ns)
    recorded |= {**observer.facts(), **interference.facts()}
    changed = _network_changes([*clients, *servers, *background.processes])
    recorded |= {"network_changed": changed} if changed else {}
    hosts = bed.plan.hosts_of_pairs
    if workload.one_client:
        reading = read_table(spec, workload, clients[0], servers, release_ns, bed.directory, hosts)
    else:
        reading = read_flows(
            spec,
            bed.plan.tasks[: spec.pairs],
            workload,
            clients,
            servers,
            release_ns,
            isolated=isolated,
            silent_until_s=silent_until_s,
            unless_chosen=congestion.unless_chosen(recorded["network"]),
            hosts=hosts,
        )
    measured_s = of_background_s(spec, ended_s)
    of_background = background.read(release_ns, measured_s)
    recorded["congestion_control"] = congestion.recorded(bed.plan, recorded["network"], reading.flows)
    checks = (
        checks_of_flows(spec, workload, reading, clients, servers)
        | {"hung": hung, "network_changed": len(changed), **observer.steadiness(reading, release_ns, workload.waits_s)}
        | observer.checks(*background.seen_with(reading, of_background, clients, servers), recorded["network"])
        | {**background.checks(of_background, release_ns, measured_s), **interference.checks(release_ns, measured_s)}
    )
    status, reasons = judge(spec, checks, clients, servers, reading, unmet, observer.largest)
    return Run(
        spec,
        status,
        tuple(reasons),
        measured_at,
        skew_s=float("nan") if checks["skew_s"] is None else checks["skew_s"],
        harness_cpu_s=observer.harness_cpu_s,
        times_s={"up_s": bed.up_s, **times.spent},
        facts=recorded,
        checks=checks,
        flows=table("flows", reading.flows, workload.metrics) if reading.table is None else reading.table,
        intervals=table("intervals", reading.intervals),
        background_flows=table("flows", of_background.flows),
        background_intervals=table("intervals", of_background.intervals),
        transactions=table("transactions", reading.transactions, workload.metrics),
        cpu=table("cpu", observer.cpu_rows(release_ns)),
        profile=table("profile", observer.profile()),
        raw=_printed([*clients, *servers, *background.processes]),
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


def _network_changes(processes: Sequence[Process]) -> dict[str, dict[str, list]]:
    """Settings of endpoints' networks that were others at the end than before the release, with both values."""
    found = {}
    for each in processes:
        before, after = each.network, each.network_at_end
        changed = {key: [before[key], after.get(key)] for key in before if after and before[key] != after.get(key)}
        if changed:
            found[each.endpoint.name] = changed
    return found


def _limits(bed: Testbed, processes: Sequence[Process]) -> tuple[dict, list[str]]:
    """The limits in force, for the record, and where they differ from the spec's; both as the kernel reports them."""
    seen = sorted({(process.endpoint.name, process.cpus) for process in processes if process.ready})
    of_groups = bed.site.limits_in_force()
    held = limits.in_force(seen, of_groups)
    held["harness_cpus"] = limits.cpu_list(os.sched_getaffinity(0))  # pairlab and its switches are not limited
    return held, limits.unmet(bed.plan.limits, seen, of_groups)


def _other_mtu(bed: Testbed, processes: Sequence[Process]) -> list[str]:
    """Where links do not have the MTU that was planned, in a sentence; empty where they do."""
    seen = {process.endpoint.name: process.network.get("mtu_bytes") for process in processes if process.ready}
    planned = {each.name: each.mtu_bytes for each in bed.plan.endpoints if each.mtu_bytes and each.name in seen}
    wrong = [name for name, mtu_bytes in planned.items() if seen[name] != mtu_bytes]
    if not wrong or not bed.plan.driver.has_links():
        return []
    first = wrong[0]
    told = f"{len(wrong)} links had another MTU than {planned[first]} B, the first: {first}'s had {seen[first]} B"
    return [told]


def _watch(bed: Testbed, clients: Sequence[Process], release_ns: int, beat: Callable[[float], None]) -> None:
    """Waits for the clients to end; calls `beat` with the time since release, at once and then every half second."""
    passed_s, limit_s = 0.0, bed.plan.longest_s
    while passed_s < limit_s:
        beat(passed_s)
        now_s = _since_s(release_ns)  # a slow beat skips others, and must not make a client appear hung
        bed.conductor.wait_ended(clients, min(next_s(now_s), limit_s) - now_s)
        if all(client.over for client in clients):
            return
        passed_s = _since_s(release_ns)


def _beat(total_s: float, progress: Progress, sampler: Sampler | None) -> Callable[[float], None]:
    """The function to call every half second: samples the traffic if requested, and reports progress."""

    def beat(passed_s: float) -> None:
        if sampler:
            sampler.look(passed_s)
        progress("measuring (s)", round(min(passed_s, total_s), 1), total_s)

    return beat


def _since_s(moment_ns: int) -> float:
    return (time.monotonic_ns() - moment_ns) / 1e9


def _printed(processes: Sequence[Process]) -> dict[str, str]:
    """The output of each tool, by file name; empty output is left out."""
    texts = {}
    for process in processes:
        for kind, text in (("out", process.stdout), ("err", process.stderr)):
            if text:
                texts[f"{process.endpoint.name}.{kind}"] = text
    return texts
