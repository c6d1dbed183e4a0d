import numpy as np

from pairlab.analysis.questions import retransmissions
from pairlab.store.dataset import Runs
from tests.support import asked
from tests.support.synthetic import client_run


def clients_of(*runs):
    return retransmissions.clients(Runs(runs).flows)


def run(rates, retransmits, **spec):
    return client_run(
        rates, experiment="retransmissions", columns={"retransmits": retransmits} | spec.pop("columns", {}), **spec
    )


def test_the_tools_counts_of_a_clients_flows_are_added_up_and_the_kernels_are_the_clients_already():
    made = run([1, 2], [3, 4], flows_per_pair=2, columns={"netns_retransmits": [7, 9]})
    clients = clients_of(made)
    assert list(clients["retransmits"]) == [6, 8]
    assert list(clients["netns_retransmits"]) == [7, 9]


def test_clients_that_send_more_and_retransmit_more_correlate_in_every_way():
    runs = [run for run in asked.runs_of("retransmissions", 3) if run.spec.driver == "ovs"]
    found = retransmissions.correlations(clients_of(*runs), 0.95).set_index("method")
    assert set(found.index) == set(retransmissions.METHODS)
    assert (found["low"] > 0).all()
    assert (found["n"] == 3).all()
    assert (found["clients"] == 90).all()


def test_where_nothing_was_retransmitted_there_is_a_gap_and_no_number_and_no_figure(ask):
    answer = ask("retransmissions", [run([1, 2, 3], [0, 0, 0])])
    found = answer["correlation"]
    assert found["value"].isna().all()
    assert found["gap"].str.startswith("nothing was retransmitted by any of 3 clients in 1 repetition").all()
    assert [name for name in answer.question.figures if answer.figure(name) is not None] == []
    assert answer.values["not-correlated"].startswith("netns-flowgen, bridge at 3 pairs")


def test_a_tool_that_tells_no_count_is_another_gap():
    made = run([1, 2, 3, 4], [None] * 4, columns={"netns_retransmits": [1, 2, 3, 4]})
    clients = clients_of(made)
    assert set(retransmissions.correlations(clients, 0.95)["gap"]) == {"the tool reports no retransmissions"}
    cell = retransmissions.agreement(clients).iloc[0]
    assert np.isnan(cell["retransmits"])
    assert (cell["netns_retransmits"], cell["netns_retransmits_compared"]) == (10, 0)


def test_a_failed_client_is_left_out_of_the_correlation_and_counted():
    clients = clients_of(run([1, 2, 3, 4, 9], [1, 2, 3, 4, 0], failed=1))
    found = retransmissions.correlations(clients, 0.95).iloc[0]
    assert (found["clients"], found["left_out"], found["gap"]) == (4, 1, "")
    assert found["value"] > 0.99


def test_agreement_is_over_the_clients_of_which_both_counts_are_known():
    made = run([1, 2, 3], [5, 6, None], columns={"netns_retransmits": [5, 9, 100]})
    cell = retransmissions.agreement(clients_of(made)).iloc[0]
    assert (cell["retransmits"], cell["netns_retransmits"]) == (11, 114)
    told = [cell[f"netns_retransmits_{what}"] for what in ("less_tool", "equal", "compared")]
    assert told == [3, 1, 2]
    assert np.isnan(cell["diag_retransmits"])
