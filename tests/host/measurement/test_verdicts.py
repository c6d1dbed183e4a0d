"""Each verdict for a planted reason: what spoils a measurement is found, by name, and what does not is let be.

Promise: a run that cannot be trusted says so.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from pairlab import Spec, load_runs, measure
from pairlab.measurement import measure as measurement
from pairlab.testbed.endpoints import Limits
from pairlab.testbed.host import cgroups
from tests.conftest import every_driver, mostly_whole, need, need_all_of
from tests.support.attempts import measured, sound, sound_run
from tests.support.disturbances import inside, measured_under, nothing

#: Burns CPU time until its input ends; begun by a process that has ended, so that it is nobody's of ours.
BURNER = (
    "import sys, threading\nthreading.Thread(target=sys.stdin.read).start()\nwhile threading.active_count() > 1: pass\n"
)
FOREIGN = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"


def spec_of(**values):
    return Spec(
        **{"workload": "flowgen", "pairs": 2, "duration_s": 1.0, "max_skew_s": 5, "max_foreign_cpu": 1, **values}
    )


@pytest.fixture
def foreign_load():
    """A process that takes a whole core, and is not ours by descent."""
    inlet, outlet = os.pipe()
    subprocess.run([sys.executable, "-c", FOREIGN, BURNER], stdin=inlet, check=True)
    os.close(inlet)
    yield
    os.close(outlet)


def test_of_a_hundred_processes_that_nobody_touches_none_is_taken_for_touched():
    """They begin and end while samples are taken, and wait for CPUs most of the time."""
    run = sound_run(spec_of(pairs=50, duration_s=2.0, interval_s=0.5))
    assert (run.checks["regrouped"], run.checks["affinity_changed"], run.checks["network_changed"]) == (0, 0, 0)


@pytest.mark.parametrize(("backend", "driver"), every_driver())
def test_bytes_and_retransmissions_agree_in_every_source(backend, driver, shared_run, record_property):
    run = shared_run(backend, driver).run
    assert sound(run), run.reasons
    for name in ("interface_bytes", "port_bytes", "retransmits"):
        if run.checks[name] is not None:
            record_property(f"{name}, share of disagreement", abs(run.checks[name]))
    if backend == "netns" or driver != "host":
        assert run.checks["interface_bytes"] is not None
    if driver in ("bridge", "ovs"):
        assert run.checks["port_bytes"] is not None


@pytest.mark.whole
def test_udp_that_no_longer_arrives_at_the_end_counts_over_the_whole_window_and_makes_the_run_invalid(
    runs_dir, monkeypatch
):
    """The server's namespace loses its address from 0.5 s until just after the end: the link carries on."""
    need("netns")
    if not shutil.which("ip"):
        pytest.skip("needs ip on PATH: apt-get install iproute2")
    real = measurement._watch

    def watch(bed, *others):
        server = bed.pairs[0].server
        address = f"{server.address}/16 dev eth0"
        script = f"sleep 0.5; ip address delete {address}; sleep 1.65; ip address add {address}"
        bed.launcher.start([(server, ("sh", "-c", script))])
        real(bed, *others)

    monkeypatch.setattr(measurement, "_watch", watch)
    run = measure(spec_of(pairs=1, duration_s=2.0, udp_share=1.0, udp_rate_bps=5e7))
    (flow,) = run.flows.itertuples()
    assert (flow.status, run.status) == ("ok", "invalid")
    assert any("more UDP payload than the tool reported" in reason for reason in run.reasons), run.reasons
    assert flow.datagrams_lost > 0.5 * flow.datagrams_sent
    assert flow.throughput_bps == pytest.approx(flow.datagrams_received * 1448 * 8 / 2.0, rel=0.01)


QUOTA = """
import os, sys
from pathlib import Path
Path(sys.argv[1], "cgroup.procs").write_text(str(os.getpid()))
from pairlab import Spec, measure
run = measure(Spec(workload="flowgen", duration_s=1.0, max_skew_s=5, max_foreign_cpu=1), root=Path(sys.argv[2]))
print(run.status, run.checks["quota_throttled"], *run.reasons, run.environment.host, sep="|")
"""


def test_a_cpu_quota_on_pairlab_itself_makes_the_run_invalid_and_is_part_of_its_environment(runs_dir, clean_host):
    need("netns")
    if lack := cgroups.missing():
        pytest.skip(str(lack))
    with cgroups.groups("test_quota", {"all": Limits(cpu_quota=0.5)}) as groups:
        argv = [sys.executable, "-c", QUOTA, str(groups["all"]), str(runs_dir)]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    status, throttled, *reasons, host = done.stdout.strip().split("|")
    assert status == "invalid"
    assert float(throttled) > 0.3
    assert any("a CPU quota on pairlab itself held it up" in reason for reason in reasons), reasons
    assert host.endswith("with a quota of 0.5")


@pytest.fixture
def reports(changed_tool):
    """reports(change): has flowgen report change(flow) of each flow."""
    return lambda change: changed_tool("parse", lambda flows, *_: list(map(change, flows)))


@pytest.mark.parametrize("share", [0.95, 1.05])
def test_a_tool_that_tells_wrong_bytes_is_found_by_the_kernels_counters(share, runs_dir, reports):
    need("netns")
    reports(lambda flow: replace(flow, received_bytes=flow.received_bytes * share))
    run = measure(spec_of())
    assert run.status == "invalid"
    assert any("the servers' links carried" in reason for reason in run.reasons), run.reasons
    assert any("the ports of the network carried" in reason for reason in run.reasons), run.reasons
    assert run.checks["interface_bytes"] == pytest.approx(1 / share - 1, abs=0.01)


def test_a_tool_that_tells_wrong_retransmissions_is_found_by_the_kernels_count(runs_dir, reports):
    asked = spec_of(duration_s=2.0, link_rate_bps=1e8, link_loss=0.01)
    need_all_of(asked)
    reports(lambda flow: replace(flow, flow={**flow.flow, "retransmits": flow.flow["retransmits"] + 5000}))
    run = measure(asked)
    assert run.status == "invalid"
    assert any(
        "count of retransmitted segments is" in reason and "% more than the kernel's" in reason
        for reason in run.reasons
    ), run.reasons


@pytest.mark.whole
def test_what_others_take_of_the_cpus_is_found_and_left_out_of_analyses(foreign_load, runs_dir, record_property):
    need("netns")
    run = measure(spec_of(max_foreign_cpu=0.1, duration_s=2.0))
    assert run.status == "invalid"
    assert any("other processes used" in reason for reason in run.reasons), run.reasons
    record_property("foreign CPU found, share of one core planted", run.checks["foreign_cpu"] * os.cpu_count())
    left_out = load_runs(runs_dir).left_out
    assert list(left_out["key"]) == [run.key]
    assert "other processes used" in left_out["reasons"].iloc[0]


@pytest.mark.whole
def test_the_testbeds_own_processes_are_no_foreign_load(runs_dir):
    """The switch in user space alone takes most of a core."""
    need("netns", "ovs")
    before = measure(spec_of(pairs=1, driver="host", duration_s=0.5))
    run = measure(spec_of(driver="ovs", pairs=5, duration_s=2.0))
    busy = 1 - run.cpu["idle"].mean()
    assert run.checks["foreign_cpu"] < before.checks["foreign_cpu"] + 0.5 * busy


@pytest.mark.whole
def test_warm_up_is_found_and_left_out_of_the_totals(runs_dir, reports, record_property):
    """Every tool begins slowly here: what it tells of its first three intervals is made a tenth."""
    need("netns")
    reports(_scaled(lambda start_s: 0.1 if start_s < 0.55 else 1.0))
    run = measured(spec_of(interval_s=0.2, link_rate_bps=1e8, duration_s=3.0))
    assert sound(run), run.reasons
    slow = run.intervals["start_s"] < 0.55
    assert run.checks["warmup_s"] == pytest.approx(run.intervals["end_s"][slow].max(), abs=0.05)
    assert run.checks["settled"] is True
    kept = run.intervals[~run.intervals["warmup"]]
    assert kept["start_s"].min() > 0.5
    assert run.flows["flow_bytes"].sum() == kept["interval_bytes"].sum()
    record_property("warm-up found, s of 0.6 planted", run.checks["warmup_s"])


@pytest.mark.whole
def test_a_run_that_never_settles_says_so(runs_dir, reports):
    need("netns")
    reports(_scaled(lambda start_s: 1 + start_s))
    run = measure(spec_of(interval_s=0.2, link_rate_bps=1e8, duration_s=3.0))
    assert run.status == "invalid"
    assert any("never settled" in reason for reason in run.reasons), run.reasons


@pytest.mark.whole
def test_flows_that_hardly_met_make_the_run_invalid(runs_dir, begins_late):
    need("netns")
    begins_late(1)
    run = measure(spec_of(duration_s=2.0))
    assert run.status == "invalid"
    assert any("all flows were active in" in reason for reason in run.reasons), run.reasons
    begun_s, ended_s = run.flows["connected_s"], run.flows["connected_s"] + run.flows["duration_s"]
    together_s = ended_s.min() - begun_s.max()
    assert run.checks["overlap"] == pytest.approx(together_s / (ended_s.max() - begun_s.min()), abs=0.01)
    assert together_s < 1


def test_what_pairlab_used_is_what_it_used_while_flows_were_under_way(runs_dir):
    """Its samples before and after take longer than a flow of 5 MB."""
    need("netns")
    run = measure(spec_of(pairs=2, flow_bytes=5_000_000, duration_s=30.0))
    lasted_s = run.flows["completed_s"].max()
    assert run.checks["pairlab_cpu"] <= run.harness_cpu_s / (lasted_s * os.cpu_count())
    assert run.checks["pairlab_cpu"] == pytest.approx(run.harness_cpu_s / (lasted_s * os.cpu_count()), rel=0.9)


def test_the_time_in_which_a_tool_waits_before_it_sends_is_no_stall(runs_dir):
    need("netns", workload="sockperf")
    run = measured(spec_of(workload="sockperf", pairs=1, duration_s=3.0))
    assert run.checks["shift"] is not None
    assert abs(run.checks["shift"]) < 0.5


def losing(number):
    """Has the second client lose the packet of that number of those that open its connections; skips where it cannot.

    TCP sends it again after a second (RFC 6298).
    """
    words = ["iptables", "-A", "OUTPUT", "-p", "tcp", "--syn", "-m", "statistic", "--mode", "nth", "--every", "1000"]
    lose = [*words, "--packet", str(number), "-j", "DROP"]
    if subprocess.run(["unshare", "--map-root-user", "--net", *lose], check=False).returncode != 0:
        pytest.skip("losing just one packet needs iptables and the kernel's xt_statistic: apt-get install iptables")
    return lambda bed: inside(bed.clients[1], *lose)


@pytest.mark.parametrize("workload", mostly_whole(["iperf", "sockperf"], but=["iperf"]))
def test_a_lost_first_packet_is_a_connection_that_stood_late_in_every_tool(workload, runs_dir):
    """iperf tells how long it took. Of sockperf the kernel tells, and of iperf3: below."""
    need("netns", workload=workload)
    asked = spec_of(workload=workload, max_skew_s=0.9, duration_s=2.0)
    run, _ = measured_under(asked, nothing, prepare=losing(0), begins_s=0, lasts_s=0)
    assert run.status == "invalid"
    assert run.reasons[0].startswith("a connection took 1."), run.reasons
    assert run.checks["connect_s"] > 0.9
    assert 0 < run.checks["overlap"] < 0.5  # 1/3, or more where the other one was late, too
    if workload != "sockperf":  # it tells of none
        first_s, second_s = run.intervals.groupby("pair")["start_s"].min()
        assert first_s < 0.9 < 1.0 <= second_s < 2.0
    assert run.flows["connected_s"].isna().all()


@pytest.mark.whole
@pytest.mark.parametrize("lost", [0, 1, 2], ids=["control", "first-stream", "last-stream"])
def test_whichever_connection_of_iperf3_loses_its_first_packet_all_of_its_flows_begin_late(lost, runs_dir):
    need("netns", workload="iperf3")
    asked = spec_of(workload="iperf3", flows_per_pair=2, max_skew_s=0.9, duration_s=2.0)
    run, _ = measured_under(asked, nothing, prepare=losing(lost), begins_s=0, lasts_s=0)
    assert list(run.flows["status"]) == ["ok"] * 4, list(run.flows["error"])
    assert run.status == "invalid"
    assert run.reasons[0].startswith("a connection took 1."), run.reasons
    assert run.checks["connect_s"] > 0.9
    ended_s = run.intervals.groupby(["pair", "flow"])["end_s"].max()
    assert [int(each + 0.05) for each in ended_s] == [2, 2, 3, 3]


def test_finite_flows_over_before_the_last_start_make_the_run_invalid(runs_dir, reports):
    need("netns")
    # As if each had been over before any other could start.
    reports(lambda flow: replace(flow, completed_ns=flow.connected_ns - 10**9))
    run = measure(spec_of(flow_bytes=1_000_000))
    assert run.status == "invalid"
    assert any("completed before the last client started" in reason for reason in run.reasons), run.reasons


@pytest.mark.whole
def test_what_the_harness_spends_is_in_every_run(runs_dir, record_property):
    need("netns")
    run = measure(spec_of(pairs=10, duration_s=2.0))
    assert 0 < run.harness_cpu_s < 2.0
    assert load_runs(runs_dir).runs[0].harness_cpu_s == run.harness_cpu_s
    record_property("CPU time of the harness, share of one core (10 pairs, 2 s)", run.harness_cpu_s / 2.0)


def test_without_telemetry_nothing_is_looked_at_and_the_flows_are_judged_all_the_same(runs_dir):
    need("netns")
    run = measure(spec_of(telemetry=False, max_skew_s=1e-9, pairs=5))
    assert run.status == "invalid"
    assert any("client start times are spread over" in reason for reason in run.reasons), run.reasons
    assert run.checks["skew_s"] > run.spec.max_skew_s
    assert list(load_runs(runs_dir).left_out["key"]) == [run.key]
    assert not len(run.cpu)
    assert not {"foreign_cpu", "counters", "profile"} & {*run.checks, *run.facts}
    assert run.flows["diag_retransmits"].isna().all()
    assert run.flows["client_voluntary_switches"].notna().all()  # which its launcher tells


def _scaled(factor):
    """What changes a flow's intervals, each by the factor for its start."""

    def times(row):
        bytes_ = row["interval_bytes"] * factor(row["start_s"])
        return {**row, "interval_bytes": bytes_, "throughput_bps": bytes_ * 8 / (row["end_s"] - row["start_s"])}

    return lambda flow: replace(flow, intervals=list(map(times, flow.intervals)))
