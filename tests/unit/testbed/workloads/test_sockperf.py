"""sockperf: what is read of its client, and of its server beside it."""

import pytest

from pairlab.errors import BadSpec
from pairlab.model.spec import Spec
from pairlab.testbed.workloads.sockperf import Sockperf
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


@pytest.mark.parametrize(
    ("name", "told"),
    [("refused", "errno=111 Connection refused"), ("server-died", "A connection was forcibly closed by a peer")],
)
def test_sockperf_tells_what_went_wrong_in_its_own_words(name, told):
    with pytest.raises(ValueError, match=f"^sockperf: .*{told}"):
        Sockperf().parse(captured(f"sockperf-3.7-{name}.txt"))


def test_sockperf_that_was_killed_reported_no_whole_test():
    text = captured("sockperf-3.7-one.txt")
    with pytest.raises(
        ValueError, match=r"sockperf reported no complete test: the last .* expected .*BandWidth is NUMBER"
    ):
        Sockperf().parse(text[: text.index("sockperf: Summary: BandWidth")])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"message_bytes": 13}, "from 14 to 65507, not 13"),
        ({"message_bytes": 65_508}, "from 14 to 65507, not 65508"),
        ({"duration_s": 2.5}, r"whole seconds only, and duration_s is 2\.5"),
    ],
)
def test_sockperf_says_what_it_cannot_take(asked, told):
    with pytest.raises(BadSpec, match=told):
        Sockperf().check(Spec(**asked))


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


def test_sockperf_has_no_rate_of_datagrams():
    with pytest.raises(BadSpec, match="udp_rate_bps: sockperf sends as fast as it can: leave it out, or use flowgen"):
        Sockperf().check(Spec(udp_share=1.0, udp_rate_bps=1e6))
