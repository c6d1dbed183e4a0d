"""flowgen: what is read of its client, and of its server beside it."""

import json

import pytest

from pairlab.testbed.workloads.flowgen import Flowgen
from tests.unit.testbed.workloads.helpers import captured, only


def test_flowgen_reports_what_was_acknowledged():
    measured = only(Flowgen().parse(captured("flowgen-0.1.0-several.jsonl")))
    assert measured.flow == {
        "duration_s": 2.000008874,
        "flow_bytes": 4_117_949_468,
        "throughput_bps": 16_471_724_787,
        "congestion_control": "bbr",
        "retransmits": 11,
        "rtt_s": 0.000077,
        "min_rtt_s": 0.000001,
        "cwnd_bytes": 916_762,
        "delivery_rate_bps": 12_934_913_576,
    }
    assert [row["interval_bytes"] for row in measured.intervals] == [
        1_215_529_959,
        973_313_224,
        942_401_856,
        986_704_429,
    ]
    assert sum(row["interval_bytes"] for row in measured.intervals) == measured.flow["flow_bytes"]
    assert measured.intervals[0]["throughput_bps"] == pytest.approx(1_215_529_959 * 8 / 0.500006624)


def test_flowgen_that_was_killed_reported_no_total():
    killed_before_any_report, killed_after_two_lines = "", captured("flowgen-0.1.0-several.jsonl").splitlines()[:2]
    for text in (killed_before_any_report, "\n".join(killed_after_two_lines)):
        with pytest.raises(ValueError, match="flowgen reported 0 totals"):
            Flowgen().parse(text)


def test_flowgen_tells_of_each_of_its_flows():
    told = Flowgen().parse(captured("flowgen-0.2.0-flows-client.jsonl"))
    assert [flow.number for flow in told] == [0, 1, 2]
    for flow in told:
        assert len(flow.intervals) == 2
        assert sum(row["interval_bytes"] for row in flow.intervals) == flow.flow["flow_bytes"]
        assert flow.completed_ns is None


def finite(text=None, served=None):
    names = ("flowgen-0.2.0-finite-flows-client.jsonl", "flowgen-0.2.0-finite-flows-server.jsonl")
    return Flowgen().parse(
        *(captured(name) if told is None else told for name, told in zip(names, (text, served), strict=True))
    )


def test_a_flow_with_an_end_is_complete_when_its_server_had_the_last_byte():
    told = finite()
    received = {
        line["peer"]: line for line in map(json.loads, captured("flowgen-0.2.0-finite-flows-server.jsonl").splitlines())
    }
    sent = [json.loads(line) for line in captured("flowgen-0.2.0-finite-flows-client.jsonl").splitlines()]
    totals = {line["flow"]: line for line in sent if line["event"] == "total"}
    assert [flow.number for flow in told] == [0, 1, 2]
    for flow in told:
        total = totals[flow.number]
        server = received[total["local"]]
        assert not flow.error
        assert (flow.first_byte_ns, flow.completed_ns) == (server["first_ns"], server["last_ns"])
        assert flow.connected_ns < flow.first_byte_ns < flow.completed_ns <= total["end_ns"]
        assert server["flow_bytes"] == 5_000_000


def test_an_only_flow_is_its_servers_only_one_whatever_port_a_proxy_connects_from():
    client, server = captured("flowgen-0.2.0-finite-client.jsonl"), captured("flowgen-0.2.0-finite-server.jsonl")
    port = json.loads(server.splitlines()[-1])["peer"].rpartition(":")[2]
    assert f":{port}" in client
    assert Flowgen().parse(client, server.replace(f":{port}", ":1")) == Flowgen().parse(client, server)


def test_a_flow_of_which_its_server_did_not_get_all_has_failed_and_no_other():
    lines = captured("flowgen-0.2.0-finite-flows-server.jsonl").replace(
        '"flow_bytes":5000000', '"flow_bytes":4999999', 1
    )
    assert sorted(flow.error for flow in finite(served=lines)) == [
        "",
        "",
        "flowgen: the server received 4999999 of 5000000 bytes",
    ]
    assert {flow.error for flow in finite(served="")} == {"flowgen: the server received 0 of 5000000 bytes"}


def test_a_flow_that_was_not_complete_has_failed_whatever_its_server_had():
    text = captured("flowgen-0.2.0-finite-flows-client.jsonl").replace('"complete":true', '"complete":false')
    assert all(flow.error for flow in finite(text))


def test_flowgen_tells_of_udp_what_the_server_counted():
    first, second = Flowgen().parse(captured("flowgen-0.2.0-udp-client.jsonl"))
    assert (first.number, second.number) == (0, 1)
    assert first.flow == {
        "duration_s": 1.003964019,
        "flow_bytes": 24_468 * 1448,
        "throughput_bps": pytest.approx(24_468 * 1448 * 8 / 1.003964019),
        "datagrams_sent": 99_612,
        "datagrams_received": 24_468,
        "datagrams_lost": 75_144,
        "datagrams_reordered": 0,
    }
    assert (first.connected_ns, first.first_byte_ns, first.completed_ns) == (None, 13_361_396_231_228, None)


def test_flowgen_that_had_no_answer_of_its_udp_server_has_failed():
    (total, _) = map(json.loads, captured("flowgen-0.2.0-udp-client.jsonl").splitlines())
    total |= {"flow_bytes": None, "datagrams_received": None, "error": "the server did not answer"}
    assert only(Flowgen().parse(json.dumps(total))).error == "flowgen: the server did not answer"


def both_ways():
    return captured("flowgen-0.3.0-both-client.jsonl"), captured("flowgen-0.3.0-both-server.jsonl")


def test_flowgen_both_ways_has_a_flow_of_each_end():
    up, down = Flowgen().parse(*both_ways())
    assert [(each.direction, each.number) for each in (up, down)] == [("up", 0), ("down", 0)]
    total, received = (json.loads(line) for line in both_ways()[0].splitlines()[-2:])
    assert up.flow["flow_bytes"] == total["flow_bytes"]
    assert down.received_bytes == received["flow_bytes"]
    assert down.first_byte_ns == received["first_ns"] > down.connected_ns
    assert sum(row["interval_bytes"] for row in down.intervals) == down.flow["flow_bytes"]
    assert down.flow["congestion_control"] == "bbr"


def test_flowgen_whose_server_was_killed_has_no_flow_down():
    client, server = both_ways()
    of_client = "".join(line + "\n" for line in server.splitlines() if '"received"' in line)
    up, down = Flowgen().parse(client, of_client)
    assert not up.error
    assert down.error == "flowgen: the server reported nothing of a flow that it was to send"


def test_what_a_client_had_not_received_of_a_flow_down_is_unknown():
    client, server = both_ways()
    _, down = Flowgen().parse(client.replace('"ended":true', '"ended":false'), server)
    assert down.received_bytes is None
    assert down.flow["flow_bytes"] > 0
