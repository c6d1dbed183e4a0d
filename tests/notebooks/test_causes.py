import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import scipy

from pairlab import store
from pairlab.analysis import layers, question, repetitions
from pairlab.analysis.figures import causes as figures_causes
from pairlab.analysis.questions import causes
from pairlab.analysis.selection import CELL
from pairlab.model import cpu_use
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from tests.support.asked import OWN, profiled


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
def answer(runs):
    return question.ask("causes", runs)


def test_shares_of_layers_leave_idle_cpus_out_and_have_an_interval_over_repetitions(answer):
    assert len(answer.found) == 21  # not those without a profile
    cell = answer["share"].query("driver == 'macvlan' and pairs == 1").set_index("layer")
    assert cell.loc["copy", "value"] == pytest.approx(0.49)
    assert cell.loc["TCP", "value"] == pytest.approx(0.31)
    assert cell.loc["macvlan", ["value", "low", "high"]].to_list() == pytest.approx([0.2] * 3)
    assert cell.loc["copy", "low"] < 0.49 < cell.loc["copy", "high"]
    assert cell.loc["bridge", "value"] == 0
    assert (cell["n"] == 3).all()
    assert list(answer.table("causes-layers").columns) == [*("softirq and device", "TCP", "macvlan", "bridge", "copy")]


def test_a_layers_share_of_the_cpu_time_is_its_cost_for_a_gigabyte(answer):
    cell = "driver == 'macvlan' and pairs == 1"
    first = answer.repetitions.query(f"{cell} and repetition == 0").set_index("layer")
    (run,) = answer.found.where(driver="macvlan", pairs=1, repetition=0)
    used_s = cpu_use.used_s(run)  # for 1 GB
    assert used_s == pytest.approx(3.6)
    assert first.loc["copy", "s_per_gb"] == pytest.approx(0.5 * used_s)
    assert first["s_per_gb"].sum() == pytest.approx(used_s)
    assert answer["cost"].query(cell).set_index("layer").loc["copy", "value"] == pytest.approx(0.49 * used_s)


def test_a_cost_that_rises_with_the_pairs_is_told_and_one_that_does_not_is_not(runs):
    answer = question.ask("causes", runs)
    by_layer = answer.repetitions[answer.repetitions["congestion_control"] == "cubic"]
    more = by_layer["pairs"] == 2
    planted = by_layer.assign(s_per_gb=by_layer["s_per_gb"].where(~(more & (by_layer["layer"] == "copy")), 10.0))
    answer._rows[""] = planted
    changes = answer["change"].query("driver == 'bridge'").set_index("layer")
    before = by_layer.query("driver == 'bridge' and pairs == 1 and layer == 'copy'")["s_per_gb"]
    assert changes.loc["copy", "value"] == pytest.approx(100 * (10 / scipy.stats.gmean(before) - 1))
    assert changes.loc["copy", "low"] > 0
    assert not changes.loc["TCP", "low"] > 0
    assert set(changes["fewest"]) == {1}
    answer._rows[""] = by_layer[~more]
    assert causes.CAUSES.estimates["change"].of(answer).empty


def test_counts_are_for_a_gigabyte_of_payload(answer):
    one = answer.repetitions.query("driver == 'host' and pairs == 2 and repetition == 1").iloc[0]
    assert one["voluntary_per_gb"] == 2 * 2 * 300
    assert one["involuntary_per_gb"] == 2 * 2 * 11
    assert one["retransmits_per_gb"] == 14
    assert (one["interrupts_per_gb"], one["squeezes_per_gb"]) == (40_000, 5)
    assert one["cycles_per_byte"] != one["cycles_per_byte"]


def test_what_an_older_run_did_not_count_is_unknown_and_not_zero():
    run = profiled()
    older = replace(run, facts={}, flows=run.flows.assign(client_voluntary_switches=float("nan")))
    asked = causes.CAUSES
    rows = repetitions.table(
        Runs((older,)), (*CELL, *asked.by), asked.quantities, parts=asked.parts, of_parts=asked.of_parts
    )
    one = rows.iloc[0]
    assert one[["voluntary_per_gb", "interrupts_per_gb", "squeezes_per_gb"]].astype(float).isna().all()
    assert one["involuntary_per_gb"] == 40
    assert one["congestion_control"] == "unknown"


def test_bars_reach_one_hundred_percent_and_name_the_congestion_control_where_it_varies(answer):
    (ax,) = answer.figure("causes-layers").axes  # of the most pairs
    bars = ["bridge, bbr", "bridge, cubic", "macvlan, cubic", "host, cubic"]
    assert [mark.get_text() for mark in ax.get_yticklabels()] == bars
    ends = {}
    for bar in ax.patches:
        ends[round(bar.get_y(), 2)] = ends.get(round(bar.get_y(), 2), 0.0) + bar.get_width()
    assert [end for end in ends.values() if end] == pytest.approx([100.0] * len(bars))


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
