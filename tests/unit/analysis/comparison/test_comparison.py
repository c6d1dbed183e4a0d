"""Runs compared by one parameter: what is held against what, the numbers, and the words."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pairlab.analysis import cell_estimates, repetitions, selection
from pairlab.analysis.comparison import gate, noise_floor
from pairlab.analysis.comparison.cells import varied
from pairlab.analysis.comparison.compute import compare
from pairlab.errors import AnalysisError, BadInput, UnknownName
from pairlab.store.dataset import Runs
from tests.support.synthetic import ending, run, transacting


def group(driver, totals_gbps, first=0, **spec):
    """A run for each of these totals, in repetitions of their own."""
    return [run([total], driver=driver, repetition=first + at, **spec) for at, total in enumerate(totals_gbps)]


BRIDGE = group("bridge", [10.0, 10.2, 9.9, 10.1, 10.0])
FASTER = group("macvlan", [11.5, 11.6, 11.2, 11.7, 11.3])


# --- the numbers


def test_a_change_is_that_of_the_geometric_means_with_students_interval_of_the_paired_logarithms():
    (found,) = compare([*BRIDGE, *FASTER])
    ratios = np.log([made.total_throughput_bps for made in FASTER]) - np.log(
        [made.total_throughput_bps for made in BRIDGE]
    )
    low, high = stats.t.interval(0.95, 4, ratios.mean(), stats.sem(ratios))
    assert (found.change, found.low, found.high) == pytest.approx(
        [100 * math.expm1(x) for x in (ratios.mean(), low, high)]
    )
    assert (found.pairing, found.n, found.verdict) == ("by block", (5, 5), "better")
    assert found.other.level == pytest.approx(np.mean([made.total_throughput_bps for made in FASTER]))


def test_repetitions_that_the_two_do_not_share_are_independent_groups():
    (found,) = compare([*BRIDGE, *group("macvlan", [11.5, 11.6, 11.2, 11.7], first=7)])
    expected = stats.ttest_ind(np.log([11.5, 11.6, 11.2, 11.7]), np.log([10.0, 10.2, 9.9, 10.1, 10.0]), equal_var=False)
    assert (found.low, found.high) == pytest.approx([100 * math.expm1(x) for x in expected.confidence_interval()])
    assert (found.pairing, found.n) == ("unpaired", (4, 5))
    assert "(unpaired, n = 4 and 5 repetitions)" in found.words


def test_repetitions_of_one_side_only_are_left_out_and_told_where_the_rest_is_paired():
    (found,) = compare([*BRIDGE, *FASTER[:3]])
    assert (found.pairing, found.n) == ("by block", (3, 3))
    assert found.notes == ("2 of 5 runs of bridge are of blocks that the other side lacks",)


def test_runs_that_differ_only_in_what_judges_them_are_alike():
    lenient = group("macvlan", [11.5, 11.6, 11.2, 11.7, 11.3], max_skew_s=1.0, max_foreign_cpu=1.0)
    assert compare([*BRIDGE, *lenient])[0].change == compare([*BRIDGE, *FASTER])[0].change


def test_two_runs_of_one_repetition_are_two_runs_and_nothing_is_paired():
    again = group("macvlan", [11.4], max_skew_s=1.0)
    (found,) = compare([*BRIDGE, *FASTER, *again])
    assert (found.pairing, found.n) == ("unpaired", (6, 5))


def test_the_default_of_a_parameter_is_the_base_and_another_can_be_named():
    three = [*FASTER, *BRIDGE, *group("ovs", [4.0, 4.1, 4.0])]
    assert [(made.base.value, made.other.value) for made in compare(three)] == [
        ("bridge", "macvlan"),
        ("bridge", "ovs"),
    ]
    assert [made.other.value for made in compare(three, base="ovs")] == ["bridge", "macvlan"]
    with pytest.raises(BadInput, match=r"base: no run that is ok has driver 'hub'; there are: .*bridge.*ovs"):
        compare(three, base="hub")
    assert compare([*FASTER, *three[-3:]])[0].base.value == "macvlan"


def test_any_parameter_can_be_compared_by():
    some = group("bridge", [10, 10.1, 10.2]) + group("bridge", [8, 8.1, 8.2], pinning="same-core")
    (found,) = compare(some, by="pinning")
    assert found.words.startswith("pinning same-core is 19.8 % slower than pinning none, 95 % interval 19.")


def test_each_cell_is_compared_within_itself_and_told_apart():
    totals = {"bridge": (20, 21, 20), "macvlan": (25, 26, 25)}
    many = [
        run([each / 5] * 5, driver=name, repetition=at) for name, of in totals.items() for at, each in enumerate(of)
    ]
    found = compare([*BRIDGE, *FASTER, *many])
    assert [found.where(each) for each in found] == ["1 pair", "5 pairs"]
    assert str(found).splitlines()[1].startswith("5 pairs: macvlan is 24.6 % faster than bridge")


def test_hosts_are_never_compared_with_each_other():
    elsewhere = [replace(made, facts={"host": {"fingerprint": "another"}}) for made in FASTER]
    with pytest.raises(AnalysisError, match=r"no two of the 10 runs differ in driver alone, but also in host \("):
        compare([*BRIDGE, *elsewhere])


def on(made, **host):
    """Those runs as if they had been measured on such a host."""
    return [replace(each, facts={"host": {"cpu_model": "a CPU", "cpus": 4, "kernel": "6.1", **host}}) for each in made]


def test_kernels_are_compared_the_older_one_first_by_its_numbers():
    runs = [*on(BRIDGE, kernel="6.18"), *on(FASTER, kernel="6.18"), *on(BRIDGE, kernel="6.2")]
    (found,) = compare([each for each in runs if each.spec.driver == "bridge"], by="kernel")
    assert (found.base.value, found.other.value, found.change) == ("6.2", "6.18", 0)
    assert "kernel 6.18 and kernel 6.2 cannot be told apart" in found.words
    faster = [replace(each, spec=each.spec.replace(driver="bridge")) for each in on(FASTER, kernel="6.18")]
    (found,) = compare([*on(BRIDGE, kernel="6.2"), *faster], by="kernel")
    assert found.words.startswith(
        "kernel 6.18 is 14 % faster than kernel 6.2, 95 % interval 12 to 17 % (unpaired, n = 5 and 5 repetitions)"
    )
    assert found.notes == ()
    assert compare(runs, by="driver")[0].alike["kernel"] == "6.18"


def test_what_else_differs_between_two_kernels_is_noted():
    old = [replace(each, facts=each.facts | {"versions": {each.spec.workload: "1.0"}}) for each in on(BRIDGE)]
    new = [
        replace(each, facts=each.facts | {"versions": {each.spec.workload: "1.1"}})
        for each in on(BRIDGE, kernel="6.18")
    ]
    assert compare([*old, *new], by="kernel")[0].notes == ("they differ in tool, too",)


@pytest.mark.parametrize("other", ["ba9876543210", ""])
def test_runs_of_another_machine_and_of_one_that_was_not_recorded_are_not_compared(other):
    assert len(compare([*on(BRIDGE, machine="0123456789ab"), *on(FASTER, machine="0123456789ab")])) == 1
    with pytest.raises(AnalysisError, match="differ in driver alone"):
        compare([*on(BRIDGE, machine="0123456789ab"), *on(FASTER, machine=other)])


def test_backends_are_compared_and_never_pooled_and_that_is_said():
    (found,) = compare([*BRIDGE, *group("bridge", [9, 9.1, 9.2, 9, 9.1], backend="docker")], by="backend")
    assert (found.base.value, found.other.value) == ("netns", "docker")
    assert "never pooled" in str(found)


# --- flows with an end


def fcts(driver, times_s, **spec):
    return [ending([time_s] * 3, driver=driver, repetition=at, **spec) for at, time_s in enumerate(times_s)]


def test_of_flows_with_an_end_less_is_better_and_the_words_are_of_time():
    (found,) = compare([*fcts("bridge", [0.10, 0.11, 0.10]), *fcts("macvlan", [0.13, 0.145, 0.13])])
    assert (found.measure, found.verdict) == ("fct_median_s", "worse")
    assert found.words.startswith("macvlan takes 30 % longer than bridge, 95 % interval 25 to 35 %")
    assert found.words.endswith("(median FCT, n = 3 repetitions)")
    (found,) = compare([*fcts("bridge", [0.10, 0.11, 0.10]), *fcts("ovs", [0.35, 0.36, 0.34])])
    assert found.words.startswith("ovs takes 3.5 times as long as bridge, 95 % interval ")
    assert " times (median FCT" in found.words


def test_another_measure_can_be_asked_for_and_one_that_is_missing_is_told():
    slow = [*fcts("bridge", [0.1, 0.1, 0.1]), *fcts("macvlan", [0.2, 0.21, 0.2])]
    assert compare(slow, measure="fct_max_s")[0].measure == "fct_max_s"
    with pytest.raises(AnalysisError, match="bridge has no total throughput above zero"):
        compare(slow, measure="total_bps")


def answered(driver, latencies_us, lost=0, slowest_us=900):
    """A run for each of these median latencies, of 1,000 transactions each."""
    return [
        transacting({us * 1e-6: 980, slowest_us * 1e-6: 20}, lost=lost, driver=driver, repetition=at)
        for at, us in enumerate(latencies_us)
    ]


def test_transactions_are_compared_by_their_median_latency_unless_another_measure_is_asked_for():
    runs = [*answered("bridge", [20, 21, 20]), *answered("macvlan", [26, 29, 26], slowest_us=1800)]
    (found,) = compare(runs)
    assert (found.measure, found.verdict) == ("latency_p50_s", "worse")
    ratios = np.log([26 / 20, 29 / 21, 26 / 20])
    low, high = stats.t.interval(0.95, 2, ratios.mean(), stats.sem(ratios))
    assert (found.low, found.high) == pytest.approx([100 * math.expm1(low), 100 * math.expm1(high)])
    assert found.words.endswith("(median latency, n = 3 repetitions)")
    assert dict(found.rows)["bridge, median latency"] == "20.33 µs"
    (tail,) = compare(runs, measure="latency_p99_s")
    assert tail.change == pytest.approx(100)
    (rate,) = compare(runs, measure="transactions_per_s")
    assert (rate.change, dict(rate.rows)["bridge, transactions per second"]) == (0, "1,000 transactions/s")


def test_a_side_whose_slow_transactions_were_lost_is_not_the_faster_one():
    runs = [*answered("bridge", [20, 21, 20]), *answered("macvlan", [20, 21, 20], lost=100)]
    with pytest.raises(AnalysisError, match=r"3 of 3 runs of macvlan have no p99 latency: .* were lost \(300\)"):
        compare(runs, measure="latency_p99_s")


@pytest.mark.parametrize(
    ("lost", "verdict"), [((0.06, 0.06), "worse"), ((0.01, 0.06), "undecided"), ((0.06, 0.01), "undecided")]
)
def test_a_percentile_is_not_told_apart_by_the_requests_that_others_may_have_held_up(lost, verdict):
    """Of 1,000 requests 20 are slow: who has 5 % more of the CPUs' time may have held up all of them, and no median."""
    runs = [
        replace(made, checks={"others_cpu": share})
        for share, side in zip(lost, (("bridge", 900), ("macvlan", 1800)), strict=True)
        for made in answered(side[0], [20, 20.2, 20.1, 20], slowest_us=side[1])
    ]
    (tail,) = compare(runs, measure="latency_p99_s")
    assert (tail.verdict, tail.change) == (verdict, pytest.approx(100))
    assert any("which alone may make them differ by" in note for note in tail.notes) == (verdict == "undecided")
    column = "latency_p99_s"
    rows = repetitions.table(Runs(tuple(runs)), quantities=[column])
    by = [name for name in selection.CELL if name != "driver"]
    (asked,) = cell_estimates.changes(rows, by, column, setting="driver", against="bridge").itertuples()
    assert [asked.low, asked.high] == pytest.approx([tail.low, tail.high], abs=0.1)  # histograms blur by 0.05 %
    (median,) = compare(runs, measure="latency_p50_s")
    assert 100 * math.expm1(-0.06) < median.low < median.high < 100 * math.expm1(0.06)


def times_out(driver, times_s, failed, repetitions=3):
    """50 pairs that take these times, of which the last `failed` are not complete in time."""
    return [
        ending(np.linspace(0.9, 1.1, 50) * times_s, failed=failed, driver=driver, repetition=at)
        for at in range(repetitions)
    ]


def test_a_side_whose_slow_flows_failed_is_not_the_faster_one():
    whole, cut = times_out("bridge", 8.0, 0), times_out("macvlan", 6.0, 30)
    with pytest.raises(AnalysisError) as caught:
        compare([*whole, *cut])
    assert str(caught.value) == (
        "Not compared: 3 of 3 runs of macvlan have no median FCT: 90 of their 150 flows failed (the first: not complete"
        " in time), and it depends on how long these would have taken."
    )


def test_one_repetition_whose_flows_failed_is_not_left_out_to_compare_the_others():
    some = [*times_out("macvlan", 6.0, 0)[:2], times_out("macvlan", 6.0, 30)[2]]
    (found,) = compare([*times_out("bridge", 8.0, 0), *some])
    (whole,) = compare([*times_out("bridge", 8.0, 0), *times_out("macvlan", 6.0, 0)])
    times_s = np.concatenate(
        [np.linspace(0.9, 1.1, 50) * 6.0] * 2 + [np.r_[np.linspace(0.9, 1.1, 50)[:20] * 6, [99] * 30]]
    )
    assert found.other.level == pytest.approx(np.median(times_s))  # the failed flows stand beyond the others
    assert found.change > whole.change
    assert found.n == (3, 3)
    assert "30 of 150 flows of macvlan failed, counted as longer than all others" in found.notes


def test_what_failed_flows_hide_in_one_cell_is_told_beside_what_is_compared_in_others():
    some = [*fcts("bridge", [0.10, 0.11, 0.10]), *fcts("macvlan", [0.13, 0.145, 0.13])]
    found = compare([*some, *times_out("bridge", 8.0, 0), *times_out("macvlan", 6.0, 30)])
    assert [each.alike["pairs"] for each in found] == [3]
    assert found.left_out[0].startswith("Not compared: 3 of 3 runs of macvlan have no median FCT: 90 of")


def test_failed_flows_stand_beyond_the_median_and_are_counted_on_each_side():
    (found,) = compare([*times_out("bridge", 8.0, 5), *times_out("macvlan", 8.0, 20)])
    assert found.base.level == found.other.level == pytest.approx(8.0)
    assert found.notes == (
        "15 of 150 flows of bridge failed, counted as longer than all others",
        "60 of 150 flows of macvlan failed, counted as longer than all others",
    )
    with pytest.raises(AnalysisError, match="3 of 3 runs of bridge have no p99 FCT: 15 of their 150 flows failed"):
        compare([*times_out("bridge", 8.0, 5), *times_out("macvlan", 8.0, 20)], measure="fct_p99_s")


def test_failed_flows_of_a_throughput_are_told_to_count_as_zero():
    lost = [run([5.0, 5.0], failed=1, driver="macvlan", repetition=at) for at in range(3)]
    (found,) = compare([*(run([5.0, 5.0], repetition=at) for at in range(3)), *lost])
    assert found.change == pytest.approx(-50)
    assert found.notes == ("3 of 6 flows of macvlan failed, counted as zero",)


# --- the words


def test_a_difference_reads_as_a_sentence_with_its_interval_and_n():
    (found,) = compare([*BRIDGE, *FASTER])
    assert found.words == "macvlan is 14.1 % faster than bridge, 95 % interval 12.6 to 15.7 % (n = 5 repetitions)"
    (found,) = compare([*BRIDGE, *FASTER], base="macvlan")
    assert found.words == "bridge is 12.4 % slower than macvlan, 95 % interval 11.2 to 13.6 % (n = 5 repetitions)"


def test_more_pairs_get_more_together():
    more = [run([each] * 10, repetition=at) for at, each in enumerate((1.24, 1.25, 1.26))]
    (found,) = compare([*group("bridge", [10.0, 10.0, 10.0]), *more], by="pairs")
    assert found.words.startswith("10 pairs together get 25 % more than 1 pair")


def test_what_cannot_be_told_apart_has_its_interval_and_what_would_tell():
    (found,) = compare([*BRIDGE, *group("macvlan", [10.9, 9.4, 10.6, 9.9, 10.2])])
    assert found.verdict == "undecided"
    assert found.words.startswith(
        "macvlan and bridge cannot be told apart: +1 %, 95 % interval −7 to 10 % (n = 5 repetitions)"
    )
    needed = int(found.words.split("about ")[1].split()[0])
    assert needed == pytest.approx(found.repetitions_needed, rel=0.05)
    assert found.repetitions_needed > 5
    assert found.words.endswith(" repetitions would show 5 %")
    (found,) = compare([*BRIDGE, *group("macvlan", [10.05, 10.15, 9.95, 10.0, 10.05])])
    assert found.verdict == "undecided"
    assert found.words.endswith("; 5 % would most likely have shown")


def test_one_run_each_or_two_that_tell_nothing_have_a_difference_and_no_interval():
    (found,) = compare([BRIDGE[0], FASTER[0]])
    assert found.words == "macvlan got 15 % more than bridge in one run each: no interval; repeat it"
    assert (found.verdict, math.isnan(found.low)) == ("no interval", True)
    (found,) = compare([*fcts("bridge", [0.1]), *fcts("macvlan", [0.25])])
    assert (
        found.words == "macvlan took 2.5 times as long as bridge in one run each (median FCT): no interval; repeat it"
    )
    (found,) = compare([*BRIDGE, FASTER[0]])
    assert found.words.endswith("in one run against 5 runs: no interval; repeat it")
    (found,) = compare([*BRIDGE[:2], *group("macvlan", [10.4, 9.7])])
    assert (found.verdict, found.repetitions_needed) == ("no interval", None)
    assert found.words.endswith("in 2 runs each: no interval; repeat it")


def test_equal_values_are_no_difference():
    (found,) = compare([*BRIDGE, *group("macvlan", [10.0, 10.2, 9.9, 10.1, 10.0])])
    assert (found.change, found.low, found.high, found.verdict) == (0, 0, 0, "undecided")
    assert found.words.startswith("macvlan and bridge cannot be told apart: 0.00 %")


def test_a_bound_that_is_not_zero_is_not_shown_as_zero():
    (found,) = compare([*group("bridge", [10, 10, 10]), *group("macvlan", [10.497, 10.833, 11.180])])
    assert found.verdict == "better"
    assert 0 < found.low < 0.5
    assert " interval 0.2 to " in found.words


# --- the noise floor


def test_a_difference_below_the_noise_floor_of_the_host_is_none(monkeypatch):
    class Noisy:
        def floor(self, contrast, *rest):
            assert (contrast.measure, contrast.pairs, *rest) == ("total_bps", (1, 1), "flowgen", 5, {})
            return noise_floor.NoiseFloor(0.1, math.log(1.3))

    monkeypatch.setattr(noise_floor, "of_runs", lambda runs: {"netns": Noisy()})
    (found,) = compare(Runs((*BRIDGE, *FASTER)))
    assert found.verdict == "below the noise"
    assert found.words.startswith("macvlan and bridge cannot be told apart: +14.1 %, 95 % interval 12.6 to 15.7 %")
    assert found.words.endswith("; the noise floor of this host is 30.0 % at so many")
    assert found.repetitions_needed > 20


def test_runs_under_special_parameters_are_held_to_the_noise_of_such_runs_alone(monkeypatch):
    def noise_of(spread, **parameters):
        values = {"first": 10 * (1.0,), "second": tuple(np.exp(spread * np.linspace(-1, 1, 10)))}
        told = {"driver": "bridge", "workload": "flowgen", "pairs": 1, "duration_s": 2.0, "measure": "total_bps"}
        return noise_floor.Cell(**told, **values, parameters=parameters)

    def under(*cells, **asked):
        record = noise_floor.Calibration.model_construct(cells=cells)
        monkeypatch.setattr(noise_floor, "of_runs", lambda runs: {"netns": record})
        sides = [replace(made, spec=made.spec.replace(**asked)) for made in (*BRIDGE, *FASTER)]
        (found,) = compare(Runs(tuple(sides)))
        return found

    quiet, noisy = noise_of(0.01), noise_of(0.5, cpu_quota=0.1)
    assert under(quiet, noisy).verdict == "better"
    assert under(quiet, noisy).notes == ()
    assert under(quiet, noisy, cpu_quota=0.1).verdict == "below the noise"
    other = under(quiet, noisy, cpu_quota=0.2)
    assert (other.verdict, math.isnan(other.floor)) == ("better", True)
    assert other.notes == (
        "no noise floor is recorded under these parameters:"
        " `pairlab calibrate --backend netns -p cpu_quota 0.2` records one",
    )


def test_the_noise_floor_is_that_beside_the_runs_however_they_were_chosen(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(noise_floor, "of_runs", lambda runs: asked.append(runs.root) or {})
    stored = [replace(made, path=tmp_path / "throughput" / made.key) for made in (*BRIDGE, *FASTER)]
    compare(stored)
    compare([*stored[1:], BRIDGE[0]])
    compare(Runs(tuple(stored), root=tmp_path / "whole"))
    assert asked == [tmp_path, None, tmp_path / "whole"]


# --- what is not compared


def test_runs_that_are_not_ok_are_left_out_and_told_with_their_reason():
    bad = run([12.0], driver="macvlan", repetition=5, status="invalid", reasons=("others took 30 % of the CPU",))
    found = compare([*BRIDGE, *FASTER, bad])
    assert found[0].n == (5, 5)
    assert len(found.left_out) == 1
    assert found.left_out[0].startswith("Left out, as invalid: 1 run, the first: throughput: flowgen over macvlan")
    assert "others took 30 % of the CPU" in found.left_out[0]


def test_what_has_no_partner_is_told():
    found = compare([*BRIDGE, *FASTER, run([1.0] * 5, driver="ovs")])
    assert len(found) == 1
    assert (
        "Not compared, as nothing to hold it against differs in driver alone: ovs (throughput, netns, 5 pairs"
        in str(found)
    )


def test_runs_that_differ_in_more_are_refused_with_the_parameters():
    with pytest.raises(AnalysisError) as caught:
        compare([run([10.0]), run([2.0] * 5, driver="macvlan", duration_s=3.0)])
    told = str(caught.value)
    assert told.startswith(
        "no two of the 2 runs differ in driver alone, but also in pairs (1, 5); duration_s (2.0, 3.0)."
    )


@pytest.mark.parametrize(
    ("runs", "by", "told"),
    [
        (lambda: BRIDGE[:1], "driver", "a comparison needs two runs that are ok, and there are 1"),
        (list, "driver", "there are 0"),
        (lambda: BRIDGE, "driver", "all 5 runs have the same driver, bridge, and they differ in the repetition only"),
        (lambda: [*BRIDGE, *FASTER], "pairs", "the same pairs, 1, and they differ in driver (bridge, macvlan)"),
    ],
)
def test_what_cannot_be_compared_says_what_is_missing(runs, by, told):
    with pytest.raises(AnalysisError, match=told.replace("(", r"\(").replace(")", r"\)")):
        compare(runs(), by=by)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"by": "drvier"}, "there are: experiment, backend, driver"),
        ({"by": "repetition"}, "'repetition' tells repetitions apart, which are the unit"),
        ({"measure": "speed"}, "there are: total_bps, fct_median_s"),
    ],
)
def test_an_unknown_name_is_refused_with_the_choices(names, told):
    with pytest.raises(UnknownName, match=told):
        compare(BRIDGE, **names)


def test_what_runs_differ_in_is_what_they_can_be_compared_by():
    assert varied([*BRIDGE, *FASTER, run([1.0] * 5)]) == {"driver": ["bridge", "macvlan"], "pairs": [1, 5]}
    assert varied(BRIDGE) == {}


# --- as HTML


def test_a_comparison_shows_as_a_card_with_units_and_the_verdict_in_words():
    (found,) = compare([*BRIDGE, *FASTER])
    html = found._repr_html_()
    assert found.words in html
    assert ">better</span>" in html
    assert "macvlan, total throughput</th><td>11.46 Gbit/s</td>" in html


# --- measurements that did not count


def measured_again(runs, *discarded):
    """The same, of which the first ones took so many attempts more than one."""
    more = [*discarded, *[0] * (len(runs) - len(discarded))]
    return [
        replace(each, facts=each.facts | {"attempts": [{"reasons": ["a stall"]}] * often + [{"reasons": []}]})
        for each, often in zip(runs, more, strict=True)
    ]


def test_sides_of_whose_measurements_unlike_shares_did_not_count_are_not_told_apart():
    (found,) = compare([*BRIDGE, *measured_again(FASTER, 3, 2, 3)])
    assert found.verdict == "attempts differ"
    assert "and 0 of 5 measurements of bridge and 8 of 13 of macvlan did not count" in found.words
    assert np.isnan([found.low, found.high]).all()
    (judged,) = gate.judge(gate.Rule.of("throughput worse 5 %"), [found])
    assert judged.verdict == gate.UNDECIDED
    assert "a larger share did not count" in judged.why


def test_where_of_both_alike_some_did_not_count_they_are_told_apart_and_it_is_said():
    (found,) = compare([*measured_again(BRIDGE, 1, 1), *measured_again(FASTER, 2)])
    assert found.verdict == "better"
    assert "2 of 7 measurements of bridge and 2 of 7 of macvlan did not count" in found.notes


def test_a_repetition_that_never_counted_is_one_of_them():
    bad = group("macvlan", [12.0] * 8, first=5, status="invalid", reasons=("others took 30 % of the CPU",))
    assert compare([*BRIDGE, *FASTER, *bad])[0].verdict == "attempts differ"


def test_several_show_as_one_table_with_what_was_left_out():
    bad = run([12.0], repetition=9, status="invalid", reasons=("<script>alert(1)</script>",))
    html = compare([*BRIDGE, *FASTER, *group("ovs", [4, 4.1, 4]), bad])._repr_html_()
    assert html.count("<td") == 2 * 3  # difference, verdict and notes
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


# --- latencies of tools that print whole microseconds


@pytest.mark.parametrize("first", [0, 5])
def test_latencies_in_whole_microseconds_differ_by_no_more_than_these_tell(first):
    runs = [transacting({4e-6: 1000}, driver="bridge", repetition=at) for at in range(5)]
    runs += [transacting({5e-6: 1000}, driver="macvlan", repetition=first + at) for at in range(5)]
    (found,) = compare(runs)
    assert (found.measure, found.verdict) == ("latency_p50_s", "undecided")
    assert (found.change, found.low, found.high) == pytest.approx((25, 0, 57.14), abs=0.01)


def test_latencies_in_nanoseconds_are_known_within_their_histograms_buckets():
    runs = [transacting({4.001e-6: 999, 4.009e-6: 1}, driver="bridge", repetition=at) for at in range(5)]
    runs += [transacting({5.003e-6: 999, 5.001e-6: 1}, driver="macvlan", repetition=at) for at in range(5)]
    (found,) = compare(runs)
    assert found.verdict == "worse"
    assert (found.low, found.high) == pytest.approx((found.change - 0.125, found.change + 0.125), abs=0.001)


def test_completion_times_in_whole_milliseconds_differ_by_no_more_than_these_tell():
    def taking(driver, each_s):
        return [ending([each_s] * 50, driver=driver, repetition=at) for at in range(5)]

    (found,) = compare([*taking("bridge", 0.004), *taking("macvlan", 0.005)])
    assert (found.measure, found.verdict) == ("fct_median_s", "undecided")
    assert (found.low, found.high) == pytest.approx((0, 57.14), abs=0.01)
    (found,) = compare([*taking("bridge", 0.004000001), *taking("macvlan", 0.005000001)])
    assert (found.verdict, found.low) == ("worse", pytest.approx(25, abs=0.001))
