"""What tools report that are stopped in the middle, as the background is."""

import json

import pytest

from pairlab.testbed.workloads.iperf import Iperf
from pairlab.testbed.workloads.iperf3 import Iperf3
from tests.unit.testbed.workloads.helpers import captured, only


def test_iperf_reports_what_its_server_received_until_it_was_stopped():
    told = only(Iperf().parse_stopped(*(captured(f"iperf-2.1.8-stopped-{side}.txt") for side in ("client", "server"))))
    assert told.flow["flow_bytes"] == told.received_bytes == 21_198_929_980
    assert [row["interval_bytes"] for row in told.intervals][-1] == 761_953_336
    assert sum(row["interval_bytes"] for row in told.intervals) == 21_198_929_980
    assert told.intervals[-1]["end_s"] == 2.2417


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
