"""Data in which a finding is true, or false in a way that a mean, a sign or a single client hides."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis import published
from pairlab.analysis.claims import ledger, report, verdicts
from pairlab.store.dataset import Runs
from tests.support.claimed import recorded, verdict_on
from tests.support.synthetic import bulk, ending

pytestmark = pytest.mark.whole  # tables of runs for each: seconds in all

CLAIMS = {claim.id: claim for claim in ledger.load()}


def verdicts_of(cells, *ids):
    """The verdicts on claims of the ledger itself, on a host as the papers' was."""
    cells = [recorded(each, datapath="system" if each.spec.driver == "ovs" else None) for each in cells]
    found = verdicts.evaluate(Runs(tuple(cells)), claims=[CLAIMS[name] for name in ids])
    return found.set_index("id")["verdict"].to_dict()


def table_of_paper_e(names):
    """Runs that carry what table I has, of drivers by these names."""
    for row in published.load("throughput").itertuples():
        for repetition in range(4):
            noise = 1 + 0.0005 * np.cos(7 * repetition + row.pairs + len(row.driver))
            rates = np.full(row.pairs, noise * row.client_bps / 1e9)
            made = {"driver": names[row.driver], "repetition": repetition, "duration_s": 60.0, "interval_s": 1.0}
            yield bulk(rates, workload="iperf", **made)


ORDER = ("ovs-over-macvlan", "macvlan-over-bridge", "ovs-over-bridge")


@pytest.mark.whole
def test_what_paper_e_measured_makes_its_statements_hold():
    names = {name: name for name in ("bridge", "macvlan", "ovs")}
    ids = [f"{kind}-{driver}" for kind in ("total-stays-level", "client-falls") for driver in names]
    ids += ["macvlan-gains", "macvlan-passes-ovs", *ORDER]
    assert verdicts_of(table_of_paper_e(names), *ids) == dict.fromkeys(ids, "holds")


@pytest.mark.parametrize(
    ("pairs", "expected"), [((10, 50), "holds"), ((10, 50, 150), "holds"), ((100, 150), "not measured")]
)
def test_what_paper_c_states_up_to_50_pairs_is_not_judged_by_more(pairs, expected):
    """A quarter more up to 50 pairs, and nothing beyond."""
    cells = totals(dict.fromkeys(pairs, 56.0)) + totals(
        {count: 70.0 if count <= 50 else 56.0 for count in pairs}, driver="ovs"
    )
    assert verdicts_of(cells, "saturation-ratio") == {"saturation-ratio": expected}


@pytest.mark.whole
def test_what_paper_e_measured_of_other_drivers_contradicts_their_order():
    turned = {"bridge": "ovs", "macvlan": "macvlan", "ovs": "bridge"}
    found = verdicts_of(table_of_paper_e(turned), *ORDER, "macvlan-passes-ovs", "saturation-ratio")
    assert found == dict.fromkeys(ORDER, "contradicted") | {
        "macvlan-passes-ovs": "holds",
        "saturation-ratio": "contradicted",
    }


def totals(by_pairs, driver="bridge", **spec):
    """Runs whose totals are these, in Gbit/s, with a noise of some permille."""
    return [
        bulk(np.full(pairs, total / pairs * (1 + 0.002 * np.cos(3 * repetition + pairs))), driver=driver, **asked)
        for repetition in range(4)
        for pairs, total in by_pairs.items()
        for asked in [{"repetition": repetition, **spec}]
    ]


def test_a_total_that_is_level_from_end_to_end_over_a_hump_is_not_level():
    humped = {10: 50, 20: 65, 30: 65, 50: 50}
    assert verdicts_of(totals(humped), "total-stays-level-bridge") == {"total-stays-level-bridge": "contradicted"}
    level = {10: 50, 20: 51, 30: 52, 50: 50}
    assert verdicts_of(totals(level), "total-stays-level-bridge") == {"total-stays-level-bridge": "holds"}
    ends = {10: 50, 50: 50}
    assert verdicts_of(totals(ends), "total-stays-level-bridge") == {"total-stays-level-bridge": "not comparable"}


def test_a_total_that_is_as_high_with_two_pairs_does_not_rise_up_to_five():
    ids = ("total-rises-bridge", "total-dips-bridge")
    as_stated = {1: 20, 2: 35, 5: 60, 8: 55, 10: 55}
    assert verdicts_of(totals(as_stated), *ids) == dict.fromkeys(ids, "holds")
    early = {1: 20, 2: 62, 5: 60, 8: 62, 10: 55}
    assert verdicts_of(totals(early), *ids) == dict.fromkeys(ids, "contradicted")


def test_a_client_that_gets_more_at_one_step_contradicts_that_it_falls_with_every_pair():
    falls, once_up = {10: 50, 20: 50, 50: 50}, {10: 50, 20: 110, 50: 110}
    assert verdicts_of(totals(falls), "client-falls-bridge") == {"client-falls-bridge": "holds"}
    assert verdicts_of(totals(once_up), "client-falls-bridge") == {"client-falls-bridge": "contradicted"}


def elephants_and_mice(mouse_s, elephant_s, repetitions=4):
    """Runs of 50 pairs in which mice and elephants take these times over each driver."""
    roles = ["mouse"] * 40 + ["elephant"] * 10
    for repetition in range(repetitions):
        for driver in mouse_s:
            noise = 1 + 0.01 * np.cos(5 * repetition + len(driver) + np.arange(50))
            times = np.repeat([mouse_s[driver], elephant_s[driver]], [40, 10]) * noise
            yield ending(times, roles=roles, driver=driver, repetition=repetition)


NARROW, WIDE = {"bridge": 1.1, "macvlan": 1.05, "ovs": 1.0}, {"bridge": 2.0, "macvlan": 1.5, "ovs": 1.0}


@pytest.mark.parametrize("leader", ["bridge", "ovs"])
def test_the_drivers_lie_closer_for_mice_whichever_of_them_leads(leader):
    def turned(times_s):
        return times_s if leader == "ovs" else {driver: 1 / time_s for driver, time_s in times_s.items()}

    name = "drivers-differ-less-for-mice"
    as_stated = elephants_and_mice(turned(NARROW), turned(WIDE))
    assert verdicts_of(as_stated, name) == {name: "holds"}
    reverse = elephants_and_mice(turned(WIDE), turned(NARROW))
    assert verdicts_of(reverse, name) == {name: "contradicted"}


def test_mice_that_are_many_times_slower_over_ovs_do_not_count_as_a_smaller_lead():
    """As over the userspace datapath: OVS is 15 times slower for mice, and 3 times for elephants."""
    mice, elephants = {"bridge": 0.1, "macvlan": 0.1, "ovs": 1.5}, {"bridge": 1.0, "macvlan": 1.0, "ovs": 3.0}
    found = verdicts_of(elephants_and_mice(mice, elephants), "drivers-differ-less-for-mice", "mice-ovs-below-bridge")
    assert found == {"drivers-differ-less-for-mice": "contradicted", "mice-ovs-below-bridge": "contradicted"}


def test_spreads_that_differ_by_noise_alone_decide_nothing():
    random, roles = np.random.default_rng(2), ["mouse"] * 40 + ["elephant"] * 10
    cells = []
    for repetition in range(3):
        for driver in NARROW:
            times = np.exp(random.normal(0, 0.5, 50) + random.normal(0, 0.3))
            cells.append(ending(times, roles=roles, driver=driver, repetition=repetition))
    assert verdicts_of(cells, "drivers-differ-less-for-mice") == {"drivers-differ-less-for-mice": "undecided"}


def plain_flows(times_s, repetitions=4):
    for repetition in range(repetitions):
        for driver in times_s:
            noise = 1 + 0.01 * np.cos(5 * repetition + len(driver) + np.arange(50))
            yield ending(times_s[driver] * noise, driver=driver, repetition=repetition)


def test_the_drivers_lie_closer_with_elephants_than_without():
    name = "drivers-closer-with-elephants"
    stated = [*plain_flows(WIDE), *elephants_and_mice(NARROW, WIDE)]
    assert verdicts_of(stated, name) == {name: "holds"}
    reverse = [*plain_flows(NARROW), *elephants_and_mice(WIDE, WIDE)]
    assert verdicts_of(reverse, name) == {name: "contradicted"}


@pytest.mark.parametrize(("times", "verdict"), [(2.2, "holds"), (1.3, "contradicted"), (0.5, "contradicted")])
def test_elephants_that_lengthen_the_longest_mouse_by_less_than_double_do_not_double_it(times, verdict):
    slower = {driver: times * time_s for driver, time_s in NARROW.items()}
    cells = [*plain_flows(NARROW), *elephants_and_mice(slower, WIDE)]
    ids = [f"elephants-slow-mice-{driver}" for driver in NARROW]
    assert verdicts_of(cells, *ids) == dict.fromkeys(ids, verdict)


def by_ratio(fcts_s):
    """Runs at 2, 6 and 12 containers per core, whose FCTs are these by driver."""
    for repetition in range(4):
        for driver, times_s in fcts_s.items():
            for pairs, time_s in zip((2, 6, 12), times_s, strict=True):
                noise = 1 + 0.01 * np.cos(5 * repetition + len(driver) + pairs)
                spec = {"experiment": "core-ratio", "cores": 2, "driver": driver, "repetition": repetition}
                yield ending(np.full(pairs, time_s * noise), **spec)


FCT_IDS = ("core-ratio-fct-bridge", "core-ratio-fct-doubles", "core-ratio-gap-fct", "core-ratio-gap-fct-ms")


def test_fct_that_rises_at_every_step_and_drivers_that_part_at_every_step_are_as_stated():
    rising = {"bridge": (0.1, 0.25, 0.7), "macvlan": (0.09, 0.2, 0.5), "ovs": (0.08, 0.15, 0.3)}
    assert verdicts_of(by_ratio(rising), *FCT_IDS) == dict.fromkeys(FCT_IDS, "holds")
    turned = {"bridge": rising["ovs"], "macvlan": rising["macvlan"], "ovs": rising["bridge"]}
    gaps = ("core-ratio-gap-fct", "core-ratio-gap-fct-ms")
    assert verdicts_of(by_ratio(turned), *gaps) == dict.fromkeys(gaps, "holds")  # whichever driver is the slower one


def test_a_step_down_among_three_ratios_contradicts_what_first_and_last_would_show():
    dips = {"bridge": (0.1, 0.08, 0.9), "macvlan": (0.09, 0.079, 0.6), "ovs": (0.05, 0.078, 0.3)}
    assert verdicts_of(by_ratio(dips), *FCT_IDS) == dict.fromkeys(FCT_IDS, "contradicted")


def test_a_mean_step_that_doubles_does_not_make_every_step_double():
    uneven = {"bridge": (0.1, 0.13, 0.9), "macvlan": (0.1, 0.1, 0.1), "ovs": (0.1, 0.1, 0.1)}
    found = verdicts_of(by_ratio(uneven), "core-ratio-fct-doubles", "core-ratio-fct-bridge")
    assert found == {"core-ratio-fct-doubles": "contradicted", "core-ratio-fct-bridge": "holds"}


def test_a_single_client_makes_no_correlation_of_ranks_and_its_leverage_is_told():
    """As iperf3 once measured: Pearson's r is 0.96, as one client has both, and the others' ranks are random."""
    cells = []
    for repetition in range(4):
        random = np.random.default_rng(repetition)
        rates, retransmits = random.normal(1, 0.02, 50), random.permutation(np.arange(50.0))
        rates[0], retransmits[0] = 5.0, 2000.0
        cells.append(bulk(rates, retransmits=retransmits, experiment="retransmissions", repetition=repetition))
    effect = {"quantity": "spearman_z", "of": {"experiment": "retransmissions", "driver": "bridge", "pairs": 50}}
    row = verdict_on("correlation", cells, effect=effect, claimed="more", margin=0.1)
    assert row["verdict"] == "undecided"
    assert abs(row["value"]) < 0.3
    told = row["notes"]
    assert float(told.split("Pearson's r ")[1].split()[0]) > 0.9
    assert float(told.split("by up to ")[1].split(";")[0]) > 0.7


@pytest.mark.parametrize(("duration_s", "turned", "expected"), [
    (120.0, 1, ("holds", "not comparable")),
    (120.0, -1, ("contradicted", "not comparable")),
    (60.0, 1, ("not comparable", "contradicted")),
    (60.0, -1, ("not comparable", "holds")),
    (2.0, 1, ("not comparable", "contradicted")),
])  # fmt: skip
def test_retransmissions_need_runs_of_more_than_a_minute(duration_s, turned, expected):
    cells = []
    for repetition in range(4):
        random = np.random.default_rng(repetition)
        rates = random.normal(1, 0.1, 50)
        counts = 1000 + turned * 500 * (rates - 1) + random.normal(0, 20, 50)
        spec = {"experiment": "retransmissions", "repetition": repetition, "duration_s": duration_s}
        cells.append(bulk(rates, retransmits=counts, **spec))
    ids = ("retransmits-with-throughput", "retransmits-need-more-than-a-minute")
    assert tuple(verdicts_of(cells, *ids).values()) == expected


@pytest.mark.parametrize(("duration_s", "expected"), [(60.0, "holds"), (2.0, "not comparable")])
def test_unfairness_is_of_runs_of_a_minute(duration_s, expected):
    cells = []
    for repetition in range(4):
        rates = np.linspace(0.6, 1.6, 50) * (1 + 0.01 * repetition)
        rates[0] *= 1 - 0.02 * repetition
        cells.append(bulk(rates, repetition=repetition, duration_s=duration_s))
    assert verdicts_of(cells, "clients-unfair-bridge") == {"clients-unfair-bridge": expected}


@pytest.mark.parametrize(("least", "expected"), [(0.6, "holds"), (1.4, "contradicted")])
def test_unfairness_is_read_from_long_runs_of_another_experiment_where_the_own_are_short(least, expected):
    cells = []
    for repetition in range(4):
        rates = np.linspace(least, 1.6, 50) * (1 + 0.01 * repetition)
        rates[0] *= 1 - 0.02 * repetition
        even = np.full(50, 1.0)
        cells.append(bulk(even, repetition=repetition, duration_s=10.0))
        cells.append(bulk(rates, repetition=repetition, duration_s=120.0, experiment="retransmissions"))
    assert verdicts_of(cells, "clients-unfair-bridge") == {"clients-unfair-bridge": expected}


@pytest.mark.parametrize(("growth", "expected"), [(1.313, "holds"), (1.5, "holds in direction"), (0.7, "contradicted")])
def test_a_percentile_is_read_from_another_experiment_where_the_own_has_too_few_flows(growth, expected):
    def cells(experiment, repetitions, factor):
        for repetition in range(repetitions):
            for pairs in (10, 50):
                noise = 1 + 0.01 * np.cos(3 * repetition + pairs)
                times_s = np.linspace(0.1, 0.2, pairs) * noise * (factor if pairs == 50 else 1)
                yield ending(times_s, experiment=experiment, repetition=repetition)

    few, enough = list(cells("fct", 9, 1 / growth)), list(cells("starting", 10, growth))
    assert verdicts_of(few, "fct-p99-grows-bridge") == {"fct-p99-grows-bridge": "undecided"}
    assert verdicts_of(few + enough, "fct-p99-grows-bridge") == {"fct-p99-grows-bridge": expected}


@pytest.mark.whole
def test_of_several_settings_a_single_one_on_the_other_side_contradicts_and_one_that_is_unsure_leaves_open():
    sizes = (64, 1024, 16384, 65507)

    def cells(lead, spread=0.002):
        for repetition in range(4):
            for at, size in enumerate(sizes):
                for driver, factor in (("bridge", 1.0), ("ovs", lead[at])):
                    noise = 1 + spread * np.cos(3 * repetition + at + len(driver))
                    spec = {"driver": driver, "message_bytes": size, "repetition": repetition}
                    yield bulk(np.full(4, factor * noise), experiment="message-size", **spec)

    name = "message-size-ovs-over-bridge"
    assert verdicts_of(cells((1.3, 1.3, 1.3, 1.3)), name) == {name: "holds"}
    assert verdicts_of(cells((1.5, 1.5, 0.8, 1.5)), name) == {name: "contradicted"}
    assert verdicts_of(cells((0.7, 0.7, 0.7, 0.7)), name) == {name: "contradicted"}
    assert verdicts_of(cells((1.3, 1.3, 1.01, 1.3), spread=0.03), name) == {name: "undecided"}


@pytest.mark.parametrize(("factor", "expected"), [(0.8, "holds"), (1.2, "contradicted"), (1.0, "contradicted")])
def test_udp_carries_less_where_its_runs_carry_less(factor, expected):
    cells = []
    for share, carried in ((0.0, 1.0), (1.0, factor), (0.5, 9.0)):
        made = totals({10: 10 * carried}, experiment="udp", udp_share=share)
        cells += [replace(each, flows=each.flows.assign(datagrams_sent=1e4, datagrams_lost=10.0)) for each in made]
    assert verdicts_of(cells, "udp-slower-bridge") == {"udp-slower-bridge": expected}
    assert verdicts_of(totals({10: 10}), "udp-slower-bridge") == {"udp-slower-bridge": "not measured"}


def test_several_flows_are_compared_with_as_many_pairs():
    cells = totals({10: 50, 40: 40})
    name = "flows-like-containers-bridge"
    assert verdicts_of([*cells, *totals({10: 40}, flows_per_pair=4)], name) == {name: "holds"}
    assert verdicts_of([*cells, *totals({10: 50}, flows_per_pair=4)], name) == {name: "contradicted"}
    assert verdicts_of(cells, name) == {name: "not measured"}


@pytest.mark.parametrize(("cost", "expected"), [(0.7, "holds"), (1.4, "contradicted"), (1.0, "contradicted")])
def test_ovs_uses_less_cpu_where_a_gigabyte_costs_less(cost, expected):
    cells = []
    for repetition in range(4):
        for driver, share in (("bridge", 0.6), ("ovs", 0.6 * cost)):
            made = bulk(np.full(20, 1.0), busy=share * (1 + 0.001 * repetition), driver=driver, repetition=repetition)
            made.flows["flow_bytes"] = 1e9
            made.cpu["usr"] = 1 - made.cpu["idle"]
            for part in ("sys", "softirq", "irq", "steal"):
                made.cpu[part] = 0.0
            cells.append(made)
    assert verdicts_of(cells, "ovs-cpu-below-bridge") == {"ovs-cpu-below-bridge": expected}


def test_the_spread_within_a_run_is_that_of_its_shortest_and_longest_flow():
    for longest_s, expected in ((3.5, "holds"), (1.5, "contradicted")):
        cells = [
            ending(np.linspace(0.9, longest_s, 100) * (1 + 0.01 * each), repetition=each, driver="macvlan")
            for each in range(4)
        ]
        assert verdicts_of(cells, "fct-spread-within-a-run-macvlan") == {"fct-spread-within-a-run-macvlan": expected}


def test_a_number_of_repetitions_that_nobody_would_measure_is_not_printed():
    random = np.random.default_rng(5)
    cells = [
        bulk(np.full(20, factor * np.exp(random.normal(0, 0.3))), driver=driver, repetition=repetition)
        for repetition in range(8)
        for driver, factor in (("bridge", 1.0), ("macvlan", 1.05))
    ]
    found = verdicts.evaluate(Runs(tuple(cells)), claims=[CLAIMS["macvlan-over-bridge"]])
    row = found.iloc[0]
    assert row["verdict"] == "undecided"
    assert row["repetitions_needed"] > 100
    assert "more than this host can decide" in report.display(found)["Of"].iloc[0]
    assert str(row["repetitions_needed"]) not in report.display(found)["Of"].iloc[0]
    assert report.values(found, Runs(tuple(cells)))["macvlan-over-bridge/netns-flowgen/needed"] == (
        "more than this host can decide"
    )


@pytest.mark.parametrize(
    ("claim", "cells", "reason"),
    [
        ("total-stays-level-bridge", {10: 50, 20: 51, 30: 52, 50: 50}, "inside 0.0 % ± 10.0 %"),
        ("total-stays-level-bridge", {10: 50, 20: 65, 30: 65, 50: 50}, "outside 0.0 % ± 10.0 %"),
        ("total-rises-bridge", {1: 20, 2: 35, 5: 60, 8: 55, 10: 55}, "below 0.0 %"),
        ("total-rises-bridge", {1: 20, 2: 75, 5: 60, 8: 62, 10: 55}, "above 0.0 %"),
        ("total-rises-bridge", {1: 20, 2: 60, 5: 60, 8: 62, 10: 55}, "within 0.0 % ± 5.0 %"),
    ],
)
def test_a_verdict_says_where_its_interval_lies(claim, cells, reason):
    cells = [recorded(each) for each in totals(cells)]
    (row,) = verdicts.evaluate(Runs(tuple(cells)), claims=[CLAIMS[claim]]).to_dict("records")
    assert row["reason"] == reason
