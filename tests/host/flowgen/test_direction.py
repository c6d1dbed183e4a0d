"""flowgen's flows from a server to its client: the server sends and reports, the client tells what it received."""

from __future__ import annotations

import json
import select
import subprocess

import pytest

from tests.host.flowgen.helpers import PATIENCE_S, Server, run


@pytest.fixture
def sending(start, flowgen) -> Server:
    return Server(start, flowgen, "--sends")


def asked(flowgen, server, *options) -> list[dict]:
    done = run(flowgen, "client", *server.target, *options)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines_of(server) -> list[dict]:
    """What the server has said, up to the end of all its flows: it is stopped."""
    return server.stop()


def test_a_server_sends_for_the_time_that_its_client_asks_for(flowgen, sending):
    (received,) = asked(flowgen, sending, "--direction", "down", "--duration", 0.4, "--interval", 0.1)
    *intervals, total = lines_of(sending)
    assert received["event"] == "received"
    assert received["direction"] == total["direction"] == "down"
    assert received["ended"]
    assert received["flow_bytes"] == total["bytes_written"] >= total["flow_bytes"] > 1_000_000
    assert received["connect_ns"] < received["connected_ns"] < received["first_ns"] < received["last_ns"]
    assert received["connected_ns"] < total["connected_ns"] < received["first_ns"]
    assert total["duration_s"] == pytest.approx(0.4, abs=0.2)
    assert sum(line["bytes"] for line in intervals) == total["flow_bytes"]
    assert sum(line["retransmits"] for line in intervals) == total["retransmits"]


def test_flows_of_both_directions_are_numbered_apart_and_go_at_once(flowgen, sending):
    printed = asked(flowgen, sending, "--direction", "both", "--duration", 0.3, "--flows", 2)
    up = [line for line in printed if line["event"] == "total"]
    received = [line for line in printed if line["event"] == "received"]
    served = lines_of(sending)
    down = [line for line in served if line["event"] == "total"]
    assert [line["flow"] for line in up] == [line["flow"] for line in received] == [0, 1]
    assert sorted(line["flow"] for line in down) == [0, 1]
    assert sum(line["event"] == "received" for line in served) == 2  # of what the client sent
    assert all(line["flow_bytes"] > 0 for line in (*up, *down))
    assert max(line["connected_ns"] for line in (*up, *down)) < min(line["end_ns"] for line in (*up, *down))


def test_a_flow_with_an_end_comes_whole(flowgen, sending):
    (received,) = asked(flowgen, sending, "--direction", "down", "--bytes", 3_000_001, "--write-bytes", 777)
    (total,) = [line for line in lines_of(sending) if line["event"] == "total"]
    assert received["flow_bytes"] == total["flow_bytes"] == 3_000_001
    assert total["complete"]


def test_a_server_that_is_stopped_says_so_of_the_flow_that_it_sends(flowgen, sending, start):
    target = [*sending.target, "--direction", "down", "--duration", 60, "--interval", 30]
    client = start(flowgen, "client", *target, stdout=subprocess.PIPE)
    assert not select.select([client.stdout], [], [], 0.3)[0]
    (total,) = [line for line in lines_of(sending) if line["event"] == "total"]
    assert total["error"] == "the server was stopped before the flow was done"
    received = json.loads(client.communicate(timeout=PATIENCE_S)[0])
    assert received["flow_bytes"] >= total["flow_bytes"] > 0


def test_a_server_that_does_not_send_takes_an_order_for_payload(flowgen, server):
    (received,) = asked(flowgen, server, "--direction", "down", "--bytes", 1000, "--limit", 0.2)
    assert received["flow_bytes"] == 0
    assert not received["ended"]
