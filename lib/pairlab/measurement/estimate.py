"""Preview of a measurement: what it builds, sends and stores, and how long it takes, in words."""

import functools
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pairlab import paths, store
from pairlab.base import units
from pairlab.errors import PairlabError
from pairlab.measurement import in_store
from pairlab.measurement.measure import resolve
from pairlab.model import topology
from pairlab.model.spec import Spec
from pairlab.model.traffic import asked
from pairlab.progress.words import duration
from pairlab.store import heads
from pairlab.testbed import plans, registry
from pairlab.testbed.endpoints import UPLINK, EndpointPlan, HostPlan
from pairlab.testbed.netns.underlay import limited
from pairlab.testbed.plans import Plan

#: Time that a measurement takes besides its traffic, if nothing similar was measured here: a rule of thumb.
AROUND_S, AROUND_PAIR_S = 2.0, 0.1
#: Time that the measuring process takes to start: it imports pandas.
START_S = 1.5
#: Runs with up to this many times the pairs, or this many times fewer, predict the time of a run.
NEAR = 2.0


class Expectation(NamedTuple):
    """How long a measurement takes in all.

    runs: the number of earlier runs that it is estimated from; 0: a rule of thumb. most: whether it may be shorter, as
    flows of a fixed size may end earlier.
    """

    seconds: float
    runs: int
    most: bool = False


def preview(spec: Spec, repetitions: int = 1, root: Path | None = None) -> str:
    """What `spec` builds and sends, how long that takes, and where it is stored. Builds nothing.

    repetitions: the number of repetitions, from spec.repetition on. root: the folder of runs, by default runs/.
    Raises UnknownName and BadSpec as measurement.resolve.
    """
    spec = resolve(spec)
    also = [f"Also: {', '.join(spec.particulars)}."] if spec.particulars else []
    also += [f"{expected}."] if (expected := plans.layout(spec).overload()) else []
    return " ".join([_built(spec), _sent(spec), *also, _lasts(spec, repetitions, root), _kept(spec, root)])


def picture(spec: Spec) -> str:
    """The picture of what `spec` builds, as HTML that a reader opens. Raises UnknownName and BadSpec as `preview`."""
    plan = plans.layout(resolve(spec))
    uplink = plan.hosts[-1].uplink
    shaped = {"tbf": {"rate_bps": uplink.rate_bps}} if uplink.rate_bps else {}
    delayed = {"netem": {"delay_s": uplink.delay_s}} if uplink.delay_s else {}
    underlay = {"mtu": uplink.mtu_bytes, **shaped, **delayed, **limited(plan.hosts)}
    several = {"underlay": underlay} if len(plan.hosts) > 1 else {}
    network = {"hosts": [_planned_host(plan, host) for host in plan.hosts], **several}
    return topology.drawer(network, "how the testbed will be built")


def _planned_host(plan: Plan, host: HostPlan) -> dict[str, Any]:
    """What a run's facts would say of that host, as far as it is known beforehand."""
    own = [each for each in plan.endpoints if each.host == host.index]
    shown = [_planned_end(plan, each) for each in own if each.pair == own[0].pair]
    uplink = [{"name": UPLINK, "kind": "veth", "addresses": [host.address]}] if host.address else []
    network = {"planned": plan.driver.name} if plan.driver.has_links() else {}
    return {"name": host.name, "links": uplink, "driver": network, "endpoints": shown, "endpoint_count": len(own)}


def _planned_end(plan: Plan, endpoint: EndpointPlan) -> dict[str, Any]:
    if not plan.driver.isolated:
        return {"name": endpoint.name}
    if not plan.driver.has_links():
        return {"name": endpoint.name, "links": []}
    by_docker = plan.spec.backend == "docker" and plan.driver.docker is not None and not plan.driver.routed
    # A tunnel, and what endpoints' links are put on, are links of the host.
    kind = next((kind for kind in plan.driver.links if kind not in ("bridge", "ipip", "vxlan")), "eth0")
    address = "by Docker" if by_docker else endpoint.address
    return {"name": endpoint.name, "links": [{"name": "eth0", "kind": kind, "addresses": [address]}]}


def expected(spec: Spec, root: Path | None = None) -> Expectation:
    """How long measuring `spec` takes, estimated from runs of its backend and driver with a similar number of pairs."""
    near = [head for head in _earlier(spec, root) if _near(head["spec"]["pairs"], spec.pairs)]
    around = [sum(head["times_s"].values()) - head["times_s"]["traffic_s"] for head in near]
    around_s = statistics.median(around) if around else AROUND_S + AROUND_PAIR_S * (spec.pairs + spec.background_pairs)
    sizes = ("start_spacing_s", "flow_bytes", "elephant_bytes", "elephant_share", "workload", "link_rate_bps", "cores")
    sizes += ("flow_sizes", "offered_load_bps", "requests")
    alike = [head["times_s"]["traffic_s"] for head in near if all(_of(head, n) == getattr(spec, n) for n in sizes)]
    traffic_s = statistics.median(alike) if alike and spec.flows_end else spec.traffic_s
    return Expectation(START_S + around_s + traffic_s, len(around), bool(spec.flows_end and not alike))


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
    protocol = "TCP" if not spec.udp_share else "UDP" if spec.udp_share == 1 else "TCP and UDP"
    if spec.flow_sizes:
        load = f"at {spec.offered_load_bps / 1e6:g} Mbit/s" if spec.offered_load_bps else "in a closed loop"
        many = f"{spec.requests:,} requests, which have" if spec.requests else "requests for"
        sizes = asked.in_words(spec.flow_sizes)
        return f"{spec.workload} makes flows of sizes from {sizes}, {load}: {many} {spec.duration_s:g} s."
    if spec.flow_bytes:
        size = units.with_prefix(spec.flow_bytes, "B")
        what = f"a flow of {size} from each client, which has {spec.duration_s:g} s to complete"
    else:
        warmup = f" after a warm-up of {spec.warmup_s:g} s" if spec.warmup_s else ""
        what = f"{protocol} for {spec.duration_s:g} s{warmup}{'' if spec.udp_rate_bps else ' at full rate'}"
    apart = f"{units.with_prefix(spec.start_spacing_s, 's')} apart" if spec.start_spacing_s else "together"
    sends = {"up": "sends", "down": "has servers send", "both": "sends in both directions"}[spec.direction]
    return f"{spec.workload} {sends} {what}, all released {apart}."


def _lasts(spec: Spec, repetitions: int, root: Path | None) -> str:
    expectation = expected(spec, root)
    often = f"{repetitions} repetitions: " if repetitions > 1 else ""
    about = "at most" if expectation.most else "about"
    seconds = duration(max(1.0, repetitions * expectation.seconds))
    by = (
        f"estimated from {expectation.runs} similar run{'s' * (expectation.runs > 1)}"
        if expectation.runs
        else (f"a rule of thumb: the traffic, {AROUND_S:g} s, and {AROUND_PAIR_S:g} s for each pair")
    )
    words = f"{often}{about} {seconds} in all ({by})"
    return f"{words[0].upper()}{words[1:]};"


def _kept(spec: Spec, root: Path | None) -> str:
    if (stored := in_store.find(spec, root)) and stored.status == "ok" and stored.path:
        return (
            f"stored already as {paths.shown(stored.path)}, {stored.measured}, so it is shown and not measured"
            " again, unless you ask for that."
        )
    return f"stored as {paths.shown(store.free_directory(spec, root))}."


def _near(pairs: int, wanted: int) -> bool:
    return wanted / NEAR <= pairs <= wanted * NEAR


def _of(head: Mapping[str, Any], name: str) -> Any:
    return head["spec"].get(name, Spec.model_fields[name].default)


def _earlier(spec: Spec, root: Path | None) -> Iterator[Mapping[str, Any]]:
    """The heads of the stored runs with this backend and driver."""
    for place in store.directories(root):
        head = _head(place)
        if head and (head["spec"]["backend"], head["spec"]["driver"]) == (spec.backend, spec.driver):
            yield head


def _head(place: Path) -> Mapping[str, Any] | None:
    try:
        return _read(place, (place / heads.NAME).stat().st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=20_000)
def _read(place: Path, changed_ns: int) -> Mapping[str, Any] | None:
    """A run's spec and times, from its head; None where nothing was measured. Read again when the file changes."""
    try:
        head = heads.load(place)
        known = {"spec": Spec.stored(head["spec"]).model_dump(), "times_s": dict(head["times_s"])}
    except (OSError, ValueError, LookupError, TypeError, PairlabError):
        return None
    return known if "traffic_s" in known["times_s"] else None
