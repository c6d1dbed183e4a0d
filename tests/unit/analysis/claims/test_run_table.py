import numpy as np
import pytest

from pairlab.analysis.claims import run_table
from pairlab.errors import AnalysisError
from pairlab.statistics import correlation
from tests.support.claimed import recorded
from tests.support.synthetic import bulk, ending, run


def only(*runs):
    return run_table.reduce(runs).iloc[0]


def test_a_failed_flow_is_zero_in_throughput_and_fairness_and_longer_than_any_in_fct():
    row = only(run([1, 2, 4], failed=1))
    assert row["total_bps"] == 3e9
    assert row["client_bps"] == 1e9
    assert row["least_over_most"] == 0
    row = only(ending([0.1, 0.3, 0.9], failed=1))
    assert row["failed_flows"] == 1
    assert np.isnan([row["fct_mean_s"], row["fct_max_s"]]).all()
    assert list(row["fcts_s"]) == [0.1, 0.3, np.inf]


def test_where_most_flows_failed_those_that_are_left_do_not_stand_for_them():
    row = only(ending([6.0] * 20 + [9.0] * 30, failed=30))
    assert list(row["fcts_s"]) == [6.0] * 20 + [np.inf] * 30
    assert (row["flows"], row["failed_flows"]) == (50, 30)


def test_a_role_is_told_as_far_as_its_own_flows_are():
    row = only(ending([0.1, 0.3, 2.0], roles=["mouse", "mouse", "elephant"], failed=1))
    assert (row["mouse_max_s"], list(row["mouse_fcts_s"])) == (0.3, [0.1, 0.3])
    assert list(row["elephant_fcts_s"]) == [np.inf]
    assert np.isnan(row["elephant_max_s"])


def test_flows_without_an_end_have_no_completion_times_failed_or_not():
    row = only(run([1, 2, 4], failed=1))
    assert len(row["fcts_s"]) == 0
    assert np.isnan([row["fct_mean_s"], row["fct_max_s"]]).all()


def test_the_correlation_is_over_the_clients_and_is_missing_where_nothing_varies():
    row = only(bulk([1, 2, 3, 4], retransmits=[2, 4, 7, 6]))
    assert row["pearson_z"] == correlation.fisher_z([1, 2, 3, 4], [2, 4, 7, 6])
    assert np.tanh(row["spearman_z"]) == pytest.approx(0.8)
    for name in ("pearson_z", "spearman_z", "leverage"):
        assert np.isnan(only(bulk([1, 2, 3, 4], retransmits=[0, 0, 0, 0]))[name])
        assert np.isnan(only(bulk([1, 2, 3], retransmits=[1, 2, 3]))[name])


def test_fairness_is_told_with_the_least_and_the_most_client_and_without_them():
    row = only(bulk([1, 4, 5, 10]))
    assert (row["least_over_most"], row["inner_least_over_most"]) == (0.1, 0.8)
    assert np.isnan(only(bulk([1, 4]))["inner_least_over_most"])


def test_the_shortest_flow_is_told_as_a_share_of_the_longest_where_all_were_complete():
    assert only(ending([0.1, 0.3, 0.4]))["fct_least_over_most"] == pytest.approx(0.25)
    assert np.isnan(only(ending([0.1, 0.3, 0.4], failed=1))["fct_least_over_most"])


def test_cpu_time_counts_as_busy_within_the_window_and_not_while_it_waits_for_a_disk():
    assert only(bulk([1], busy=0.7, iowait=0.2))["busy"] == pytest.approx(0.7)
    assert np.isnan(only(bulk([1]))["busy"])


def test_containers_per_core_count_both_ends_of_a_pair_on_the_cores_they_may_use():
    assert only(run([1] * 6, experiment="core-ratio", cores=1))["containers_per_core"] == 12
    assert only(run([1] * 6))["containers_per_core"] == 6  # of the host's 2


@pytest.mark.parametrize(
    "beyond", [{"flows_per_pair": 2, "experiment": "fct"}, {"cpu_quota": 0.5}, {"udp_share": 0.5}, {"cores": 1}]
)
def test_a_run_beyond_the_papers_decides_nothing_about_them(beyond):
    assert len(run_table.reduce([run([1]), run([1], **beyond)])) == 1


def test_runs_whose_clients_start_apart_are_no_repetitions_of_those_that_start_together():
    together, *apart = (run([1], experiment="starting", start_spacing_s=each) for each in (0.0, 0.01, 0.02))
    assert len(run_table.reduce([together, *apart])) == 1
    assert run_table.reduce(apart).empty


def test_a_run_that_does_not_count_is_left_out():
    assert run_table.reduce([run([1], status="invalid")]).empty


def test_runs_that_do_not_belong_together_are_refused():
    with pytest.raises(AnalysisError, match=r"differ in duration_s \(1\.0, 2\.0\)"):
        run_table.reduce([run([1]), run([1], duration_s=1.0, repetition=1)])
    with pytest.raises(AnalysisError, match="2 runs claim to be repetition 0 of bridge with 1 pairs"):
        run_table.reduce([run([1]), run([1], seed=4)])


def test_what_was_in_force_is_told_of_each_run():
    row = only(recorded(run([1], driver="ovs"), datapath="netdev", tcp_congestion_control="bbr"))
    assert (row["control_in_force"], row["datapath"], row["duration_s"]) == ("bbr", "netdev", 2.0)
    assert only(run([1], congestion_control="reno"))["control_in_force"] == "reno"
