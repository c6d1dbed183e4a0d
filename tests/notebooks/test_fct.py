import numpy as np
import pandas as pd
import pytest

from pairlab.analysis import flow_changes
from pairlab.analysis.questions import fct
from pairlab.store.dataset import Runs
from tests.support import synthetic_flows
from tests.support.executed import Executed
from tests.support.synthetic_flows import CONNECTED, FIRST_BYTE, write_fct


@pytest.fixture(scope="module")
def runs():
    return Runs(tuple(synthetic_flows.fct()))


@pytest.fixture(scope="module")
def flows(runs):
    return runs.flows


def of(frame, **names):
    for name, value in names.items():
        frame = frame[frame[name] == value]
    return frame


@pytest.mark.whole
@pytest.mark.parametrize("repetitions", [1, 2])
def test_few_repetitions_of_one_tool_and_driver_leave_named_gaps(tmp_path, repetitions):
    few = {"backends": ("netns",), "workloads": ("netcat",), "drivers": ("ovs",), "repetitions": repetitions}
    done = Executed("03-fct", write_fct(tmp_path / "few", **few), tmp_path)
    assert done.told("tools") == "fct-tools: there are not two tools\n"
    assert not any("tools" in name or "phases" in name or "drivers" in name for name in done.made)
    assert r"\definelist{fct/exact}{netns-netcat}" in done.values("03-fct")


@pytest.mark.whole
def test_a_cell_has_the_percentiles_of_its_flows_and_counts_those_that_failed(flows):
    cells = fct.percentiles(flows)
    cell = of(cells, backend="netns", workload="flowgen", driver="ovs", pairs=50)
    mine = of(flows, backend="netns", workload="flowgen", driver="ovs", pairs=50)["fct_s"].fillna(1e9)
    known = cell[cell["gap"] == ""]
    assert list(known["q"]) == [0.5, 0.9, 0.95, 0.99]
    assert list(known["value"]) == pytest.approx(list(np.quantile(mine, known["q"], method="median_unbiased")))
    assert set(cell["failed_flows"]) == {1}
    assert set(cell["flows"]) == {250}


def change(before, after, q):
    return flow_changes.change(*map(flow_changes.clusters_of, (before, after)), q, 0.95)


def test_the_change_between_pair_counts_covers_the_true_one(flows):
    medians = of(flow_changes.by_pairs(flows), q=0.5)
    assert len(medians) == 16
    assert medians["value"].mean() == pytest.approx(30, abs=4)
    assert (medians["low"].le(30) & medians["high"].ge(30)).sum() >= 14


def test_more_failures_than_lie_beyond_a_percentile_are_a_gap_and_no_number(flows):
    cell = of(flows, backend="netns", workload="flowgen", driver="bridge", pairs=50).copy()
    before = cell.copy()
    cell.loc[cell.index[:3], ["status", "fct_s"]] = ["failed", np.nan]
    found = change(before, cell, 0.99)
    assert np.isnan(found["value"])
    assert found["gap"] == (
        "after: 3 of 250 flows failed: p99 hangs on how long they would have taken, and is not known"
    )
    assert change(before, cell, 0.9)["gap"] == ""


def test_a_change_is_of_all_flows_and_not_of_those_that_are_left(flows):
    before = of(flows, backend="netns", workload="flowgen", driver="bridge", pairs=50)
    after = before.copy()
    slow = after["fct_s"] > after["fct_s"].quantile(0.7)
    after.loc[slow, ["status", "fct_s"]] = ["failed", np.nan]
    assert change(before, after, 0.5)["value"] == 0


def test_drivers_that_differ_are_told_apart_and_a_driver_from_itself_is_not(flows):
    part = of(flows, backend="netns", workload="flowgen", pairs=50)
    found = flow_changes.distributions(part).set_index(["first", "second"])
    assert found.loc[("bridge", "host"), "distance"] > 0.4
    assert found.loc[("bridge", "host"), "p_holm"] < 0.05
    same = of(part, driver="bridge")
    twice = flow_changes.distributions(pd.concat([same, same.assign(driver="ovs")], ignore_index=True))
    assert twice["distance"].item() == pytest.approx(0, abs=1e-6)
    assert twice["p"].item() == 1


def test_netcat_beside_flowgen_finds_the_five_percent_that_it_is_longer(flows):
    medians = of(flow_changes.by_workload(flows), q=0.5)
    assert len(medians) == 16
    assert set(medians["workload"]) == {"netcat"}
    assert medians["value"].mean() == pytest.approx(5, abs=4)


def test_the_parts_of_a_flow_are_where_its_tool_says(flows):
    phases = fct.phases(flows)
    assert set(phases["workload"]) == {"flowgen"}
    share = phases[["connect", "first byte", "rest"]].div(phases["all"], axis=0).mean()
    assert list(share) == pytest.approx([CONNECTED, FIRST_BYTE - CONNECTED, 1 - FIRST_BYTE])


def test_the_table_of_changes_has_what_the_paper_states_beside_it(ask, runs):
    table = ask("fct", runs).table("fct-change")
    stated = table["Paper C, 10 to 50", "p99"]
    assert stated.loc[("netns-flowgen", "bridge")] == "+31.3"
    assert stated.loc[("netns-flowgen", "host")] == "–"
    assert table.loc[("netns-flowgen", "bridge"), ("10 to 50 pairs (%)", "p99")] == "–"
