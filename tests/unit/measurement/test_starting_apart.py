"""Clients that start one after the other: what is made of their times, and how they are judged; on planted starts."""

import numpy as np
import pytest

from pairlab.measurement.checks import CHECKS, crosschecks
from pairlab.measurement.flow_rows import read_flows
from pairlab.measurement.getting_ready import client_options
from pairlab.measurement.observer import checks_of_flows
from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.measurement.verdict import judge
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.tables import table
from pairlab.testbed.contracts import FlowReport
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.plans import draw, layout
from pairlab.testbed.workloads.flowgen import Flowgen
from pairlab.testbed.workloads.netcat import Netcat
from tests.support.reporting import Reporting, ended

RELEASE_NS = 10**9
INTERVAL_S = 0.5
#: Of 5 s, 1 s apart: all three send from 2 s to 5 s.
TIMED = Spec(workload="flowgen", pairs=3, duration_s=5.0, interval_s=INTERVAL_S, start_spacing_s=1.0)
FINITE = Spec(workload="flowgen", pairs=3, duration_s=5.0, flow_bytes=1000, start_spacing_s=1.0)


def process(name, start_s=0.0, end_s=1.0, **values):
    return ended(name, **{"start_ns": ns(start_s), "end_ns": ns(end_s), **values})


def ns(moment_s):
    """A moment, in s from the release, on the clock."""
    return RELEASE_NS + round(moment_s * 1e9)


def clients(spec, late_s=(0.0, 0.0, 0.0), lasts_s=None):
    lasts_s = spec.total_s if lasts_s is None else lasts_s
    starts_s = [spec.due_s(pair) + late for pair, late in enumerate(late_s)]
    return [process(f"client-{n}", at, at + lasts_s, stdout=str(n)) for n, at in enumerate(starts_s)]


def servers():
    return [process(f"server-{number}") for number in range(3)]


def sharing(spec, total_bps=3e8):
    """Flows that share a rate evenly among those that send at the moment, an interval each."""
    told = []
    for pair in range(spec.pairs):
        rows = []
        for begin_s in np.arange(0, spec.total_s, INTERVAL_S):
            now_s = spec.due_s(pair) + begin_s
            sending = sum(spec.due_s(other) <= now_s < spec.due_s(other) + spec.total_s for other in range(spec.pairs))
            carried = total_bps / sending * INTERVAL_S / 8
            row = {"start_s": begin_s, "end_s": begin_s + INTERVAL_S, "interval_bytes": carried, "retransmits": 2.0}
            rows.append(row)
        flow = {"duration_s": spec.total_s, "flow_bytes": sum(row["interval_bytes"] for row in rows)}
        flow |= {"throughput_bps": flow["flow_bytes"] * 8 / spec.total_s, "retransmits": 2.0 * len(rows)}
        told.append(FlowReport(flow, rows, connected_ns=ns(spec.due_s(pair))))
    return told


def reading(spec, told, these=None):
    return read_flows(spec, draw(spec), Reporting(told), these or clients(spec), servers(), RELEASE_NS)


@pytest.fixture(scope="module")
def timed():
    return reading(TIMED, sharing(TIMED))


def test_totals_are_of_the_time_in_which_all_send_and_so_add_up_to_what_all_had(timed):
    assert [row["duration_s"] for row in timed.flows] == pytest.approx([3.0] * 3)
    assert [row["throughput_bps"] for row in timed.flows] == pytest.approx([1e8] * 3)
    assert [row["retransmits"] for row in timed.flows] == [12.0] * 3
    assert timed.spans == [(0.0, 5.0), (1.0, 6.0), (2.0, 7.0)]


def test_the_common_throughput_is_that_total_too(timed):
    run = Run(TIMED, "ok", flows=table("flows", timed.flows), intervals=table("intervals", timed.intervals))
    assert run.total_throughput_bps == pytest.approx(3e8)
    assert run.common_throughput_bps == pytest.approx(3e8)


def test_whether_the_total_settled_is_looked_at_while_all_send(timed):
    assert timed.steps_bytes == pytest.approx([3e8 * INTERVAL_S / 8] * 6)
    long = TIMED.replace(duration_s=10.0)
    assert reading(long, sharing(long)).checks["settled"] is True


def test_a_warm_up_is_that_of_the_client_that_starts_last():
    """Of 3 s in which all send, half a second is left out; what came before is warm-up of those that came first."""
    spec = TIMED.replace(warmup_s=0.5, duration_s=4.5)
    found = reading(spec, sharing(spec))
    assert [row["duration_s"] for row in found.flows] == pytest.approx([2.5] * 3)
    warm_s = [sum(row["warmup"] for row in found.intervals if row["pair"] == pair) * INTERVAL_S for pair in range(3)]
    assert warm_s == [2.5, 1.5, 0.5]


def test_intervals_that_are_not_in_step_count_while_they_lie_within():
    """Starts 0.7 s apart, with intervals of half a second: what is left of each flow is no more than 3.6 s."""
    spec = TIMED.replace(start_spacing_s=0.7)
    found = reading(spec, sharing(spec))
    assert [row["duration_s"] for row in found.flows] == pytest.approx([3.5, 3.0, 3.5])
    assert [row["throughput_bps"] for row in found.flows] == pytest.approx([1e8] * 3, rel=0.1)


def test_the_spread_of_starts_is_that_around_the_times_when_they_were_due():
    late = clients(TIMED, late_s=(0.001, 0.004, 0.002))
    found = checks_of_flows(TIMED, Flowgen(), reading(TIMED, sharing(TIMED), late), late, servers())
    assert found["skew_s"] == pytest.approx(0.003)
    assert found["overlap"] == pytest.approx(3 / 7)
    assert found["active_share"] == pytest.approx(1.0)


@pytest.mark.parametrize(("late_s", "status"), [(0.05, "ok"), (0.2, "invalid")])
def test_a_client_that_starts_late_is_found_beside_those_that_are_due_later(late_s, status):
    late = clients(TIMED, late_s=(0.0, late_s, 0.0))
    found = reading(TIMED, sharing(TIMED), late)
    checks = checks_of_flows(TIMED, Flowgen(), found, late, servers())
    assert judge(TIMED, checks, late, servers(), found)[0] == status


@pytest.mark.parametrize(("connects_s", "status"), [(0.4, "ok"), (0.6, "invalid")])
def test_a_connection_is_late_by_when_its_client_was_due(connects_s, status):
    told = sharing(TIMED)
    told[1] = FlowReport(told[1].flow, told[1].intervals, connected_ns=ns(1.0 + connects_s))
    found = reading(TIMED, told)
    checks = {"connect_s": crosschecks.connect_s(found)}
    assert checks["connect_s"] == pytest.approx(connects_s)
    found_status, reasons = judge(TIMED, checks, clients(TIMED), servers(), found)
    assert found_status == status
    assert all(why.startswith("a connection took 0.600 s, and 0.5 s are allowed") for why in reasons)


def test_flows_need_to_overlap_as_far_as_their_starts_allow():
    """All three can be active together in 3 of 7 s; 80 % of that is 34 %."""
    assert CHECKS["overlap"].reason(0.35, TIMED) is None
    assert CHECKS["overlap"].reason(0.33, TIMED)
    assert CHECKS["overlap"].reason(0.79, TIMED.replace(start_spacing_s=0.0))


def test_flows_with_an_end_may_be_over_before_others_start_where_that_is_asked():
    for check, value in (("overlap", 0.0), ("over_early", 0.9)):
        assert CHECKS[check].reason(value, FINITE) is None
        assert CHECKS[check].bounds(FINITE) in ("", "at least 0 %")
    assert CHECKS["over_early"].reason(0.9, FINITE.replace(start_spacing_s=0.0))


def test_a_completion_time_counts_from_the_clients_own_start_and_the_other_from_when_it_was_due():
    told = [FlowReport({}, connected_ns=ns(at + 0.01), completed_ns=ns(at + 0.25)) for at in (0.0, 1.0, 2.0)]
    late = clients(FINITE, late_s=(0.0, 0.05, 0.0))
    found = reading(FINITE, told, late)
    assert [row["intended_start_s"] for row in found.flows] == [0.0, 1.0, 2.0]
    assert [row["fct_s"] for row in found.flows] == pytest.approx([0.25, 0.2, 0.25])
    assert [row["intended_fct_s"] for row in found.flows] == pytest.approx([0.25] * 3)
    checks = checks_of_flows(FINITE, Flowgen(), found, late, servers())
    assert (checks["over_early"], checks["overlap"]) == (pytest.approx(2 / 3), 0.0)
    assert judge(FINITE, checks, late, servers(), found) == ("ok", [])


def test_the_time_limit_of_a_flow_counts_from_its_own_start():
    """netcat knows no limit: all are killed when the last one's time is over, and the first had completed before."""
    spec = FINITE.replace(workload="netcat")
    these = [process("client-0", 0.0, 5.5), process("client-1", 1.0, 5.5), process("client-2", 2.0, 7.0, signal=9)]
    found = read_flows(spec, draw(spec), Netcat(), these, servers(), RELEASE_NS)
    late = "the flow did not complete within 5 s"
    assert [row["error"] for row in found.flows] == [late, "", late]
    assert layout(spec).longest_s == 7.0


def test_each_launcher_is_told_when_its_client_is_due():
    class Here:
        interface, directory = "eth0", "/testbed"

        def neighbour_options(self, address):
            return []

        def interface_of(self, endpoint):
            return self.interface

    class Pair:
        client = Endpoint("client", "10.77.0.1", lambda *_: None)
        server = Endpoint("server", "10.77.0.2", lambda *_: None)

        def __init__(self, index):
            self.index, self.task = index, draw(TIMED)[index]

    told = [client_options(Pair(index), TIMED.replace(start_spacing_s=1 / 3), Flowgen(), Here()) for index in range(3)]
    assert "--start-after" not in told[0]
    assert [words[words.index("--start-after") + 1] for words in told[1:]] == ["0.333333333", "0.666666667"]


def test_a_run_that_never_began_has_no_spread():
    never = [process(f"client-{number}", start_ns=None) for number in range(3)]
    assert checks_of_flows(FINITE, Flowgen(), ParsedFlows(), never, servers())["skew_s"] is None


@pytest.mark.parametrize(("side", "stopped_s", "status"), [(0, 0.05, "ok"), (0, 0.5, "invalid"), (1, 0.5, "invalid")])
def test_a_client_or_server_that_a_signal_stopped_for_a_part_of_its_flow_makes_the_run_invalid(side, stopped_s, status):
    processes = clients(TIMED, late_s=(0.0, 0.0, 0.0)), servers()
    processes[side][1].stopped_s = stopped_s
    found = reading(TIMED, sharing(TIMED), processes[0])
    checks = checks_of_flows(TIMED, Flowgen(), found, *processes)
    assert checks["stopped"] == pytest.approx(stopped_s / 5, rel=0.01)
    assert judge(TIMED, checks, *processes, found)[0] == status


def test_whether_anything_was_stopped_is_unknown_where_no_launcher_says_it():
    late = clients(TIMED, late_s=(0.0, 0.0, 0.0))
    assert checks_of_flows(TIMED, Flowgen(), reading(TIMED, sharing(TIMED), late), late, servers())["stopped"] is None
