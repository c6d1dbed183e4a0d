"""flows: what is made of what tools told, on reports of which the truth is known."""

from dataclasses import replace

import numpy as np
import pytest

from pairlab.measurement.checks.crosschecks import overlap
from pairlab.measurement.checks.steady_state import LEAST_INTERVALS
from pairlab.measurement.flow_rows import read_flows, window
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport
from pairlab.testbed.plans import draw
from pairlab.testbed.workloads.flowgen import Flowgen
from tests.support.reporting import Reporting, ended

INTERVAL_S = 0.5


class Silent(Reporting):
    """Tells of no connection. Its clients have two flows each, and send when both connections stand."""

    connects_first = True

    def parse(self, stdout, served=""):
        (told,) = super().parse(stdout)
        return [replace(told, connected_ns=None, number=number) for number in range(2)]


@pytest.mark.parametrize(("by_then", "counted"), [(((70, 80), (80, 90)), (40, 60)), ((None, (80, 90)), (75, 75))])
def test_a_namespaces_retransmissions_are_taken_when_the_tool_counted_last_or_else_at_its_clients_end(by_then, counted):
    """The kernel goes on sending what is written: 15 segments, here, were sent again after the tool's last count."""
    client = ended("client-0", end_ns=10**9, tcp_retransmits_before=30, tcp_retransmits_by_end=75)
    told = [FlowReport({"duration_s": 1.0, "retransmits": 30.0}, netns_retransmits=each) for each in by_then]
    tool = type("Tool", (Flowgen,), {"parse": lambda *_: [replace(each, number=n) for n, each in enumerate(told)]})
    spec = Spec(workload="flowgen", pairs=1, flows_per_pair=2, duration_s=1.0)
    found = read_flows(spec, draw(spec), tool(), [client], [ended("server-0")], 0)
    assert (found.retransmits, found.netns_retransmits) == ({0: 60.0}, {0: counted})


def reading(told, tool=Reporting, syn_retransmits=(), isolated=True, **spec):
    """What is read of clients that were let go at the release; by default, of a flow each that lasts its time.

    syn_retransmits: by the number of a client, how many its namespace counted.
    """
    counts = dict(syn_retransmits)
    clients = [
        ended(f"client-{number}", stdout=str(number), syn_retransmits=counts.get(number, 0), end_ns=2 * 10**9)
        for number in range(len(told))
    ]
    servers = [ended(f"server-{number}") for number in range(len(told))]
    asked = {"interval_s": INTERVAL_S, "duration_s": told[0].flow["duration_s"], "pairs": len(told), **spec}
    spec = Spec(workload="flowgen", **asked)
    return read_flows(spec, draw(spec), tool(told), clients, servers, 0, isolated=isolated)


def flow(rates_bps, late_s=()):
    """A flow of these rates, an interval each. late_s: by the number of a sample, how late it was taken."""
    on_time_s = INTERVAL_S * np.arange(len(rates_bps) + 1)
    edges_s = on_time_s + [dict(late_s).get(number, 0.0) for number in range(len(on_time_s))]
    carried = np.cumsum([0.0, *(rate * INTERVAL_S / 8 for rate in rates_bps)])
    counted = np.diff(np.interp(edges_s, on_time_s, carried))
    rows = [
        {"start_s": start_s, "end_s": end_s, "interval_bytes": interval_bytes}
        for start_s, end_s, interval_bytes in zip(edges_s, edges_s[1:], counted, strict=False)
    ]
    total = {"duration_s": edges_s[-1], "flow_bytes": carried[-1], "throughput_bps": carried[-1] * 8 / edges_s[-1]}
    return FlowReport(total, rows, connected_ns=0)


def test_one_late_sample_of_one_flow_hides_from_nobody_whether_all_had_settled():
    told = [flow([1e8] * LEAST_INTERVALS, late_s={3: 0.06} if number == 17 else {}) for number in range(50)]
    assert reading(told).checks["settled"] is True


def test_a_warm_up_is_where_it_was_though_a_sample_in_it_was_late():
    found = reading([flow([1e7, 1e7, *[1e8] * 8], late_s={1: 0.06})])
    assert found.warmup_s == 2 * INTERVAL_S
    assert found.flows[0]["throughput_bps"] == pytest.approx(1e8)


def test_a_flow_that_broke_off_takes_from_nobody_whether_the_others_had_settled():
    told = [flow([1e8] * LEAST_INTERVALS), flow([1e8] * 3)]
    found = reading(told)
    assert [row["status"] for row in found.flows] == ["ok", "failed"]
    assert found.checks["settled"] is True


def test_a_flow_begins_when_its_connection_can_have_stood_where_only_how_long_that_took_is_told():
    steady = replace(flow([1e8] * 4), connected_ns=None)
    found = reading([steady, steady, replace(steady, connect_s=1.03)])
    assert np.allclose(found.spans, [(0, 2), (0, 2), (1.03, 3.03)])
    assert overlap(found) == pytest.approx(0.97 / 3.03)
    begins_s = [row["start_s"] for row in found.intervals if row["pair"] == 2]
    assert begins_s == pytest.approx([1.03, 1.53, 2.03, 2.53])
    assert all("connected_s" not in row for row in found.flows)


def test_flows_begin_a_second_later_where_a_syn_was_sent_again_and_no_tool_tells_of_it():
    """More of them may be of connections that waited at the same time: a second is certain, and no more."""
    found = reading([flow([1e8] * 4)] * 3, Silent, syn_retransmits={1: 1, 2: 3}, flows_per_pair=2)
    assert np.allclose(found.spans, [(0, 2), (0, 2), (1, 3), (1, 3), (1, 3), (1, 3)])
    assert overlap(found) == pytest.approx(1 / 3)
    begins_s = [row["start_s"] for row in found.intervals if (row["pair"], row["flow"]) == (1, 1)]
    assert begins_s == pytest.approx([1.0, 1.5, 2.0, 2.5])
    assert all("connected_s" not in row for row in found.flows)


@pytest.mark.parametrize(
    "asked",
    [
        {"syn_retransmits": {0: 0}},
        {"syn_retransmits": {0: None}},
        {"isolated": False},
        {"flow_bytes": 1000},
        {"udp_share": 1.0},
    ],
    ids=str,
)
def test_flows_begin_at_their_clients_start_where_no_wait_for_their_connection_is_certain(asked):
    found = reading([flow([1e8] * 4)], Silent, **{"syn_retransmits": {0: 1}, **asked})
    assert np.allclose(found.spans, [(0, 2)])


def test_a_syn_sent_again_is_held_against_no_flow_whose_tool_tells_or_does_not_wait_for_all_connections():
    told = flow([1e8] * 4)
    silent = replace(told, connected_ns=None)
    again = {"tool": Reporting, "syn_retransmits": {0: 1}}
    assert np.allclose(reading([silent], **again).spans, [(0, 2)])
    again["tool"] = type("Patient", (Reporting,), {"connects_first": True})
    assert np.allclose(reading([silent], **again).spans, [(1, 3)])
    assert np.allclose(reading([replace(silent, connect_s=0.2)], **again).spans, [(0.2, 2.2)])
    assert np.allclose(reading([replace(told, connected_ns=10**8)], **again).spans, [(0.1, 2.1)])


@pytest.mark.parametrize(
    ("silent_s", "end_s", "begun_s"),
    [
        (0.0, 3.5, 0.2),  # its link sent at once: the tool's word counts, and the client was slow to end
        (1.3, 3.5, 1.3),  # its link was silent for longer than the tool knows
        (None, 3.5, 1.5),  # its link is not seen: it lasted 2 s, and ended at 3.5 s
        (None, 2.1, 0.2),  # it cannot have begun later than at 0.1 s, and the tool tells of 0.2 s
    ],
)
def test_a_flow_began_when_its_link_first_sent_or_at_the_latest_so_that_it_lasted_to_its_clients_end(
    silent_s, end_s, begun_s
):
    told = replace(flow([1e8] * 4), connected_ns=None, connect_s=0.2)
    client = ended("client-0", stdout="0", end_ns=int(end_s * 1e9))
    spec = Spec(workload="flowgen", pairs=1, interval_s=INTERVAL_S, duration_s=2.0)
    servers = [ended("server-0")]
    found = read_flows(spec, draw(spec), Reporting([told]), [client], servers, 0, silent_until_s=[silent_s])
    assert np.allclose(found.spans, [(begun_s, begun_s + 2)])


def test_flows_that_end_late_and_carry_nothing_by_then_carried_more_in_the_time_that_was_asked():
    """Of 5 s that were asked, one took 5.5: its throughput is over these."""
    in_time, held_up, going_on = flow([1e8] * 10), flow([*[1e8] * 10, 0.0]), flow([1e8] * 11)
    assert reading([in_time], duration_s=5.0).checks["late_end"] == pytest.approx(0)
    assert reading([going_on], duration_s=5.0).checks["late_end"] == pytest.approx(0)
    assert reading([held_up], duration_s=5.0).checks["late_end"] == pytest.approx(1 / 10)
    assert reading([held_up, in_time], duration_s=5.0).checks["late_end"] == pytest.approx(1 / 21)
    assert reading([replace(held_up, intervals=[])], duration_s=5.0).checks["late_end"] is None


def test_intervals_that_a_tool_leaves_out_while_nothing_gets_on_are_time_all_the_same():
    """Of 4 s, the first is warm-up, and of the last three one and a half have no intervals."""
    told = flow([8e8] * 8)
    rows = [row for number, row in enumerate(told.intervals) if number not in (2, 4, 5)]
    found = window(replace(told, intervals=rows), 1.0)
    assert found.flow["duration_s"] == pytest.approx(3.0)
    assert found.flow["throughput_bps"] == pytest.approx(4e8)


@pytest.mark.parametrize(
    ("lost", "failed", "status", "error"),
    [
        (0.0, 0.0, "failed", "there was no transaction: none ended in the time that counts"),
        (0.0, 1200.0, "failed", "there was no transaction: all 1,200 failed"),
        (7.0, 0.0, "ok", ""),  # all were lost: a result
    ],
)
def test_a_flow_of_requests_without_one_that_came_to_an_end_failed(lost, failed, status, error):
    counts = {"transactions": 0.0, "transactions_lost": lost, "transactions_failed": failed}
    told = FlowReport(
        {"duration_s": 1.0, "flow_bytes": 0.0, "throughput_bps": 0.0, **counts}, connected_ns=1, windowed=True
    )
    client = ended("client-0", stdout="0", end_ns=1_010_000_000)
    spec = Spec(workload="flowgen", pairs=1, duration_s=1.0)
    (row,) = read_flows(spec, draw(spec), Reporting([told]), [client], [ended("server-0")], 0).flows
    assert (row["status"], row["error"]) == (status, error)
