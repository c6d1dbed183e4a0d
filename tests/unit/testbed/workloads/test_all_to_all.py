"""all-to-all: what is read of its ranks, what it asks of its tools, and what is refused."""

import json

import pytest

from pairlab.model.spec import Spec
from pairlab.testbed import plans
from pairlab.testbed.endpoints import Endpoint, Pair, Task
from pairlab.testbed.open import ranks_of
from pairlab.testbed.workloads.all_to_all import AllToAll
from tests.unit.testbed.workloads.helpers import captured, only

CLIENT, SERVER = "all-to-all-0.3.0-client.jsonl", "all-to-all-0.3.0-server.jsonl"


def pairs(count):
    made = []
    for index in range(count):
        client, server = (
            Endpoint(f"{side}-{index}", f"10.77.0.{2 * index + number}", None)
            for number, side in enumerate(("client", "server"), 1)
        )
        made.append(Pair(index, client, server, 5201 + index, Task()))
    return made


def rank_line(text):
    return json.loads(text.splitlines()[-1])


def test_a_pair_has_the_rounds_of_both_its_ranks():
    client, server = captured(CLIENT), captured(SERVER)
    measured = only(AllToAll().parse(client, server))
    both = [rank_line(client), rank_line(server)]
    rounds = both[0]["rounds"]
    assert rounds == both[1]["rounds"] > 100
    assert measured.flow["transactions"] == 2 * rounds
    assert measured.flow["flow_bytes"] == 2 * rounds * 3 * 1024  # to three others
    assert measured.flow["rank_least_mean_s"] == min(each["mean_s"] for each in both)
    assert measured.flow["rank_most_mean_s"] == max(each["mean_s"] for each in both)
    assert sum(count for _, count in measured.latencies) == 2 * rounds
    mean_s = sum(value_s * count for value_s, count in measured.latencies) / (2 * rounds)
    assert mean_s == pytest.approx(sum(each["mean_s"] for each in both) / 2, rel=5e-4)
    assert (measured.answered_bytes, measured.received_bytes) == tuple(each["received_bytes"] for each in both)


def test_of_an_odd_number_of_ranks_the_last_pair_has_one():
    client = captured(CLIENT)
    measured = only(AllToAll().parse(client, ""))
    assert measured.flow["transactions"] == rank_line(client)["rounds"]
    assert measured.received_bytes == 0


def test_a_pairs_report_is_refused_where_that_of_its_client_or_of_its_server_is_cut_off():
    client, server = captured(CLIENT), captured(SERVER)
    begun = server.splitlines()[0]
    for printed, served in (("", server), (client, begun), (begun, server), (client, server[:-9])):
        with pytest.raises(ValueError, match="all-to-all"):
            AllToAll().parse(printed, served)


def test_two_totals_of_one_rank_are_refused():
    with pytest.raises(ValueError, match="2 totals for one rank"):
        AllToAll().parse(captured(CLIENT) * 2)


def test_a_rank_whose_connection_broke_failed_in_its_own_words():
    broken = rank_line(captured(CLIENT)) | {"error": "the connection to rank 2 broke: it closed it"}
    measured = only(AllToAll().parse(captured(CLIENT).splitlines()[0] + "\n" + json.dumps(broken)))
    assert measured.error == "all-to-all: the connection to rank 2 broke: it closed it"


@pytest.mark.parametrize("printed", ["", "{", '{"event": "rank"}', '{"event": "latencies", "buckets": 3}'])
def test_what_is_no_report_is_refused(printed):
    with pytest.raises(ValueError, match="all-to-all"):
        AllToAll().parse(printed)


def test_the_first_containers_are_ranks_and_servers_come_first_as_they_are_up_first():
    ranks = ranks_of(pairs(2), 3, servers=2)
    assert [rank.endpoint for rank in ranks] == ["server-0", "client-0", "client-1"]
    assert [rank.port for rank in ranks] == [5201, 5203, 5204]
    assert [rank.endpoint for rank in ranks_of(pairs(2), 0, servers=2)] == [
        *("server-0", "server-1"),
        *("client-0", "client-1"),
    ]


def test_all_ranks_are_to_be_neighbours_of_all():
    assert all(each.meets_all for each in plans.layout(Spec(workload="all-to-all", pairs=2)).endpoints)
    assert not any(each.meets_all for each in plans.layout(Spec(workload="rr", pairs=2)).endpoints)
