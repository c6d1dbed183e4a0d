"""Which congestion control is recorded of a flow and of a run, and what is refused."""

import pytest

from pairlab.measurement import congestion
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import FlowReport
from pairlab.testbed.endpoints import Endpoint, Task
from pairlab.testbed.plans import layout
from pairlab.testbed.process_launcher import Process

CUBIC = Spec(workload="netcat", flow_bytes=1000, congestion_control="cubic")


def of_flow(tool="", kernel="", unless_chosen="bbr", spec=CUBIC, **task):
    client = Process("client-0.0", Endpoint("client-0", "10.77.0.1", lambda *_: None), ())
    client.diag_congestion_control = kernel
    measured = FlowReport({"congestion_control": tool} if tool else {})
    return congestion.of_flow(spec, Task(**task), measured, client, unless_chosen)


def test_what_a_tool_reports_comes_before_what_the_kernel_does():
    assert of_flow(tool="cubic", kernel="more than one") == {"congestion_control": "cubic"}
    assert of_flow(kernel="cubic") == {"congestion_control": "cubic"}
    assert of_flow(kernel="reno", spec=Spec(workload="sockperf")) == {"congestion_control": "reno"}


def test_what_nobody_reports_is_not_in_the_flow_and_must_be_set_otherwise():
    assert of_flow(unless_chosen="cubic") == {}
    with pytest.raises(ValueError, match="its congestion control was bbr, not cubic"):
        of_flow()
    with pytest.raises(ValueError, match="its congestion control was not reported, not cubic"):
        of_flow(unless_chosen="")


@pytest.mark.parametrize("seen", [{"tool": "reno"}, {"kernel": "reno"}, {"kernel": "more than one"}])
def test_a_flow_that_had_another_than_was_asked_for_has_failed(seen):
    with pytest.raises(ValueError, match=f"its congestion control was {next(iter(seen.values()))}, not cubic"):
        of_flow(**seen, unless_chosen="cubic")


def test_udp_has_none():
    assert of_flow(kernel="reno", protocol="udp") == {}


@pytest.mark.parametrize(
    ("spec", "network", "seen", "recorded"),
    [
        (CUBIC, {"route_congestion_control": "cubic", "tcp_congestion_control": "bbr"}, (), ("cubic", "route")),
        (CUBIC.replace(congestion_control=""), {"tcp_congestion_control": "bbr"}, ("", ""), ("bbr", "default")),
        (Spec(workload="sockperf"), {"tcp_congestion_control": "bbr"}, ("reno", "cubic"), ("cubic, reno", "default")),
        (Spec(workload="iperf"), {}, (), ("", "default")),
    ],
)
def test_a_run_records_which_one_was_in_force_and_what_set_it(spec, network, seen, recorded):
    rows = [{"congestion_control": name} for name in seen]
    in_force, by = recorded
    assert congestion.recorded(layout(spec), network, rows) == {"in_force": in_force, "by": by}


@pytest.mark.parametrize(("workload", "by"), [("iperf", "tool"), ("netcat", "default")])
def test_where_no_route_can_be_set_a_tools_option_does_it_or_it_is_the_default(workload, by):
    spec = Spec(backend="docker", driver="host", workload=workload, congestion_control="reno")
    found = congestion.recorded(layout(spec), {"tcp_congestion_control": "reno"}, [])
    assert found == {"in_force": "reno", "by": by}


def test_tools_are_not_asked_for_what_routes_do():
    assert layout(CUBIC).tool_spec == CUBIC.replace(congestion_control="")
    on_the_host = CUBIC.replace(backend="docker", driver="host", workload="flowgen")
    assert layout(on_the_host).tool_spec == on_the_host
