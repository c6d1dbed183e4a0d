"""Claims, one on each kind of effect, and cells whose effect on each is set, so that the verdict is forced."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
from scipy import stats

from pairlab.analysis.claims import verdicts
from pairlab.analysis.claims.effect import Effect
from pairlab.analysis.claims.ledger import Claim, Source
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from tests.support.synthetic import FACTS, bulk, ending, transacting

REPETITIONS = 5


def throughput(factor, **cell):
    return bulk(np.full(cell.pop("clients", 5), 2.0 * factor), **cell)


def by_pairs(effect, noise, repetition):
    drift = np.exp(noise())
    yield throughput(drift, clients=2, repetition=repetition)
    yield throughput(drift * 0.4 * np.exp(effect + noise()), clients=5, repetition=repetition)


def by_trend(effect, noise, repetition):
    for count in (2, 4, 8):
        share = np.exp(effect * np.log(count / 2) / np.log(4) + noise())
        yield throughput(share / count, clients=count, repetition=repetition)


def by_driver(effect, noise, repetition):
    yield throughput(np.exp(noise()), driver="bridge", repetition=repetition)
    yield throughput(np.exp(effect + noise()), driver="ovs", repetition=repetition)


def by_busy(effect, noise, repetition):
    yield bulk([1, 1], busy=float(np.clip(0.8 + effect + noise(), 0, 1)), repetition=repetition)


def by_correlation(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    wanted = np.tanh(effect + noise())
    order = np.arange(30)
    tries = wanted * stats.zscore(order) + np.sqrt(1 - wanted**2) * random.normal(size=(3000, 30))
    ranks = stats.rankdata(tries, axis=1)
    found = ((stats.zscore(ranks, axis=1)) * stats.zscore(order)).mean(axis=1)
    retransmits = 100 + ranks[np.argmin(abs(found - wanted))]
    yield bulk(10 + order, retransmits=retransmits, experiment="retransmissions", repetition=repetition)


def by_percentile(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    for count, shift in ((10, 0), (20, effect)):
        yield ending(0.1 * np.exp(random.uniform(0, 0.1, count) + shift + noise()), repetition=repetition)


def by_experiment(effect, noise, repetition):
    yield ending(np.linspace(0.1, 0.2, 5) * np.exp(noise()), repetition=repetition)
    mice = np.append(np.linspace(0.1, 0.2, 4) * np.exp(effect + noise()), 5.0)
    yield ending(mice, roles=["mouse"] * 4 + ["elephant"], repetition=repetition)


def by_spread(effect, noise, repetition):
    """Of mice one driver leads, of elephants the other: what counts is how far they lie apart."""
    roles = ["mouse"] * 4 + ["elephant"]
    wider = 1.3 * np.exp(effect + noise())
    for driver, mouse, elephant in (("bridge", 1.3, 1.0), ("macvlan", 1.2, 1.1), ("ovs", 1.0, wider)):
        fcts = np.append(np.full(4, 0.1 * mouse), 2.0 * elephant)
        yield ending(fcts, roles=roles, driver=driver, repetition=repetition)


def by_core_ratio(effect, noise, repetition):
    for cores, steps in ((4, 0), (2, 1), (1, 2)):
        fcts = np.full(4, 0.1 * np.exp(steps * effect + noise()))
        yield ending(fcts, experiment="core-ratio", cores=cores, repetition=repetition)


def by_core_ratio_gap(effect, noise, repetition):
    """One driver leads at first, and the other afterwards."""
    for cores, gap in ((4, 0.5), (2, -0.5 - effect), (1, -0.5 - 2 * effect)):
        for driver, slower in (("bridge", gap + noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.4 / cores * np.exp(slower))
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


def by_core_ratio_gap_ms(effect, noise, repetition):
    for cores, gap in ((4, 50), (2, -50 - 100 * effect), (1, -50 - 200 * effect)):
        for driver, slower in (("bridge", gap + 100 * noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.4 / cores + 1e-3 * slower)
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


def by_counts(effect, noise, repetition):
    for count, steps in ((2, 0), (4, 1), (8, 1)):
        yield throughput(np.exp(steps * effect + noise()) / count, clients=count, repetition=repetition)


def by_steps(effect, noise, repetition):
    for steps, count in enumerate((2, 4, 8)):
        yield throughput(np.exp(steps * effect + noise()) / count, clients=count, repetition=repetition)


def by_order(effect, noise, repetition):
    for count in (2, 5):
        yield throughput(np.exp(noise()), clients=count, driver="bridge", repetition=repetition)
        yield throughput(np.exp(effect + noise()), clients=count, driver="ovs", repetition=repetition)


def by_order_at(experiment, **settings):
    """By driver, at each of these values of a setting."""
    ((name, values),) = settings.items()

    def make(effect, noise, repetition):
        for value in values:
            told = {"experiment": experiment, "repetition": repetition, name: value}
            yield throughput(np.exp(noise()), driver="bridge", **told)
            yield throughput(np.exp(effect + noise()), driver="ovs", **told)

    return make


def by_udp(effect, noise, repetition):
    for share, shift in ((0.0, 0.0), (1.0, effect)):
        yield throughput(np.exp(shift + noise()), experiment="udp", udp_share=share, repetition=repetition)


def by_flows(effect, noise, repetition):
    for count in (2, 3):
        several = np.exp(effect + noise()) * 2
        yield throughput(several, clients=count, flows_per_pair=2, repetition=repetition)
        yield throughput(np.exp(noise()), clients=2 * count, repetition=repetition)


def by_pinning(effect, noise, repetition):
    for policy, shift in (("none", 0), ("same-core", effect)):
        yield throughput(np.exp(shift + noise()), experiment="pinning", pinning=policy, repetition=repetition)


def by_message_size(effect, noise, repetition):
    for doublings in (0, 3, 6):
        size, shift = 1024 << doublings, effect * doublings + noise()
        yield throughput(np.exp(shift), experiment="message-size", message_bytes=size, repetition=repetition)


def placed(factor, **spec):
    """A run of one pair on one host, or on what else the spec asks for."""
    return throughput(factor, clients=1, **{"experiment": "placement", "driver": "bridge"} | spec)


def by_placed_driver(effect, noise, repetition):
    yield placed(np.exp(noise()), repetition=repetition)
    yield placed(np.exp(effect + noise()), driver="host", repetition=repetition)


def by_placed_drivers(effect, noise, repetition):
    yield from by_placed_driver(effect, noise, repetition)
    yield placed(np.exp(noise()), driver="macvlan", repetition=repetition)


def by_busy_loops(effect, noise, repetition):
    yield placed(np.exp(noise()), repetition=repetition)
    beside = {"experiment": "interference", "interference_workers": 2}
    yield placed(np.exp(effect + noise()), repetition=repetition, **beside)


def by_launched_driver(effect, noise, repetition):
    yield launching(np.exp(noise()), driver="none", repetition=repetition)
    yield launching(np.exp(effect + noise()), driver="bridge", repetition=repetition)


def launching(factor, **spec):
    """A run of three launches, of which each takes so many times 0.2 s."""
    asked = Spec.stored({"experiment": "launch-time", "workload": "flowgen", "launches": 3, **spec})
    rows = [
        {"launch": n, "pair": 0, "side": "server", "status": "ok", "running_s": 0.1, "ready_s": 0.2 * factor}
        for n in range(3)
    ]
    when = datetime(2024, 5, 1, 12, asked.repetition, tzinfo=UTC)
    return Run(asked, "ok", (), when, facts=FACTS, launches=table("launches", rows))


def by_allocation(effect, noise, repetition):
    yield placed(np.exp(noise()), driver="macvlan", repetition=repetition)
    across = {"hosts": 2, "placement": "across"}
    yield placed(np.exp(effect + noise()), driver="macvlan", repetition=repetition, **across)


def by_cpu_part(effect, noise, repetition):
    yield spending({"usr": 0.2 * np.exp(noise()), "sys": 0.2 * np.exp(effect + noise())}, repetition=repetition)


def by_cpu_parts(effect, noise, repetition):
    others = {name: 0.2 * np.exp(noise()) for name in ("usr", "softirq")}
    yield spending(others | {"sys": 0.2 * np.exp(effect + noise())}, repetition=repetition)


def by_smallest_flows(effect, noise, repetition):
    for driver, shift in (("bridge", 0.0), ("host", 0.0), ("overlay", effect)):
        yield traffic(1.0, np.exp(shift + noise()), driver, repetition=repetition)


def by_traffic(effect, noise, repetition):
    yield traffic(np.exp(noise()), repetition=repetition)
    yield traffic(np.exp(effect + noise()), driver="overlay", repetition=repetition)


def exchanging(factor, **spec):
    """A run in which all containers exchange messages, a round takes so many times 100 µs."""
    spec = {"experiment": "all-to-all", "workload": "all-to-all", "driver": "bridge", "pairs": 2} | spec
    return transacting({100e-6 * factor: 1000}, **spec)


HALVES = {"driver": "overlay", "hosts": 2, "placement": "across"}


def by_all_to_all(effect, noise, repetition):
    for pairs in (2, 4):
        yield exchanging(pairs * np.exp(noise()), pairs=pairs, repetition=repetition)
        yield exchanging(pairs * np.exp(effect + noise()), pairs=pairs, repetition=repetition, **HALVES)


def by_all_to_all_gap(effect, noise, repetition):
    """As the gap was with few containers, 1.5, so it is with many but for the effect."""
    for pairs, shift in ((2, 0.0), (8, effect)):
        yield exchanging(np.exp(noise()), driver="process", pairs=pairs, repetition=repetition)
        yield exchanging(1.5 * np.exp(shift + noise()), pairs=pairs, repetition=repetition)


def traffic(factor, smallest=1.0, driver="host", **spec):
    """A run of eight flows from three servers, two of them small: so many times as long, the small ones besides."""
    place = {"experiment": "dc-simulation", "workload": "traffic", "hosts": 3, "placement": "one-to-all"}
    place |= {"uplink_rate_bps": 1e9, "limited_uplinks": 1, "flow_sizes": "prv2-1", "offered_load_bps": 1e9}
    asked = Spec.stored({**place, "pairs": 3, "driver": driver, "duration_s": 60.0, **spec})
    rows = [
        {
            "pair": number % 3,
            "flow": number,
            "request": number,
            "status": "ok",
            "intended_start_s": 0.1 * number,
            "start_s": 0.1 * number,
            "size_bytes": 80 if number < 2 else 1e6,
            "fct_s": 0.2 * factor,
        }
        for number in range(8)
    ]
    rows[-1]["completed_s"] = 2.0 * factor  # of the last
    for row in rows[:2]:
        row["fct_s"] *= smallest
    for row in rows:
        row["intended_fct_s"] = row["fct_s"]
    when = datetime(2024, 5, 1, 12, asked.repetition, tzinfo=UTC)
    return Run(asked, "ok", (), when, 0.001, facts=FACTS, flows=table("flows", rows))


def spending(shares, factor=1.0, **spec):
    """A run on an allocation, in which both CPUs spent their time so."""
    parts = {"idle": 1 - sum(shares.values()), **shares}
    samples = [{"cpu": cpu, "start_s": 0.0, "end_s": 2.0, **parts} for cpu in (0, 1)]
    return replace(placed(factor, **spec), cpu=table("cpu", samples))


def in_mode(factor, **spec):
    return throughput(factor, clients=1, **{"experiment": "single-host-modes"} | spec)


def by_mode(effect, noise, repetition):
    for direction in ("up", "down"):  # of the other direction, nothing is asked
        yield in_mode(np.exp(noise()), driver="process", direction=direction, repetition=repetition)
        shift = effect if direction == "down" else 3.0
        yield in_mode(np.exp(shift + noise()), direction=direction, repetition=repetition)


def by_mode_and_size(effect, noise, repetition):
    for size in (64, 1024, 65536):
        told = {"message_bytes": size, "repetition": repetition}
        yield in_mode(np.exp(noise()), driver="process", **told)
        yield in_mode(np.exp(effect + noise()), **told)


def by_latency_and_size(effect, noise, repetition):
    for size in (1, 64):
        told = {"experiment": "single-host-modes", "request_bytes": size, "response_bytes": size}
        told |= {"repetition": repetition}
        yield transacting({1e-4 * np.exp(noise()): 100}, driver="process", **told)
        yield transacting({1e-4 * np.exp(effect + noise()): 100}, driver="bridge", **told)


ACROSS = {"hosts": 2, "placement": "across"}


def costing(cost_s, driver, **spec):
    """A run whose transactions take so much CPU time each."""
    asked = {"experiment": "cpu-overhead", "driver": driver, **ACROSS, **spec}
    made = spending({"usr": 0.1, "softirq": 0.2}, **asked)
    per_s = 2 * 0.3 / cost_s
    flows = made.flows.assign(transactions=round(2 * per_s), transactions_lost=0, transactions_failed=0)
    return replace(made, flows=flows.assign(duration_s=2.0, protocol="udp"))


def by_demand(effect, noise, repetition):
    yield costing(1e-4 * np.exp(noise()), "process", repetition=repetition)
    yield costing(1e-4 * np.exp(effect + noise()), "overlay", repetition=repetition)


def by_loops_at_servers(effect, noise, repetition):
    for driver, shift in (("process", -0.5), ("overlay", effect - 0.5)):
        told = {"experiment": "interference", "driver": driver, "repetition": repetition, **ACROSS}
        yield placed(np.exp(noise()), **told)
        yield placed(np.exp(shift + noise()), interference_workers=5, interference_where="server", **told)


def sending(factor, **spec):
    """A run of one pair between two hosts that sends messages of 256 B, or of what else the spec asks for."""
    asked = {"experiment": "packet-size", "driver": "overlay", "message_bytes": 256, "workload": "sockperf"}
    return placed(factor, **asked | ACROSS | spec)


def by_protocol(effect, noise, repetition):
    for driver, shift in (("process", 0.0), ("overlay", effect)):
        yield sending(np.exp(shift + noise()), driver=driver, repetition=repetition)
        yield sending(np.exp(noise()), driver=driver, udp_share=1.0, repetition=repetition)


def by_packet_size(effect, noise, repetition):
    for driver, shift in (("process", 0.0), ("overlay", effect)):
        yield sending(np.exp(noise()), driver=driver, repetition=repetition)
        yield sending(np.exp(1.0 + shift + noise()), driver=driver, message_bytes=1024, repetition=repetition)


def by_kind(effect, noise, repetition):
    told = {"experiment": "virtualization", "repetition": repetition}
    yield sending(np.exp(noise()), driver="process", host_kind="physical", **told)
    yield sending(np.exp(effect + noise()), host_kind="virtual", **told)


def computing(factor, **spec):
    """A run that computes so many times as long."""
    made = throughput(1, clients=1, **{"experiment": "containerization", "workload": "stress-ng-cpu"} | spec)
    metric = {"name": "calculation_s", "unit": "s", "meaning": "time of operations", "less_is_better": True}
    flows = made.flows.assign(calculation_s=2.0 * factor, throughput_bps=np.nan, flow_bytes=np.nan)
    return replace(made, flows=flows, facts={**made.facts, "metrics": [metric]})


def by_containers(effect, noise, repetition):
    yield computing(np.exp(noise()), driver="process", repetition=repetition)
    yield computing(np.exp(effect + noise()), repetition=repetition)


#: The effect, where it is 0, the margin (both as shown), and what makes its cells.
CASES = {
    "pairs_change": (
        {"of": {"experiment": "throughput", "driver": "bridge", "pairs": 5}, "over": {"pairs": 2}},
        0,
        5,
        by_pairs,
    ),
    "pairs_against": (
        {"of": {"experiment": "throughput", "driver": "bridge"}, "over": {"pairs": 2}, "each": {"pairs": "3 to 8"}},
        0,
        5,
        by_counts,
    ),
    "pairs_steps": (
        {
            "of": {"experiment": "throughput", "driver": "bridge"},
            "over": {"pairs": "previous"},
            "each": {"pairs": "1 to 10"},
        },
        0,
        5,
        by_steps,
    ),
    "pairs_trend": (
        {"of": {"experiment": "throughput", "driver": "bridge", "pairs": ["least", "most"]}, "along": "pairs"},
        0,
        5,
        by_trend,
    ),
    "drivers_change": (
        {"of": {"experiment": "throughput", "driver": "ovs", "pairs": 5}, "over": {"driver": "bridge"}},
        0,
        5,
        by_driver,
    ),
    "share": (
        {"quantity": "busy", "of": {"experiment": "throughput", "driver": "bridge", "pairs": 2}},
        0.8,
        0.04,
        by_busy,
    ),
    "correlation": (
        {"quantity": "spearman_z", "of": {"experiment": "retransmissions", "driver": "bridge", "pairs": 30}},
        0,
        0.08,
        by_correlation,
    ),
    "percentile_change": (
        {"quantity": "fct_p90_s", "of": {"experiment": "fct", "driver": "bridge", "pairs": 20}, "over": {"pairs": 10}},
        0,
        5,
        by_percentile,
    ),
    "experiments_change": (
        {
            "quantity": "mouse_max_s",
            "of": {"experiment": "elephant-mice", "driver": "bridge", "pairs": "most"},
            "over": {"experiment": "fct", "quantity": "fct_max_s"},
        },
        0,
        5,
        by_experiment,
    ),
    "drivers_order": (
        {"of": {"experiment": "throughput", "driver": "ovs"}, "over": {"driver": "bridge"}, "each": {"pairs": "all"}},
        0,
        5,
        by_order,
    ),
    "drivers_at_each_size": (
        {
            "of": {"experiment": "message-size", "driver": "ovs"},
            "over": {"driver": "bridge"},
            "each": {"message_bytes": "all"},
        },
        0,
        5,
        by_order_at("message-size", message_bytes=(64, 1024)),
    ),
    "drivers_at_each_pinning": (
        {
            "of": {"experiment": "pinning", "driver": "ovs"},
            "over": {"driver": "bridge"},
            "each": {"pinning": "all"},
        },
        0,
        5,
        by_order_at("pinning", pinning=("none", "same-core")),
    ),
    "drivers_spread": (
        {
            "quantity": "elephant_median_s",
            "of": {"experiment": "elephant-mice", "driver": ["bridge", "macvlan", "ovs"], "pairs": 5},
            "over": {"quantity": "mouse_median_s"},
        },
        1,
        0.05,
        by_spread,
    ),
    "core_ratio_change": (
        {
            "quantity": "fct_mean_s",
            "of": {"experiment": "core-ratio", "driver": "bridge"},
            "over": {"containers_per_core": "previous"},
            "each": {"containers_per_core": "all"},
        },
        0,
        5,
        by_core_ratio,
    ),
    "core_ratio_gap": (
        {
            "quantity": "fct_mean_s",
            "of": {"experiment": "core-ratio", "driver": ["bridge", "ovs"]},
            "over": {"containers_per_core": "previous"},
            "each": {"containers_per_core": "all"},
        },
        0,
        5,
        by_core_ratio_gap,
    ),
    "core_ratio_gap_ms": (
        {
            "quantity": "fct_mean_s",
            "of": {"experiment": "core-ratio", "driver": ["bridge", "ovs"]},
            "over": {"containers_per_core": "previous"},
            "each": {"containers_per_core": "all"},
            "difference": True,
        },
        0,
        5,
        by_core_ratio_gap_ms,
    ),
    "pinning_change": (
        {
            "of": {"experiment": "pinning", "driver": "bridge", "pairs": "most", "pinning": "same-core"},
            "over": {"pinning": "none"},
        },
        0,
        5,
        by_pinning,
    ),
    "message_size_trend": (
        {"of": {"experiment": "message-size", "driver": "bridge"}, "along": "message_bytes"},
        0,
        5,
        by_message_size,
    ),
    "udp_change": (
        {
            "of": {"experiment": "udp", "driver": "bridge", "pairs": "most", "udp_share": 1.0},
            "over": {"udp_share": 0.0},
        },
        0,
        5,
        by_udp,
    ),
    "allocation_drivers": (
        {"of": {"experiment": "placement", "allocation": 1, "driver": "host"}, "over": {"driver": "bridge"}},
        0,
        5,
        by_placed_driver,
    ),
    "allocation_drivers_each": (
        {
            "of": {"experiment": "placement", "allocation": 1, "driver": "host"},
            "over": {"driver": ["bridge", "macvlan"]},
        },
        0,
        5,
        by_placed_drivers,
    ),
    "launch_change": (
        {
            "quantity": "launch_mean_s",
            "of": {"experiment": "launch-time", "driver": "bridge", "hosts": "most"},
            "over": {"driver": "none"},
        },
        0,
        5,
        by_launched_driver,
    ),
    "allocation_experiments": (
        {
            "of": {"experiment": "interference", "allocation": 1, "driver": "bridge"},
            "over": {"experiment": "placement"},
        },
        0,
        5,
        by_busy_loops,
    ),
    "allocations_change": (
        {"of": {"experiment": "placement", "allocation": 2, "driver": "macvlan"}, "over": {"allocation": 1}},
        0,
        5,
        by_allocation,
    ),
    "allocation_cpu_parts": (
        {
            "quantity": "sys",
            "of": {"experiment": "placement", "allocation": 1, "driver": "bridge"},
            "over": {"quantity": "usr"},
        },
        0,
        5,
        by_cpu_part,
    ),
    "allocation_cpu_parts_each": (
        {
            "quantity": "sys",
            "of": {"experiment": "placement", "allocation": 1, "driver": "bridge"},
            "over": {"quantity": ["usr", "softirq"]},
        },
        0,
        5,
        by_cpu_parts,
    ),
    "traffic_smallest": (
        {
            "quantity": "smallest_median_s",
            "of": {
                "experiment": "dc-simulation",
                "driver": "overlay",
                "pairs": "most",
                "offered_load_bps": 1e9,
                "flows_per_pair": None,
            },
            "over": {"driver": ["host", "bridge"]},
        },
        0,
        5,
        by_smallest_flows,
    ),
    "traffic_drivers": (
        {
            "quantity": "fct_all_s",
            "of": {
                "experiment": "dc-simulation",
                "driver": "overlay",
                "pairs": "most",
                "offered_load_bps": 1000000000.0,
                "flows_per_pair": None,
            },
            "over": {"driver": "host"},
        },
        0,
        5,
        by_traffic,
    ),
    "mode_change": (
        {
            "of": {"experiment": "single-host-modes", "driver": "bridge", "message_bytes": 0, "direction": "down"},
            "over": {"driver": "process"},
        },
        0,
        5,
        by_mode,
    ),
    "mode_sizes": (
        {
            "of": {"experiment": "single-host-modes", "driver": "bridge"},
            "over": {"driver": "process"},
            "each": {"message_bytes": "all"},
        },
        0,
        5,
        by_mode_and_size,
    ),
    "mode_latencies": (
        {
            "quantity": "latency_mean_s",
            "of": {"experiment": "single-host-modes", "driver": "bridge"},
            "over": {"driver": "process"},
            "each": {"request_bytes": "all"},
        },
        0,
        5,
        by_latency_and_size,
    ),
    "containers_change": (
        {
            "quantity": "calculation_s",
            "of": {"experiment": "containerization", "driver": "bridge", "hosts": 1},
            "over": {"driver": "process"},
        },
        0,
        5,
        by_containers,
    ),
    "protocols_change": (
        {
            "of": {"experiment": "packet-size", "driver": "overlay", "message_bytes": 256, "udp_share": 0.0},
            "over": {"udp_share": 1.0},
            "against": {"driver": "process"},
        },
        0,
        5,
        by_protocol,
    ),
    "sizes_change": (
        {
            "of": {"experiment": "packet-size", "driver": "overlay", "message_bytes": 1024},
            "over": {"message_bytes": 256},
            "against": {"driver": "process"},
        },
        0,
        5,
        by_packet_size,
    ),
    "kinds_change": (
        {
            "of": {"experiment": "virtualization", "driver": "overlay", "host_kind": "virtual", "message_bytes": 256},
            "over": {"driver": "process", "host_kind": "physical"},
        },
        0,
        5,
        by_kind,
    ),
    "service_demand": (
        {
            "quantity": "service_demand_s",
            "of": {"experiment": "cpu-overhead", "driver": "overlay"},
            "over": {"driver": "process"},
        },
        0,
        5,
        by_demand,
    ),
    "loops_by_servers": (
        {
            "of": {
                "experiment": "interference",
                "driver": "overlay",
                "interference_workers": 5,
                "interference_load": 1.0,
                "interference_where": "server",
            },
            "over": {"interference_workers": 0, "interference_load": None, "interference_where": None},
            "against": {"driver": "process"},
        },
        0,
        5,
        by_loops_at_servers,
    ),
    "all_to_all_change": (
        {
            "quantity": "latency_mean_s",
            "of": {"experiment": "all-to-all", "driver": "overlay", "hosts": 2, "placement": "across"},
            "over": {"driver": "bridge", "hosts": 1, "placement": "same-host"},
            "each": {"pairs": "all"},
        },
        0,
        5,
        by_all_to_all,
    ),
    "all_to_all_gap": (
        {
            "quantity": "latency_mean_s",
            "of": {
                "experiment": "all-to-all",
                "driver": "bridge",
                "hosts": 1,
                "placement": "same-host",
                "pairs": "most",
            },
            "over": {"driver": "process"},
            "against": {"pairs": "least"},
        },
        0,
        5,
        by_all_to_all_gap,
    ),
    "flows_like_containers": (
        {
            "of": {"experiment": "throughput", "driver": "bridge"},
            "over": {"flows_per_pair": 1},
            "each": {"flows_per_pair": "all"},
        },
        0,
        5,
        by_flows,
    ),
}


def cells_of(name, effect, spread, *, seed=0, repetitions=REPETITIONS):
    random = np.random.default_rng(seed)
    make = CASES[name][3]
    return [
        each for repetition in range(repetitions) for each in make(effect, lambda: random.normal(0, spread), repetition)
    ]


def claim_of(name, *, claimed="more", **changes):
    effect, than, margin, _ = CASES[name]
    values = {
        "id": f"made-up-{name.replace('_', '-')}",
        "statement": "it is so",
        "sources": (Source(paper="C", where="figure 1"),),
        "effect": Effect(**changes.pop("effect", effect)),
        "claimed": claimed,
        "than": float(than),
        "margin": float(margin),
        "published": None,
        "note": "",
        "false_if": "it is not so",
    }
    return Claim(**(values | changes))


def recorded(run, **network):
    """The run on a host that recorded this of its network, such as datapath; None: that it did not record it."""
    facts = {**run.facts["network"], **network}
    return replace(
        run, facts={**run.facts, "network": {name: value for name, value in facts.items() if value is not None}}
    )


def verdict_on(name, cells, **claim):
    found = verdicts.evaluate(Runs(tuple(cells)), claims=[claim_of(name, **claim)])
    assert len(found) == 1
    return found.iloc[0]


def rare(tries):
    """The share of so many tries that may be wrong where 2.5 % are: three standard errors above that."""
    return 0.025 + 3 * np.sqrt(0.025 * 0.975 / tries)
