"""rr: what is read of its client, and what it asks of its tool."""

import json

import pytest

from pairlab.model.spec import Spec
from pairlab.testbed.endpoints import Task
from pairlab.testbed.workloads.rr import Rr, sizes
from tests.unit.testbed.workloads.helpers import captured, only


def test_rr_reports_its_transactions_and_how_long_each_took():
    measured = only(Rr().parse(captured("rr-0.3.0-one.jsonl")))
    assert measured.flow == {
        "duration_s": 2.0,
        "flow_bytes": 500 * 1100,
        "throughput_bps": 250 * 1100 * 8,
        "transactions": 500,
        "transactions_lost": 0,
        "transactions_failed": 0,
    }
    assert sum(count for _, count in measured.latencies) == 500
    told = json.loads(captured("rr-0.3.0-one.jsonl").splitlines()[-1])
    mean_s = sum(latency_s * count for latency_s, count in measured.latencies) / 500
    assert mean_s == pytest.approx(told["mean_s"], rel=5e-4)
    assert measured.latencies[-1][0] == pytest.approx(told["max_s"], rel=5e-4)
    assert measured.received_bytes == 32 + 500 * 100
    assert measured.answered_bytes == 1 + 500 * 1000
    assert measured.windowed


def test_what_was_due_in_a_stall_to_the_end_is_lost():
    """Of 500 requests in a second, the client had no CPU for the last: what was due meanwhile was never sent."""
    measured = only(Rr().parse(captured("rr-0.3.0-stalled.jsonl")))
    assert (measured.flow["transactions"], measured.flow["transactions_lost"]) == (371, 129)
    assert measured.latencies[-1][0] == pytest.approx(0.808, rel=1e-3)
    assert measured.lasted_s == pytest.approx(1.548, rel=1e-3)


def test_rr_tells_of_each_connection_and_not_of_the_warm_up():
    told = Rr().parse(captured("rr-0.3.0-udp.jsonl"))
    assert [measured.number for measured in told] == [0, 1]
    assert [measured.flow["transactions"] for measured in told] == [100, 100]
    assert [measured.flow["flow_bytes"] for measured in told] == [100 * 48, 100 * 48]
    assert all(measured.lasted_s == pytest.approx(1, abs=0.05) for measured in told)
    assert [(measured.received_datagrams, measured.received_bytes) for measured in told] == [(200, 200 * 32)] * 2
    assert [measured.answered_bytes for measured in told] == [None, None]


def test_of_udp_without_all_responses_it_is_not_known_what_arrived():
    told = Rr().parse(captured("rr-0.3.0-udp.jsonl").replace('"responses":200', '"responses":199'))
    assert [(measured.received_datagrams, measured.received_bytes) for measured in told] == [(None, None)] * 2


def test_a_request_without_a_size_is_the_least_there_is():
    assert sizes(Spec(), Task().protocol) == (1, 1)
    assert sizes(Spec(udp_share=1.0), "udp") == (32, 16)
    assert sizes(Spec(response_bytes=1 << 20), "tcp") == (1, 1 << 20)
