"""iperf 2: what is read of its client, and of its server beside it."""

import pytest

from pairlab.measurement.flow_rows import window
from pairlab.testbed.workloads.iperf import Iperf
from tests.unit.testbed.workloads.helpers import captured, only

SHAPED = ("iperf-2.1.8-shaped-client.txt", "iperf-2.1.8-shaped-server.txt")


def test_iperf2_reports_the_last_line_as_the_total():
    measured = only(Iperf().parse(captured("iperf-2.1.8-several.txt")))
    assert measured.flow == {
        "duration_s": 2.0152,
        "flow_bytes": 4_389_994_556,
        "throughput_bps": 17_427_598_188,
        "retransmits": 24,
        "rtt_s": pytest.approx(76e-6),
        "cwnd_bytes": 1023 * 1024,
    }
    assert [row["interval_bytes"] for row in measured.intervals] == [
        982_777_916,
        1_134_166_016,
        1_189_740_544,
        1_083_179_008,
    ]
    assert measured.intervals[1] == {
        "start_s": 0.5,
        "end_s": 1.0,
        "interval_bytes": 1_134_166_016,
        "throughput_bps": 18_146_656_256,
        "retransmits": 2,
        "rtt_s": pytest.approx(73e-6),
        "cwnd_bytes": 1023 * 1024,
    }


@pytest.mark.parametrize(
    ("name", "total", "rows"),
    [
        ("one", {"flow_bytes": 2_154_168_380, "duration_s": 1.016}, [(0.0, 1.0, 2_154_037_308)]),
        ("uneven", {"duration_s": 1.5043, "retransmits": 22}, [(0.0, 1.0), (1.0, 1.5043)]),
    ],
)
def test_iperf2_reports_one_interval_and_a_shorter_last_one_and_then_the_total(name, total, rows):
    measured = only(Iperf().parse(captured(f"iperf-2.1.8-{name}.txt")))
    assert measured.flow.items() >= total.items()
    columns = ("start_s", "end_s", "interval_bytes")[: len(rows[0])]
    assert [tuple(row[column] for column in columns) for row in measured.intervals] == rows


@pytest.mark.parametrize("intervals", [1, 2, 3])
def test_iperf2_killed_midway_passes_no_interval_off_as_the_total(intervals):
    lines = captured("iperf-2.1.8-killed.txt").splitlines(keepends=True)
    kept = "".join(lines[: len(lines) - 3 + intervals])
    with pytest.raises(ValueError, match=rf"iperf reported no total; its last interval ended at {intervals * 0.5:g} s"):
        Iperf().parse(kept)


def test_iperf2_reads_senders_that_tell_nothing_of_tcp():
    text = "".join(
        f"[  3] 0.00-{end} sec  1250000 Bytes  10000000 bits/sec  10/0\n" for end in ("1.00", "1.01")
    )  # what follows the rate is missing where the system has no TCP_INFO
    assert only(Iperf().parse(text)).flow == {"duration_s": 1.01, "flow_bytes": 1_250_000, "throughput_bps": 10_000_000}


@pytest.mark.parametrize("window", ["-1K/", "NA/"])
def test_iperf2_leaves_out_an_unknown_window_and_keeps_what_is_beside_it(window):
    flow = only(Iperf().parse(captured("iperf-2.1.8-one.txt").replace("1023K/", window))).flow
    assert "cwnd_bytes" not in flow
    assert (flow["retransmits"], flow["rtt_s"]) == (10, pytest.approx(2042e-6))


def test_iperf2_tells_of_each_of_its_flows():
    told = Iperf().parse(captured("iperf-2.1.8-flows.txt"))
    assert [(flow.number, flow.flow["flow_bytes"], flow.flow["duration_s"]) for flow in told] == [
        (0, 461_035_580, 1.5667),
        (1, 247_689_276, 1.5666),
        (2, 215_824_444, 1.5570),
    ]
    assert sum(flow.flow["retransmits"] for flow in told) == 14
    assert [[row["interval_bytes"] for row in flow.intervals] for flow in told] == [
        [129_356_860, 154_955_776, 176_720_896],
        [80_711_740, 64_433_152, 102_542_336],
        [74_842_172, 64_358_400, 76_622_848],
    ]
    assert {flow.flow["congestion_control"] for flow in told} == {"reno"}


def test_iperf2_that_was_killed_midway_passes_no_flow_off_as_whole():
    whole_text = captured("iperf-2.1.8-flows.txt")
    with pytest.raises(ValueError, match=r"iperf reported no total; its last interval ended at 1\.5 s"):
        Iperf().parse(whole_text[: whole_text.index("[  3] 0.0000-1.5570")])


def test_iperf2s_bytes_are_those_its_server_had_and_not_those_its_client_wrote():
    told = Iperf().parse(*map(captured, SHAPED))
    assert [(flow.number, flow.flow["flow_bytes"], flow.flow["duration_s"]) for flow in told] == [
        (0, 9_961_532, 1.6537),
        (1, 10_092_604, 1.6671),
    ]
    assert [[row["interval_bytes"] for row in flow.intervals] for flow in told] == [
        [3_084_300, 2_932_200, 2_997_360, 947_672],
        [3_048_908, 2_997_360, 2_997_360, 1_048_976],
    ]
    assert told[1].intervals[0]["cwnd_bytes"] == 380 * 1024  # of the client, in the same interval
    assert told[0].flow["rtt_s"] == pytest.approx(21_479e-6)
    windows = [window(flow, 0.5).flow["throughput_bps"] for flow in told]
    assert sum(windows) == pytest.approx(1e8 * 1448 / 1514, rel=0.01)  # where 0.5 s of what was written is 6 % more


def test_iperf2_tells_how_long_each_of_its_connections_took_where_it_does():
    assert [flow.connect_s for flow in Iperf().parse(*map(captured, SHAPED))] == pytest.approx([2.54e-3, 0.26e-3])
    client = captured("iperf-2.1.8-flows.txt")
    assert [flow.connect_s for flow in Iperf().parse(client)] == pytest.approx([1e-5, 6e-5, 5e-5])
    assert {flow.connect_s for flow in Iperf().parse(client.replace("(ct=", "(irtt="))} == {None}


def test_what_iperf2s_server_had_after_its_last_interval_is_an_interval_too():
    server = captured(SHAPED[1])
    server = "".join(line for line in server.splitlines(keepends=True) if not line.startswith("[  2] 1.5000-"))
    (row,) = Iperf().parse(captured(SHAPED[0]), server)[1].intervals[3:]
    assert row == {
        "start_s": 1.5,
        "end_s": 1.6671,
        "interval_bytes": 1_048_976,
        "throughput_bps": pytest.approx(50_217_270, rel=1e-3),
        "retransmits": 0,
    }


def test_iperf2_is_told_apart_by_ports_and_not_by_the_servers_numbers():
    swapped = captured(SHAPED[1]).replace("[  1]", "[  9]").replace("[  2]", "[  1]")
    again = Iperf().parse(captured(SHAPED[0]), swapped)
    assert again == Iperf().parse(*map(captured, SHAPED))


def test_iperf2s_only_stream_is_its_servers_only_one_whatever_port_a_proxy_connects_from():
    client, server = (
        "".join(line for line in captured(name).splitlines(keepends=True) if not line.startswith(("[  2]", "[SUM]")))
        for name in SHAPED
    )
    assert "58176" in server
    assert Iperf().parse(client, server.replace("58176", "1")) == Iperf().parse(client, server)


def test_iperf2s_server_that_knows_nothing_of_a_connection_or_was_killed_is_heard_of():
    client, server = map(captured, SHAPED)
    with pytest.raises(ValueError, match="iperf's server reported no transfer of this connection"):
        Iperf().parse(client, server.replace("58192", "58193"))
    with pytest.raises(ValueError, match=r"iperf's server reported no total; its last interval ended at 1\.65\d+ s"):
        Iperf().parse(client, server[: server.index("[  1] 0.0000-1.6537")])


def test_iperf2s_retransmits_after_a_warm_up_are_without_those_in_it_whatever_its_client_tells_of_later_intervals():
    client, server = map(captured, SHAPED)
    client = client.replace("30/0          0      417K", "30/0          5      417K")
    client = client.replace("76/0          0      417K", "76/0          8      417K")
    last = next(line for line in server.splitlines(keepends=True) if line.startswith("[  1] 1.5000-1.6537"))
    two = "[  1] 1.5000-1.6000 sec  500000 Bytes  40000000 bits/sec  8=0:0:0:8:0:0:0:0\n"
    two += "[  1] 1.6000-1.6537 sec  447672 Bytes  66692000 bits/sec  7=0:0:1:6:0:0:0:0\n"
    measured = Iperf().parse(client, server.replace(last, two))[0]
    assert [row.get("retransmits") for row in measured.intervals] == [5, 0, 0, 0, None]
    assert measured.flow["retransmits"] == 8
    assert window(measured, 0.5).flow["retransmits"] == 3


def test_iperf_2_2_prints_packets_and_what_is_in_flight_beside_the_window():
    measured = only(Iperf().parse(captured("iperf-2.2.1-several.txt")))
    assert [measured.flow[key] for key in ("retransmits", "cwnd_bytes", "rtt_s")] == [
        7,
        2046 * 1024,
        pytest.approx(586e-6),
    ]
    assert [row["retransmits"] for row in measured.intervals] == [1, 0, 0, 6]
    assert [row["cwnd_bytes"] / 1024 for row in measured.intervals] == [895, 1023, 895, 2046]
    told = Iperf().parse(captured("iperf-2.2.1-flows.txt"))
    assert [flow.flow["retransmits"] for flow in told] == [2, 17, 17]


@pytest.mark.parametrize(
    ("printed", "used"), [("set to reno using reno", "reno"), ("set to cubic using bbr", "bbr"), ("set to x", "x")]
)
def test_iperf_2_2_tells_which_congestion_control_is_used_whatever_was_asked(printed, used):
    text = captured("iperf-2.2.1-several.txt").replace("congestion control using bbr", f"congestion control {printed}")
    assert only(Iperf().parse(text)).flow["congestion_control"] == used


def test_what_iperf_2_2_tells_of_a_socket_without_a_request_is_not_the_routes():
    for flow in Iperf().parse(captured("iperf-2.2.1-routed.txt")):  # over a route with cubic, by default bbr
        assert "congestion_control" not in flow.flow


def test_iperf2_amounts_below_1000_have_decimals():
    flow = only(Iperf().parse(*(captured(f"iperf-2.2.1-lossy-{side}.txt") for side in ("client", "server"))))
    assert [row["interval_bytes"] for row in flow.intervals] == [118, 0, 65_536, 0, 0, 65_483, 0, 2_543_563]
    assert [row.get("retransmits") for row in flow.intervals] == [2, 1, 0, 3, 1, 0, None, None]
    assert flow.flow["flow_bytes"] == 2_674_700
    text = captured("iperf-2.1.8-one.txt").replace("2154037308 Bytes", "60.0 Bytes")
    assert only(Iperf().parse(text)).intervals[0]["interval_bytes"] == 60


def test_iperf2s_server_that_received_nothing_in_its_first_interval_is_read():
    client, server = map(captured, SHAPED)
    server = server.replace(
        "3084300 Bytes  49348800 bits/sec  49=2:1:1:43:1:0:0:1", "0.000 Bytes  0.000 bits/sec  0=0:0:0"
    )
    flow = Iperf().parse(client, server.replace("9961532 Bytes", "6877232 Bytes"))[0]
    assert (flow.flow["flow_bytes"], flow.flow["duration_s"]) == (6_877_232, 1.6537)
    assert [row["interval_bytes"] for row in flow.intervals] == [0, 2_932_200, 2_997_360, 947_672]


def test_iperf2s_interval_of_which_nothing_is_known_of_tcp_is_read():
    text = captured("iperf-2.1.8-one.txt")
    line = next(line for line in text.splitlines() if "sec" in line and "Bytes" in line)
    nothing = "[  1] 0.0000-1.0000 sec  0.000 Bytes  0.000 bits/sec  0/0          0       NA/0 us  NAN"
    (row, *_) = only(Iperf().parse(text.replace(line, nothing))).intervals
    assert (row["interval_bytes"], row["retransmits"]) == (0, 0)
    assert row.keys().isdisjoint({"rtt_s", "cwnd_bytes"})


@pytest.mark.parametrize(
    ("printed", "instead"),
    [
        ("0K(0)/639K(10)/1649(3210) us", "639K(10)/0K(0)/3K/1649(3210) us"),
        (" bits/sec  13=", " bit/s  13="),
        ("reno using reno", "reno for good"),
    ],
)
def test_iperf2s_unknown_layout_is_refused_with_the_line_and_what_to_do(printed, instead):
    text = "TCP congestion control set to reno using reno\n" + "".join(
        f"[  1] {span} sec  1250000 Bytes  10000000 bits/sec  {more}\n"
        for span, more in (("0.00-1.00", "12/0  1  0K(0)/639K(10)/1649(3210) us  1"), ("0.00-1.01", "13=1:12"))
    )
    assert only(Iperf().parse(text)).intervals[0]["retransmits"] == 1
    refused = r"^iperf printed '.*', a layout that pairlab does not know: install iperf 2\.1\.8 to 2\.2\.1, or report"
    with pytest.raises(ValueError, match=refused):
        Iperf().parse(text.replace(printed, instead))


def test_iperf_reports_what_its_server_received_until_it_was_stopped():
    told = only(Iperf().parse_stopped(*(captured(f"iperf-2.1.8-stopped-{side}.txt") for side in ("client", "server"))))
    assert told.flow["flow_bytes"] == told.received_bytes == 21_198_929_980
    assert [row["interval_bytes"] for row in told.intervals][-1] == 761_953_336
    assert sum(row["interval_bytes"] for row in told.intervals) == 21_198_929_980
    assert told.intervals[-1]["end_s"] == 2.2417
