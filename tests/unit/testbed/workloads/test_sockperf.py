"""sockperf: what is read of its client, and of its server beside it; and of its full log, as awk counts it."""

import re
import subprocess

import pytest

from pairlab.model import latencies
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.testbed.workloads.sockperf import Sockperf, SockperfPingPong, SockperfUnderLoad
from tests.unit.testbed.workloads.helpers import captured, only


@pytest.mark.parametrize(
    ("name", "messages", "message_bytes", "rate_hz"),
    [("one", 2_560_725, 1024, 1_280_008), ("1472", 1_528_446, 1472, 764_006), ("65507", 44_520, 65_507, 22_254)],
)
def test_sockperf_reports_messages_of_a_size(name, messages, message_bytes, rate_hz):
    measured = only(Sockperf().parse(captured(f"sockperf-3.7-{name}.txt")))
    assert measured.flow == {
        "duration_s": pytest.approx(2, abs=0.001),
        "flow_bytes": messages * message_bytes,
        "throughput_bps": rate_hz * message_bytes * 8,
    }
    assert measured.intervals == ()


def test_sockperfs_bytes_are_those_its_server_had_and_not_those_its_client_wrote():
    names = ("sockperf-3.7-shaped-client.txt", "sockperf-3.7-shaped-server.txt")
    measured = only(Sockperf().parse(*map(captured, names)))
    assert measured.flow["flow_bytes"] == 11 * 724 * 1448
    assert measured.flow["duration_s"] == pytest.approx(0.968447)  # the first line's time is no time of traffic
    assert measured.lasted_s == 1.001
    assert measured.flow["throughput_bps"] == pytest.approx(1e8 * 1448 / 1514, rel=0.005)
    assert measured.received_bytes is None  # it was ended before it had all
    fast = captured(names[1]) + "     200000 [usec]          3620 [msg/s]             9180 [msg]\n"
    assert only(Sockperf().parse(captured(names[0]), fast)).received_bytes == 9187 * 1448
    written = only(Sockperf().parse(captured(names[0]))).flow["throughput_bps"]
    assert written > 1.1 * measured.flow["throughput_bps"]


def test_what_sockperfs_server_had_after_its_client_ended_is_left_out():
    client, server = map(captured, ("sockperf-3.7-shaped-client.txt", "sockperf-3.7-shaped-server.txt"))
    late = server + "     200000 [usec]          3620 [msg/s]             9412 [msg]\n"
    assert only(Sockperf().parse(client, late)).flow == only(Sockperf().parse(client, server)).flow


def test_sockperfs_server_that_had_too_little_to_tell_leaves_it_to_the_client():
    client, server = map(captured, ("sockperf-3.7-shaped-client.txt", "sockperf-3.7-shaped-server.txt"))
    one_line = server[: server.index("      89486 [usec]")]
    assert only(Sockperf().parse(client, one_line)).flow["flow_bytes"] == 9187 * 1448


@pytest.mark.parametrize(
    ("kind", "before", "after", "told"),
    [
        (
            "shaped",
            "[usec]",
            "[usec] =",
            r"'\d+ \[usec\] = .*'; expected 'NUMBER \[usec\] NUMBER \[msg/s\] NUMBER \[msg\]'",
        ),
        (
            "udp",
            "Total",
            "In all",
            "'sockperf: In all 247088 .*'; expected 'sockperf: Total NUMBER messages received and",
        ),
    ],
)
def test_a_server_of_sockperf_whose_layout_is_unknown_is_refused(kind, before, after, told):
    client, server = (captured(f"sockperf-3.7-{kind}-{side}.txt") for side in ("client", "server"))
    with pytest.raises(ValueError, match=rf"^sockperf's server printed {told}"):
        Sockperf().parse(client, server.replace(before, after))


def test_sockperf_of_another_unit_is_refused_and_not_misread():
    text = captured("sockperf-3.7-one.txt").replace("BandWidth is 1250.008 MBps", "BandWidth is 1310.728 MBps")
    with pytest.raises(ValueError, match="implies messages of 1074 bytes, not of 1024"):
        Sockperf().parse(text)


def test_sockperf_that_was_killed_reported_no_whole_test():
    text = captured("sockperf-3.7-one.txt")
    with pytest.raises(
        ValueError, match=r"sockperf reported no complete test: the last .* expected .*BandWidth is NUMBER"
    ):
        Sockperf().parse(text[: text.index("sockperf: Summary: BandWidth")])


def test_sockperf_by_udp_counts_what_arrived_and_what_did_not():
    measured = only(Sockperf().parse(*map(captured, ("sockperf-3.7-udp-client.txt", "sockperf-3.7-udp-server.txt"))))
    assert measured.flow["datagrams_sent"] == 253_201
    assert measured.flow["datagrams_received"] == measured.received_datagrams == 247_088
    assert measured.flow["datagrams_lost"] == 253_201 - 247_088
    assert measured.received_bytes == 247_088 * 16_384
    assert measured.flow["throughput_bps"] == pytest.approx(247_088 * 16_384 * 8, rel=0.01)
    assert measured.lasted_s == pytest.approx(1, abs=0.001)


def test_sockperfs_server_of_udp_that_was_killed_leaves_the_loss_unknown():
    client, server = map(captured, ("sockperf-3.7-udp-client.txt", "sockperf-3.7-udp-server.txt"))
    measured = only(Sockperf().parse(client, server[: server.index("sockperf: Test end")]))
    assert measured.flow["datagrams_lost"] is measured.received_datagrams is measured.received_bytes is None
    assert measured.flow["throughput_bps"] == pytest.approx(247_088 * 16_384 * 8, rel=0.01)
    with pytest.raises(ValueError, match="reported no datagrams: none arrived, or it was ended"):
        Sockperf().parse(client, "")


# --- latencies

ONE = "sockperf-ping-pong-3.7-one.txt"


def quantile(measured, share):
    rows = [{"pair": 0, "flow": 0, "latency_s": each, "count": count} for each, count in measured.latencies]
    return latencies.quantile(table("transactions", rows), share)


def test_ping_pong_reports_the_round_trip_of_every_request_in_the_window():
    measured = only(SockperfPingPong().parse(captured(ONE)))
    assert measured.flow == {
        "duration_s": 1.0,
        "flow_bytes": 76_911 * 28,
        "throughput_bps": 76_911 * 28 * 8,
        "transactions": 76_911,
        "transactions_lost": 0,
        "transactions_failed": 0,
    }
    assert sum(count for _, count in measured.latencies) == 76_911
    of_all_s = float(re.search(r"percentile 50.000 = *([\d.]+)", captured(ONE))[1]) * 1e-6
    assert quantile(measured, 0.5) == pytest.approx(of_all_s, rel=0.01)  # with --full-rtt: the whole round trip
    assert measured.received_bytes == 153_983 * 14
    assert measured.answered_bytes == 153_982 * 14
    assert (measured.lasted_s, measured.windowed) == (2.0, True)


def test_under_load_reports_requests_at_their_rate():
    measured = only(SockperfUnderLoad().parse(captured("sockperf-under-load-3.7-one.txt")))
    assert measured.flow["transactions"] == 2001
    assert quantile(measured, 0.5) < 10e-6 < 5e-3 < quantile(measured, 0.99)


def counted(log, **asked):
    """What the client's own awk script makes of a log, as its command line says it."""
    spec = Spec(workload="sockperf-ping-pong", **asked)
    pair = type("Pair", (), {"target": "127.0.0.1", "port": 9})
    shell, option, script, *rest = SockperfPingPong().client(pair, spec, None)
    done = subprocess.run(
        [shell, option, script.replace('"$@" --full-log /proc/self/fd/3 3>&1 1>&4', "cat"), *rest],
        input=log,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_of_the_log_the_warm_up_and_what_was_sent_after_the_window_are_left_out():
    rows = ["packet, txTime(sec), rxTime(sec), rtt(usec)"]
    rows += [f"{at}, {9000 + at / 4:.9f}, {9000 + at / 4 + 1e-4:.9f}, {10 + at:.3f}" for at in range(20)]
    *buckets, window = counted("\n".join(rows) + "\n", duration_s=2.0, warmup_s=0.5)
    assert sorted(buckets) == [f"latency_ns {1000 * (10 + at)} 1" for at in range(2, 10)]
    assert window == "window_s 2 transactions 8 message_bytes 14 timer_s 4"


def test_latencies_keep_four_digits_whatever_their_size():
    sizes_us = ["0.999", "12.3456", "12.3449", "999.96", "20500123.456", "20504999.999"]
    rows = [f"{at}, 5.{at:09d}, 6.0, {size}" for at, size in enumerate(sizes_us)]
    *buckets, window = counted("\n".join(rows) + "\n", duration_s=1.0)
    assert sorted(buckets) == [
        "latency_ns 1000000 1",
        "latency_ns 12340 1",
        "latency_ns 12350 1",
        "latency_ns 20500000000 2",
        "latency_ns 999 1",
    ]
    assert window.startswith("window_s 1 transactions 6 ")


@pytest.mark.parametrize(
    ("printed", "instead", "told"),
    [
        ("RunTime=2.000 sec; Warm", "RunTime=2.100 sec; Warm", r"2 s by the kernel's timer and for 2\.1 s by its own"),
        ("transactions 76911", "transactions 76912", "76912 transactions, and not the latency of each"),
    ],
)
def test_a_clock_that_is_off_and_a_count_that_lacks_transactions_are_not_trusted(printed, instead, told):
    with pytest.raises(ValueError, match=told):
        SockperfPingPong().parse(captured(ONE).replace(printed, instead))
