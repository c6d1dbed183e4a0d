"""Rules for combinations of a Spec's values. Each raises ValueError with the conflict and an alternative."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from pairlab.model import traffic_parameters
from pairlab.model.spec.fields import Mark, defaults

#: The kernel's weight of a cgroup where none is set (cpu.shares).
USUAL_CPU_SHARES = 1024
LEAST_MTU_BYTES = 576
#: The kernel's delays are in microseconds.
LEAST_DELAY_S = 1e-6


def _others(spec: Any, mark: Mark | None = None, prefix: str = "") -> Iterator[str]:
    """The fields with other values than the default, among those with that mark or prefix."""
    model: type[BaseModel] = type(spec)
    return (name for name, default in defaults(model, mark, prefix).items() if getattr(spec, name) != default)


def require(spec: Any) -> None:
    """Raises ValueError at the first rule that the spec's values break."""
    of_flows = (_intervals_fit, _starts_fit, _flows_fit, _traffic_fits, _ranks_fit)
    for rule in (*of_flows, _limits_fit, _hosts_fit, _disturbances_fit, _launches_fit):
        rule(spec)


def _intervals_fit(spec: Any) -> None:
    if spec.interval_s > spec.duration_s:
        raise ValueError(f"interval_s {spec.interval_s:g} is longer than duration_s {spec.duration_s:g}")
    if abs(spec.warmup_s / spec.interval_s - round(spec.warmup_s / spec.interval_s)) > 1e-6:
        raise ValueError(
            f"warmup_s {spec.warmup_s:g} must be a whole number of intervals of {spec.interval_s:g} s,"
            " as whole intervals are left out"
        )


def _starts_fit(spec: Any) -> None:
    if not spec.start_spacing_s:
        return
    if spec.udp_share:
        raise ValueError(
            "UDP flows have no intervals by which to tell what they carried while all sent:"
            " use start_spacing_s with TCP only"
        )
    apart = f"start_spacing_s {spec.start_spacing_s:g}: the last of {spec.pairs} clients starts after"
    if spec.flows_end and spec.last_due_s >= spec.duration_s:
        raise ValueError(f"{apart} {spec.last_due_s:g} s, when the time of the first is over (duration_s)")
    if not spec.flows_end and spec.duration_s - spec.last_due_s < 2 * spec.interval_s - 1e-9:
        raise ValueError(
            f"{apart} {spec.last_due_s:g} s, and all must send together for two intervals of {spec.interval_s:g} s:"
            f" make duration_s at least {spec.last_due_s + 2 * spec.interval_s:g}"
        )


def _flows_fit(spec: Any) -> None:
    if bool(spec.elephant_share) != bool(spec.elephant_bytes):
        raise ValueError("elephant_share and elephant_bytes belong together: give both or neither")
    if spec.elephant_share and not spec.flow_bytes:
        raise ValueError("elephants need mice: give flow_bytes, the payload of the other clients' flows")
    if spec.flow_bytes and spec.warmup_s:
        raise ValueError("flows of flow_bytes have no warm-up: leave warmup_s at 0")
    if spec.flow_bytes and spec.udp_share:
        raise ValueError("UDP flows have no defined end: use flow_bytes with TCP only")
    if spec.direction != "up" and spec.udp_share:
        raise ValueError(f"direction {spec.direction!r}: UDP flows go up: use it with TCP only")
    if spec.direction == "down" and (spec.link_rate_bps or spec.link_loss):
        name = "link_rate_bps" if spec.link_rate_bps else "link_loss"
        raise ValueError(f"{name}: it limits what clients send, and with direction 'down' servers do: take another one")
    if spec.link_loss and spec.ip_version == 6:
        raise ValueError("link_loss: packets of IPv4 alone are dropped: leave it out, or take ip_version 4")
    if spec.udp_rate_bps and not spec.udp_share:
        raise ValueError("udp_rate_bps needs UDP flows: give udp_share, the share of the clients that send UDP")


def _traffic_fits(spec: Any) -> None:
    if not spec.flow_sizes:
        if name := next(_others(spec, Mark.TRAFFIC), ""):
            raise ValueError(f"{name}: is of flows from a distribution: give flow_sizes, or leave it out")
        return
    if name := next(_others(spec, Mark.OTHERS), ""):
        raise ValueError(f"{name}: says nothing of flows from a distribution: leave it out, or flow_sizes")
    weights = traffic_parameters.fan_outs(spec.fan_out)
    if not sum(weights.values()):
        raise ValueError("fan_out: all weights are 0: give one of them a weight above 0")
    if (most := max(weights)) > spec.pairs:
        servers = f"{spec.pairs} server{'s' * (spec.pairs != 1)}"
        raise ValueError(f"fan_out: a request cannot ask {most} of {servers} (pairs): take more pairs, or a lower one")
    if spec.arrivals == "fixed" and not spec.offered_load_bps:
        raise ValueError("arrivals: in a closed loop a request follows another: give offered_load_bps, or 'poisson'")
    if spec.may_fall_behind and not (spec.offered_load_bps and spec.requests):
        absent = "offered_load_bps, behind which they fall" if spec.requests else "requests, all of which are made"
        raise ValueError(f"may_fall_behind: needs {absent}: give it, or leave may_fall_behind out")


def _ranks_fit(spec: Any) -> None:
    containers = 2 * spec.pairs
    if not spec.ranks or spec.ranks == containers or 2 <= spec.ranks == containers - 1:
        return
    there_are = f"ranks: {spec.pairs} pair{'s' * (spec.pairs != 1)} are {containers} containers"
    if spec.ranks > containers:
        raise ValueError(f"{there_are}, and {spec.ranks} are asked for: give pairs {-(-spec.ranks // 2)}, or ranks 0")
    if spec.ranks < 2:
        raise ValueError("ranks: at least two exchange messages: give 2 or more, or 0 for all containers")
    raise ValueError(f"{there_are}, of which at most one can have no rank: give pairs {-(-spec.ranks // 2)}")


def _limits_fit(spec: Any) -> None:
    if spec.cpu_quota and spec.cpu_quota_of_fair_share:
        raise ValueError("cpu_quota and cpu_quota_of_fair_share are two ways to say one thing: give one of them")
    if bool(spec.priority_share) != bool(spec.priority_cpu_shares):
        raise ValueError("priority_share and priority_cpu_shares belong together: give both or neither")
    if spec.priority_share and spec.priority_cpu_shares == (spec.cpu_shares or USUAL_CPU_SHARES):
        raise ValueError(
            f"priority_cpu_shares: {spec.priority_cpu_shares} is the weight of the other containers, too"
            f" (cpu_shares, by default {USUAL_CPU_SHARES})"
        )
    for name in ("mtu_bytes", "uplink_mtu_bytes"):
        if 0 < (value := getattr(spec, name)) < LEAST_MTU_BYTES:
            raise ValueError(
                f"{name}: must be at least {LEAST_MTU_BYTES}, which each host must take (RFC 791), or 0, not {value}"
            )


def _hosts_fit(spec: Any) -> None:
    if spec.hosts == 1 and spec.placement != "same-host":
        raise ValueError(f"placement {spec.placement!r} needs several hosts: give hosts")
    if spec.placement == "packed-but-one" and spec.hosts != 2:
        raise ValueError(f"placement 'packed-but-one' is for 2 hosts, not {spec.hosts}")
    of_uplinks = [name for name in type(spec).model_fields if "uplink" in name and getattr(spec, name)]
    if spec.hosts == 1 and of_uplinks:
        raise ValueError(f"{of_uplinks[0]}: a single host has no uplink: give hosts")
    if spec.placement == "same-host" and of_uplinks:
        raise ValueError(f"{of_uplinks[0]}: no pair crosses hosts: take another placement than 'same-host'")
    if spec.placement == "same-host" and spec.background_pairs and spec.background_driver:
        raise ValueError(
            "background_driver: no pair crosses hosts, so that the background would share nothing but CPUs with the"
            " others: take another placement than 'same-host', or interference_workers"
        )
    if spec.limited_uplinks > spec.hosts:
        raise ValueError(f"limited_uplinks: there are {spec.hosts} hosts, not {spec.limited_uplinks}")
    if spec.limited_uplinks and not (spec.uplink_rate_bps or spec.uplink_delay_s or spec.uplink_loss):
        limits = "uplink_rate_bps, uplink_delay_s or uplink_loss"
        raise ValueError(f"limited_uplinks: nothing limits uplinks: give {limits}")
    if 0 < spec.uplink_delay_s < LEAST_DELAY_S:
        raise ValueError(f"uplink_delay_s: must be at least {LEAST_DELAY_S:g}, or 0, not {spec.uplink_delay_s:g}")
    if spec.uplink_jitter_s > spec.uplink_delay_s:
        raise ValueError(
            f"uplink_jitter_s {spec.uplink_jitter_s:g} is more than uplink_delay_s {spec.uplink_delay_s:g}:"
            " no packet arrives before it is sent"
        )


def _disturbances_fit(spec: Any) -> None:
    for needed in ("background_pairs", "interference_workers"):
        kind = needed.partition("_")[0]
        if not getattr(spec, needed) and (name := next(_others(spec, prefix=f"{kind}_"), "")):
            default = type(spec).model_fields[name].default
            raise ValueError(f"{name}: there is no {kind}: give {needed}, or leave {name} at {default!r}")


def _launches_fit(spec: Any) -> None:
    if spec.idle_pairs and not spec.launches:
        raise ValueError("idle_pairs: nothing is launched beside them: give launches, or leave it at 0")
    if not spec.launches:
        return
    known = {*_others(spec, Mark.LAUNCHES)}
    if strange := next((name for name in _others(spec) if name not in known), ""):
        raise ValueError(f"{strange}: launches send no traffic: leave it out, or launches")
    if spec.workload not in ("auto", "flowgen"):
        raise ValueError(f"workload: what is launched is flowgen, which waits, and not {spec.workload!r}: leave it out")
