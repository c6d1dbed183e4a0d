"""From a spec to its plan, once: who is where, held to which limits, on which link, with which task."""

import ipaddress
import math
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed import registry, requirements
from pairlab.testbed.contracts import Backend, NetworkDriver, Workload
from pairlab.testbed.endpoints import EndpointPlan, Limits, Link, Task
from pairlab.testbed.netns.shaping import LEAST_RATE_BPS, MOST_RATE_BPS, bucket
from pairlab.testbed.profiling import profiler
from pairlab.testbed.requirements import Lack

SUBNET = ipaddress.IPv4Network("10.77.0.0/16")

#: The kernel's least: a quota of 1 ms in its period of 100 ms, and a weight of 2.
LEAST_QUOTA, LEAST_SHARES = 0.01, 2

#: By what share a shaped link's first burst may raise the throughput of a whole run.
MOST_BURST = 0.005


@dataclass(frozen=True)
class Plan:
    """A spec, worked out: what is built, measured and recorded. `layout` makes it.

    endpoints: client and server of each pair, in turn. tasks: by pair. workload: None where the spec leaves it open
    (`auto`).
    """

    spec: Spec
    backend: Backend
    driver: type[NetworkDriver]
    workload: type[Workload] | None
    endpoints: tuple[EndpointPlan, ...]
    tasks: tuple[Task, ...]

    @property
    def limits(self) -> dict[str, Limits]:
        """Limits of the endpoints that have any, by name."""
        return {each.name: each.limits for each in self.endpoints if each.limits != Limits()}

    @property
    def links(self) -> dict[str, Link]:
        """Links that are shaped, by their endpoint's name."""
        return {each.name: each.link for each in self.endpoints if each.link != Link()}

    @property
    def is_routed(self) -> bool:
        """Whether the congestion control that is asked for is set on the endpoints' routes, and by no tool."""
        return bool(self.spec.congestion_control) and not self.backend.lacks_routes(self.driver)

    @property
    def of_tools(self) -> Spec:
        """The spec as the tools are to carry it out: without what the testbed sees to."""
        return self.spec.replace(congestion_control="") if self.is_routed else self.spec

    def lacks(self) -> dict[str, list[Lack]]:
        """What this host lacks for the plan, by what needs it; empty: it can be measured here. Builds nothing."""
        backend, driver, spec = self.backend, self.driver, self.spec
        if missing := backend.lacks():  # then it cannot be asked about the rest
            return {f"backend {spec.backend!r}": missing}
        found = {
            f"driver {spec.driver!r}": backend.lacks_for(driver),
            "limits of CPU use": backend.lacks_limits(self.limits.values()),
            "shaped links": backend.lacks_links(self.links.values()),
            f"{spec.pairs} pairs": backend.lacks_pairs(driver, spec.pairs),
            "congestion control": requirements.missing_congestion_control(
                spec.congestion_control,
                by_route=backend.lacks_routes(driver),
                tool=spec.workload,
                chooses=not self.workload or self.workload.chooses_congestion_control,
            ),
        }
        if spec.profile:
            found["profile"] = profiler.lacks()
        if self.workload:
            found[f"workload {spec.workload!r}"] = backend.lacks_programs(self.workload)
        return {needed_by: lacks for needed_by, lacks in found.items() if lacks}

    def require(self) -> None:
        """Raises Unavailable, with all that `lacks` finds, unless that is nothing."""
        requirements.require(self.lacks())


def layout(spec: Spec, cpus: Sequence[int] | None = None) -> Plan:
    """Works out the plan of `spec`; builds nothing and asks nothing of the host but its CPUs.

    cpus: those there are, by default the ones this process may use. Raises UnknownName for names there are not, and
    BadSpec for more cores than there are, links that cannot be shaped, and shares of the pairs that round to none.
    """
    driver = registry.drivers.get(spec.driver)
    limits, links = _limits(spec, cpus), _links(spec, driver)
    _require_both_kinds(spec)
    hosts = SUBNET.hosts()
    return Plan(
        spec,
        registry.backends.get(spec.backend)(),
        driver,
        None if spec.workload == "auto" else registry.workloads.get(spec.workload),
        tuple(
            EndpointPlan(
                pair, side, str(next(hosts)), SUBNET.prefixlen, limits[f"{side}-{pair}"], links.get(side, Link())
            )
            for pair in range(spec.pairs)
            for side in ("client", "server")
        ),
        draw(spec),
    )


def _limits(spec: Spec, cpus: Sequence[int] | None) -> dict[str, Limits]:
    """Each endpoint's limits by its name. pairlab itself and its switches are not limited."""
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
    if spec.cpu_shares and spec.cpu_shares < LEAST_SHARES:
        raise BadSpec(f"cpu_shares: must be at least {LEAST_SHARES} (1024 is the default), not {spec.cpu_shares}")
    placed = pinning.place(spec.pairs, cores)
    unpinned = tuple(cores) if spec.cores else None
    return {
        name: Limits((placed[name],) if name in placed else unpinned, spec.cpu_quota, spec.cpu_shares)
        for index in range(spec.pairs)
        for name in (f"client-{index}", f"server-{index}")
    }


def _links(spec: Spec, driver: type[NetworkDriver]) -> dict[str, Link]:
    """The shaped link of each side: a client's has the rate, a server's the loss."""
    asked = {"client": Link(rate_bps=spec.link_rate_bps), "server": Link(loss=spec.link_loss)}
    shaped = {side: link for side, link in asked.items() if link != Link()}
    if shaped and not driver.isolated:
        raise BadSpec(
            f"link_rate_bps, link_loss: driver {spec.driver!r} gives endpoints no links of their own that could be"
            " shaped: take another driver"
        )
    if spec.link_rate_bps and not LEAST_RATE_BPS <= spec.link_rate_bps <= MOST_RATE_BPS:
        raise BadSpec(
            f"link_rate_bps: must be from {LEAST_RATE_BPS:g} to {MOST_RATE_BPS:g} (or 0), not {spec.link_rate_bps:g}"
        )
    if spec.link_rate_bps and not (spec.flow_bytes or spec.warmup_s):
        _require_little_burst(spec)
    return shaped


def _require_little_burst(spec: Spec) -> None:
    """The filter's bucket is full at first: what it held then comes above the rate, and without a warm-up it counts."""
    burst_s = bucket(spec.link_rate_bps)["burst_bytes"] * 8 / spec.link_rate_bps
    if burst_s > MOST_BURST * spec.duration_s:
        raise BadSpec(
            f"link_rate_bps: in {spec.duration_s:g} s, the link's first burst makes the throughput"
            f" {burst_s / spec.duration_s:.1%} too high: give a warmup_s, or a duration_s of"
            f" {math.ceil(10 * burst_s / MOST_BURST) / 10:g} or more"
        )


def _require_both_kinds(spec: Spec) -> None:
    """Raises BadSpec where a share of the pairs rounds to none of them, or to all."""
    for name, share in (("elephant_share", spec.elephant_share), ("udp_share", spec.udp_share)):
        if 0 < share < 1 and (chosen := round(share * spec.pairs)) in (0, spec.pairs):
            which = "none" if not chosen else "all"
            raise BadSpec(
                f"{name}: {share:g} of {spec.pairs} pair{'s' * (spec.pairs != 1)} is {which}, rounded: take more pairs,"
                f" or {name} {'0' if not chosen else '1'}"
            )


def draw(spec: Spec) -> tuple[Task, ...]:
    """The task of every pair. Of n pairs, round(share * n) send elephants, and likewise for UDP.

    A pure function of the spec's seed and repetition, so that every driver, backend and workload measures the same
    draw: comparisons between them are paired. With more pairs, the order in which pairs are chosen stays the same.
    """
    elephants = _chosen(spec, "elephants", spec.elephant_share)
    udp = _chosen(spec, "udp", spec.udp_share)
    return tuple(_task(spec, pair in elephants, pair in udp) for pair in range(spec.pairs))


def _task(spec: Spec, elephant: bool, udp: bool) -> Task:
    return Task(
        protocol="udp" if udp else "tcp",
        role=("elephant" if elephant else "mouse") if spec.elephant_share else "",
        flow_bytes=spec.elephant_bytes if elephant else spec.flow_bytes,
    )


def _chosen(spec: Spec, what: str, share: float) -> set[int]:
    # Of Python's generator, only the sequence of random() never changes: hence no sample() or shuffle().
    generator = random.Random(f"{what} {spec.seed} {spec.repetition}")
    order = sorted((generator.random(), pair) for pair in range(spec.pairs))
    return {pair for _, pair in order[: round(share * spec.pairs)]}
