"""Hosts as repetitions of the machine: estimates of each and over all, their spread, changes within each."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from pairlab.analysis import by_group, cell_estimates, repetitions, selection
from pairlab.analysis.figures import estimates, hosts
from pairlab.analysis.output.latex import Values
from pairlab.analysis.questions.throughput import TOTAL
from pairlab.analysis.selection import CELL
from pairlab.errors import AnalysisError, MixedHosts
from pairlab.statistics import changes, intervals
from pairlab.store.dataset import Runs
from tests.support.simulated import holds, likely
from tests.support.synthetic import run

LEVELS = {"a": 5.0, "b": 10.0, "c": 20.0, "d": 14.0}


def measured(levels=LEVELS, *, ratio=1.1, noise=0.01, repetitions=4, seed=3):
    """A row per repetition of bridge and macvlan on each host, whose level both share; macvlan has `ratio` times it."""
    random = np.random.default_rng(seed)
    rows = [
        (host, driver, number, level * times * np.exp(noise * random.normal()))
        for host, level in levels.items()
        for number in range(repetitions)
        for driver, times in (("bridge", 1.0), ("macvlan", ratio))
    ]
    made = pd.DataFrame(rows, columns=["host", "driver", "repetition", "value"])
    return made.assign(backend="netns", workload="flowgen", pairs=4)


def changed(made, **options):
    by = [name for name in CELL if name != "driver"]
    return cell_estimates.changes(made, by, "value", setting="driver", against="bridge", **options)


# --- estimates


def test_each_host_has_an_estimate_and_their_means_make_the_one_over_hosts():
    made = measured()
    of_host = cell_estimates.means(made, [*CELL, "host"], "value").query("driver == 'bridge'")
    assert (list(of_host["host"]), list(of_host["n"])) == (list("abcd"), [4] * 4)
    over = cell_estimates.means(made, CELL, "value", over="host").query("driver == 'bridge'").iloc[0]
    expected = intervals.mean_interval(of_host["value"], 0.95, intervals.POSITIVE)
    assert tuple(over[["value", "low", "high", "n"]]) == pytest.approx(tuple(expected))
    assert (over["n"], over["over"], over["gap"]) == (4, "host", "")


def test_a_host_with_many_repetitions_counts_once():
    often = measured({"a": 10.0}, noise=0, repetitions=30)
    made = pd.concat([often, measured({"b": 20.0, "c": 30.0}, noise=0, repetitions=2)])
    assert cell_estimates.means(made, CELL, "value", over="host")["value"].iloc[0] == pytest.approx(20)


def test_hosts_are_not_pooled_unseen():
    with pytest.raises(MixedHosts, match="come from 4 hosts"):
        cell_estimates.means(measured(), CELL, "value")
    with pytest.raises(AnalysisError, match="several values of one repetition"):
        changed(measured())
    apart = measured()
    apart["repetition"] += 10 * apart["host"].map(list(LEVELS).index)  # as hosts that share a sweep have them
    with pytest.raises(MixedHosts, match="come from 4 hosts"):
        changed(apart)
    flows = apart.assign(fct_s=apart["value"], key=range(len(apart)))
    with pytest.raises(MixedHosts, match="come from 4 hosts"):
        by_group.of(flows, ["driver"], "fct_s")
    assert len(by_group.of(flows, ["driver", "host"], "fct_s").groups) == 8


def test_over_hosts_needs_to_know_them():
    with pytest.raises(AnalysisError, match=r"no column host: take it along, .*\[\*CELL, 'host'\]"):
        cell_estimates.means(measured().drop(columns="host"), CELL, "value", over="host")
    with pytest.raises(AnalysisError, match="no column host"):
        changed(measured().drop(columns="host"), over="host")


def test_one_host_has_a_mean_and_no_interval_and_that_is_said():
    one = cell_estimates.means(measured({"a": 10.0}), CELL, "value", over="host")
    assert np.isnan(one[["low", "high"]].to_numpy(dtype=float)).all()
    assert "mean of n = 1 host, which has no interval" in estimates.caption(one)
    found = Values("made-up")
    TOTAL.put(found, one, "driver")
    assert found["bridge/total-interval"] == "no interval from one host"


def test_a_repetition_without_a_value_is_not_left_out_of_its_hosts_mean():
    made = measured()
    made.loc[0, "value"] = np.nan
    for found in (cell_estimates.means(made, CELL, "value", over="host"), cell_estimates.spread(made, CELL, "value")):
        bridge = found.set_index("driver").loc["bridge"]
        assert (bridge["n"], bridge["gap"]) == (4, "value has no finite value in 1 of 16 repetitions")
        assert np.isnan(bridge["value"])


# --- the spread between hosts


def test_the_spread_between_hosts_is_found_and_is_none_where_hosts_are_alike():
    random = np.random.default_rng(8)
    levels = {f"host {number}": 10 + 2 * random.normal() for number in range(12)}
    differ = cell_estimates.spread(measured(levels, ratio=1), CELL, "value").iloc[0]
    assert differ["low"] < 2 < differ["high"]
    assert differ["low"] > 1
    assert differ["within"] == pytest.approx(0.1, rel=0.3)
    assert differ["share"] == pytest.approx(differ["value"] / differ["mean"])
    assert (differ["n"], differ["repetitions"], differ["gap"]) == (12, 48, "")
    alike = cell_estimates.spread(measured(dict.fromkeys(levels, 10.0), ratio=1), CELL, "value").iloc[0]
    assert 0 <= alike["value"] < 0.05
    assert alike["low"] == 0


def test_a_spread_that_cannot_be_known_is_a_gap_with_its_reason():
    one = cell_estimates.spread(measured({"a": 10.0}), CELL, "value").iloc[0]
    assert np.isnan(one["value"])
    assert one["gap"] == "one host has no spread between hosts: measure on another"
    assert one["within"] > 0
    once = cell_estimates.spread(measured(repetitions=1), CELL, "value").iloc[0]
    assert once["gap"].startswith("no host has two repetitions")


# --- changes within each host


def test_hosts_of_unlike_speed_that_share_a_ratio_show_it_paired_and_not_unpaired():
    found = changed(measured(), over="host").iloc[0]
    assert 8 < found["low"] < 10 < found["high"] < 12
    assert (found["n"], found["over"]) == (4, "host")
    of_host = cell_estimates.means(measured(), [*CELL, "host"], "value").groupby("driver")["value"].apply(list)
    unpaired = changes.ratio(of_host["bridge"], of_host["macvlan"], paired=False).estimate()
    assert unpaired.low < -30 < 30 < unpaired.high


def test_a_change_over_hosts_that_is_none_is_not_found():
    found = changed(measured(ratio=1.0), over="host").iloc[0]
    assert found["low"] < 0 < found["high"]


@pytest.mark.whole
def test_hosts_are_the_samples_where_they_differ_in_the_ratio_and_repetitions_are_not():
    """Shown of bridge and macvlan on five hosts, of which each has a ratio of its own, around one of 1.1."""
    random, trials = np.random.default_rng(4), 100
    made = measured(dict.fromkeys("abcde", 1.0), repetitions=6)
    hosts = made["host"].map("abcde".index)
    over, pooled = 0, 0
    for _ in range(trials):
        ratios = np.log(1.1) + random.normal(0, 0.05, 5)[hosts] + random.normal(0, 0.02, len(made))
        made["value"] = random.lognormal(0, 0.01, len(made)) * np.exp(ratios * (made["driver"] == "macvlan"))
        over += holds(changed(made, over="host").iloc[0], 10.0)
        bridge, macvlan = (made.loc[made["driver"] == name, "value"] for name in ("bridge", "macvlan"))
        pooled += holds(changes.ratio(bridge, macvlan).estimate(), 10.0)
    assert likely(over, trials, 0.95)
    assert pooled < 0.75 * trials


def test_a_difference_of_shares_is_over_hosts_too():
    made = measured(ratio=1.0)
    made["value"] = 0.5 + 0.1 * (made["driver"] == "macvlan") + 0.01 * made["host"].map(list(LEVELS).index)
    found = changed(made, relative=False, over="host").iloc[0]
    assert tuple(found[["value", "n"]]) == pytest.approx((0.1, 4))


# --- of runs


def on(host, kernel, **spec):
    made = [run([rate], repetition=number, **spec) for number, rate in enumerate((10.0, 11.0))]
    facts = {"host": {"cpu_model": host, "cpus": 2, "kernel": kernel}}
    return [replace(each, facts=facts) for each in made]


def test_each_host_may_have_a_kernel_of_its_own_and_none_may_have_two():
    runs = Runs((*on("one", "6.1"), *on("other", "6.18")))
    by = [*CELL, "host"]
    found = cell_estimates.means(repetitions.table(runs, by), by, "total_bps")
    assert list(found["host"]) == ["one, 2 CPUs", "other, 2 CPUs"]
    mixed = Runs((*on("one", "6.1"), *on("one", "6.18", driver="macvlan")))
    with pytest.raises(MixedHosts, match=r"2 kernels \(6.1; 6.18\)"):
        repetitions.table(mixed, by)


def test_runs_of_two_machines_of_one_kind_are_not_alike():
    two = [
        replace(each, facts={"host": each.facts["host"] | {"machine": machine}})
        for machine in ("0123456789ab", "ba9876543210")
        for each in on("one", "6.1")
    ]
    with pytest.raises(AnalysisError, match=r"differ in host \(.*machine 0123456789ab"):
        selection.check_alike(two)
    selection.check_alike(two[:2])


# --- the figure


@pytest.mark.usefixtures("closes_figures")
def test_the_figure_has_a_dot_per_host_and_their_mean_with_its_interval():
    made = pd.concat([measured(), measured(ratio=2.0).assign(pairs=8)])
    figure = hosts.dots(made, value="value", measure=TOTAL._replace(scale=1))
    (ax,) = figure.axes
    means = cell_estimates.means(made, CELL, "value", over="host").query("driver == 'macvlan'")
    (drawn,) = [each for each in ax.lines if each.get_label() == "macvlan"]
    shown = drawn.get_ydata()
    assert list(shown[np.isfinite(shown)]) == pytest.approx(list(means["value"]))
    color = to_rgba(drawn.get_color())[:3]
    mine = [points for points in ax.collections if tuple(points.get_facecolors()[0][:3]) == color]
    dots = sorted(value for points in mine for _, value in points.get_offsets())
    assert len(dots) == 8
    assert (dots[0], dots[-1]) == pytest.approx((5.5, 40), rel=0.02)
    joined = [each for each in ax.lines if len(each.get_xdata()) == 2 and each.get_color() == "0.75"]
    assert len(joined) == 8  # of four hosts, at two numbers of pairs
    told = figure.get_supxlabel().replace("\n", " ")
    assert "a dot per host, n = 4 hosts in each column" in told
    assert "95 % interval over hosts" in told


@pytest.mark.usefixtures("closes_figures")
def test_the_figure_of_one_host_says_that_it_has_no_interval():
    figure = hosts.dots(measured({"a": 10.0}), value="value", measure=TOTAL)
    assert "n = 1 host in each column" in figure.get_supxlabel().replace("\n", " ")
    assert "no interval: it needs 3 hosts" in figure.get_supxlabel().replace("\n", " ")
