"""measure(spec) -> Run: the one place where testbed, workload, telemetry and store meet."""

import contextlib
import functools
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pairlab import store
from pairlab.base.caller import caller, caller_with
from pairlab.base.threads import before_flows
from pairlab.errors import BadSpec, HostBusy, PairlabError, TestbedError, Unavailable
from pairlab.measurement import congestion, own_columns, without_traffic
from pairlab.measurement.background import Background
from pairlab.measurement.capture import Capture
from pairlab.measurement.flow_rows import read_flows
from pairlab.measurement.flow_table import read_table
from pairlab.measurement.getting_ready import REPORT_S, conditions_changed, facts_of, get_ready, still_reporting
from pairlab.measurement.interference import Interference
from pairlab.measurement.observer import Observer, checks_of_flows, senders
from pairlab.measurement.verdict import judge, worth_retrying
from pairlab.measurement.window import of_background_s
from pairlab.model import blocks
from pairlab.model.records import Run
from pairlab.model.spec import Spec, require_spec
from pairlab.model.tables import table
from pairlab.progress import automatic, relay
from pairlab.testbed import cpu_sleep, environment, limits, plans, registry
from pairlab.testbed.contracts import FEATURES, Progress
from pairlab.testbed.host import facts, lock, socket_memory
from pairlab.testbed.host.live_sampler import Sampler, Watch, next_s
from pairlab.testbed.open import Testbed, open_testbed
from pairlab.testbed.placement import most_on_a_host
from pairlab.testbed.plans import Plan
from pairlab.testbed.process_launcher import Process


def resolve(spec: Spec, *, auto: str = "") -> Spec:
    """The spec with `auto` replaced: iperf if the backend's endpoints have it, as in the papers, else flowgen.

    Flows of a fixed size and UDP, which iperf cannot do exactly, use flowgen, and flows from a distribution traffic.
    auto: use this workload instead of iperf.

    Raises UnknownName for a backend, driver, workload or pinning that does not exist, BadSpec for what the workload
    cannot do.
    """
    backend = registry.backends.get(spec.backend)(spec.hosts)
    driver = registry.drivers.get(spec.driver)
    if spec.host_kind:
        raise BadSpec(
            f"host_kind: hosts of backend {spec.backend!r} share this machine's kernel, so that none is"
            f" {spec.host_kind} by itself: leave it out, and measure on machines of either kind, each of which records"
            " what it is (facts.host.virtualization)"
        )
    if not driver.carries_traffic and not spec.launches and spec.workload != "flowgen":
        raise BadSpec(
            f"driver {spec.driver!r} carries no traffic: take another to measure it, or workload 'flowgen', which shows"
            " that it carries none"
        )
    if spec.launches and driver.only_own_partner and not driver.pair_shares_namespace:
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
            auto = "flowgen" if backend.missing_programs(registry.workloads.get("iperf").programs, driver) else "iperf"
        exact = "flowgen" if spec.flow_bytes or spec.udp_share or spec.launches else auto
        spec = spec.replace(workload="traffic" if spec.flow_sizes else exact)
    _require_features(spec)
    return spec


def _require_features(spec: Spec) -> None:
    """Raises BadSpec where the spec's workload cannot do what the spec asks, and names those that can."""
    workload = registry.workloads.get(spec.workload)
    required = {feature for feature, (asks, _) in FEATURES.items() if asks(spec)}
    if missing := required - workload.features:
        others = {name: registry.workloads.get(name) for name in registry.workloads.names()}
        able = [name for name, other in others.items() if required <= other.features and other.sends_traffic]
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
    if not workload.runs_until_stopped:
        able = [name for name in registry.workloads.names() if registry.workloads.get(name).runs_until_stopped]
        raise BadSpec(
            f"background_workload: {spec.background_workload!r} does not send until it is stopped and then report it;"
            f" these can: {', '.join(able)}"
        )
    workload().check(plans.layout(spec).background_spec)


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

    @functools.cached_property
    def stored(self) -> Run | None:
        """The run that the store has of it in this environment: one that is ok if there is any."""
        return store.find(self.spec, self.root, environment.here(self.spec))

    @property
    def done(self) -> Run | None:
        return self.stored if self.stored and self.stored.status == "ok" else None

    @property
    def plan(self) -> Plan:
        """Raises what is `missing`."""
        if isinstance(self._checked, PairlabError):
            raise self._checked
        return self._checked

    @property
    def missing(self) -> PairlabError | None:
        """Why it cannot be measured here; None: it can."""
        return self._checked if isinstance(self._checked, PairlabError) else None

    @functools.cached_property
    def _checked(self) -> Plan | PairlabError:
        try:
            return check(self.spec)
        except (Unavailable, BadSpec) as error:
            return error


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

    A run of the same spec that was measured in the same environment (this host, its kernel, the same versions of the
    tools), is stored and ok, is returned as it is; fresh=True measures again and keeps the older one as a repetition
    of the same cell. Runs of other environments stay as they are. wait: for another measurement on this host to end
    (else HostBusy; so also in a notebook that `pairlab run --no-wait` executes). root: where runs are kept,
    by default runs/. progress: called at each phase; by default what suits where this runs (pairlab.progress);
    contracts.no_progress reports nothing. watch: called with a Sample every half second while clients send; it must be
    quick. attempts: how often it is measured, at most, while only the machine disturbs it (verdict.worth_retrying);
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
    plan = cell.plan
    if not fresh and cell.done:
        return _from_store(cell.done, progress)
    if expected := plan.overload():
        progress(expected, 0, 0)
    waited_for = []

    def waits(text: str) -> None:
        waited_for.append(text)
        progress(text, 0, 0)

    with lock.measuring(wait and caller().wait, waits):
        if waited_for and not fresh and (meanwhile := Cell(spec, root).done):
            return _from_store(meanwhile, progress)
        try:
            run = _attempt(plan, progress, watch, attempts or caller().attempts)
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
    assert run.path
    relay.report_run(run.spec.key, str(run.spec), run.path.absolute())
    return run


def _attempt(plan: Plan, progress: Progress, watch: Watch | None, attempts: int) -> Run:
    """The first measurement that was not disturbed, or the last one that may be made."""
    made = []
    while True:
        run = _measure(plan, progress, watch)
        made.append({"measured_at": run.measured_at and run.measured_at.isoformat(), "reasons": list(run.reasons)})
        if len(made) >= attempts or not worth_retrying(run) or "left_behind" in run.facts:
            return replace(run, facts={**run.facts, "attempts": made, **_named_by_caller()})
        progress(f"measuring again: {'; '.join(run.reasons)}", 0, 0)


def _named_by_caller() -> dict[str, str]:
    """The block and the label of what is measured now, where it has them."""
    return {name: value for name in ("block", "label") if (value := getattr(caller(), name))}


@contextlib.contextmanager
def block(name: str = "by hand") -> Iterator[None]:
    """Runs measured in this `with` are of one block: side by side, so that they are compared in pairs.

    Measure what you compare once each, in random order, within 10 minutes, and take a block of its own for each
    repetition. Within the block of a sweep, it is that.
    """
    with caller_with(block=caller().block or blocks.begun(name)):
        yield


def note(spec: Spec, status: str, why: str, root: Path | None = None) -> None:
    """Stores that `spec` was skipped or failed in this environment, but not beside a run of it that counts."""
    if store.status(spec, root, environment.here(spec)) != "ok":
        _reported(store.write(Run(spec, status, (why,), datetime.now(UTC), facts={"host": facts.host()}), root))


def _measure(plan: Plan, progress: Progress, watch: Watch | None) -> Run:
    run = None
    try:
        with cpu_sleep.prevented(plan.spec.cpus_awake), open_testbed(plan, progress) as bed:
            if plan.launched:
                run = without_traffic.launch(bed, progress)
            elif bed.plan.driver.carries_traffic:
                run = _take(bed, progress, watch)
            else:
                run = without_traffic.show_isolation(bed, progress)
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
    spec = bed.spec
    spent: dict[str, float] = {}
    times = functools.partial(_timed, spent)
    workload = registry.workloads.get(spec.workload)()
    background, interference, capture = Background(bed), Interference(bed), Capture(bed)
    measured_at = datetime.now(UTC)
    with times("facts_s"):
        recorded = facts_of(bed, [workload, *(each for each, _ in background.workloads)])
    with times("ready_s"):
        for each, tool_spec in ((workload, bed.plan.tool_spec), *background.workloads):
            each.prepare(tool_spec, bed.directory)
        servers, clients, gate = get_ready(bed, workload, progress)
        background.get_ready(progress)
        interference.get_ready(progress)
        capture.begin(progress)
    recorded["network"] = {**clients[0].network, **recorded["network"]}
    recorded["held"] = sorted({client.held_at for client in clients})
    recorded["urgency"] = sorted({client.priority for client in clients})
    beside = [*background.processes, *interference.processes, *capture.processes]
    recorded["pinning"], unmet = _limits(bed, [*servers, *clients, *beside])
    unmet += _other_mtu(bed, [*servers, *clients])
    observer = Observer(bed, clients, servers, beside)
    if bed.plan.backend.host_kind == "namespace" and recorded["host"]["virtualization"] != "none seen":
        with times("memory_s"):
            recorded["socket_memory"] = socket_memory.use_once(len(bed.plan.endpoints) // 2)
    observer.read_counts()
    with times("beside_s") if beside else contextlib.nullcontext():
        interference.release()
        background.release(progress)
    isolated = bed.plan.driver.isolated
    sending = servers if workload.one_client else senders(spec, clients, servers)
    sampling: contextlib.AbstractContextManager[Sampler | None] = contextlib.nullcontext()
    if watch:
        timing = [*clients, *servers] if workload.all_connect else clients
        arguments = sending, bed.site, isolated, spec.traffic_s, watch
        sampling = Sampler(*arguments, alone=not bed.background, pairs=spec.pairs, timing=timing)
    with times("traffic_s"), sampling as sampler:

        def beat(passed_s: float) -> None:
            if sampler:
                sampler.look(passed_s)
            progress("measuring (s)", round(min(passed_s, spec.traffic_s), 1), spec.traffic_s)

        beat(0.0)  # before flows begin, as some last a few ms
        with observer, before_flows():
            observer.note_begin()
            release_ns = gate.release()
            _watch(bed, clients, release_ns, beat, observer.note_end)
            ended_s = _since_s(release_ns)
            hung = sum(not client.ended for client in clients)
            background.note_ended()
            interference.note_ended()
        if sampler:
            sampler.look(ended_s, last=True)
    with times("end_s"):
        interference.stop()
        background.stop()
        bed.launcher.wait_ended(still_reporting(workload, clients, servers), REPORT_S)
        bed.launcher.wait_ended(servers, bed.plan.drain_s)  # else links count what a server had no time to read
        bed.launcher.stop([*clients, *servers])
        bed.launcher.results([*clients, *servers])
        capture.stop()
        observer.read_counts()
    silent_until_s = observer.silent_until_s(release_ns)
    recorded |= {**observer.facts(), **interference.facts(), **capture.facts()}
    changed = _network_changes([*clients, *servers, *background.processes])
    recorded |= {"network_changed": changed} if changed else {}
    hosts = bed.plan.hosts_of_pairs
    if workload.one_client:
        parsed = read_table(spec, workload, clients[0], servers, release_ns, bed.directory, hosts)
    else:
        parsed = read_flows(
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
    recorded["congestion_control"] = congestion.recorded(bed.plan, recorded["network"], parsed.flows)
    checks = (
        checks_of_flows(spec, workload, parsed, clients, servers, beside)
        | {
            "hung": hung,
            "network_changed": len(changed),
            "conditions_changed": conditions_changed(recorded, bed.site),
            **observer.steadiness(parsed, release_ns, workload.start_delay_s),
        }
        | observer.checks(*background.seen_with(parsed, of_background, clients, servers), recorded["network"])
        | {**background.checks(of_background), **interference.checks()}
    )
    status, reasons = judge(spec, checks, clients, servers, parsed, unmet, observer.largest)
    return Run(
        spec,
        status,
        tuple(reasons),
        measured_at,
        skew_s=float("nan") if checks["skew_s"] is None else checks["skew_s"],
        harness_cpu_s=observer.harness_cpu_s,
        times_s={"up_s": bed.up_s, **spent},
        facts=recorded,
        checks=checks,
        flows=table("flows", parsed.flows, workload.metrics) if parsed.table is None else parsed.table,
        intervals=table("intervals", parsed.intervals),
        background_flows=table("flows", of_background.flows),
        background_intervals=table("intervals", of_background.intervals),
        transactions=table("transactions", parsed.transactions, workload.metrics),
        cpu=table("cpu", observer.cpu_rows(release_ns)),
        profile=table("profile", observer.profile()),
        raw={
            **capture.raw(),
            **{
                f"{each.endpoint.name}.{kind}": text
                for each in [*clients, *servers, *background.processes]
                for kind, text in (("out", each.stdout), ("err", each.stderr))
                if text
            },
        },
    )


@contextlib.contextmanager
def _timed(spent: dict[str, float], name: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    spent[name] = time.monotonic() - begun


def _network_changes(processes: Sequence[Process]) -> dict[str, dict[str, list]]:
    """Settings of endpoints' networks that were others at the end than before the release, with both values; and how
    often their links were changed on the way, also where they were as before in the end.
    """
    changes = {}
    for each in processes:
        before, after = each.network, each.network_at_end
        changed = {key: [before[key], after.get(key)] for key in before if after and before[key] != after.get(key)}
        if each.link_changes:
            changed["changes_of_the_link"] = [0, each.link_changes]
        if changed:
            changes[each.endpoint.name] = changed
    return changes


def _limits(bed: Testbed, processes: Sequence[Process]) -> tuple[dict, list[str]]:
    """The limits in force, for the record, and where they differ from the spec's; both as the kernel reports them."""
    affinities = sorted({(process.endpoint.name, process.cpus) for process in processes if process.ready})
    of_groups = bed.site.limits_in_force()
    held: dict[str, Any] = limits.in_force(affinities, of_groups)
    held["harness_cpus"] = limits.cpu_list(os.sched_getaffinity(0))  # pairlab and its switches are not limited
    return held, limits.unmet(bed.plan.limits, affinities, of_groups)


def _other_mtu(bed: Testbed, processes: Sequence[Process]) -> list[str]:
    """Where links do not have the MTU that was planned, in a sentence; empty where they do."""
    mtu_of = {process.endpoint.name: process.network.get("mtu_bytes") for process in processes if process.ready}
    planned = {each.name: each.mtu_bytes for each in bed.plan.endpoints if each.mtu_bytes and each.name in mtu_of}
    wrong = [name for name, mtu_bytes in planned.items() if mtu_of[name] != mtu_bytes]
    if not wrong or not bed.plan.driver.has_links():
        return []
    first = wrong[0]
    return [f"{len(wrong)} links had another MTU than {planned[first]} B, the first: {first}'s had {mtu_of[first]} B"]


def _watch(
    bed: Testbed,
    clients: Sequence[Process],
    release_ns: int,
    beat: Callable[[float], None],
    note_end: Callable[[], None],
) -> None:
    """Waits for the clients to end; calls `beat` with the time since release every half second, and `note_end` each
    time that they may have.
    """
    limit_s = bed.plan.longest_s
    while (now_s := _since_s(release_ns)) < limit_s:  # a slow beat skips others, and makes no client appear hung
        bed.launcher.wait_ended(clients, min(next_s(now_s), limit_s) - now_s, note_end)
        if all(client.ended for client in clients):
            return
        if (passed_s := _since_s(release_ns)) < limit_s:
            beat(passed_s)


def _since_s(moment_ns: int) -> float:
    return (time.monotonic_ns() - moment_ns) / 1e9
