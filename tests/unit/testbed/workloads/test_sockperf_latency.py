"""sockperf's latencies: what is read of its full log, as awk counts it, and what it asks of its tool."""

import re
import subprocess

import pytest

from pairlab.errors import BadSpec
from pairlab.model import latencies
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.testbed.workloads.sockperf import SockperfPingPong, SockperfUnderLoad
from tests.unit.testbed.workloads.helpers import captured, only

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


def test_a_clock_that_is_off_is_not_trusted():
    text = captured(ONE).replace("RunTime=2.000 sec; Warm", "RunTime=2.100 sec; Warm")
    with pytest.raises(ValueError, match=r"for 2 s by the kernel's timer and for 2\.1 s by its own clock"):
        SockperfPingPong().parse(text)


def test_a_count_that_lacks_transactions_is_refused():
    text = captured(ONE).replace("window_s 1 transactions 76911", "window_s 1 transactions 76912")
    with pytest.raises(ValueError, match="76912 transactions, and not of the latency of each"):
        SockperfPingPong().parse(text)


@pytest.mark.parametrize(
    ("name", "told"),
    [("refused", "Connection refused"), ("server-died", "A connection was forcibly closed by a peer")],
)
def test_it_tells_what_went_wrong_in_sockperfs_words(name, told):
    with pytest.raises(ValueError, match=f"^sockperf-ping-pong: .*{told}"):
        SockperfPingPong().parse(captured(f"sockperf-ping-pong-3.7-{name}.txt"))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"request_bytes": 100}, "the same value, not 100 and 0"),
        ({"request_bytes": 13, "response_bytes": 13}, "takes request_bytes from 14 to 65507, not 13"),
        ({"connect_per_request": True}, "keeps its connection: leave connect_per_request out"),
        ({"requests_per_s": 10.0}, "has no rate: use sockperf-under-load"),
    ],
)
def test_what_ping_pong_cannot_do_is_refused(asked, told):
    with pytest.raises(BadSpec, match=told):
        SockperfPingPong().check(Spec(**asked))


@pytest.mark.parametrize("rate_hz", [0.0, 0.5, 1000.5])
def test_under_load_needs_a_rate_in_whole_requests(rate_hz):
    with pytest.raises(BadSpec, match=f"at least 1: give requests_per_s, not {rate_hz:g}"):
        SockperfUnderLoad().check(Spec(requests_per_s=rate_hz))
