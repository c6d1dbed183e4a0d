import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions import core_ratio
from pairlab.store.dataset import load_runs
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed, figures, tables


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.write_core_ratio(tmp_path_factory.mktemp("runs") / "shared")


@pytest.fixture(scope="module")
def flows(runs):
    found = load_runs(runs)
    return core_ratio.with_ratio(found.flows, found)


@pytest.mark.ci
def test_the_ratio_counts_both_ends_and_all_cpus_where_no_number_of_cores_is_asked_for(flows):
    found = flows.groupby(["pairs", "cores"])["ratio"].unique().map(list)
    assert found.to_dict() == {(2, 2.0): [2.0], (4, 1.0): [8.0], (4, 2.0): [4.0], (8, 2.0): [8.0]}


@pytest.mark.ci
def test_one_ratio_that_came_about_in_two_ways_stays_two_cells(flows):
    cells = core_ratio.cells(core_ratio.throughput(flows), core_ratio.completion(flows), 0.95)
    assert core_ratio.places(cells["client_bps"]) == ["2\n2/2", "4\n4/2", "8\n4/1", "8\n8/2"]
    assert len(cells["client_bps"]) == len(cells["mean_fct_s"]) == 2 * 3 * 4


@pytest.mark.ci
def test_throughput_falls_and_completion_times_rise_with_the_ratio_as_put_in(flows):
    throughput, completion = core_ratio.throughput(flows), core_ratio.completion(flows)
    for repetitions, value, expected in ((throughput, "client_bps", -50), (completion, "mean_fct_s", 100)):
        found = core_ratio.changes(repetitions, value, 0.95).set_index(["backend", "driver", "place"])
        cell = found.loc[("netns", "bridge", "4\n4/2")]
        assert cell["value"] == pytest.approx(expected, rel=0.15)
        assert cell["low"] < cell["value"] < cell["high"]
        assert "2\n2/2" not in found.index.get_level_values("place")  # the reference itself


def test_the_gap_between_drivers_widens_as_put_in_and_leaves_the_baseline_out(flows, tmp_path):
    gaps = core_ratio.gap_cells(core_ratio.gaps(core_ratio.throughput(flows), "client_bps"), 0.95)
    wide = gaps.set_index(["backend", "place"]).loc[("netns", "8\n8/2")]
    assert wide["value"] == pytest.approx(1.22 * 1.4, rel=0.05)
    assert wide["change_low"] > 0
    host = core_ratio.throughput(flows).assign(driver=lambda frame: frame["driver"].replace("ovs", "host"))
    assert core_ratio.gaps(host, "client_bps")["gap_times"].max() < 1.7


def test_only_repetitions_with_all_drivers_have_a_gap(flows):
    throughput = core_ratio.throughput(flows)
    odd = (throughput["driver"] == "ovs") & (throughput["repetition"] == 1)
    assert set(core_ratio.gaps(throughput[~odd], "client_bps")["repetition"]) == {0, 2}
    assert core_ratio.gaps(throughput[throughput["driver"] == "ovs"], "client_bps").empty


def test_where_a_flow_failed_the_mean_completion_time_is_a_gap_and_so_is_its_change(tmp_path):
    told = {"experiment": "core-ratio", "flow_bytes": 5_000_000, "duration_s": 30.0}
    for cores, failed, repetition in ((1, 1, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1)):
        lost = told | {"failed": failed, "cores": cores, "repetition": repetition}
        store.write(synthetic.client_run([1, 1, 1], columns={"fct_s": [0.1, 0.3, 9.0]}, **lost), tmp_path)
    found = load_runs(tmp_path)
    times = core_ratio.completion(core_ratio.with_ratio(found.flows, found))
    row = times[times["failed_flows"] > 0].squeeze()
    assert np.isnan(row["mean_fct_s"])
    assert (row["flows"], row["failed_flows"]) == (3, 1)
    cells = core_ratio.cells(times.iloc[:0].assign(client_bps=0.0, total_bps=0.0), times, 0.95)["mean_fct_s"]
    assert list(cells["gap"]) == ["mean_fct_s has no finite value in 1 of 2 repetitions", ""]
    (change,) = core_ratio.changes(times, "mean_fct_s", 0.95).itertuples()
    assert change.gap == "the change has no finite value in 1 of 2 repetitions"


@pytest.mark.ci
def test_the_notebook_makes_every_figure_table_and_value_from_two_backends(runs, tmp_path):
    executed = Executed("06-core-ratio", runs, tmp_path)
    names = [f"core-ratio{kind}-{backend}-flowgen" for kind in ("", "-gap") for backend in synthetic.BACKENDS]
    made = figures("shared", "core-ratio-throughput", "core-ratio-total", "core-ratio-fct") | tables("shared", *names)
    assert executed.made == made | {"paper/values/shared/06-core-ratio.tex"}
    values = executed.values("06-core-ratio")
    assert "{core-ratio/netns-flowgen/ratios}{2, 4, 8}" in values
    assert r"{core-ratio/netns-flowgen/bridge/4-4p-2c/client-change}{\textminus{}" in values
    assert "{core-ratio/netns-flowgen/bridge/4-4p-2c/fct-change}{+" in values
    assert "{core-ratio/netns-flowgen/8-4p-1c/client-gap}{1." in values


def test_without_completion_times_the_notebook_says_so_and_shows_the_rest(tmp_path):
    synthetic.write_core_ratio(tmp_path / "bulk", fct=False, backends=("docker",), drivers=("bridge",), repetitions=1)
    executed = Executed("06-core-ratio", tmp_path / "bulk", tmp_path)
    assert figures("bulk", "core-ratio-throughput", "core-ratio-total") <= executed.made
    assert not figures("bulk", "core-ratio-fct") & executed.made
    assert "no completion times" in executed.told("table")
    assert "{core-ratio/missing}{no run of 'core-ratio' has flows with an end" in executed.values("06-core-ratio")


def test_without_its_experiment_the_notebook_says_so_and_draws_nothing(campaign, tmp_path):
    executed = Executed("06-core-ratio", campaign, tmp_path)
    assert executed.made == {"paper/values/campaign/06-core-ratio.tex"}
