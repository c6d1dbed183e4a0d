"""crosschecks: what tools report against what the kernel counted, on counts of which the answer is known."""

import pytest

from pairlab.measurement.checks.crosschecks import (
    active_share,
    datagram_bytes,
    header_bytes,
    interface_bytes,
    over_early,
    overlap,
    port_bytes,
    retransmits,
    sent_again_bytes,
)
from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.model.spec import Spec
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.process_launcher import LinkCounts, Process

PAYLOAD, PACKETS, HEADER = 1e9, 700_000, 66


def link(payload=PAYLOAD, packets=PACKETS):
    return LinkCounts(rx_bytes=int(payload + HEADER * packets), rx_packets=packets, tx_bytes=0, tx_packets=0)


def told(*received, **more):
    return ParsedFlows(received_bytes=dict(enumerate(received)), **more)


def test_headers_are_those_of_ethernet_ip_and_tcp_with_its_timestamps_where_on():
    assert header_bytes({"tcp_timestamps": "1"}) == 66
    assert header_bytes({"tcp_timestamps": "0"}) == 54
    assert header_bytes({}) == 66
    assert header_bytes({"link": "lo"}) == 52  # the loopback counts no Ethernet header


def test_flows_overlap_for_the_share_of_time_in_which_all_were_active():
    assert overlap(ParsedFlows(spans=[(0.0, 10.0), (1.0, 11.0)])) == pytest.approx(9 / 11)
    assert overlap(ParsedFlows(spans=[(0.0, 1.0), (2.0, 3.0)])) == 0.0
    assert overlap(ParsedFlows(spans=[(0.5, 1.5)])) == 1.0
    assert overlap(ParsedFlows()) is None


def test_flows_are_active_for_the_time_asked_and_those_that_failed_until_their_clients_end():
    """Of four flows of 4 s one failed after 1 s, and one never started."""
    clients = [Process("x", Endpoint("x", "10.0.0.1", None), (), start_ns=1, end_ns=10**9 + 1) for _ in range(4)]
    clients[3].start_ns = None
    statuses = ["ok", "ok", "failed", "failed"]
    flows = [{"pair": pair, "status": status} for pair, status in enumerate(statuses)]
    parsed = ParsedFlows(flows=flows, spans=[(0.0, 4.0), (0.1, 4.2)])
    assert active_share(Spec(duration_s=4.0), parsed, clients) == pytest.approx(9 / 16)
    assert active_share(Spec(workload="flowgen", flow_bytes=1000), parsed, clients) is None


def test_flows_that_were_over_before_the_last_start_are_counted():
    parsed = ParsedFlows(flows=[{"completed_s": 0.01}, {"completed_s": 0.03}, {"status": "failed"}])
    assert over_early(parsed, 0.02) == 0.5
    assert over_early(ParsedFlows(flows=[{"status": "failed"}]), 0.02) is None


@pytest.mark.parametrize("lie", [0.98, 1.02, 2.0])
def test_a_tool_that_lies_is_found_by_its_servers_links(lie):
    found = interface_bytes(told(PAYLOAD * lie, PAYLOAD * lie), [link(), link()], HEADER, False, 0.0)
    assert found == pytest.approx(1 / lie - 1)


def test_a_tool_that_tells_the_truth_is_within_what_goes_beside_its_payload():
    assert interface_bytes(told(PAYLOAD), [link(PAYLOAD + 5000)], HEADER, False, 0.0) == 0.0


def test_segments_that_arrived_twice_are_no_lie_and_missing_ones_are():
    twice = link(PAYLOAD * 1.05)
    assert interface_bytes(told(PAYLOAD), [twice], HEADER, False, 0.05 * PAYLOAD) == 0.0
    assert interface_bytes(told(PAYLOAD), [twice], HEADER, False, 0.01 * PAYLOAD) == pytest.approx(0.05)
    fewer = link(PAYLOAD * 0.95)
    assert interface_bytes(told(PAYLOAD), [fewer], HEADER, False, 0.05 * PAYLOAD) == pytest.approx(-0.05)


def test_pairs_whose_flow_failed_are_left_out_of_the_comparison():
    parsed = ParsedFlows(received_bytes={1: PAYLOAD})
    assert interface_bytes(parsed, [link(5e8), link()], HEADER, False, 0.0) == 0.0
    assert interface_bytes(ParsedFlows(), [link(), link()], HEADER, False, 0.0) is None


def test_a_link_that_all_share_is_compared_with_all_together_or_not_at_all():
    everything = link(2 * PAYLOAD, 2 * PACKETS)
    assert interface_bytes(told(PAYLOAD, PAYLOAD), [everything, everything], HEADER, True, 0.0) == 0.0
    assert interface_bytes(told(PAYLOAD), [everything, everything], HEADER, True, 0.0) is None
    assert interface_bytes(told(PAYLOAD, PAYLOAD), [everything, None], HEADER, True, 0.0) is None
    assert interface_bytes(told(PAYLOAD), [None], HEADER, False, 0.0) is None


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_of_a_link_that_all_share_the_server_that_ended_last_has_seen_everything(first_to_end):
    links = [link(2 * PAYLOAD, 2 * PACKETS)] * 2
    links[first_to_end] = link(1.6 * PAYLOAD, 1.6 * PACKETS)
    assert interface_bytes(told(PAYLOAD, PAYLOAD), links, HEADER, True, 0.0) == 0.0
    assert interface_bytes(told(PAYLOAD, 2 * PAYLOAD), links, HEADER, True, 0.0) == pytest.approx(2 / 3 - 1)


@pytest.mark.parametrize(
    ("carried", "errors", "apart"), [(10_000, 0, 0.0), (20_000, 10_000, 0.0), (40_000, 0, 3.0), (9_000, 0, -0.1)]
)
def test_datagrams_on_the_link_are_those_that_came_or_that_the_kernel_dropped(carried, errors, apart):
    """10,000 of 1,448 bytes were received, and so many found no room."""
    came = 10_000 + errors
    parsed = ParsedFlows(datagrams={1: came}, datagram_bytes={1: came * 1448.0})
    links = [None, LinkCounts(carried * (1448 + 28 + 14), carried, 0, 0)]
    assert datagram_bytes(parsed, links, {"mtu_bytes": 1500}) == pytest.approx(apart)
    assert datagram_bytes(parsed, [None, None], {"mtu_bytes": 1500}) is None
    assert datagram_bytes(parsed, links, {"mtu_bytes": 1400}) is None  # they came in fragments
    assert datagram_bytes(parsed, [], {"mtu_bytes": 1500}) is None
    assert datagram_bytes(ParsedFlows(), links, {"mtu_bytes": 1500}) is None
    nothing_came = ParsedFlows(datagrams={1: 0}, datagram_bytes={1: 0.0})
    assert datagram_bytes(nothing_came, links, {"mtu_bytes": 1500}) > 1000


def test_ports_are_compared_by_their_growth():
    before, after = (10_000, 100), (10_000 + int(PAYLOAD) + HEADER * PACKETS, 100 + PACKETS)
    assert port_bytes(told(PAYLOAD), 1, before, after, HEADER, 0.0) == 0.0
    assert port_bytes(told(PAYLOAD * 1.1), 1, before, after, HEADER, 0.0) == pytest.approx(1 / 1.1 - 1)
    assert port_bytes(told(PAYLOAD), 1, before, None, HEADER, 0.0) is None
    assert port_bytes(told(PAYLOAD), 1, after, before, HEADER, 0.0) is None  # a port has gone
    assert port_bytes(told(PAYLOAD), 2, before, after, HEADER, 0.0) is None  # one of two flows failed


def test_what_servers_sent_back_is_of_the_ports_and_of_links_that_their_clients_receive_on():
    both, told_of = link(1.5 * PAYLOAD), told(PAYLOAD, answered_bytes={0: PAYLOAD / 2})
    after = (both.rx_bytes, both.rx_packets)
    assert port_bytes(told_of, 1, (0, 0), after, HEADER, 0.0) == 0.0
    assert interface_bytes(told_of, [both], HEADER, True, 0.0, [0], [0]) == 0.0  # the loopback of all
    assert interface_bytes(told_of, [both], HEADER, False, 0.0, [0], [0]) == 0.0  # that of each pair
    assert interface_bytes(told_of, [link()], HEADER, False, 0.0) == 0.0  # a link of the server's own
    assert interface_bytes(told_of, [both], HEADER, False, 0.0) == pytest.approx(0.5)
    assert interface_bytes(told_of, [link()], HEADER, True, 0.0, [1]) == 0.0  # the uplink of the servers' host


def test_uplinks_of_hosts_with_servers_and_clients_carry_what_comes_back_to_those_clients_alone():
    """Two pairs cross: client 0 is where server 1 is; client 1 is on a host without servers."""
    answered = told(PAYLOAD, PAYLOAD, answered_bytes={0: PAYLOAD / 2, 1: PAYLOAD / 4})
    links = [link(), link(1.5 * PAYLOAD)]
    assert interface_bytes(answered, links, HEADER, True, 0.0, [0, 1], [0]) == 0.0
    assert interface_bytes(answered, links, HEADER, True, 0.0, [0, 1], [0, 1]) == pytest.approx(2.5 / 2.75 - 1)


def counted(by_tool, by_kernel, **more):
    """by_kernel: of each pair, one count, or the counts just before and just after the tool's."""
    known = {pair: (each, each) if isinstance(each, int) else each for pair, each in by_kernel.items()}
    return ParsedFlows(retransmits=by_tool, netns_retransmits=known, spans=[(0, 1)] * len(by_tool), **more)


@pytest.mark.parametrize(
    ("by_tool", "apart"), [(1122, 0.0), (1000, 0.0), (1212, 0.0), (900, -0.1), (1515, 0.25)], ids=str
)
def test_a_tools_count_between_two_of_the_kernels_is_no_disagreement(by_tool, apart):
    """The kernel had counted 1,000 just before the tool did, and 1,212 just after."""
    assert retransmits(counted({0: by_tool}, {0: (1000, 1212)})) == pytest.approx(apart)


def test_retransmits_of_tool_and_kernel_are_compared_where_both_tell():
    assert retransmits(counted({0: 9800, 1: 10_000, 2: 5}, {0: 10_000, 1: 10_000, 2: None})) == pytest.approx(-0.01)
    assert retransmits(counted({0: 3}, {0: 48})) == 0.0  # a packet's worth goes beside
    assert retransmits(counted({0: 3}, {0: 100})) == pytest.approx(-0.97)
    assert retransmits(counted({0: 9800, 1: 10_000}, {})) is None


def test_a_count_that_the_kernel_has_nothing_of_is_a_disagreement():
    """On a network that loses nothing, the kernel's count is 0: so is a tool's that tells the truth."""
    assert retransmits(counted({0: 5000}, {0: 0})) == pytest.approx(4999)
    assert retransmits(counted({0: 0}, {0: 0})) == 0.0
    assert interface_bytes(told(0.0), [link()], HEADER, False, 0.0) > 1


def test_room_for_what_was_sent_again_is_that_of_the_pairs_compared_and_of_each_segment_once():
    first = {"pair": 0, "netns_retransmits": 80, "retransmits": 10.0}
    more = [{"pair": 0, "netns_retransmits": None, "retransmits": 10.0} for _ in range(7)]
    failed = {"pair": 1, "netns_retransmits": 5000}
    parsed = told(PAYLOAD, flows=[first, *more, failed], retransmits={0: 80})
    assert sent_again_bytes(parsed, {"mtu_bytes": 1500}) == 80 * 1500
    by_the_tool = told(PAYLOAD, PAYLOAD, flows=[{"pair": 0}, {"pair": 1}], retransmits={0: 30})
    assert sent_again_bytes(by_the_tool, {"mtu_bytes": 1500}) == 30 * 1500
    assert sent_again_bytes(by_the_tool, {}) == 0.0
    assert sent_again_bytes(by_the_tool, {"mtu_bytes": 1500}, [20, 90]) == 90 * 1500
    assert sent_again_bytes(by_the_tool, {"mtu_bytes": 1500}, [None, None]) == 30 * 1500


def test_what_came_after_a_tools_last_count_is_allowed_for():
    assert retransmits(counted({0: 9700}, {0: 10_000}, late_share=0.05)) == 0.0
