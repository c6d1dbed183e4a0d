import numpy as np
import pytest

from pairlab.analysis import cell_estimates
from pairlab.analysis.questions import throughput
from pairlab.statistics import intervals
from pairlab.store.dataset import Runs
from tests.support.synthetic import client_run


@pytest.fixture
def fairness(ask):
    return lambda *runs: ask("fairness", runs)


def clients_of(*runs):
    return throughput.clients(Runs(runs).flows)


def test_a_client_with_several_flows_is_one_client():
    clients = clients_of(client_run([3, 5], flows_per_pair=4))
    assert list(clients["throughput_bps"]) == [3e9, 5e9]


def test_a_client_that_failed_got_nothing_and_leaves_the_ratio_without_bound(fairness):
    found = fairness(client_run([4, 2, 2], failed=1)).repetitions.iloc[0]
    assert (found["least_bps"], found["most_bps"], found["failed_flows"]) == (0, 4e9, 1)
    assert np.isinf(found["most_over_least"])
    assert found["least_over_most"] == 0
    assert found["jain_index"] == pytest.approx(36 / (3 * 20))


def test_each_repetition_gives_one_ratio_and_the_interval_is_over_them(fairness):
    made = [client_run(rates, repetition=number) for number, rates in enumerate([[1, 2], [2, 2], [1, 3]])]
    answer = fairness(*made)
    assert list(answer.repetitions["most_over_least"]) == [2, 1, 3]
    cell = answer["ratio"].iloc[0]
    assert tuple(cell[["value", "low", "high", "n"]]) == pytest.approx(
        tuple(intervals.mean_interval([2, 1, 3], scale=intervals.FROM_ONE))
    )


def test_the_mean_ratio_is_a_gap_where_a_client_got_nothing(fairness):
    made = [client_run([4, 2], failed=number, repetition=number) for number in (0, 1)]
    cell = fairness(*made)["ratio"].iloc[0]
    assert np.isnan(cell["value"])
    assert cell["gap"] == "most_over_least has no finite value in 1 of 2 repetitions"


def test_drivers_are_compared_by_repetition(fairness):
    even, uneven = [2, 2.1, 2.2], [1, 2, 4]
    made = [
        client_run([rate * (1 + 0.01 * number) + 0.001 * number for rate in rates], driver=driver, **rest)
        for driver, rates in (("bridge", uneven), ("ovs", even))
        for number in range(5)
        for rest in ({"repetition": number},)
    ]
    answer = fairness(*made)
    between = answer["pairs"].set_index("measure")
    assert between.loc["jain_index", "delta"] == between.loc["least_over_most", "delta"] == -1
    assert between.loc["jain_index", "p_holm"] == pytest.approx(2 / 252)  # all of 5 above all of 5: 2 of C(10, 5)
    assert list(between["n_first"]) == [5, 5]
    for name in ("jain differs", "min-max differs"):
        assert (answer[name]["p"] < 0.01).all()


@pytest.mark.parametrize(("slow", "failed", "apart"), [(0.1, 0, True), (0.1, 1, False), (1, 0, False)])
def test_drivers_tenfold_apart_need_a_logarithmic_axis_which_has_no_place_for_zero(slow, failed, apart):
    made = [client_run([slow] * 3, failed=failed), client_run([2] * 3, driver="ovs")]
    assert throughput.far_apart(clients_of(*made)) is apart


def test_a_single_repetition_carries_no_test_and_says_so(fairness):
    answer = fairness(*(client_run([1, 2], driver=driver) for driver in ("bridge", "ovs")))
    for name in ("jain differs", "min-max differs"):
        assert answer[name]["p"].isna().all()
        assert answer[name]["gap"].str.contains("has 1 repetition").all()
    assert answer["pairs"].empty


def test_the_pairs_looked_at_are_the_asked_ones_or_the_most():
    cells = ((2, "netns"), (3, "netns"), (2, "docker"), (5, "docker"))
    flows = Runs([client_run([1] * count, backend=backend) for count, backend in cells]).flows
    assert dict(cell_estimates.at_pairs(flows, 3).groupby("backend")["pairs"].max()) == {"netns": 3, "docker": 5}
    assert dict(cell_estimates.at_pairs(flows).groupby("backend")["pairs"].min()) == {"netns": 3, "docker": 5}


def test_runs_of_several_flows_for_each_client_are_no_answer(fairness):
    answer = fairness(*(client_run([1, 2], flows_per_pair=count) for count in (2, 3)))
    assert answer.gap == "there are no runs of 'throughput' as this question needs them"
