import numpy as np
import pytest

from pairlab import store
from pairlab.analysis.questions import retransmissions
from pairlab.store.dataset import load_runs
from tests.support import synthetic_contention as synthetic
from tests.support.executed import Executed


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return synthetic.write_retransmissions(tmp_path_factory.mktemp("runs") / "lossy")


@pytest.fixture(scope="module")
def clients(runs):
    return retransmissions.clients(load_runs(runs).flows)


def clients_of(root, *runs):
    for made in runs:
        store.write(made, root)
    return retransmissions.clients(load_runs(root).flows)


def run(rates, retransmits, **spec):
    return synthetic.client_run(
        rates, experiment="retransmissions", columns={"retransmits": retransmits} | spec.pop("columns", {}), **spec
    )


def test_the_tools_counts_of_a_clients_flows_are_added_up_and_the_kernels_are_the_clients_already(tmp_path):
    made = run([1, 2], [3, 4], flows_per_pair=2, columns={"netns_retransmits": [7, 9]})
    clients = clients_of(tmp_path, made)
    assert list(clients["retransmits"]) == [6, 8]
    assert list(clients["netns_retransmits"]) == [7, 9]


def test_clients_that_send_more_and_retransmit_more_correlate_in_every_way(clients):
    found = retransmissions.correlations(clients, 0.95).set_index(["backend", "method"])
    for method in retransmissions.METHODS:
        cells = found.loc[("netns", method)]
        assert (cells["low"] > 0).all()
        assert (cells["n"] == 3).all()
        assert (cells["clients"] == 36).all()


def test_where_nothing_was_retransmitted_there_is_a_gap_and_no_number(clients):
    found = retransmissions.correlations(clients, 0.95)
    docker = found[found["backend"] == "docker"]
    assert docker["value"].isna().all()
    assert docker["gap"].str.startswith("nothing was retransmitted by any of 36 clients in 3 repetitions").all()
    assert (found[found["backend"] == "netns"]["gap"] == "").all()


def test_a_tool_that_tells_no_count_is_another_gap(tmp_path):
    made = run([1, 2, 3, 4], [None] * 4, columns={"netns_retransmits": [1, 2, 3, 4]})
    clients = clients_of(tmp_path, made)
    assert set(retransmissions.correlations(clients, 0.95)["gap"]) == {"the tool reports no retransmissions"}
    cell = retransmissions.agreement(clients).iloc[0]
    assert np.isnan(cell["retransmits"])
    assert (cell["netns_retransmits"], cell["netns_retransmits_compared"]) == (10, 0)


def test_a_failed_client_is_left_out_of_the_correlation_and_counted(tmp_path):
    clients = clients_of(tmp_path, run([1, 2, 3, 4, 9], [1, 2, 3, 4, 0], failed=1))
    found = retransmissions.correlations(clients, 0.95).iloc[0]
    assert (found["clients"], found["left_out"], found["gap"]) == (4, 1, "")
    assert found["value"] > 0.99


def test_agreement_is_over_the_clients_of_which_both_counts_are_known(tmp_path):
    made = run([1, 2, 3], [5, 6, None], columns={"netns_retransmits": [5, 9, 100]})
    cell = retransmissions.agreement(clients_of(tmp_path, made)).iloc[0]
    assert (cell["retransmits"], cell["netns_retransmits"]) == (11, 114)
    told = [cell[f"netns_retransmits_{what}"] for what in ("less_tool", "equal", "compared")]
    assert told == [3, 1, 2]
    assert np.isnan(cell["diag_retransmits"])


def test_data_without_any_retransmission_give_no_figure(tmp_path):
    synthetic.write_retransmissions(tmp_path / "clean", backends=("netns",), none_at=("netns",), repetitions=1)
    executed = Executed("02-retransmissions", tmp_path / "clean", tmp_path)
    assert not any(name.startswith("figures/") for name in executed.made)
    assert "{retransmissions/not-correlated}{netns-flowgen, bridge at 12 pairs" in executed.values("02-retransmissions")
