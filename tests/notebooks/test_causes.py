import re
import shutil
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import scipy

from pairlab import store
from pairlab.analysis import layers
from pairlab.analysis.figures import causes as figures_causes
from pairlab.analysis.questions.reasons import causes
from pairlab.model import cpu_use
from pairlab.model.tables import table
from pairlab.store.dataset import load_runs
from tests.support.executed import Executed, figures, tables
from tests.support.synthetic_contention import client_run

COUNTERS = {"interrupts": 40_000, "softirqs_net_rx": 20_000, "softnet_time_squeeze": 5}
#: What each driver adds to the stacks that all have.
OWN = {"bridge": "br_forward", "macvlan": "macvlan_queue_xmit", "host": "loopback_xmit"}


def profiled(driver="bridge", pairs=2, repetition=0, **spec):
    """A run that carried 1 GB. Of 100 samples of busy CPUs half are copies, 30 TCP's, and 20 its driver's."""
    each = 4.0 / pairs  # Gbit/s for 2 s
    columns = {
        "flow_bytes": [1e9 / pairs] * pairs,
        "retransmits": [7.0] * pairs,
        "start_s": [0.0] * pairs,
        **{f"{side}_voluntary_switches": [300.0] * pairs for side in ("client", "server")},
        **{f"{side}_involuntary_switches": [10.0 + repetition] * pairs for side in ("client", "server")},
    }
    asked = {"experiment": "causes", "profile": True, "driver": driver, "repetition": repetition} | spec
    run = client_run([each] * pairs, columns=columns, **asked)
    stacks = {
        "iperf;do_syscall_64;tcp_sendmsg;_copy_from_iter": 50 - repetition,
        "iperf;do_syscall_64;tcp_sendmsg": 30 + repetition,
        f"iperf;do_syscall_64;tcp_sendmsg;{OWN[driver]}": 20,
        "swapper;do_idle;default_idle": 900,
    }
    rows = [{"stack": stack, "samples": samples} for stack, samples in stacks.items()]
    busy = {"usr": 0.2, "sys": 0.6, "softirq": 0.1, "idle": 0.1}  # and so of two CPUs, 3.6 s of 4
    cpu = [{"cpu": number, "start_s": 0.0, "end_s": 2.0, "irq": 0.0, **busy} for number in (0, 1)]
    counted = {**run.facts, "counters": COUNTERS}
    return replace(run, profile=table("profile", rows), cpu=table("cpu", cpu), facts=counted)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs") / "caused"
    for repetition in range(3):
        for driver in OWN:
            for pairs in (1, 2):
                store.write(profiled(driver, pairs, repetition), root)
        store.write(profiled("bridge", 2, repetition, congestion_control="bbr"), root)
        store.write(replace(profiled("bridge", 2, repetition, profile=False), profile=table("profile")), root)
    return root


@pytest.fixture(scope="module")
def executed(runs, tmp_path_factory):
    return Executed("14-causes", runs, tmp_path_factory.mktemp("causes"))


@pytest.mark.ci
def test_the_notebook_makes_every_figure_table_and_value(executed):
    assert executed.made == figures("caused", "causes-layers") | {
        "paper/values/caused/14-causes.tex",
        *tables("caused", "causes-counts-netns-flowgen", "causes-layers-netns-flowgen"),
    }
    values = executed.values("14-causes")
    assert r"\defineresult{causes/netns-flowgen/bridge/cubic/2/bridge}{20.0\,\%}" in values
    assert r"\defineresult{causes/netns-flowgen/bridge/bbr/2/voluntary-switches}{1200\,per GB}" in values


@pytest.mark.ci
def test_a_run_without_a_profile_is_not_among_them(executed):
    assert executed.told("load").startswith("21 runs read, 21 count")


def test_without_such_runs_the_notebook_writes_the_reason_only(runs, tmp_path):
    shutil.copytree(runs / "causes", tmp_path / "other" / "fct")
    done = Executed("14-causes", tmp_path / "other", tmp_path)
    assert done.made == {"paper/values/other/14-causes.tex"}
    assert r"\defineresult{causes/missing}{there are no runs of 'causes'}" in done.values("14-causes")


def test_shares_of_layers_leave_idle_cpus_out_and_have_an_interval_over_repetitions(runs):
    found = load_runs(runs).where(lambda run: causes.profiled(run.spec))
    shares = causes.layer_cells(causes.shares_by_repetition(found))
    cell = shares.query("driver == 'macvlan' and pairs == 1").set_index("layer")
    assert cell.loc["copy", "value"] == pytest.approx(0.49)
    assert cell.loc["TCP", "value"] == pytest.approx(0.31)
    assert cell.loc["macvlan", ["value", "low", "high"]].to_list() == pytest.approx([0.2] * 3)
    assert cell.loc["copy", "low"] < 0.49 < cell.loc["copy", "high"]
    assert cell.loc["bridge", "value"] == 0
    assert (cell["n"] == 3).all()
    assert list(causes.layer_table(shares).columns) == [
        *("softirq and device", "TCP", "macvlan", "bridge", "copy"),
    ]


def test_a_layers_share_of_the_cpu_time_is_its_cost_for_a_gigabyte(runs):
    found = load_runs(runs).where(lambda run: causes.profiled(run.spec))
    by_layer = causes.shares_by_repetition(found)
    first = by_layer.query("driver == 'macvlan' and pairs == 1 and repetition == 0").set_index("layer")
    (run,) = (each for each in found if (each.spec.driver, each.spec.pairs, each.spec.repetition) == ("macvlan", 1, 0))
    used_s = cpu_use.used_s(run)  # for 1 GB
    assert used_s == pytest.approx(3.6)
    assert first.loc["copy", "s_per_gb"] == pytest.approx(0.5 * used_s)
    assert first["s_per_gb"].sum() == pytest.approx(used_s)
    costs = causes.layer_costs(by_layer).query("driver == 'macvlan' and pairs == 1").set_index("layer")
    assert costs.loc["copy", "value"] == pytest.approx(0.49 * used_s)


def test_a_cost_that_rises_with_the_pairs_is_told_and_one_that_does_not_is_not(runs):
    found = load_runs(runs).where(lambda run: causes.profiled(run.spec) and not run.spec.congestion_control)
    by_layer = causes.shares_by_repetition(found)
    more = by_layer["pairs"] == 2
    planted = by_layer.assign(s_per_gb=by_layer["s_per_gb"].where(~(more & (by_layer["layer"] == "copy")), 10.0))
    changes = causes.cost_changes(planted).query("driver == 'bridge'").set_index("layer")
    before = by_layer.query("driver == 'bridge' and pairs == 1 and layer == 'copy'")["s_per_gb"]
    assert changes.loc["copy", "value"] == pytest.approx(100 * (10 / scipy.stats.gmean(before) - 1))
    assert changes.loc["copy", "low"] > 0
    assert not changes.loc["TCP", "low"] > 0
    assert set(changes["fewest"]) == {1}
    assert causes.cost_changes(by_layer[~more]).empty


def test_counts_are_for_a_gigabyte_of_payload(runs):
    found = causes.by_repetition([run for run in load_runs(runs) if causes.profiled(run.spec)])
    one = found.query("driver == 'host' and pairs == 2 and repetition == 1").iloc[0]
    assert one["voluntary_per_gb"] == 2 * 2 * 300
    assert one["involuntary_per_gb"] == 2 * 2 * 11
    assert one["retransmits_per_gb"] == 14
    assert (one["interrupts_per_gb"], one["squeezes_per_gb"]) == (40_000, 5)
    assert one["cycles_per_byte"] != one["cycles_per_byte"]


def test_what_an_older_run_did_not_count_is_unknown_and_not_zero():
    run = profiled()
    older = replace(run, facts={}, flows=run.flows.assign(client_voluntary_switches=float("nan")))
    one = causes.by_repetition([older]).iloc[0]
    assert one[["voluntary_per_gb", "interrupts_per_gb", "squeezes_per_gb"]].isna().all()
    assert one["involuntary_per_gb"] == 40
    assert one["congestion_control"] == "unknown"


def test_bars_reach_one_hundred_percent_and_name_the_congestion_control_where_it_varies(runs):
    found = load_runs(runs).where(lambda run: causes.profiled(run.spec))
    figure = figures_causes.by_layer(causes.layer_cells(causes.shares_by_repetition(found)))
    one, two = figure.axes
    assert [mark.get_text() for mark in one.get_yticklabels()] == [
        *("bridge, bbr", "bridge, cubic", "macvlan, cubic", "host, cubic"),
    ]
    for ax, rows in ((one, 3), (two, 4)):
        ends = {}
        for bar in ax.patches:
            ends[round(bar.get_y(), 2)] = ends.get(round(bar.get_y(), 2), 0.0) + bar.get_width()
        assert [end for end in ends.values() if end] == pytest.approx([100.0] * rows)


def test_a_flame_graph_is_as_wide_as_its_samples_and_takes_names_as_text():
    stacks = {"<b>iperf</b>;do_syscall_64;tcp_sendmsg": 75, "other;do_syscall_64": 25, "swapper;default_idle": 300}
    drawn = ElementTree.fromstring(figures_causes.flame_graph(stacks, "bridge & others"))
    space = "{http://www.w3.org/2000/svg}"
    frames = {each.findtext(f"{space}title"): each.find(f"{space}rect") for each in drawn.iter(f"{space}g")}
    widths = {title: float(rect.get("width")) for title, rect in frames.items()}
    assert widths == {
        "<b>iperf</b> (user space): 75.0 %": 750,
        "do_syscall_64 (socket): 75.0 %": 750,
        "tcp_sendmsg (TCP): 75.0 %": 750,
        "other (user space): 25.0 %": 250,
        "do_syscall_64 (socket): 25.0 %": 250,
    }
    assert drawn.findtext(f"{space}text") == "bridge & others"
    tops = [float(frames[title].get("y")) for title in list(widths)[:3]]
    assert tops == sorted(tops, reverse=True)
    assert figures_causes.flame_graph({"swapper;default_idle": 3}, "idle") == ""


def test_every_layer_of_the_table_has_a_colour_of_its_own():
    assert set(layers.names()) == set(figures_causes.COLOURS)
    assert len(set(figures_causes.COLOURS.values())) == len(figures_causes.COLOURS)
    assert all(re.fullmatch(r"#[0-9A-F]{6}|0\.\d+|white", colour) for colour in figures_causes.COLOURS.values())
