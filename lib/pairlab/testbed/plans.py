"""From a spec to its plan, once: who is where, held to which limits, on which link, with which task."""

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
from pairlab.model.traffic.asked import mean_bytes
from pairlab.testbed import cpu_sleep, interference, placement, registry, requirements
from pairlab.testbed.contracts import Backend, NetworkDriver, Workload
from pairlab.testbed.endpoints import BACKGROUND, WORKER, EndpointPlan, HostPlan, Limits, Link, Task, pairs_of
from pairlab.testbed.netns import shaping
from pairlab.testbed.profiling import profiler
from pairlab.testbed.requirements import Lack

#: The kernel's least: a quota of 1 ms in its period of 100 ms, and a weight of 2.
LEAST_QUOTA, LEAST_SHARES = 0.01, 2

#: How long the background may take to come to its rate, and for how long it can send beyond all that is known.
MOST_RISE_S, SPARE_S = 15.0, 60.0
#: The longest time that a spec can ask a tool to send for.
MOST_S = 86400

#: The share of payload in a full frame of Ethernet: TCP with timestamps over an MTU of 1500 bytes.
PAYLOAD = 1448 / 1514

#: By what share of what is timed as one a shaped link may carry more at once than a frame.
MOST_EARLY = 0.02
#: By what share a shaped link's first burst may raise the throughput of a whole run.
MOST_BURST = 0.005


@dataclass(frozen=True)
class Plan:
    """A spec, worked out: what is built, measured and recorded. `layout` makes it.

    endpoints: client and server of each pair, in turn; of a workload with one client, that and all servers. tasks: by
    pair; the background's pairs come last. workload: None where the spec leaves it open (`auto`). hosts: those that
    endpoints are on. workers: places for what uses CPU time beside the pairs. launched:
    endpoints that are not built with the others, but launched when these are up (spec.launches).
    """

    spec: Spec
    backend: Backend
    driver: type[NetworkDriver]
    workload: type[Workload] | None
    endpoints: tuple[EndpointPlan, ...]
    tasks: tuple[Task, ...]
    hosts: tuple[HostPlan, ...] = (HostPlan(),)
    workers: tuple[EndpointPlan, ...] = ()
    launched: tuple[EndpointPlan, ...] = ()

    @property
    def background(self) -> type[Workload] | None:
        """The workload of the background's pairs; None: there are none."""
        return registry.workloads.get(self.spec.background_workload) if self.spec.background_pairs else None

    @property
    def every(self) -> tuple[EndpointPlan, ...]:
        """All endpoints that there are at one time or another."""
        return (*self.endpoints, *self.launched)

    @property
    def pings(self) -> bool:
        """Whether those that are launched have an address of their own, which their partners reach."""
        return self.driver.carries_traffic and not self.driver.publishes

    @property
    def crosses_hosts(self) -> bool:
        """Whether the ends of any pair are on different hosts."""
        return any(client.host != server.host for client, server in pairs_of(self.every))

    @property
    def has_one_client(self) -> bool:
        """Whether one client asks all servers."""
        return self.workload is not None and self.workload.one_client

    @property
    def all_connect(self) -> bool:
        """Whether every endpoint exchanges messages with every other one."""
        return self.workload is not None and self.workload.all_connect

    @property
    def hosts_of_pairs(self) -> list[tuple[str, str]]:
        """The names of the hosts that each pair's client and server are on; none where all are on one."""
        if len(self.hosts) == 1:
            return []
        ends = pairs_of(self.every)
        return [(self.hosts[client.host].name, self.hosts[server.host].name) for client, server in ends]

    @property
    def limits(self) -> dict[str, Limits]:
        """Limits of the endpoints that have any, by name."""
        return {each.name: each.limits for each in (*self.endpoints, *self.workers) if each.limits != Limits()}

    @property
    def links(self) -> dict[str, Link]:
        """Links that are shaped, by their endpoint's name."""
        return {each.name: each.link for each in self.endpoints if each.link != Link()}

    @property
    def is_routed(self) -> bool:
        """Whether the congestion control that is asked for is set on the endpoints' routes, and by no tool."""
        return bool(self.spec.congestion_control) and not self.backend.lacks_routes(self.driver, self.hosts)

    @property
    def of_tools(self) -> Spec:
        """The spec as the tools are to carry it out: without what the testbed sees to."""
        return self.spec.replace(congestion_control="") if self.is_routed else self.spec

    @property
    def longest_s(self) -> float:
        """How long after the release clients may run before they count as hung; of a plan that has a workload."""
        if self.workload is None:
            raise ValueError("this plan leaves its workload open")
        return self.workload.waits_s + self.spec.traffic_s + self.workload.ends_by_itself_s

    @property
    def drain_s(self) -> float:
        """How long, at most, what clients have sent takes to arrive from the queues of shaped links.

        Flows that end are complete when all has arrived.
        """
        if self.spec.flows_end:
            return self.spec.uplink_delay_s
        rates_bps = [self.spec.link_rate_bps, *2 * [self.spec.uplink_rate_bps]]  # an uplink queues on either side
        return self.spec.uplink_delay_s + sum(shaping.bucket(bps)["limit_bytes"] * 8 / bps for bps in rates_bps if bps)

    @property
    def of_background(self) -> Spec:
        """What the background's tools are to carry out, who are stopped before: longer than all else can take."""
        lasts_s = math.ceil(MOST_RISE_S + self.longest_s + SPARE_S)
        return Spec(
            backend=self.spec.backend,
            driver=self.spec.driver,
            pairs=self.spec.background_pairs,
            workload=self.spec.background_workload,
            duration_s=float(min(lasts_s, MOST_S)),
            interval_s=self.spec.interval_s,
            congestion_control=self.of_tools.congestion_control,
        )

    def lacks(self) -> dict[str, list[Lack]]:
        """What this host lacks for the plan, by what needs it; empty: it can be measured here. Builds nothing."""
        backend, driver, spec = self.backend, self.driver, self.spec
        if missing := backend.lacks():  # then it cannot be asked about the rest
            return {f"backend {spec.backend!r}": missing}
        found = {
            f"driver {spec.driver!r}": self._lacks_driver(),
            "limits of CPU use": backend.lacks_limits(driver, self.limits.values()),
            "shaped links": backend.lacks_links(self.links.values()),
            f"{len(self.tasks)} pairs": [
                *backend.lacks_pairs(driver, len(self.tasks)),
                *requirements.missing_open_files(len(self.endpoints) + len(self.workers)),
            ],
            "interference": [
                *backend.lacks_workers(self.workers),
                *backend.lacks_programs(interference.programs(spec), driver),
            ],
            f"{spec.hosts} hosts": [*backend.lacks_hosts(self.hosts), *self._lacks_span()],
            "congestion control": requirements.missing_congestion_control(
                spec.congestion_control,
                by_route=backend.lacks_routes(driver, self.hosts),
                tool=spec.workload,
                chooses=not self.workload or self.workload.chooses_congestion_control,
            ),
        }
        if spec.launches:
            found["launches"] = backend.lacks_launches(driver, self.hosts)
        if spec.profile:
            found["profile"] = profiler.lacks()
        if spec.cpus_awake:
            found["CPUs kept awake"] = cpu_sleep.lacks()
        for workload in filter(None, (self.workload, self.background)):
            found[f"workload {workload.name!r}"] = backend.lacks_programs(workload.programs, driver)
        return {needed_by: lacks for needed_by, lacks in found.items() if lacks}

    def _lacks_driver(self) -> list[Lack]:
        if self.spec.backend not in self.driver.absent_in:
            return self.backend.lacks_for(self.driver)
        able = [name for name in registry.backends.names() if name not in self.driver.absent_in]
        others = " or ".join(map(repr, able))
        return [Lack(f"backend {self.spec.backend!r} has no such network", f"take backend {others}")]

    def _lacks_span(self) -> list[Lack]:
        """What is missing for the driver's network to reach from host to host, where pairs need that."""
        if not self.crosses_hosts:
            what = f"between containers of one host, driver {self.spec.driver!r} is a bridge and nothing else"
            remedy = "give hosts, and a placement other than 'same-host'"
            return [Lack(what, remedy)] if self.driver.needs_hosts else []
        if self.driver.spans_hosts:
            return self.driver.lacks_to_span()
        able = [name for name in registry.drivers.names() if registry.drivers.get(name).spans_hosts]
        what = f"a network of driver {self.spec.driver!r} ends at its host"
        return [Lack(what, f"take placement 'same-host', or a driver that spans hosts: {', '.join(able)}")]

    def overload(self) -> str:
        """That more load is offered than an uplink carries, in a sentence; empty where it is not."""
        spec, offered_bps = self.spec, Counter[int]()
        for client, server in pairs_of(self.every):
            if client.host != server.host:
                offered_bps.update(dict.fromkeys((client.host, server.host), spec.offered_load_bps / spec.pairs))
        carried_bps = {host: self.hosts[host].uplink.rate_bps * PAYLOAD for host in offered_bps}
        over = [host for host, bps in carried_bps.items() if 0 < bps < offered_bps[host]]
        if not over:
            return ""
        worst = max(over, key=lambda host: offered_bps[host] / carried_bps[host])
        offered, carried = (units.with_prefix(bps[worst], "bit/s") for bps in (offered_bps, carried_bps))
        return (
            f"{offered} of the offered load cross the uplink of {self.hosts[worst].name}, which carries {carried} of"
            " payload: expect an invalid run"
        )

    def require(self) -> None:
        """Raises Unavailable, with all that `lacks` finds, unless that is nothing."""
        requirements.require(self.lacks())


def layout(spec: Spec, cpus: Sequence[int] | None = None) -> Plan:
    """Works out the plan of `spec`; builds nothing and asks nothing of the host but its CPUs.

    cpus: those there are, by default the ones this process may use. Raises UnknownName for names there are not, and
    BadSpec for more cores than there are, links that cannot be shaped, and shares of the pairs that round to none.
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
    if spec.background_driver and not driver.has_links():
        raise BadSpec(
            f"background_driver: pairs over {spec.driver!r} have no network but their hosts', which the background is"
            " then on, too: leave it out"
        )
    if one_client:
        _require_servers_in_reach(spec, driver)
    else:
        _require_flows_told_apart(spec, driver, workload)
    meets = workload is not None and workload.all_connect
    if meets and spec.pairs > 1 and driver.pairs_apart:
        raise BadSpec(
            f"pairs: on driver {spec.driver!r} containers reach the other one of their pair only, and workload"
            f" {spec.workload!r} connects all with all: give 1, or take another driver"
        )
    return Plan(
        spec,
        registry.backends.get(spec.backend)(),
        driver,
        workload,
        tuple(
            replace(each, meets_all=meets and each.pair < spec.pairs) for each in built if not _is_launched(spec, each)
        ),
        draw(spec) + (Task(role=BACKGROUND),) * spec.background_pairs + (Task(),) * spec.idle_pairs,
        hosts,
        tuple(placement.workers_of(spec, limits[WORKER])),
        tuple(each for each in built if _is_launched(spec, each)),
    )


def _is_launched(spec: Spec, endpoint: EndpointPlan) -> bool:
    """Whether an endpoint is launched when the others are up. Idle pairs come after those that are measured."""
    return bool(spec.launches) and endpoint.side == "server" and endpoint.pair < spec.pairs


def _limits(spec: Spec, cpus: Sequence[int] | None, containers: int) -> dict[str, Limits]:
    """Each endpoint's limits by its name, and those of a worker. pairlab itself and its switches are not limited.

    containers: how many endpoints there are.
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
    quota, prior = _quota(spec, len(cores), containers), _prior(spec)
    shares = spec.cpu_shares or (USUAL_CPU_SHARES if prior else 0)  # among weights, each container needs its own
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
    """The CPUs that each container may use at most; 0: no limit. Raises BadSpec for less than the kernel takes."""
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


def _prior(spec: Spec) -> set[int]:
    """The pairs whose containers have priority."""
    return _chosen(spec, "priority", spec.priority_share)


def _links(spec: Spec, driver: type[NetworkDriver], paced: bool) -> dict[str, Link]:
    """The shaped link of each side: a client's has the rate, a server's the loss. paced: as of a Link."""
    if spec.mtu_bytes and not driver.has_links():
        raise BadSpec(f"mtu_bytes: driver {spec.driver!r} gives endpoints no links of their own: take another driver")
    limit = Link(spec.link_rate_bps, paced=paced) if spec.link_rate_bps else Link()
    asked = {"client": limit, "server": Link(loss=spec.link_loss)}
    shaped = {side: link for side, link in asked.items() if link != Link()}
    if shaped and not driver.has_links():
        raise BadSpec(
            f"link_rate_bps, link_loss: driver {spec.driver!r} gives endpoints no links of their own that could be"
            " shaped: take another driver"
        )
    shaping.require_rate("link_rate_bps", spec.link_rate_bps)
    return shaped


def _timed_bytes(spec: Spec, workload: type[Workload] | Workload | None) -> float:
    """The payload of what is timed as one: a flow with an end, of drawn sizes by their mean, or the larger one of a
    request and its response; 0 where nothing is.
    """
    if spec.flow_sizes:
        return mean_bytes(spec.flow_sizes)
    if spec.flow_bytes or workload is None:
        return spec.flow_bytes
    requests = "transactions" in workload.can
    messages = max(spec.request_bytes, spec.response_bytes) if requests else spec.message_bytes
    return max(messages, 1) if requests or workload.times_messages else 0


def _require_little_at_once(spec: Spec, name: str, timed_bytes: float) -> None:
    """The filter's bucket is full at first: what it held then comes above the rate.

    Where flows, or requests, are timed, of those the most that it holds beyond a frame; drawn sizes have small ones
    among them, whatever the rate. Else of the whole run, if no warm-up is left out.
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
    """Raises BadSpec where a proxy would relay several flows of a pair, from ports that tell nobody which is which."""
    within = any(client == server for client, server in placement.placement(spec))
    if not (within and driver.docker and driver.docker.userland_proxy):
        return
    what = f"driver {spec.driver!r} relays flows within a host, so that those of a pair cannot be told apart"
    if spec.flows_per_pair > 1:
        raise BadSpec(f"flows_per_pair: {what}: give 1, take hosts and placement 'across', or driver 'nat'")
    if spec.direction == "both" and workload and workload.counts_connections:
        raise BadSpec(f"direction: {what}: give up or down, take workload 'flowgen', or driver 'nat'")


def _require_servers_in_reach(spec: Spec, driver: type[NetworkDriver]) -> None:
    """Raises BadSpec where the client would not reach all servers, or not be alone."""
    if spec.background_pairs:
        raise BadSpec(f"background_pairs: workload {spec.workload!r} has none beside it: leave them out")
    if spec.pairs > 1 and driver.pairs_apart:
        raise BadSpec(
            f"pairs: on driver {spec.driver!r} a client reaches the server of its pair only, and workload"
            f" {spec.workload!r} has one client for all: give 1, or take another driver"
        )


def _require_both_kinds(spec: Spec) -> None:
    """Raises BadSpec where a share of the pairs rounds to none of them, or to all."""
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
    elephants = _chosen(spec, "elephants", spec.elephant_share)
    udp, prior = _chosen(spec, "udp", spec.udp_share), _prior(spec)
    return tuple(_task(spec, pair in elephants, pair in udp, pair in prior) for pair in range(spec.pairs))


def _task(spec: Spec, elephant: bool, udp: bool, prior: bool) -> Task:
    return Task(
        protocol="udp" if udp else "tcp",
        role=("elephant" if elephant else "mouse") if spec.elephant_share else "",
        priority=("high" if prior else "normal") if spec.priority_share else "",
        flow_bytes=spec.elephant_bytes if elephant else spec.flow_bytes,
    )


def _chosen(spec: Spec, what: str, share: float) -> set[int]:
    # Of Python's generator, only the sequence of random() never changes: hence no sample() or shuffle().
    generator = random.Random(f"{what} {spec.seed} {spec.repetition}")
    order = sorted((generator.random(), pair) for pair in range(spec.pairs))
    return {pair for _, pair in order[: round(share * spec.pairs)]}
