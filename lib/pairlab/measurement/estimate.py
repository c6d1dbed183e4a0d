"""Preview of a measurement: what it builds, sends and stores, how long it takes, and how much space it needs."""

import functools
import math
import os
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pairlab import paths, store
from pairlab.base import topology, units
from pairlab.errors import PairlabError
from pairlab.measurement.measure import resolve
from pairlab.model import environment as environments
from pairlab.model import traffic_parameters
from pairlab.model.environment import Environment
from pairlab.model.spec import Mark, Spec, marked
from pairlab.progress.describe import duration
from pairlab.store import metadata
from pairlab.testbed import environment, plans, registry
from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan
from pairlab.testbed.host import facts
from pairlab.testbed.netns.underlay import limited
from pairlab.testbed.plans import Plan

#: Time that the measuring process takes to start: it imports pandas.
START_S = 1.5
#: Time of a measurement beyond its traffic, START_S included, if nothing similar was measured here; and what each
#: pair, and each host where there are several, adds in a backend in which that is much: by the reference runs.
OVERHEAD_S = 2.0
PAIR_S, HOST_S = {"docker": 0.6}, {"docker": 1.6}
#: How long hosts with kernels of their own take to be there: all begin at once.
BOOT_S = {"uml": 3.0, "ssh": 1.5}
#: Disk space of a run if none of its experiment and workload is stored, and of each flow, which has intervals
#: and a tool's report, or is one of thousands of drawn sizes: by runs of iperf of 1 s, and of traffic.
RUN_BYTES, FLOW_BYTES, DRAWN_FLOW_BYTES = 26_000, 1_600, 60
#: Runs with up to this many times the pairs, or this many times fewer, predict how long flows of a fixed size last.
NEAR = 2.0


def traffic_s(spec: Spec) -> float:
    """Predictable duration of the traffic: flows of a fixed size take a small part of their time limit."""
    if spec.launches:
        return 0.0
    if spec.requests and spec.offered_load_bps:
        return traffic_parameters.expected_s(spec)
    return spec.last_due_s if spec.flows_end else spec.traffic_s


def overhead_s(spec: Spec) -> float:
    """Time of a measurement beyond its traffic, if nothing similar was measured here: a rule of thumb."""
    hosts = spec.hosts if spec.hosts > 1 else 0
    fixed_s = OVERHEAD_S + BOOT_S.get(spec.backend, 0.0)
    return fixed_s + PAIR_S.get(spec.backend, 0.0) * _pairs(spec) + HOST_S.get(spec.backend, 0.0) * hosts


def _pairs(spec: Spec) -> int:
    """The number of pairs brought up during a run."""
    return (spec.pairs + spec.background_pairs + spec.idle_pairs) * max(1, spec.launches)


def usual_bytes(spec: Spec) -> float:
    """Disk space of a run by a rule of thumb, for the predictable number of flows."""
    if spec.flow_sizes and (spec.requests or spec.offered_load_bps):
        due = spec.offered_load_bps * spec.duration_s / 8
        return RUN_BYTES + DRAWN_FLOW_BYTES * (spec.requests or due / traffic_parameters.mean_bytes(spec.flow_sizes))
    return RUN_BYTES + FLOW_BYTES * _pairs(spec) * spec.flows_per_pair * len(spec.directions)


class Expectation(NamedTuple):
    """Total time of a measurement.

    runs: the number of earlier runs that it is estimated from; 0: a rule of thumb. most: whether it may be shorter, as
    flows of a fixed size may end earlier.
    """

    seconds: float
    runs: int
    most: bool = False


class EarlierRuns:
    """The runs of this host in a store, read once, which predict the time and disk space of further runs.

    root: the folder of runs, by default runs/. read: False: read no runs, and use rules of thumb.
    """

    def __init__(self, root: Path | None = None, *, read: bool = True):
        here = environments.of_host(facts.host())
        here = Environment(here.host, here.machine)
        #: Times beyond the traffic of earlier runs: by backend and driver, then by hosts and pairs.
        self._around_s: dict[tuple, dict[tuple[int, int], list[tuple[Spec, float]]]] = {}
        #: Times of flows of a fixed size with their number of pairs, by _alike.
        self._traffic_s: dict[tuple, list[tuple[int, float]]] = defaultdict(list)
        #: Stored bytes of runs, by experiment and workload, then by `usual_bytes`.
        self._bytes: dict[tuple, dict[float, list[int]]] = {}
        for head in filter(None, map(_head, store.stored(root) if read else ())):
            if not head.environment.agrees(here):
                continue
            spec, total_s = head.spec, sum(head.times_s.values())
            took_s = head.times_s.get("traffic_s", 0.0) if spec.flows_end else traffic_s(spec)
            by_size = self._around_s.setdefault((spec.backend, spec.driver), {})
            by_size.setdefault((spec.hosts, _pairs(spec)), []).append((spec, max(0.0, total_s - took_s)))
            if spec.flows_end:
                self._traffic_s[_alike(spec)].append((spec.pairs, took_s))
            if head.stored_bytes:
                sizes = self._bytes.setdefault((spec.experiment, spec.workload), {})
                sizes.setdefault(usual_bytes(spec), []).append(head.stored_bytes)

    def overhead(self, spec: Spec) -> Expectation:
        """Time of `spec` beyond its traffic: by the runs of its backend and driver with the nearest number of pairs,
        of as many hosts and of its workload if there are any; for more or fewer pairs, scaled by
        `overhead_s`.
        """
        by_size = self._around_s.get((spec.backend, spec.driver))
        if not by_size:
            return Expectation(overhead_s(spec), 0)
        nearest = min(by_size, key=lambda size: (size[0] != spec.hosts, abs(math.log(size[1] / _pairs(spec)))))
        runs = [run for run in by_size[nearest] if run[0].workload == spec.workload] or by_size[nearest]
        shares = [around_s / (overhead_s(earlier) - START_S) for earlier, around_s in runs]
        return Expectation(START_S + statistics.median(shares) * (overhead_s(spec) - START_S), len(shares))

    def traffic_s(self, spec: Spec) -> float | None:
        """Median time of flows of these sizes among about as many pairs; None without earlier runs."""
        times = self._traffic_s.get(_alike(spec), ()) if spec.flows_end else ()
        near = [took_s for pairs, took_s in times if 1 / NEAR <= pairs / spec.pairs <= NEAR]
        return statistics.median(near) if near else None

    def expected(self, spec: Spec) -> Expectation:
        """Total time of measuring `spec`, estimated from runs of its backend and driver."""
        above, took_s = self.overhead(spec), self.traffic_s(spec)
        most = spec.flows_end and took_s is None
        if took_s is None:
            took_s = 0.0 if spec.launches else spec.traffic_s
        return Expectation(above.seconds + took_s, above.runs, most)

    def cell(self, spec: Spec) -> Expectation:
        """Total time of `spec` as a cell of a sweep."""
        above, took_s = self.overhead(spec), self.traffic_s(spec)
        return Expectation(above.seconds + (traffic_s(spec) if took_s is None else took_s), above.runs)

    def stored_bytes(self, spec: Spec) -> tuple[float, int]:
        """Disk space of a run of `spec`, and the number of runs behind it: those of its experiment and workload
        with the nearest number of flows, scaled by `usual_bytes`, which is the estimate where
        there are none (0).
        """
        usual, by_usual_bytes = usual_bytes(spec), self._bytes.get((spec.experiment, spec.workload))
        if not by_usual_bytes:
            return usual, 0
        nearest = min(by_usual_bytes, key=lambda number: abs(math.log(number / usual)))
        return statistics.median(by_usual_bytes[nearest]) * usual / nearest, len(by_usual_bytes[nearest])


def _alike(spec: Spec) -> tuple:
    """The key of runs whose flows last equally long."""
    return spec.backend, spec.driver, *(getattr(spec, name) for name in marked(Mark.LASTS))


def preview(spec: Spec, repetitions: int = 1, root: Path | None = None, earlier: EarlierRuns | None = None) -> str:
    """What `spec` builds and sends, how long that takes, and where it is stored. Builds nothing.

    repetitions: the number of repetitions, from spec.repetition on. root: the folder of runs, by default runs/.
    earlier: the runs in root; None: they are read. Raises UnknownName and BadSpec as measurement.resolve.
    """
    spec = resolve(spec)
    also = [f"Also: {', '.join(spec.particulars)}."] if spec.particulars else []
    also += [f"{expected}."] if (expected := plans.layout(spec).overload()) else []
    return " ".join(
        [_built(spec), _sent(spec), *also, _lasts(spec, repetitions, earlier or EarlierRuns(root)), _where(spec, root)]
    )


def grid_preview(cells: Sequence[Spec], repetitions: int, earlier: EarlierRuns) -> str:
    """How many cells a grid has, and how long it takes to measure all of them; what is stored is not measured again."""
    often = f" × {repetitions} repetitions = {len(cells) * repetitions} runs" if repetitions > 1 else ""
    took_s = repetitions * sum(earlier.cell(each).seconds for each in cells)
    grid = f"A grid of {len(cells)} cells{often}, about {duration(max(1.0, took_s))} in all"
    return f"{grid}; what is stored is not measured again."


def measured_elsewhere(outcomes: Mapping[Spec, Sequence[tuple[str, Environment]]]) -> list[str]:
    """How many specs have only runs of another environment, and what has changed since: a line for each change.

    outcomes: what `store.outcomes` has returned.
    """
    changes: Counter[str] = Counter()
    for spec, status in store.statuses_of(outcomes, environment.here).items():
        elsewhere = [measured_in for of_run, measured_in in outcomes[spec] if of_run == "ok"] if status != "ok" else []
        if elsewhere:
            changes[elsewhere[-1].changes(environment.here(spec))] += 1
    return [
        f"{count} cell{'s were' if count != 1 else ' was'} measured before, with {what}: measured again, beside that"
        for what, count in changes.items()
    ]


def picture(spec: Spec) -> str:
    """The picture of what `spec` builds, as SVG. Raises UnknownName and BadSpec as `preview`."""
    plan = plans.layout(resolve(spec))
    uplink = plan.hosts[-1].uplink
    shaped = {"tbf": {"rate_bps": uplink.rate_bps}} if uplink.rate_bps else {}
    delayed = {"netem": {"delay_s": uplink.delay_s, "loss": uplink.loss}} if uplink.by_netem else {}
    underlay = {"mtu": uplink.mtu_bytes, **shaped, **delayed, **limited(plan.hosts)}
    several = {"underlay": underlay} if len(plan.hosts) > 1 else {}
    network = {"hosts": [_planned_host(plan, host) for host in plan.hosts], **several}
    return topology.picture(network)


def _planned_host(plan: Plan, host: HostPlan) -> dict[str, Any]:
    """The facts of a run about that host, as far as they are planned."""
    own = [each for each in plan.endpoints if each.host == host.index]
    ends = [_planned_end(plan, each) for each in own if each.pair == own[0].pair]
    uplink = [{"name": UPLINK, "kind": "veth", "addresses": [host.address]}] if host.address else []
    network = {"planned": plan.driver.name} if plan.driver.has_links() else {}
    return {"name": host.name, "links": uplink, "driver": network, "endpoints": ends, "endpoint_count": len(own)}


def _planned_end(plan: Plan, endpoint: EndpointPlan) -> dict[str, Any]:
    if not plan.driver.isolated:
        return {"name": endpoint.name}
    if not plan.driver.has_links():
        return {"name": endpoint.name, "links": []}
    by_docker = plan.spec.backend == "docker" and plan.driver.docker is not None and not plan.driver.routed
    # Tunnels, and bridges that endpoints attach to, are links of the host.
    kind = next((kind for kind in plan.driver.links if kind not in ("bridge", "ipip", "vxlan")), "eth0")
    address = "by Docker" if by_docker else endpoint.address
    return {"name": endpoint.name, "links": [{"name": "eth0", "kind": kind, "addresses": [address]}]}


def rule_of_thumb(backend: str) -> str:
    """What `overhead_s` adds to the traffic in that backend, in words."""
    each = [(PAIR_S, "pair"), (HOST_S, "host where there are several")]
    return f"the traffic, {OVERHEAD_S + BOOT_S.get(backend, 0.0):g} s" + "".join(
        f", {seconds[backend]:g} s for each {what}" for seconds, what in each if backend in seconds
    )


def _built(spec: Spec) -> str:
    backend, driver = registry.backends.get(spec.backend), registry.drivers.get(spec.driver)
    many = "s" * (spec.pairs > 1)
    clients = 1 if registry.workloads.get(spec.workload).one_client else spec.pairs
    if driver.isolated:
        ends = f"{clients} client and {spec.pairs} server {backend.endpoint}{many}"
    else:
        ends = f"{clients} client{'s' * (clients > 1)} and {spec.pairs} server{many}"
    return f"{ends} on {spec.driver}: {driver.summary}."


def _sent(spec: Spec) -> str:
    if spec.launches:
        many = f"{spec.launches} time{'s' * (spec.launches > 1)}"
        beside = f", beside {spec.idle_pairs} idle pairs" if spec.idle_pairs else ""
        return (
            f"The server of each pair is launched {many}, all pairs at once{beside}, and pinged by its client until it"
            " answers; no traffic is sent."
        )
    workload = registry.workloads.get(spec.workload)
    if not workload.sends_traffic:
        return f"{spec.workload} computes for at most {spec.duration_s:g} s; no traffic is sent."
    protocol = "TCP" if not spec.udp_share else "UDP" if spec.udp_share == 1 else "TCP and UDP"
    if spec.flow_sizes:
        load = f"at {spec.offered_load_bps / 1e6:g} Mbit/s" if spec.offered_load_bps else "in a closed loop"
        many = f"{spec.requests:,} requests, which have" if spec.requests else "requests for"
        sizes = traffic_parameters.describe(spec.flow_sizes)
        return f"{spec.workload} makes flows of sizes from {sizes}, {load}: {many} {spec.duration_s:g} s."
    if spec.flow_bytes:
        size = units.with_prefix(spec.flow_bytes, "B")
        what = f"a flow of {size} from each client, which has {spec.duration_s:g} s to complete"
    else:
        warmup = f" after a warm-up of {spec.warmup_s:g} s" if spec.warmup_s else ""
        window = f"{protocol} for {spec.duration_s:g} s{warmup}"
        if "transactions" in workload.features:
            what = f"requests by {window}, and times the responses"
        elif workload.all_connect:
            what = f"messages between all, by {window}, and times the rounds"
        else:
            what = f"{window}{'' if spec.udp_rate_bps else ' at full rate'}"
    apart = f"{units.with_prefix(spec.start_spacing_s, 's')} apart" if spec.start_spacing_s else "together"
    sends = {"up": "sends", "down": "has servers send", "both": "sends in both directions"}[spec.direction]
    return f"{spec.workload} {sends} {what}, all released {apart}."


def _lasts(spec: Spec, repetitions: int, earlier: EarlierRuns) -> str:
    expectation = earlier.expected(spec)
    often = f"{repetitions} repetitions: " if repetitions > 1 else ""
    about = "at most" if expectation.most else "about"
    seconds = duration(max(1.0, repetitions * expectation.seconds))
    by = (
        f"estimated from {expectation.runs} similar run{'s' * (expectation.runs > 1)}"
        if expectation.runs
        else f"a rule of thumb: {rule_of_thumb(spec.backend)}"
    )
    words = f"{often}{about} {seconds} in all ({by})"
    return f"{words[0].upper()}{words[1:]};"


def _where(spec: Spec, root: Path | None) -> str:
    if (stored := store.find(spec, root, environment.here(spec))) and stored.status == "ok" and stored.path:
        return (
            f"stored already as {paths.shown(stored.path)}, {stored.measured}, so it is shown and not measured"
            " again, unless you ask for that."
        )
    return f"stored below {paths.shown(store.directory_of(spec, root).parent)}/, as {spec.key}."


class _Head(NamedTuple):
    """Times and size of a stored run. stored_bytes: of its folder, 0 in a pack. environment: the host alone."""

    spec: Spec
    times_s: Mapping[str, float]
    environment: Environment
    stored_bytes: int


def _head(place: Path) -> _Head | None:
    try:
        return _read(place, store.file_of(place).stat().st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=20_000)
def _read(place: Path, changed_ns: int) -> _Head | None:
    """None if nothing was measured. changed_ns: part of the cache key, so that a changed file is read again."""
    try:
        head = metadata.load(place)
        host = metadata.environment_of(head)
        fields = Spec.stored(head["spec"]), dict(head["times_s"]), Environment(host.host, host.machine), _bytes(place)
    except (OSError, ValueError, LookupError, TypeError, PairlabError):
        return None
    return _Head(*fields) if {"traffic_s", "launches_s"} & fields[1].keys() else None


def _bytes(place: Path) -> int:
    if store.file_of(place).parent != place:
        return 0
    with os.scandir(place) as files:
        return sum(each.stat().st_size for each in files)
