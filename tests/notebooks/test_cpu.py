from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pairlab.analysis import repetitions
from pairlab.analysis.claims import ledger
from pairlab.analysis.question import Answer
from pairlab.analysis.questions import throughput
from pairlab.model.tables import table
from pairlab.store.dataset import Runs
from tests.support.synthetic import run
from tests.support.synthetic_flows import cpu


@pytest.fixture(scope="module")
def runs():
    return Runs(tuple(cpu()))


@pytest.fixture(scope="module")
def answer(runs):
    return Answer(throughput.CPU, runs, "", None, 0.95)


def rows_of(*made):
    return repetitions.table(Runs(made), quantities=throughput.CPU.quantities)


def test_one_repetition_of_one_driver_has_no_interval_and_is_never_surely_saturated(ask):
    values = ask("cpu", cpu(drivers=("ovs",), repetitions=1)).values
    assert (values["netns-flowgen/ovs/saturated-from"], values["netns-flowgen/ovs/surely-from"]) == ("5", "never")
    assert values["netns-flowgen/ovs/1/busy-interval"] == "no interval from one repetition"


def test_only_what_lies_in_the_window_counts(answer):
    # Before the window of 0.5 to 2.5 s and after it the CPUs of these runs are idle; within, half busy for one pair.
    one = answer.repetitions.query("pairs == 1")
    assert one["busy"].mean() == pytest.approx(0.5, abs=0.005)
    assert (one["sys"] / one["busy"]).to_numpy() == pytest.approx(0.5)


def test_taken_time_is_busy_but_used_by_nobody_here(answer):
    one = answer.repetitions.query("pairs == 10 and driver == 'bridge'").iloc[0]
    moved_gb_per_s = one["total_bps"] / 8e9
    # Both over the same time and bytes: of 2.5 s the CPUs worked in the 2 s of the window, and all 2.5 s carried data.
    assert one["host_s_per_gb"] == pytest.approx(2 * one["busy"] * 0.95 * 2 / (2.5 * moved_gb_per_s), rel=1e-3)
    assert one["processes_s_per_gb"] == pytest.approx(0.6 / (2.5 * moved_gb_per_s))
    assert one["processes_s_per_gb"] < one["host_s_per_gb"]


def test_a_run_without_samples_is_a_gap_and_is_never_called_saturated(runs, ask):
    lacking = [replace(made, cpu=table("cpu")) for made in runs.where(driver="ovs", pairs=10)]
    answer = ask("cpu", [*runs.where(lambda run: (run.spec.driver, run.spec.pairs) != ("ovs", 10)), *lacking])
    cell = answer["busy"].query("driver == 'ovs' and pairs == 10")
    assert cell["gap"].str.contains("no finite value in 4 of 4 repetitions").all()
    assert answer["saturation"].query("driver == 'ovs'")["from_pairs"].isna().all()


def sending(**changes):
    """A run of one flow that carried 2 GB in its window, for 4 s of CPU time of its processes."""
    made = run([8], duration_s=2.0)
    made.flows["start_s"], made.flows["flow_bytes"] = 0.0, 2e9
    made.flows["client_cpu_s"], made.flows["server_cpu_s"] = 1.0, 3.0
    return replace(made, **changes)


def test_what_processes_cost_counts_what_they_sent_in_the_warmup_that_was_found():
    def cost(made):
        return rows_of(made)["processes_s_per_gb"].item()

    warm = {"pair": 0, "flow": 0, "start_s": 0.0, "end_s": 0.5, "interval_bytes": 5e8, "warmup": True}
    later = warm | {"start_s": 0.5, "end_s": 2.0, "interval_bytes": 2e9, "warmup": False}
    assert cost(sending()) == 4 / 2
    assert cost(sending(intervals=table("intervals", [later]))) == 4 / 2
    assert cost(sending(intervals=table("intervals", [warm, later]), checks={"warmup_s": 0.5})) == 4 / 2.5
    assert np.isnan(cost(sending(checks={"warmup_s": 0.5})))  # nobody tells what was sent in it


def test_saturation_begins_where_all_later_pair_counts_are_saturated_too():
    def line(*shares):
        frame = pd.DataFrame({"pairs": [1, 2, 5, 10], "value": shares, "low": shares, "high": shares})
        return frame.assign(backend="netns", workload="iperf", driver="bridge")

    assert throughput.saturation(line(0.5, 0.96, 0.97, 1.0))["from_pairs"].item() == 2
    assert throughput.saturation(line(0.99, 0.89, 0.97, 1.0))["from_pairs"].item() == 5
    assert throughput.saturation(line(0.99, 0.99, 0.97, 1.0))["from_pairs"].item() == 1
    assert throughput.saturation(line(1.0, 1.0, 1.0, 0.89))["from_pairs"].isna().item()
    stated = {claim.than for claim in ledger.load() if claim.id.startswith("cpu-saturated-")}
    assert stated == {throughput.SATURATED}


def test_what_other_processes_used_is_told_at_its_most_or_as_unknown():
    def others(*made):
        return throughput.others(Runs(made))

    little, more = (sending(checks={"foreign_cpu": share}) for share in (0.004, 0.021))
    assert others(little, more) == "other processes: at most 2.1 % of the CPU time"
    assert others(little, sending(checks={})) == "other processes' use not recorded"
    assert "at most 0.4 %" in others(little, sending(status="invalid", checks={"foreign_cpu": 0.5}))


def test_a_panel_has_the_pair_counts_of_its_own_driver_only(runs):
    few = runs.where(lambda run: run.spec.driver != "bridge" or run.spec.pairs > 1)
    figure = throughput.CPU.figures["cpu-parts"](Answer(throughput.CPU, few, "", None, 0.95))
    counts = {ax.get_title(): [mark.get_text() for mark in ax.get_xticklabels()] for ax in figure.axes}
    assert {"1" in marks for title, marks in counts.items() if "bridge" not in title} == {True}
    assert {"1" in marks for title, marks in counts.items() if "bridge" in title} == {False}


def test_the_stacked_parts_reach_one_hundred_percent(answer):
    for ax in answer.figure("cpu-parts").axes:
        tops = {round(bar.get_x(), 2): 0.0 for bar in ax.patches}
        for bar in ax.patches:
            tops[round(bar.get_x(), 2)] += bar.get_height()
        assert list(tops.values()) == pytest.approx([100.0] * 4)
