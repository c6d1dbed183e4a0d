import numpy as np
import pytest

from pairlab import store
from pairlab.analysis import question
from pairlab.analysis.questions import cores
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed, figures


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.write_core_ratio(tmp_path_factory.mktemp("runs") / "shared")


@pytest.fixture(scope="module")
def answer(runs):
    return question.ask("core-ratio", runs)


@pytest.mark.whole
def test_the_ratio_counts_both_ends_and_all_cpus_where_no_number_of_cores_is_asked_for(answer):
    found = answer.repetitions.groupby(["pairs", "cores"])["ratio"].unique().map(list)
    assert found.to_dict() == {(2, 2.0): [2.0], (4, 1.0): [8.0], (4, 2.0): [4.0], (8, 2.0): [8.0]}


@pytest.mark.whole
def test_one_ratio_that_came_about_in_two_ways_stays_two_cells(answer):
    assert cores.places(answer["client"]) == ["2\n2/2", "4\n4/2", "8\n4/1", "8\n8/2"]
    assert len(answer["client"]) == len(answer["fct"]) == 2 * 3 * 4


def test_the_gap_between_drivers_widens_as_put_in_and_leaves_the_baseline_out(answer):
    wide, change = (
        answer[name].set_index(["backend", "place"]).loc[("netns", "8\n8/2")]
        for name in ("client gap", "client gap change")
    )
    assert wide["value"] == pytest.approx(1.22 * 1.4, rel=0.05)
    assert change["low"] > 0
    host = cores.bulk(answer.repetitions).assign(driver=lambda frame: frame["driver"].replace("ovs", "host"))
    assert cores.gaps(host, "client_bps")["gap_times"].max() < 1.7


def test_only_repetitions_with_all_drivers_have_a_gap(answer):
    throughput = cores.bulk(answer.repetitions)
    odd = (throughput["driver"] == "ovs") & (throughput["repetition"] == 1)
    assert set(cores.gaps(throughput[~odd], "client_bps")["repetition"]) == {0, 2}
    assert cores.gaps(throughput[throughput["driver"] == "ovs"], "client_bps").empty


def test_where_a_flow_failed_the_mean_completion_time_is_a_gap_and_so_is_its_change(tmp_path):
    told = {"experiment": "core-ratio", "flow_bytes": 5_000_000, "duration_s": 30.0}
    for number, failed, repetition in ((1, 1, 0), (1, 0, 1), (2, 0, 0), (2, 0, 1)):
        lost = told | {"failed": failed, "cores": number, "repetition": repetition}
        store.write(synthetic.client_run([1, 1, 1], columns={"fct_s": [0.1, 0.3, 9.0]}, **lost), tmp_path)
    answer = question.ask("core-ratio", tmp_path)
    row = answer.repetitions[answer.repetitions["failed_flows"] > 0].squeeze()
    assert np.isnan(row["fct_mean_s"])
    assert (row["flows"], row["failed_flows"]) == (3, 1)
    gaps = answer["fct"].set_index("cores")["gap"]
    assert gaps.to_dict() == {1: "fct_mean_s has no finite value in 1 of 2 repetitions", 2: ""}
    (change,) = answer["fct change"].itertuples()
    assert change.gap == "the change has no finite value in 1 of 4 repetitions"


def test_without_completion_times_the_notebook_says_so_and_shows_the_rest(tmp_path):
    synthetic.write_core_ratio(tmp_path / "bulk", fct=False, backends=("docker",), drivers=("bridge",), repetitions=1)
    executed = Executed("05-core-ratio", tmp_path / "bulk", tmp_path)
    assert figures("bulk", "core-ratio-throughput", "core-ratio-total") <= executed.made
    assert not figures("bulk", "core-ratio-fct") & executed.made
    assert "no completion times" in executed.told("fct")
    assert "{core-ratio/missing}{no run of 'core-ratio' has flows with an end" in executed.values("05-core-ratio")
