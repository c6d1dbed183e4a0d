"""Claims, one on each kind of effect, and cells whose effect on each is set, so that the verdict is forced."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from scipy import stats

from pairlab.analysis.claims import verdicts
from pairlab.analysis.claims.effect import Effect
from pairlab.analysis.claims.ledger import Claim, Source
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from tests.support.synthetic import bulk, ending, facts_of, measured_at, transacting

REPETITIONS = 5
ACROSS = {"hosts": 2, "placement": "across"}
HALVES = {"driver": "overlay", **ACROSS}


class Case(NamedTuple):
    """An effect, where it is 0 and its margin (both as shown), and what makes its cells of a repetition.

    make: is called with the effect, a source of noise and the repetition; the former two are logarithms of ratios.
    """

    effect: dict
    than: float
    margin: float
    make: Callable


EFFECTS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
CASES: dict[str, Case] = {}


def case(name):
    """Declares what makes the cells of that effect."""

    def declare(make):
        effect = EFFECTS[name].copy()
        CASES[name] = Case(effect, effect.pop("than", 0), effect.pop("margin", 5), make)
        return make

    return declare


def opposed(name, make, base, changed, *, at=({},)):
    """Declares two cells for each setting in `at`: what `make` makes of base, and, by the effect more, of changed."""

    @case(name)
    def cells(effect, noise, repetition):
        for setting in at:
            for shift, spec in ((0.0, base), (effect, base | changed)):
                yield make(np.exp(shift + noise()), repetition=repetition, **setting, **spec)


# --- runs


def throughput(factor, **cell):
    return bulk(np.full(cell.pop("clients", 5), 2.0 * factor), **cell)


def placed(factor, **spec):
    """A run of one pair on one host, or on what else the spec asks for."""
    return throughput(factor, clients=1, **{"experiment": "placement", "driver": "bridge"} | spec)


def launching(factor, **spec):
    """A run of three launches, of which each takes so many times 0.2 s."""
    asked = Spec.stored({"experiment": "launch-time", "workload": "flowgen", "launches": 3, **spec})
    rows = [
        {"launch": n, "pair": 0, "side": "server", "status": "ok", "running_s": 0.1, "ready_s": 0.2 * factor}
        for n in range(3)
    ]
    return Run(asked, "ok", (), measured_at(asked), facts=facts_of(asked), launches=table("launches", rows))


def traffic(factor, smallest=1.0, driver="host", **spec):
    """A run of eight flows from three servers, two of them small: so many times as long, the small ones besides."""
    place = {"experiment": "dc-simulation", "workload": "traffic", "hosts": 3, "placement": "one-to-all"}
    place |= {"uplink_rate_bps": 1e9, "limited_uplinks": 1, "flow_sizes": "prv2-1", "offered_load_bps": 1e9}
    place |= {"requests": 8, "may_fall_behind": spec.get("offered_load_bps", 1e9) > 0}
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
    return Run(asked, "ok", (), measured_at(asked), 0.001, facts=facts_of(asked), flows=table("flows", rows))


def spending(shares, factor=1.0, **spec):
    """A run on an allocation, in which both CPUs spent their time so."""
    parts = {"idle": 1 - sum(shares.values()), **shares}
    samples = [{"cpu": cpu, "start_s": 0.0, "end_s": 2.0, **parts} for cpu in (0, 1)]
    return replace(placed(factor, **spec), cpu=table("cpu", samples))


def in_mode(factor, **spec):
    return throughput(factor, clients=1, **{"experiment": "single-host-modes"} | spec)


def costing(factor, **spec):
    """A run whose transactions take so many times 100 µs of CPU time each."""
    made = spending({"usr": 0.1, "softirq": 0.2}, **{"experiment": "cpu-overhead"} | ACROSS | spec)
    per_s = 2 * 0.3 / (1e-4 * factor)
    flows = made.flows.assign(transactions=round(2 * per_s), transactions_lost=0, transactions_failed=0)
    return replace(made, flows=flows.assign(duration_s=2.0, protocol="udp"))


def sending(factor, **spec):
    """A run of one pair between two hosts that sends messages of 256 B, or of what else the spec asks for."""
    asked = {"experiment": "packet-size", "driver": "overlay", "message_bytes": 256, "workload": "sockperf"}
    return placed(factor, **asked | ACROSS | spec)


def computing(factor, **spec):
    """A run that computes so many times as long."""
    made = throughput(1, clients=1, **{"experiment": "containerization", "workload": "stress-ng-cpu"} | spec)
    metric = {"name": "calculation_s", "unit": "s", "meaning": "time of operations", "less_is_better": True}
    flows = made.flows.assign(calculation_s=2.0 * factor, throughput_bps=np.nan, flow_bytes=np.nan)
    return replace(made, flows=flows, facts={**made.facts, "metrics": [metric]})


def exchanging(factor, **spec):
    """A run in which all containers exchange messages, a round takes so many times 100 µs."""
    spec = {"experiment": "all-to-all", "workload": "all-to-all", "driver": "bridge", "pairs": 2} | spec
    return transacting({100e-6 * factor: 1000}, **spec)


def answering(factor, *, size, **spec):
    """A run of requests and responses of that size, which take so many times 100 µs."""
    sizes = {"request_bytes": size, "response_bytes": size}
    return transacting({1e-4 * factor: 100}, **{"experiment": "single-host-modes"} | sizes | spec)


# --- the cells of each effect


@case("pairs_change")
def by_pairs(effect, noise, repetition):
    drift = np.exp(noise())
    yield throughput(drift, clients=2, repetition=repetition)
    yield throughput(drift * 0.4 * np.exp(effect + noise()), clients=5, repetition=repetition)


@case("pairs_trend")
def by_trend(effect, noise, repetition):
    for count in (2, 4, 8):
        share = np.exp(effect * np.log(count / 2) / np.log(4) + noise())
        yield throughput(share / count, clients=count, repetition=repetition)


@case("pairs_against")
def by_counts(effect, noise, repetition):
    for count, steps in ((2, 0), (4, 1), (8, 1)):
        yield throughput(np.exp(steps * effect + noise()) / count, clients=count, repetition=repetition)


@case("pairs_steps")
def by_steps(effect, noise, repetition):
    for steps, count in enumerate((2, 4, 8)):
        yield throughput(np.exp(steps * effect + noise()) / count, clients=count, repetition=repetition)


opposed("drivers_change", throughput, {"driver": "bridge"}, {"driver": "ovs"})


@case("share")
def by_busy(effect, noise, repetition):
    yield bulk([1, 1], busy=float(np.clip(0.8 + effect + noise(), 0, 1)), repetition=repetition)


@case("correlation")
def by_correlation(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    wanted = np.tanh(effect + noise())
    order = np.arange(30)
    tries = wanted * stats.zscore(order) + np.sqrt(1 - wanted**2) * random.normal(size=(3000, 30))
    ranks = stats.rankdata(tries, axis=1)
    found = ((stats.zscore(ranks, axis=1)) * stats.zscore(order)).mean(axis=1)
    retransmits = 100 + ranks[np.argmin(abs(found - wanted))]
    yield bulk(10 + order, retransmits=retransmits, experiment="retransmissions", repetition=repetition)


@case("percentile_change")
def by_percentile(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    for count, shift in ((10, 0), (20, effect)):
        yield ending(0.1 * np.exp(random.uniform(0, 0.1, count) + shift + noise()), repetition=repetition)


@case("percentile_at_each_count")
def by_percentile_at_each(effect, noise, repetition):
    random = np.random.default_rng(repetition)
    for count in (10, 20):
        times_s = 0.1 * np.exp(random.uniform(0, 0.1, count))
        for driver, shift in (("bridge", 0), ("ovs", effect)):
            yield ending(times_s * np.exp(shift + noise()), driver=driver, repetition=repetition)


@case("experiments_change")
def by_experiment(effect, noise, repetition):
    yield ending(np.linspace(0.1, 0.2, 5) * np.exp(noise()), repetition=repetition)
    mice = np.append(np.linspace(0.1, 0.2, 4) * np.exp(effect + noise()), 5.0)
    yield ending(mice, roles=["mouse"] * 4 + ["elephant"], repetition=repetition)


@case("drivers_spread")
def by_spread(effect, noise, repetition):
    """Of mice one driver leads, of elephants the other: what counts is how far they lie apart."""
    roles = ["mouse"] * 4 + ["elephant"]
    wider = 1.3 * np.exp(effect + noise())
    for driver, mouse, elephant in (("bridge", 1.3, 1.0), ("macvlan", 1.2, 1.1), ("ovs", 1.0, wider)):
        fcts = np.append(np.full(4, 0.1 * mouse), 2.0 * elephant)
        yield ending(fcts, roles=roles, driver=driver, repetition=repetition)


@case("core_ratio_change")
def by_core_ratio(effect, noise, repetition):
    for cores, steps in ((4, 0), (2, 1), (1, 2)):
        fcts = np.full(4, 0.1 * np.exp(steps * effect + noise()))
        yield ending(fcts, experiment="core-ratio", cores=cores, repetition=repetition)


@case("core_ratio_gap")
def by_core_ratio_gap(effect, noise, repetition):
    """One driver leads at first, and the other afterwards."""
    for cores, gap in ((4, 0.5), (2, -0.5 - effect), (1, -0.5 - 2 * effect)):
        for driver, slower in (("bridge", gap + noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.4 / cores * np.exp(slower))
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


@case("core_ratio_gap_ms")
def by_core_ratio_gap_ms(effect, noise, repetition):
    for cores, gap in ((4, 50), (2, -50 - 100 * effect), (1, -50 - 200 * effect)):
        for driver, slower in (("bridge", gap + 100 * noise()), ("ovs", 0.0)):
            fcts = np.full(4, 0.4 / cores + 1e-3 * slower)
            yield ending(fcts, experiment="core-ratio", cores=cores, driver=driver, repetition=repetition)


opposed("drivers_order", throughput, {"driver": "bridge"}, {"driver": "ovs"}, at=({"clients": 2}, {"clients": 5}))
opposed(
    "drivers_at_each_size",
    throughput,
    {"experiment": "message-size", "driver": "bridge"},
    {"driver": "ovs"},
    at=({"message_bytes": 64}, {"message_bytes": 1024}),
)
opposed(
    "drivers_at_each_pinning",
    throughput,
    {"experiment": "pinning", "driver": "bridge"},
    {"driver": "ovs"},
    at=({"pinning": "none"}, {"pinning": "same-core"}),
)
opposed("pinning_change", throughput, {"experiment": "pinning", "pinning": "none"}, {"pinning": "same-core"})


@case("pinning_gap")
def by_pinning_gap(effect, noise, repetition):
    """As pinning changed the total with few pairs, by a half, so it does with many but for the effect."""
    for clients, shift in ((2, 0.0), (5, effect)):
        told = {"clients": clients, "experiment": "pinning", "repetition": repetition}
        yield throughput(np.exp(noise()), pinning="none", **told)
        yield throughput(1.5 * np.exp(shift + noise()), pinning="different-cores", **told)


@case("message_size_trend")
def by_message_size(effect, noise, repetition):
    for doublings in (0, 3, 6):
        size, shift = 1024 << doublings, effect * doublings + noise()
        yield throughput(np.exp(shift), experiment="message-size", message_bytes=size, repetition=repetition)


opposed("udp_change", throughput, {"experiment": "udp", "udp_share": 0.0}, {"udp_share": 1.0})


@case("flows_like_containers")
def by_flows(effect, noise, repetition):
    for count in (2, 3):
        several = np.exp(effect + noise()) * 2
        yield throughput(several, clients=count, flows_per_pair=2, repetition=repetition)
        yield throughput(np.exp(noise()), clients=2 * count, repetition=repetition)


opposed("allocation_drivers", placed, {}, {"driver": "host"})


@case("allocation_drivers_each")
def by_placed_drivers(effect, noise, repetition):
    yield placed(np.exp(noise()), repetition=repetition)
    yield placed(np.exp(effect + noise()), driver="host", repetition=repetition)
    yield placed(np.exp(noise()), driver="macvlan", repetition=repetition)


opposed("launch_change", launching, {"driver": "none"}, {"driver": "bridge"})
opposed("allocation_experiments", placed, {}, {"experiment": "interference", "interference_workers": 2})
opposed("allocations_change", placed, {"driver": "macvlan"}, ACROSS)


@case("allocation_cpu_parts")
def by_cpu_part(effect, noise, repetition):
    yield spending({"usr": 0.2 * np.exp(noise()), "sys": 0.2 * np.exp(effect + noise())}, repetition=repetition)


@case("allocation_cpu_parts_each")
def by_cpu_parts(effect, noise, repetition):
    others = {name: 0.2 * np.exp(noise()) for name in ("usr", "softirq")}
    yield spending(others | {"sys": 0.2 * np.exp(effect + noise())}, repetition=repetition)


@case("traffic_smallest")
def by_smallest_flows(effect, noise, repetition):
    for driver, shift in (("bridge", 0.0), ("host", 0.0), ("overlay", effect)):
        yield traffic(1.0, np.exp(shift + noise()), driver, repetition=repetition)


opposed("traffic_drivers", traffic, {}, {"driver": "overlay"})


@case("mode_change")
def by_mode(effect, noise, repetition):
    for direction in ("up", "down"):  # of the other direction, nothing is asked
        yield in_mode(np.exp(noise()), driver="process", direction=direction, repetition=repetition)
        shift = effect if direction == "down" else 3.0
        yield in_mode(np.exp(shift + noise()), direction=direction, repetition=repetition)


opposed(
    "mode_sizes",
    in_mode,
    {"driver": "process"},
    {"driver": "bridge"},
    at=[{"message_bytes": size} for size in (64, 1024, 65536)],
)
opposed("mode_latencies", answering, {"driver": "process"}, {"driver": "bridge"}, at=({"size": 1}, {"size": 64}))
opposed("containers_change", computing, {"driver": "process"}, {"driver": "bridge"})


@case("protocols_change")
def by_protocol(effect, noise, repetition):
    for driver, shift in (("process", 0.0), ("overlay", effect)):
        yield sending(np.exp(shift + noise()), driver=driver, repetition=repetition)
        yield sending(np.exp(noise()), driver=driver, udp_share=1.0, repetition=repetition)


@case("sizes_change")
def by_packet_size(effect, noise, repetition):
    for driver, shift in (("process", 0.0), ("overlay", effect)):
        yield sending(np.exp(noise()), driver=driver, repetition=repetition)
        yield sending(np.exp(1.0 + shift + noise()), driver=driver, message_bytes=1024, repetition=repetition)


@case("sending_share")
def by_busiest_cpu(effect, noise, repetition):
    busy = float(np.clip(0.8 + effect + noise(), 0, 1))
    asked = {"experiment": "packet-size", "driver": "overlay", "message_bytes": 1024, "workload": "sockperf"}
    yield spending({"softirq": busy}, repetition=repetition, **asked, **ACROSS)


@case("networks_spread")
def by_networks_spread(effect, noise, repetition):
    """In small messages one network leads, in large ones another: what counts is how far they lie apart."""
    narrower = 1.3 * np.exp(effect + noise())
    for driver, small, large in (("overlay", narrower, 1.0), ("nat", 1.0, 1.1), ("bgp", 1.0, 1.3)):
        yield sending(small, driver=driver, message_bytes=64, repetition=repetition)
        yield sending(large, driver=driver, message_bytes=1024, repetition=repetition)


opposed(
    "kinds_change",
    sending,
    {"experiment": "virtualization", "driver": "process", "host_kind": "physical"},
    {"driver": "overlay", "host_kind": "virtual"},
)
opposed("service_demand", costing, {"driver": "process"}, {"driver": "overlay"})


@case("loops_by_servers")
def by_loops_at_servers(effect, noise, repetition):
    for driver, shift in (("process", -0.5), ("overlay", effect - 0.5)):
        told = {"experiment": "interference", "driver": driver, "repetition": repetition, **ACROSS}
        yield placed(np.exp(noise()), **told)
        yield placed(np.exp(shift + noise()), interference_workers=5, interference_where="server", **told)


@case("all_to_all_change")
def by_all_to_all(effect, noise, repetition):
    for pairs in (2, 4):
        yield exchanging(pairs * np.exp(noise()), pairs=pairs, repetition=repetition)
        yield exchanging(pairs * np.exp(effect + noise()), pairs=pairs, repetition=repetition, **HALVES)


@case("all_to_all_gap")
def by_all_to_all_gap(effect, noise, repetition):
    """As the gap was with few containers, 1.5, so it is with many but for the effect."""
    for pairs, shift in ((2, 0.0), (8, effect)):
        yield exchanging(np.exp(noise()), driver="process", pairs=pairs, repetition=repetition)
        yield exchanging(1.5 * np.exp(shift + noise()), pairs=pairs, repetition=repetition)


# --- claims, and what becomes of them


def cells_of(name, effect, spread, *, seed=0, repetitions=REPETITIONS):
    random = np.random.default_rng(seed)
    make = CASES[name].make
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
