"""verdict: each check's bounds, and the status and reasons that come of them."""

from dataclasses import replace

import pytest

from pairlab.measurement.checks import CHECKS, with_sum_of_others
from pairlab.measurement.parsed_flows import ParsedFlows
from pairlab.measurement.verdict import judge, worth_retrying
from pairlab.model.spec import Spec
from pairlab.testbed.endpoints import Endpoint
from pairlab.testbed.process_launcher import Process
from tests.support.synthetic import run

SPEC = Spec(workload="flowgen", pairs=2, max_skew_s=0.1, max_foreign_cpu=0.1)
GOOD = {
    "skew_s": 0.01,
    "stopped": 0.0,
    "beside_stopped": 0.0,
    "halted": 0.0,
    "regrouped": 0,
    "affinity_changed": 0,
    "clock_error_s": 0.0002,
    "over_early": None,
    "connect_s": 0.02,
    "overlap": 0.95,
    "hung": 0,
    "killed": 0,
    "network_changed": 0,
    "conditions_changed": 0,
    "background_steady": True,
    "background_failed": 0,
    "interference_running": True,
    "interference_ended": 0,
    "silent": 0.1,
    "silence_s": 0.9,
    "active_share": 0.99,
    "foreign_cpu": 0.02,
    "realtime_cpu": 0.001,
    "hidden_cpu": 0.0,
    "kernel_cpu": 0.003,
    "pairlab_cpu": 0.002,
    "steal": 0.0,
    "others_cpu": 0.025,
    "clock_step_s": 1e-6,
    "throttled": 0,
    "quota_throttled": 0.0,
    "frequency_change": -0.02,
    "telemetry_missed": 0.0,
    "interface_bytes": 0.001,
    "datagram_bytes": None,
    "port_bytes": None,
    "refused": 0,
    "unread": 0.005,
    "overrun": 0.001,
    "late_end": 0.11,
    "retransmits": -0.005,
    "load": 0.001,
    "unbegun": 0.0,
    "incomplete": 0.0,
    "failed_flows": 0,
    "warmup_s": 1.0,
    "settled": True,
    "shift": -0.4,
}


def processes(count=2, **values):
    return [Process(f"x-{n}", Endpoint(f"x-{n}", "10.0.0.1", None), (), start_ns=1, ready=True) for n in range(count)]


def verdict(checks=GOOD, spec=SPEC, clients=None, servers=None, flows=None, unmet=()):
    flows = [{"status": "ok"}] * 2 if flows is None else flows
    parsed = ParsedFlows(flows=flows, spans=[(0.01, 10.01), (0.02, 10.02)])
    return judge(spec, checks, clients or processes(), servers or processes(), parsed, unmet)


def test_who_used_the_cpu_time_is_named_beside_the_check_that_it_counts_to():
    largest = {"foreign_cpu": [("firefox", 42, 0.2), ("sshd", 7, 0.05)], "steal": []}.get
    parsed = ParsedFlows(flows=[{"status": "ok"}] * 2, spans=[(0.01, 10.01), (0.02, 10.02)])
    checks = GOOD | {"foreign_cpu": 0.25, "steal": 0.5}
    _, (foreign, steal) = judge(SPEC, checks, processes(), processes(), parsed, largest=largest)
    assert foreign.endswith("allow more (the largest: firefox (pid 42) 20.0 %, sshd (pid 7) 5.0 %)")
    assert steal.endswith("max_foreign_cpu is 0.1")


def test_what_others_had_together_has_the_bound_of_each_kind():
    each = {"foreign_cpu": 0.05, "hidden_cpu": 0.06, "steal": 0.0}
    (why,) = verdict(with_sum_of_others(GOOD | each))[1]
    assert "had 11.5 % of the CPU time together; max_foreign_cpu is 0.1" in why
    (why,) = verdict(with_sum_of_others(GOOD | each | {"hidden_cpu": 0.25}))[1]
    assert why.startswith("something that cannot be seen from here used 25.0 %")  # which says more than the sum
    assert verdict(with_sum_of_others(GOOD | each | {"hidden_cpu": 0.04}))[0] == "ok"


@pytest.mark.parametrize("hidden", [0.06, 0.25])
def test_a_run_that_only_others_disturbed_may_be_measured_again(hidden):
    checks = with_sum_of_others(GOOD | {"foreign_cpu": 0.05, "hidden_cpu": hidden})
    status, reasons = verdict(checks)
    assert worth_retrying(replace(run([1.0]), status=status, reasons=tuple(reasons), checks=checks))


def test_what_nobody_sampled_has_no_sum():
    assert "others_cpu" not in with_sum_of_others({"skew_s": 0.1, "steal": None})


def test_a_run_within_all_bounds_counts():
    assert verdict() == ("ok", [])
    assert set(GOOD) == set(CHECKS)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("clock_error_s", 0.15, "the clocks of the hosts are known to 0.1500 s only; max_skew_s is 0.1"),
        ("skew_s", 0.2, "client start times are spread over 0.200 s; max_skew_s is 0.1"),
        ("over_early", 0.5, "50 % of the flows completed before the last client started"),
        ("overlap", 0.3, "all flows were active in only 30 % of the time"),
        ("stopped", 0.05, "a client or server was stopped for 5.0 % of its flow's time"),
        ("beside_stopped", 0.1, "a process of the background or the interference was stopped for 10.0 % of the time"),
        ("halted", 0.05, "a process of the testbed was stopped, traced or frozen"),
        ("regrouped", 1, "1 processes of the testbed were moved to another control group"),
        ("affinity_changed", 1, "1 clients or servers were moved to other CPUs"),
        ("hung", 3, "3 clients had to be killed after their time"),
        ("conditions_changed", 2, "2 settings of this machine were changed during the measurement"),
        ("foreign_cpu", 0.25, "other processes used 25.0 % of the CPU time; max_foreign_cpu is 0.1"),
        ("hidden_cpu", 0.25, "something that cannot be seen from here used 25.0 % of the CPU time"),
        ("realtime_cpu", 0.02, "processes of real-time class, which run before all others, used 2.0 % of the CPU time"),
        ("kernel_cpu", 0.25, "kernel threads used 25.0 % of the CPU time on other work than packets"),
        ("pairlab_cpu", 0.25, "the process that measures used 25.0 % of the CPU time"),
        ("killed", 1, "1 clients or servers were killed"),
        ("load", -0.03, "the load was 3.0 % less than offered_load_bps: hosts or network are saturated"),
        ("unbegun", 0.25, "25.0 % of the requests had not begun within duration_s"),
        ("incomplete", 0.25, "25.0 % of the requests were not complete within duration_s: give more time"),
        ("background_steady", False, "the background did not come to a steady rate within 15 s"),
        ("background_failed", 1, "1 background pairs failed, or ended before the others did"),
        ("interference_running", False, "not all workers of the interference were seen to use CPU time"),
        ("interference_ended", 2, "2 workers of the interference had ended before the pairs did"),
        ("network_changed", 2, "the network settings of 2 endpoints were changed"),
        ("steal", 0.25, "the hypervisor took 25.0 % of the CPU time"),
        ("clock_step_s", -3600.0, "the wall clock was changed by -3600.000 s"),
        ("clock_step_s", 1.0, "the wall clock was changed by 1.000 s"),
        ("throttled", 2, "cores were thermally throttled 2 times"),
        ("frequency_change", -0.3, "the core frequency changed by -30 %"),
        ("frequency_change", 0.3, "the core frequency changed by +30 %"),
        ("telemetry_missed", 0.5, "CPU use was not sampled in 50 % of the time"),
        (
            "interface_bytes",
            -0.02,
            "the servers' links carried 2.0 % less payload than the tool reported: see the tool's output, in raw.zip",
        ),
        ("interface_bytes", 0.02, "the servers' links carried 2.0 % more"),
        ("port_bytes", 0.02, "the ports of the network carried 2.0 % more"),
        (
            "retransmits",
            -0.5,
            "the tool's count of retransmitted segments is 50.0 % less than the kernel's: see the tool's output",
        ),
        ("refused", 7, "the kernel refused 7 packets for want of room in its tables"),
        ("unread", 0.05, "5.0 % more payload was sent than the servers had read"),
        ("overrun", 0.25, "the last UDP datagrams were received 25.0 % of the time after"),
        ("settled", False, "the throughput never settled"),
    ],
)
def test_one_check_out_of_its_bounds_makes_the_run_invalid_and_says_why(name, value, told):
    status, reasons = verdict({**GOOD, name: value})
    assert (status, len(reasons)) == ("invalid", 1)
    assert told in reasons[0]


def test_where_a_launcher_knows_who_was_stopped_samples_say_nothing_more():
    for name in ("stopped", "beside_stopped"):
        (why,) = verdict({**GOOD, name: 0.3, "halted": 0.3})[1]
        assert "was stopped for 30.0 %" in why


def test_a_load_that_may_fall_behind_is_reported_and_not_judged():
    asked = {"flow_sizes": "prv2-1", "offered_load_bps": 1e9, "requests": 10}
    behind = Spec(workload="traffic", pairs=2, may_fall_behind=True, **asked)
    assert verdict({**GOOD, "load": -0.7}, spec=behind) == ("ok", [])
    assert verdict({**GOOD, "load": -0.7}, spec=behind.replace(may_fall_behind=False))[0] == "invalid"
    assert verdict({**GOOD, "load": 0.03}, spec=behind)[0] == "invalid"


def test_what_is_not_known_spoils_nothing():
    assert verdict(dict.fromkeys(GOOD)) == ("ok", [])


def test_every_bounded_check_has_a_reason_and_every_check_a_meaning():
    for check in CHECKS.values():
        assert check.meaning
        assert bool(check.sentence) == bool(check.most or check.least)


def test_flows_with_an_end_need_not_end_together():
    finite = SPEC.replace(flow_bytes=1000)
    assert verdict({**GOOD, "overlap": 0.1, "hung": 2}, spec=finite) == ("ok", [])


def test_a_failed_flow_is_a_result_and_all_failed_are_none():
    one = [{"status": "failed", "error": "it died"}, {"status": "ok"}]
    assert verdict(flows=one) == ("ok", [])
    assert verdict(flows=one[:1] * 2) == ("failed", ["all 2 flows failed, the first: it died"])


def test_a_slow_clock_is_slewed_by_ntp_and_not_set():
    long = SPEC.replace(duration_s=60.0)
    assert verdict({**GOOD, "clock_step_s": 0.03}, spec=long)[0] == "ok"
    assert verdict({**GOOD, "clock_step_s": 0.03}, spec=SPEC)[0] == "invalid"


def test_several_reasons_are_all_told():
    status, reasons = verdict({**GOOD, "overlap": 0.1, "steal": 0.9}, unmet=["a quota was not kept"])
    assert (status, len(reasons)) == ("invalid", 3)
    assert reasons[0] == "a quota was not kept"


def test_connections_that_stood_late_make_the_run_invalid_where_flows_have_no_end():
    late = {**GOOD, "connect_s": 1.03}
    reason = "a connection took 1.030 s, and 1 s are allowed, for flows to send together"
    assert verdict(late) == ("invalid", [reason])
    assert verdict(late, spec=SPEC.replace(flow_bytes=1000)) == ("ok", [])
