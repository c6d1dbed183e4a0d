"""What a Spec says of itself, in words."""

from typing import Any

from pairlab.base import html_repr, units
from pairlab.model import traffic_parameters


def particulars(spec: Any) -> list[str]:
    """What this measurement has beyond one TCP flow per pair, in words, one phrase for each."""
    phrases = [
        (spec.twin, "twin"),
        (spec.start_spacing_s, f"starts {units.with_prefix(spec.start_spacing_s, 's')} apart"),
        (spec.elephant_share, f"{spec.elephant_share * 100:g} % elephants of {spec.elephant_bytes:,} B"),
        (spec.flows_per_pair > 1, f"{spec.flows_per_pair} flows per pair"),
        (spec.direction != "up", "in both directions" if spec.direction == "both" else "from servers to clients"),
        (spec.message_bytes, f"messages of {spec.message_bytes:,} B"),
        (spec.request_bytes, f"requests of {spec.request_bytes:,} B"),
        (spec.response_bytes, f"responses of {spec.response_bytes:,} B"),
        (spec.requests_per_s, f"{spec.requests_per_s:g} requests/s per client"),
        (spec.connect_per_request, "a connection per request"),
        (spec.flow_sizes, f"flow sizes {traffic_parameters.describe(spec.flow_sizes)}"),
        (spec.flow_sizes, f"{_load(spec)}"),
        (spec.requests, f"{spec.requests:,} requests"),
        (spec.fan_out != "1", f"fan-out {spec.fan_out}"),
        (spec.arrivals != "poisson", "at fixed gaps"),
        (spec.may_fall_behind, "which may fall behind"),
        (spec.ranks, f"{spec.ranks} ranks"),
        (spec.udp_share, f"{spec.udp_share * 100:g} % UDP"),
        (spec.udp_rate_bps, f"at {spec.udp_rate_bps / 1e6:g} Mbit/s"),
        (spec.ip_version == 6, "over IPv6"),
        (spec.congestion_control, spec.congestion_control),
        (spec.cores, f"{spec.cores} core{'s' * (spec.cores != 1)}"),
        (spec.pinning != "none", f"pinned to {spec.pinning}"),
        (spec.cpu_quota, f"{spec.cpu_quota:g} CPUs per container"),
        (spec.cpu_quota_of_fair_share, f"{spec.cpu_quota_of_fair_share:g} of the fair CPU share per container"),
        (spec.cpu_shares, f"{spec.cpu_shares} CPU shares"),
        (spec.priority_share, f"{spec.priority_share * 100:g} % with {spec.priority_cpu_shares} CPU shares"),
        (spec.mtu_bytes, f"MTU {spec.mtu_bytes:,} B"),
        (spec.cpus_awake, "CPUs kept awake"),
        (not spec.telemetry, "without telemetry"),
        (spec.profile, "profiled"),
        (spec.capture, f"packets captured in {spec.capture.replace(',', ' and ')}"),
        (spec.link_rate_bps, f"links of {spec.link_rate_bps / 1e6:g} Mbit/s"),
        (spec.link_loss, f"{spec.link_loss * 100:g} % loss"),
        (spec.hosts > 1, f"{spec.hosts} hosts, {spec.placement}"),
        (spec.host_kind, f"hosts called {spec.host_kind}"),
        (spec.uplink_rate_bps, f"uplinks of {spec.uplink_rate_bps / 1e6:g} Mbit/s"),
        (spec.uplink_delay_s, f"uplinks that delay by {units.with_prefix(spec.uplink_delay_s, 's')}"),
        (spec.uplink_jitter_s, f"± {units.with_prefix(spec.uplink_jitter_s, 's')}"),
        (spec.uplink_loss, f"uplinks that lose {spec.uplink_loss * 100:g} %"),
        (spec.limited_uplinks, f"on the last {_count(spec.limited_uplinks, 'host')} only"),
        (spec.uplink_mtu_bytes, f"uplinks with MTU {spec.uplink_mtu_bytes:,} B"),
        (
            spec.background_pairs,
            f"beside {_count(spec.background_pairs, 'background pair')} of {spec.background_workload}"
            + " over the hosts' own network" * bool(spec.background_driver),
        ),
        (spec.launches, _count(spec.launches, "launch", "es")),
        (spec.idle_pairs, f"beside {_count(spec.idle_pairs, 'idle pair')}"),
        (spec.interference_workers, f"beside {_interference(spec)}"),
    ]
    return [text for given, text in phrases if given]


def _interference(spec: Any) -> str:
    where = {"client": "clients'", "server": "servers'", "both": "clients' and the servers'"}[spec.interference_where]
    resting = f", each {spec.interference_load * 100:g} % of a CPU" if spec.interference_load < 1 else ""
    each = " each of" if spec.hosts > 1 else ""
    loop = "busy loop" if spec.interference_tool == "flowgen" else f"{spec.interference_tool} CPU stressor"
    return f"{_count(spec.interference_workers, loop)}{resting} on{each} the {where} host{'s' * (spec.hosts > 1)}"


def _load(spec: Any) -> str:
    return f"{spec.offered_load_bps / 1e6:g} Mbit/s offered" if spec.offered_load_bps else "in a closed loop"


def card(spec: Any) -> str:
    return html_repr.summary(
        f"{_count(spec.pairs, 'pair')} over {spec.driver}",
        [
            ("experiment", spec.experiment),
            ("backend", spec.backend),
            ("traffic", f"{spec.workload}, {_lasts(spec)}"),
            ("also", ", ".join(particulars(spec))),
            (
                "invalid if",
                ""
                if spec.launches
                else f"clients start more than {units.with_prefix(spec.max_skew_s, 's')} apart"
                f"{' beyond that' if spec.start_spacing_s else ''}, or other processes use more than"
                f" {spec.max_foreign_cpu * 100:g} % of the CPU time",
            ),
            ("repetition", f"{spec.repetition}, with seed {spec.seed}"),
            ("key", spec.key),
        ],
        badge="spec",
    )


def _lasts(spec: Any) -> str:
    within = f"{spec.duration_s:g} s"
    if spec.requests:
        return f"{spec.requests:,} requests, which have {within}"
    if spec.flow_bytes:
        return f"flows of {units.with_prefix(spec.flow_bytes, 'B')} each, which have {within}"
    return f"{within} after a warm-up of {spec.warmup_s:g} s" if spec.warmup_s else within


def line(spec: Any) -> str:
    """The cell in a line, as it differs from the others of its sweep."""
    lasts = f"{spec.flow_bytes:,} B each" if spec.flow_bytes else f"{spec.duration_s:g} s"
    also = "".join(f", {text}" for text in particulars(spec))
    return (
        f"{spec.experiment}: {spec.workload} over {spec.driver}, {spec.pairs} pair{'s' * (spec.pairs != 1)},"
        f" {lasts}{also}, repetition {spec.repetition} ({spec.backend})"
    )


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number:,} {what}{plural if number != 1 else ''}"
