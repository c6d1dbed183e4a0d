"""From a spec to its plan: each endpoint's host, limits, link and task."""

import math
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pairlab.base import units
from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.model.spec.consistency import USUAL_CPU_SHARES
from pairlab.model.traffic_parameters import mean_bytes
from pairlab.testbed import capture, cpu_sleep, interference, placement, registry, requirements
from pairlab.testbed.contracts import Backend, Layout, NetworkDriver, Workload
from pairlab.testbed.endpoints import BACKGROUND, WORKER, EndpointPlan, Limits, Link, Task, pairs_of
from pairlab.testbed.host import profiler
from pairlab.testbed.netns import shaping
from pairlab.testbed.requirements import MissingRequirement, lacking

#: The kernel's minimums: a quota of 1 ms in a period of 100 ms, and a weight of 2.
LEAST_QUOTA, LEAST_SHARES = 0.01, 2

#: The background's longest rise to a steady rate, and its spare sending time beyond all expected times.
MOST_RISE_S, SPARE_S = 15.0, 60.0
#: The longest sending time of a spec.
MOST_S = 86400

#: The share of payload in a full frame of Ethernet: TCP with timestamps over an MTU of 1500 bytes.
PAYLOAD = 1448 / 1514

#: The largest burst of a shaped link beyond one frame, as a share of a timed unit (a flow, request or message).
MOST_EARLY = 0.02
#: The largest share by which a shaped link's first burst may raise the throughput of a whole run.
MOST_BURST = 0.005


@dataclass(frozen=True, kw_only=True)
class Plan(Layout):
    """A spec with everything derived from it for building, measuring and recording. `layout` makes it.

    tasks: by pair; the background's pairs come last. workload: None if the spec leaves it open (`auto`).
    """

    spec: Spec
    backend: Backend
    workload: type[Workload] | None
    tasks: tuple[Task, ...]

    @property
    def background(self) -> type[Workload] | None:
        """The workload of the background's pairs; None: there are none."""
        return registry.workloads.get(self.spec.background_workload) if self.spec.background_pairs else None

    @property
    def pings(self) -> bool:
        """Whether launched endpoints have addresses of their own that their partners reach."""
        return self.driver.carries_traffic and not self.driver.publishes

    @property
    def has_one_client(self) -> bool:
        """Whether one client requests from all servers."""
        return self.workload is not None and self.workload.one_client

    @property
    def all_connect(self) -> bool:
        """Whether every endpoint exchanges messages with every other one."""
        return self.workload is not None and self.workload.all_connect

    @property
    def hosts_of_pairs(self) -> list[tuple[str, str]]:
        """The names of each pair's client's and server's hosts; empty if there is only one host."""
        if len(self.hosts) == 1:
            return []
        ends = pairs_of(self.all_endpoints)
        return [(self.hosts[client.host].name, self.hosts[server.host].name) for client, server in ends]

    @property
    def is_routed(self) -> bool:
        """Whether the endpoints' routes, and no tool, set the requested congestion control."""
        return bool(self.spec.congestion_control) and not self.backend.missing_routes(self)

    @property
    def tool_spec(self) -> Spec:
        """The spec for the tools: without the congestion control if routes set it."""
        return self.spec.replace(congestion_control="") if self.is_routed else self.spec

    @property
    def longest_s(self) -> float:
        """The clients' longest time from the release; then they count as hung. Only for a plan with a workload."""
        if self.workload is None:
            raise ValueError("this plan leaves its workload open")
        return self.workload.start_delay_s + self.spec.traffic_s + self.workload.exit_grace_s

    @property
    def drain_s(self) -> float:
        """The longest time from the clients' end until shaped links have delivered everything.

        Flows with an end are complete only after delivery: then it is just the uplink's delay.
        """
        if self.spec.flows_end:
            return self.spec.uplink_delay_s
        rates_bps = [self.spec.link_rate_bps, *2 * [self.spec.uplink_rate_bps]]  # an uplink queues on either side
        return self.spec.uplink_delay_s + sum(shaping.bucket(bps)["limit_bytes"] * 8 / bps for bps in rates_bps if bps)

    @property
    def background_spec(self) -> Spec:
        """The spec of the background's tools, which send longer than everything else can take, and are stopped."""
        duration_s = math.ceil(MOST_RISE_S + self.longest_s + SPARE_S)
        return Spec(
            backend=self.spec.backend,
            driver=self.spec.driver,
            pairs=self.spec.background_pairs,
            workload=self.spec.background_workload,
            duration_s=float(min(duration_s, MOST_S)),
            interval_s=self.spec.interval_s,
            congestion_control=self.tool_spec.congestion_control,
        )

    def missing(self) -> dict[str, list[MissingRequirement]]:
        """This host's missing requirements, by their need; empty: the plan can be measured here. Builds nothing."""
        backend, driver, spec = self.backend, self.driver, self.spec
        if missing := backend.missing():  # then the backend cannot check the rest
            return {f"backend {spec.backend!r}": missing}
        lacks = {
            f"driver {spec.driver!r}": self._missing_driver(),
            **backend.missing_for(self),
            "open files": requirements.missing_open_files(len(self.endpoints) + len(self.workers)),
            "interference": backend.missing_programs(interference.programs(spec), driver),
            "reaching other hosts": self._missing_span(),
            "traffic over IPv6": self._missing_ipv6(),
            "congestion control": requirements.missing_congestion_control(
                spec.congestion_control,
                by_route=backend.missing_routes(self),
                tool=spec.workload,
                chooses=not self.workload or self.workload.chooses_congestion_control,
            ),
            "profile": profiler.missing() if spec.profile else [],
            "packet capture": backend.missing_capture() if spec.capture else [],
            "CPUs kept awake": cpu_sleep.missing() if spec.cpus_awake else [],
        }
        for workload in filter(None, (self.workload, self.background)):
            lacks[f"workload {workload.name!r}"] = backend.missing_programs(workload.programs, driver)
        return {needed_by: missing for needed_by, missing in lacks.items() if missing}

    def _missing_driver(self) -> list[MissingRequirement]:
        if self.spec.backend not in self.driver.absent_in:
            return self.backend.missing_driver(self.driver)
        able = [name for name in registry.backends.names() if name not in self.driver.absent_in]
        others = " or ".join(map(repr, able))
        return lacking(f"backend {self.spec.backend!r} has no such network", f"take backend {others}")

    def _missing_span(self) -> list[MissingRequirement]:
        """Missing requirements for the driver's network to span hosts, if pairs need that."""
        if not self.crosses_hosts:
            what = f"between containers of one host, driver {self.spec.driver!r} is a bridge and nothing else"
            remedy = "give hosts, and a placement other than 'same-host'"
            return lacking(what, remedy) if self.driver.needs_hosts else []
        if self.driver.spans_hosts:
            return self.backend.missing_to_span(self.driver)
        able = [name for name in registry.drivers.names() if registry.drivers.get(name).spans_hosts]
        what = f"a network of driver {self.spec.driver!r} ends at its host"
        return lacking(what, f"take placement 'same-host', or a driver that spans hosts: {', '.join(able)}")

    def _missing_ipv6(self) -> list[MissingRequirement]:
        """Missing requirements for the requested version of the Internet Protocol."""
        if self.spec.ip_version == 4:
            return []
        if self.spec.ip_version not in self.backend.ip_versions:
            return [MissingRequirement(f"networks of backend {self.spec.backend!r} have IPv4", "take backend 'netns'")]
        if self.driver.routed or (self.crosses_hosts and not self.driver.has_links()):
            what = f"driver {self.spec.driver!r} connects hosts by IPv4"
            return [MissingRequirement(what, "take a driver whose containers share one subnet, such as 'overlay'")]
        return []

    def overload(self) -> str:
        """A sentence if more load is offered than an uplink carries; else empty."""
        spec, offered_bps = self.spec, Counter[int]()
        for client, server in pairs_of(self.all_endpoints):
            if client.host != server.host:
                offered_bps.update(dict.fromkeys((client.host, server.host), spec.offered_load_bps / spec.pairs))
        carried_bps = {host: self.hosts[host].uplink.rate_bps * PAYLOAD for host in offered_bps}
        over = [host for host, bps in carried_bps.items() if 0 < bps < offered_bps[host]]
        if not over:
            return ""
        worst = max(over, key=lambda host: offered_bps[host] / carried_bps[host])
        offered, carried = (units.with_prefix(bps[worst], "bit/s") for bps in (offered_bps, carried_bps))
        expected = "requests to fall behind" if spec.may_fall_behind else "an invalid run"
        return (
            f"{offered} of the offered load cross the uplink of {self.hosts[worst].name}, which carries {carried} of"
            f" payload: expect {expected}"
        )

    def require(self) -> None:
        """Raises Unavailable, with all missing requirements, if there are any."""
        requirements.require(self.missing())


def layout(spec: Spec, cpus: Sequence[int] | None = None) -> Plan:
    """The plan of `spec`; builds nothing, and reads nothing of the host but its CPUs.

    cpus: the available ones, by default those that this process may use. Raises UnknownName for unknown names, and
    BadSpec for more cores than available, links that cannot be shaped, and shares of the pairs that round to none.
    """
    driver = registry.drivers.get(spec.driver)
    workload = None if spec.workload == "auto" else registry.workloads.get(spec.workload)
    one_client = workload is not None and workload.one_client
    containers = spec.pairs + (1 if one_client else spec.pairs) + 2 * (spec.background_pairs + spec.idle_pairs)
    timed_bytes = _timed_bytes(spec, workload)
    limits, links = _limits(spec, cpus, containers), _links(spec, driver, paced=timed_bytes > 0)
    _require_both_kinds(spec)
    hosts = placement.hosts_of(spec, driver, paced=timed_bytes > 0)
    for name in ("link_rate_bps", "uplink_rate_bps"):
        if getattr(spec, name):
            _require_little_at_once(spec, name, timed_bytes)
    built = tuple(placement.endpoints_of(spec, driver, hosts, limits, links, one_client))
    _require_captured(spec, driver, built)
    if spec.background_driver and not driver.has_links():
        raise BadSpec(
            f"background_driver: pairs over {spec.driver!r} have no network but their hosts', which the background is"
            " then on, too: leave it out"
        )
    meets = workload is not None and workload.all_connect
    if one_client and spec.background_pairs:
        raise BadSpec(f"background_pairs: workload {spec.workload!r} has none beside it: leave them out")
    if (one_client or meets) and spec.pairs > 1 and driver.only_own_partner:
        what = "has one client for all" if one_client else "connects all with all"
        raise BadSpec(
            f"pairs: on driver {spec.driver!r} containers reach the other one of their pair only, and workload"
            f" {spec.workload!r} {what}: give 1, or take another driver"
        )
    if not one_client:
        _require_flows_told_apart(spec, driver, workload)
    return Plan(
        spec=spec,
        backend=registry.backends.get(spec.backend)(spec.hosts),
        driver=driver,
        workload=workload,
        endpoints=tuple(
            replace(each, meets_all=meets and each.pair < spec.pairs) for each in built if not _is_launched(spec, each)
        ),
        tasks=draw(spec) + (Task(role=BACKGROUND),) * spec.background_pairs + (Task(),) * spec.idle_pairs,
        hosts=hosts,
        workers=tuple(placement.workers_of(spec, limits[WORKER])),
        launched=tuple(each for each in built if _is_launched(spec, each)),
    )


def _require_captured(spec: Spec, driver: type[NetworkDriver], built: Sequence[EndpointPlan]) -> None:
    """Raises BadSpec if an endpoint to be captured does not exist, or has no network namespace of its own."""
    wanted, names = capture.endpoints(spec), [each.name for each in built]
    if wanted and not driver.isolated:
        raise BadSpec(
            f"capture: over driver {spec.driver!r} endpoints share their host's network, so that no packets are those"
            " of one alone: take another driver"
        )
    if absent := [name for name in wanted if name not in names]:
        present = f"{', '.join(names[:6])}{', …' * (len(names) > 6)}"
        raise BadSpec(f"capture: there is no endpoint {absent[0]!r} (there are: {present})")


def _is_launched(spec: Spec, endpoint: EndpointPlan) -> bool:
    """Whether an endpoint is launched once the others are up. Idle pairs come after the measured ones."""
    return bool(spec.launches) and endpoint.side == "server" and endpoint.pair < spec.pairs


def _limits(spec: Spec, cpus: Sequence[int] | None, containers: int) -> dict[str, Limits]:
    """Each endpoint's limits by its name, and a worker's. pairlab itself and its switches are not limited.

    containers: the number of endpoints.
    """
    cpus = sorted(os.sched_getaffinity(0)) if cpus is None else list(cpus)
    pinning = registry.pinnings.get(spec.pinning)()
    if spec.cores > len(cpus):
        raise BadSpec(f"cores: this process may use {len(cpus)} CPUs, not {spec.cores}")
    cores = cpus[: spec.cores or None]
    if len(cores) < pinning.least_cores:
        raise BadSpec(f"pinning: {spec.pinning!r} needs at least {pinning.least_cores} cores; {len(cores)} available")
    if spec.cpu_quota and not LEAST_QUOTA <= spec.cpu_quota <= len(cpus):
        raise BadSpec(
            f"cpu_quota: must be from {LEAST_QUOTA} to the number of CPUs, {len(cpus)}, not {spec.cpu_quota:g}"
        )
    for name, weight in (("cpu_shares", spec.cpu_shares), ("priority_cpu_shares", spec.priority_cpu_shares)):
        if weight and weight < LEAST_SHARES:
            raise BadSpec(f"{name}: must be at least {LEAST_SHARES} ({USUAL_CPU_SHARES} is the default), not {weight}")
    pairs = spec.pairs + spec.background_pairs + spec.idle_pairs
    placed = pinning.place(pairs, cores)
    unpinned = tuple(cores) if spec.cores else None
    quota, prior = _quota(spec, len(cores), containers), _chosen(spec, "priority")
    shares = spec.cpu_shares or (USUAL_CPU_SHARES if prior else 0)  # among weights, each container needs one
    worker = Limits(unpinned, cpu_shares=USUAL_CPU_SHARES if quota or shares or prior else 0)
    return {WORKER: worker} | {
        name: Limits(
            (placed[name],) if name in placed else unpinned,
            quota,
            spec.priority_cpu_shares if index in prior else shares,
        )
        for index in range(pairs)
        for name in (f"client-{index}", f"server-{index}")
    }


def _quota(spec: Spec, cores: int, containers: int) -> float:
    """Each container's CPU quota, in CPUs; 0: no limit. Raises BadSpec for less than the kernel accepts."""
    if not spec.cpu_quota_of_fair_share:
        return spec.cpu_quota
    fair = cores / containers
    if (quota := spec.cpu_quota_of_fair_share * fair) < LEAST_QUOTA:
        raise BadSpec(
            f"cpu_quota_of_fair_share: {spec.cpu_quota_of_fair_share:g} of {fair:g} CPUs, the fair part of each of"
            f" {containers} containers, is less than {LEAST_QUOTA}, the least that the kernel takes:"
            " take fewer pairs"
        )
    return min(quota, float(cores))


def _links(spec: Spec, driver: type[NetworkDriver], paced: bool) -> dict[str, Link]:
    """The shaped link of each side: a client's has the rate, a server's the loss. paced: as of a Link."""
    if spec.mtu_bytes and not driver.has_links():
        raise BadSpec(f"mtu_bytes: driver {spec.driver!r} gives endpoints no links of their own: take another driver")
    limit = Link(spec.link_rate_bps, paced=paced) if spec.link_rate_bps else Link()
    links = {"client": limit, "server": Link(loss=spec.link_loss)}
    shaped = {side: link for side, link in links.items() if link != Link()}
    if shaped and not driver.has_links():
        raise BadSpec(
            f"link_rate_bps, link_loss: driver {spec.driver!r} gives endpoints no links of their own that could be"
            " shaped: take another driver"
        )
    shaping.require_rate("link_rate_bps", spec.link_rate_bps)
    return shaped


def _timed_bytes(spec: Spec, workload: type[Workload] | Workload | None) -> float:
    """The payload of a timed unit: of a flow with an end (the mean of drawn sizes), or of the larger one of a request
    and its response, or of a message; 0: nothing is timed.
    """
    if spec.flow_sizes:
        return mean_bytes(spec.flow_sizes)
    if spec.flow_bytes or workload is None:
        return spec.flow_bytes
    requests = "transactions" in workload.features
    messages = max(spec.request_bytes, spec.response_bytes) if requests else spec.message_bytes
    return max(messages, 1) if requests or workload.times_messages else 0


def _require_little_at_once(spec: Spec, name: str, timed_bytes: float) -> None:
    """Raises BadSpec for a link whose burst distorts the result: the token bucket is full at first, and its content
    exceeds the rate.

    If flows or requests are timed, the burst beyond a frame counts against their size; not for drawn sizes, some of
    which are small at any rate. Else the first burst counts against the whole run, if there is no warm-up.
    """
    rate_bps, frame_bytes = getattr(spec, name), shaping.ETHERNET_BYTES + placement.USUAL_MTU_BYTES
    if timed_bytes:
        most_bytes = MOST_EARLY * timed_bytes
        early_bytes = shaping.at_once_bytes(rate_bps, frame_bytes) - frame_bytes
        if spec.flow_sizes or timed_bytes <= frame_bytes or early_bytes <= most_bytes:
            return
        if most_bytes < shaping.LEAST_BURST_BYTES:
            most_bytes = min(most_bytes, shaping.MOST_CUT_UP_BYTES - frame_bytes)
        most_bps = round(most_bytes * 8 / shaping.LATE_S)
        raise BadSpec(
            f"{name}: what is timed has {timed_bytes:,.0f} B, of which a link of {units.with_prefix(rate_bps, 'bit/s')}"
            f" would carry {100 * early_bytes / timed_bytes:.2g} % at once, as the kernel's timers are late: give"
            f" {most_bps:,.0f} or less, or more bytes"
        )
    if spec.warmup_s:
        return
    burst_s = shaping.bucket(rate_bps)["burst_bytes"] * 8 / rate_bps
    if burst_s > MOST_BURST * spec.duration_s:
        raise BadSpec(
            f"{name}: in {spec.duration_s:g} s, the link's first burst makes the throughput"
            f" {burst_s / spec.duration_s:.1%} too high: give a warmup_s, or a duration_s of"
            f" {math.ceil(10 * burst_s / MOST_BURST) / 10:g} or more"
        )


def _require_flows_told_apart(spec: Spec, driver: type[NetworkDriver], workload: type[Workload] | None) -> None:
    """Raises BadSpec if a proxy would relay several flows of a pair, from ports that do not identify them."""
    within = any(client == server for client, server in placement.placement(spec))
    if not (within and driver.docker and driver.docker.userland_proxy):
        return
    what = f"driver {spec.driver!r} relays flows within a host, so that those of a pair cannot be told apart"
    if spec.flows_per_pair > 1:
        raise BadSpec(f"flows_per_pair: {what}: give 1, take hosts and placement 'across', or driver 'nat'")
    if spec.direction == "both" and workload and workload.counts_connections:
        raise BadSpec(f"direction: {what}: give up or down, take workload 'flowgen', or driver 'nat'")


def _require_both_kinds(spec: Spec) -> None:
    """Raises BadSpec if a share of the pairs rounds to none or all of them."""
    for name in ("elephant_share", "udp_share", "priority_share"):
        share = getattr(spec, name)
        if 0 < share < 1 and (chosen := round(share * spec.pairs)) in (0, spec.pairs):
            which = "none" if not chosen else "all"
            raise BadSpec(
                f"{name}: {share:g} of {spec.pairs} pair{'s' * (spec.pairs != 1)} is {which}, rounded: take more pairs,"
                f" or {name} {'0' if not chosen else '1'}"
            )


def draw(spec: Spec) -> tuple[Task, ...]:
    """The task of every pair. Of n pairs, round(share * n) send elephants, and likewise for UDP and priority.

    A pure function of the spec's seed and repetition, so that every driver, backend and workload measures the same
    draw: comparisons between them are paired. With more pairs, the order in which pairs are chosen stays the same.
    """
    elephants, udp, prior = (_chosen(spec, kind) for kind in ("elephant", "udp", "priority"))
    return tuple(
        Task(
            protocol="udp" if pair in udp else "tcp",
            role=("elephant" if pair in elephants else "mouse") if spec.elephant_share else "",
            priority=("high" if pair in prior else "normal") if spec.priority_share else "",
            flow_bytes=spec.elephant_bytes if pair in elephants else spec.flow_bytes,
        )
        for pair in range(spec.pairs)
    )


def _chosen(spec: Spec, kind: str) -> set[int]:
    """The pairs drawn as `elephant`, `udp` or `priority`, by the spec's share of them."""
    share = getattr(spec, f"{kind}_share")
    word = "elephants" if kind == "elephant" else kind  # part of the seed, so that published draws stay the same
    # Only the sequence of random() is stable across Python versions: hence no sample() or shuffle().
    generator = random.Random(f"{word} {spec.seed} {spec.repetition}")
    order = sorted((generator.random(), pair) for pair in range(spec.pairs))
    return {pair for _, pair in order[: round(share * spec.pairs)]}
