"""iperf3: what is read of its client's report, and of its server's in it."""

import json

import pytest

from pairlab.measurement.flow_rows import window
from pairlab.testbed.workloads.iperf3 import Iperf3
from tests.unit.testbed.workloads.helpers import captured, only


def test_iperf3s_intervals_are_those_its_server_had_where_its_report_is_there():
    told = Iperf3().parse(captured("iperf3-3.12-shaped.json"))
    assert [flow.flow["flow_bytes"] for flow in told] == [12_210_984, 11_941_600]
    assert [[row["interval_bytes"] for row in flow.intervals] for flow in told] == [
        [3_218_904, 2_997_360, 2_932_200, 2_997_360, 65_160],
        [2_819_200, 2_997_360, 2_997_360, 2_997_360, 130_320],
    ]
    assert [sum(row["interval_bytes"] for row in flow.intervals) for flow in told] == [12_210_984, 11_941_600]
    assert [row["retransmits"] for row in told[0].intervals] == [0] * 5
    assert told[1].intervals[1]["cwnd_bytes"] == 424_264  # of the client
    windows = [window(flow, 0.5).flow["throughput_bps"] for flow in told]
    assert sum(windows) == pytest.approx(1e8 * 1448 / 1514, rel=0.01)


def test_iperf3s_streams_are_told_apart_by_ports():
    report = json.loads(captured("iperf3-3.12-shaped.json"))
    server = report["server_output_json"]
    server["start"]["connected"].reverse()
    for interval in server["intervals"]:
        interval["streams"].reverse()
    assert Iperf3().parse(json.dumps(report)) == Iperf3().parse(captured("iperf3-3.12-shaped.json"))


@pytest.mark.parametrize("name", ["proxied", "proxied-bidir"])
def test_iperf3s_only_stream_in_a_direction_is_its_servers_only_one_whatever_port_a_proxy_connects_from(name):
    report = json.loads(captured(f"iperf3-3.12-{name}.json"))
    server = report["server_output_json"]
    told = Iperf3().parse(json.dumps(report))
    assert [flow.flow["flow_bytes"] for flow in told] == [
        each["receiver"]["bytes"] for each in report["end"]["streams"]
    ]
    assert [row["interval_bytes"] for row in told[0].intervals] == [
        interval["streams"][0]["bytes"] for interval in server["intervals"]
    ]
    for own, theirs in zip(report["start"]["connected"], server["start"]["connected"], strict=True):
        theirs["remote_port"] = own["local_port"]
    assert Iperf3().parse(json.dumps(report)) == told


def test_iperf3s_server_that_knows_not_all_ports_of_several_streams_is_refused():
    report = captured("iperf3-3.12-shaped.json")
    one, other = (each["remote_port"] for each in json.loads(report)["server_output_json"]["start"]["connected"])
    refused = (
        rf"^iperf3's server reports no stream from its client's port {other}, but from {one}, 1: .* flows_per_pair"
    )
    with pytest.raises(ValueError, match=refused):
        Iperf3().parse(report.replace(f'"remote_port":\t{other}', '"remote_port":\t1'))


def test_iperf3s_server_that_failed_is_heard_of():
    report = json.loads(captured("iperf3-3.12-shaped.json"))
    report["server_output_json"]["error"] = "interrupt - the server has terminated"
    with pytest.raises(ValueError, match=r"^iperf3's server: interrupt"):
        Iperf3().parse(json.dumps(report))


def test_iperf3_reports_what_was_received():
    measured = only(Iperf3().parse(captured("iperf3-3.12-several.json")))
    (stream,) = json.loads(captured("iperf3-3.12-several.json"))["end"]["streams"]
    assert measured.flow == {
        "duration_s": stream["receiver"]["end"],
        "flow_bytes": stream["receiver"]["bytes"],
        "throughput_bps": pytest.approx(stream["receiver"]["bits_per_second"]),
        "retransmits": 56,
        "min_rtt_s": pytest.approx(52e-6),
        "rtt_s": pytest.approx(52e-6),
        "cwnd_bytes": 785_796,
        "congestion_control": "bbr",
    }
    assert [row["retransmits"] for row in measured.intervals] == [13, 23, 13, 7]
    assert measured.intervals[2] == {
        "start_s": 1.0007,
        "end_s": 1.500203,
        "interval_bytes": 1_270_087_680,
        "throughput_bps": 20_341_622_995.583977,
        "retransmits": 13,
        "rtt_s": pytest.approx(78e-6),
        "cwnd_bytes": 1_047_728,
    }


def test_iperf3_without_tcp_info_leaves_it_missing():
    report = json.loads(captured("iperf3-3.12-one.json"))
    for told in (report["intervals"][0]["streams"][0], report["end"]["streams"][0]["sender"]):
        for key in ("retransmits", "rtt", "min_rtt", "snd_cwnd"):
            told.pop(key, None)
    flow = only(Iperf3().parse(json.dumps(report))).flow
    assert [flow[key] for key in ("retransmits", "rtt_s", "min_rtt_s", "cwnd_bytes")] == [None] * 4
    assert flow["flow_bytes"] == 2_260_860_928


def test_iperf3_tells_of_each_of_its_flows():
    told = Iperf3().parse(captured("iperf3-3.12-flows.json"))
    report = json.loads(captured("iperf3-3.12-flows.json"))
    assert [flow.number for flow in told] == [0, 1, 2]
    assert sum(flow.flow["flow_bytes"] for flow in told) == report["end"]["sum_received"]["bytes"]
    assert sum(flow.flow["retransmits"] for flow in told) == report["end"]["sum_sent"]["retransmits"]
    sent = [stream["sender"]["bytes"] for stream in report["end"]["streams"]]
    for flow, written in zip(told, sent, strict=True):  # without its server's report, intervals are of what was written
        assert sum(row["interval_bytes"] for row in flow.intervals) == written > flow.flow["flow_bytes"]
        assert flow.flow["congestion_control"] == "reno"


def test_iperf3_in_reverse_has_the_servers_retransmissions_and_the_clients_bytes():
    report = json.loads(captured("iperf3-3.12-reverse.json"))
    flow = only(Iperf3().parse(json.dumps(report)))
    assert flow.direction == "down"
    assert flow.flow["flow_bytes"] == report["end"]["streams"][0]["receiver"]["bytes"]
    assert flow.flow["retransmits"] == report["end"]["streams"][0]["sender"]["retransmits"] == 2
    assert flow.flow["min_rtt_s"] is None  # its client does not know it
    of_client, of_server = report["intervals"], report["server_output_json"]["intervals"]
    assert [row["interval_bytes"] for row in flow.intervals] == [each["streams"][0]["bytes"] for each in of_client]
    assert flow.intervals[0]["rtt_s"] == of_server[0]["streams"][0]["rtt"] * 1e-6


def test_iperf3_both_ways_has_a_flow_of_each_direction():
    up, down = Iperf3().parse(captured("iperf3-3.12-bidir.json"))
    assert [(each.direction, each.number) for each in (up, down)] == [("up", 0), ("down", 0)]
    assert up.flow["min_rtt_s"] == pytest.approx(829e-6)
    for each in (up, down):
        assert sum(row["interval_bytes"] for row in each.intervals) == pytest.approx(each.flow["flow_bytes"], rel=0.01)


def test_iperf3_that_prints_its_report_twice_is_read_once():
    twice = captured("iperf3-3.16+-printed-twice.json")
    half = len(twice) // 2
    assert twice[:half] == twice[half:]
    assert Iperf3().parse(twice) == Iperf3().parse(twice[:half])
    assert only(Iperf3().parse(twice)).flow["flow_bytes"] == 4_840_357_888
    with pytest.raises(
        ValueError, match=r"iperf3 printed '.*' after its report; expected one report, or twice the same"
    ):
        Iperf3().parse(twice[:-100])


# --- stopped in the middle, as the background is


def stopped(name="client", version="3.12"):
    return captured(f"iperf3-{version}-stopped-{name}.json")


def test_iperf3_reports_what_its_server_received_and_the_last_moments_as_its_client_has_them():
    """The server prints the last interval twice, and has none of the last moments but in its total."""
    told = only(Iperf3().parse_stopped(stopped(), stopped("server")))
    assert told.received_bytes == told.flow["flow_bytes"] == 17_551_851_520
    assert [row["interval_bytes"] for row in told.intervals] == [
        *(4_016_701_440, 4_353_359_819, 2_786_132_021, 4_879_679_488),
        1_512_046_592,
    ]
    assert [row["end_s"] for row in told.intervals][-2:] == [2.000036, 2.142137]
    assert told.flow["retransmits"] == sum(row["retransmits"] for row in told.intervals) == 22


def test_iperf3_that_adds_which_signal_stopped_it_is_read():
    told = only(Iperf3().parse_stopped(stopped(version="3.21"), stopped("server", "3.21")))
    assert told.received_bytes == 5_493_620_736


def test_iperf3s_server_may_be_stopped_before_it_hears_that_its_client_was():
    report = json.JSONDecoder().raw_decode(stopped("server"))[0] | {"error": "interrupt - the server has terminated"}
    assert only(Iperf3().parse_stopped(stopped(), json.dumps(report))).received_bytes == 17_551_851_520


def test_iperf3_that_something_else_ended_says_what():
    died = captured("iperf3-3.12-server-died.json")
    with pytest.raises(ValueError, match="unable to write to stream socket"):
        Iperf3().parse_stopped(died, stopped("server"))
    busy = json.dumps({"start": {}, "intervals": [], "end": {}, "error": "the server is busy"})
    with pytest.raises(ValueError, match="iperf3: the server is busy"):
        Iperf3().parse_stopped(stopped(), busy)
    with pytest.raises(ValueError, match="the client has terminated"):
        Iperf3().parse(stopped())


@pytest.mark.parametrize(("client", "server"), [("", ""), ("{}", "{}"), ("[]", "[]"), (stopped(), ""), ("", stopped())])
def test_iperf3_without_a_whole_report_says_so(client, server):
    with pytest.raises(ValueError, match=r"iperf3 printed no|incomplete"):
        Iperf3().parse_stopped(client, server)


def test_iperf3s_datagrams_are_those_its_server_received_and_all_others_are_lost():
    report = json.loads(captured("iperf3-3.12-udp.json"))
    told = Iperf3().parse(json.dumps(report))
    assert [flow.received_datagrams for flow in told] == [500 - 21, 500 - 20]  # as iperf3 counts, too
    assert [flow.flow["datagrams_sent"] for flow in told] == [500, 500]
    assert [flow.flow["datagrams_lost"] for flow in told] == [21, 20]
    assert told[0].flow["throughput_bps"] == pytest.approx(479_000 * 8 / told[0].flow["duration_s"])
    last = report["server_output_json"]["intervals"][-1]["streams"][0]
    last["bytes"] -= 2000  # the last two: iperf3 itself counts no loss after the last that arrived
    assert [flow.flow["datagrams_lost"] for flow in Iperf3().parse(json.dumps(report))] == [23, 20]


def test_iperf3_of_which_no_datagram_arrived_says_so():
    report = json.loads(captured("iperf3-3.12-udp.json"))
    for interval in report["server_output_json"]["intervals"]:
        interval["streams"][0]["bytes"] = 0
    with pytest.raises(ValueError, match="no datagrams: none arrived"):
        Iperf3().parse(json.dumps(report))
