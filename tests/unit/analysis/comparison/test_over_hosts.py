"""Two sides compared within each of several hosts, with hosts as the unit."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.analysis.comparison.compute import compare
from pairlab.errors import AnalysisError, BadInput, UnknownName
from tests.support.synthetic import ending, run

LEVELS_GBPS = (5.0, 10.0, 20.0, 14.0)


def on(host, made, **facts):
    known = {"cpu_model": f"CPU {host}", "cpus": 2, "kernel": "6.1", **facts}
    return [replace(each, facts={**each.facts, "host": known}) for each in made]


def sides(level_gbps, ratio, *, first=0, repetitions=3, noise=0.01, seed=1):
    """Runs of bridge, and of macvlan at `ratio` times the rate, in the same repetitions."""
    random = np.random.default_rng(seed)
    return [
        run([level_gbps * times * np.exp(noise * random.normal())], driver=driver, repetition=first + number)
        for number in range(repetitions)
        for driver, times in (("bridge", 1.0), ("macvlan", ratio))
    ]


def everywhere(ratios, **options):
    """These ratios, one on each of as many hosts of unlike speed."""
    return [
        made
        for host, (level, ratio) in enumerate(zip(LEVELS_GBPS, ratios, strict=False))
        for made in on(host, sides(level, ratio, seed=host, **options))
    ]


def test_a_ratio_that_hosts_of_unlike_speed_share_is_found_within_them():
    (found,) = compare(everywhere([1.1] * 4), over="host")
    assert 7 < found.low < 10 < found.high < 13
    assert (found.pairing, found.n, found.unit, found.verdict) == ("by block", (4, 4), "host", "better")
    assert " % faster than bridge, 95 % interval " in found.words
    assert found.words.endswith("(n = 4 hosts)")
    assert ("compared", "within each block of a host, over hosts") in found.rows
    assert found.notes[0].count(" % on CPU ") == 4
    assert found.base.level == pytest.approx(np.mean(LEVELS_GBPS) * 1e9, rel=0.02)
    assert not {"host", "kernel"} & set(found.alike)


def test_without_asking_for_it_each_host_has_a_comparison_of_its_own():
    found = compare(everywhere([1.1] * 4))
    assert [each.alike["host"] for each in found] == [f"CPU {host}, 2 CPUs" for host in range(4)]
    assert {each.unit for each in found} == {"repetition"}


def test_where_no_ratio_was_planted_the_two_cannot_be_told_apart_over_hosts():
    (found,) = compare(everywhere([1.0] * 4), over="host")
    assert found.low < 0 < found.high
    assert "cannot be told apart" in found.words


def test_hosts_that_disagree_each_for_sure_tell_nothing_of_hosts_at_large():
    ratios = (1.3, 0.8, 1.2, 0.75)
    assert {each.verdict for each in compare(everywhere(ratios))} == {"better", "worse"}
    (found,) = compare(everywhere(ratios), over="host")
    assert found.verdict == "undecided"
    assert found.low < -20 < 20 < found.high
    assert " hosts would show 5 %" in found.words


def test_a_sweep_whose_repetitions_hosts_share_is_paired_in_each_of_them():
    runs = [
        made
        for host, level in enumerate(LEVELS_GBPS)
        for made in on(host, sides(level, 1.1, first=host, repetitions=1, noise=0))
    ]
    (found,) = compare(runs, over="host")
    assert (found.pairing, found.n) == ("by block", (4, 4))
    assert (found.change, found.low, found.high) == pytest.approx((10, 10, 10))


def test_a_host_that_has_one_side_only_is_left_out_and_told():
    alone = on(9, [run([99.0], repetition=number) for number in range(3)])
    (found,) = compare([*everywhere([1.1] * 3), *alone], over="host")
    assert found.n == (3, 3)
    assert found.notes[1:] == ("1 of 4 hosts lacks one side",)
    with pytest.raises(AnalysisError, match="no host has both bridge and macvlan"):
        compare([*alone, *on(8, sides(5, 1.1)[1::2])], over="host")


def test_two_hosts_have_a_difference_and_no_interval():
    (found,) = compare(everywhere([1.2, 1.2], noise=0), over="host")
    assert found.verdict == "no interval"
    assert found.words == "macvlan got 20 % more than bridge on 2 hosts: no interval over hosts; measure on more"


def test_a_host_counts_once_whatever_its_kernel_and_two_kernels_are_refused():
    runs = everywhere([1.1] * 3)
    newer = on(3, sides(14, 1.1), kernel="6.18")
    (found,) = compare([*runs, *newer], over="host")
    assert found.n == (4, 4)
    assert "the hosts have different kernels (6.1, 6.18)" in found.notes
    with pytest.raises(AnalysisError, match=r"CPU 2, 2 CPUs has runs of several kernels \(6.1, 6.18\): take those of"):
        compare([*runs, *on(2, sides(20, 1.1, first=9), kernel="6.18")], over="host")


def test_machines_of_one_kind_are_hosts_of_their_own():
    machines = ("0123456789ab", "ba9876543210", "aaaaaaaaaaaa")
    runs = [
        made
        for number, machine in enumerate(machines)
        for made in on("x", sides(LEVELS_GBPS[number], 1.1), machine=machine)
    ]
    (found,) = compare(runs, over="host")
    assert found.n == (3, 3)
    assert f"machine {machines[0]}" in found.notes[0]


def test_a_percentile_is_compared_over_hosts_too():
    runs = [
        made
        for host, level_s in enumerate((0.1, 0.4, 0.2))
        for made in on(
            host,
            [
                ending([level_s * times] * 3, driver=driver, repetition=number)
                for number in range(3)
                for driver, times in (("bridge", 1.0), ("macvlan", 1.3))
            ],
        )
    ]
    (found,) = compare(runs, over="host")
    assert (found.measure, found.verdict, found.n) == ("fct_median_s", "worse", (3, 3))
    assert found.change == pytest.approx(30)


def test_a_host_without_a_value_is_not_left_out_and_named():
    nothing = [run([0.0] if made.spec.driver == "macvlan" else [9.0], driver=made.spec.driver) for made in sides(9, 1)]
    with pytest.raises(AnalysisError, match="macvlan on CPU 3, 2 CPUs has no total throughput above zero"):
        compare([*everywhere([1.1] * 3), *on(3, nothing)], over="host")


def test_kernels_are_compared_within_each_host():
    runs = [
        made
        for host, level in enumerate(LEVELS_GBPS)
        for kernel, times in (("6.1", 1.0), ("6.18", 1.2))
        for made in on(host, [run([level * times], repetition=number) for number in range(2)], kernel=kernel)
    ]
    (found,) = compare(runs, by="kernel", over="host")
    assert (found.base.value, found.other.value, found.n) == ("6.1", "6.18", (4, 4))
    assert found.change == pytest.approx(20)


def test_hosts_cannot_be_both_and_nothing_else_can_be_compared_over():
    with pytest.raises(BadInput, match="give another `by`"):
        compare(everywhere([1.1] * 4), by="host", over="host")
    with pytest.raises(UnknownName, match="nothing is compared over 'kernel'; there is: host"):
        compare(everywhere([1.1] * 4), over="kernel")
