"""flows: what a measurement makes of a report: whether a flow did its work, and its totals after a warm-up."""

import math
from dataclasses import replace

import pytest

from pairlab.measurement.flow_rows import require_duration, window
from pairlab.testbed.workloads.iperf import Iperf
from tests.unit.testbed.workloads.helpers import REPORTS, captured, only


@pytest.mark.parametrize("name", ["server-died", "terminated"])
def test_a_flow_that_ended_before_its_time_failed(name):
    measured = only(Iperf().parse(captured(f"iperf-2.1.8-{name}.txt")))  # iperf itself exits with 0 then
    assert measured.flow["duration_s"] == pytest.approx(1.8, abs=0.02)
    with pytest.raises(ValueError, match=r"the flow ended after 1\.8\d? of 10 s"):
        require_duration(measured, 10)


@pytest.mark.parametrize(("workload", "report"), [each for each in REPORTS if each.values[0].sends_traffic])
def test_a_flow_that_lasted_as_long_as_asked_succeeded(workload, report):
    require_duration(only(workload.parse(report)), 2)


def test_totals_after_a_warm_up_are_those_of_the_later_intervals():
    measured = window(only(Iperf().parse(captured("iperf-2.1.8-several.txt"))), 1.0)
    assert measured.flow["flow_bytes"] == 1_189_740_544 + 1_083_179_008
    assert measured.flow["throughput_bps"] == pytest.approx((1_189_740_544 + 1_083_179_008) * 8)
    assert measured.flow["retransmits"] == 7
    assert len(measured.intervals) == 4
    assert not math.isnan(measured.flow["rtt_s"])
    with pytest.raises(ValueError, match=r"no interval after the warm-up of 2\.5 s"):
        window(measured, 2.5)


@pytest.mark.parametrize(("untold_s", "told"), [({0.5}, 7), ({1.0}, 24 - 17), ({0.5, 1.0}, None)])
def test_retransmits_after_a_warm_up_are_told_where_the_intervals_before_or_after_it_tell_theirs(untold_s, told):
    measured = only(Iperf().parse(captured("iperf-2.1.8-several.txt")))
    rows = [{**row, **({"retransmits": None} if row["start_s"] in untold_s else {})} for row in measured.intervals]
    assert window(replace(measured, intervals=rows), 1.0).flow["retransmits"] == told
