"""A measurement from spec to stored run, with real traffic."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

from pairlab import Spec, load_runs, measure, measurement, open_testbed
from pairlab.errors import BadSpec, HostBusy, TestbedError, Unavailable
from pairlab.flows import window
from pairlab.records import TABLES
from pairlab.testbed import congestion, hostlock, registry
from pairlab.testbed.contracts import Measured, Program
from pairlab.testbed.tasks import draw
from pairlab.testbed.workloads import iperf3 as iperf3_module
from tests import host
from tests.conftest import backend_and_driver, need

#: What a contract test asks of a workload: a second of traffic, or a flow where it can do no other.
FLOW_BYTES = 2_000_000


def asking(workload, **values):
    can = registry.workloads.get(workload).can
    asked = {"duration_s": 1} if "time" in can else {"duration_s": 20, "flow_bytes": FLOW_BYTES}
    return Spec(workload=workload, **{"pairs": 2, "max_skew_s": 1, **asked, **values})


@pytest.mark.parametrize("workload", registry.workloads.names())
@pytest.mark.parametrize(("backend", "driver"), backend_and_driver())
def test_every_workload_measures_over_every_driver_in_every_backend(backend, driver, workload, runs_dir, clean_host):
    need(backend, driver, workload)
    spec = asking(workload, backend=backend, driver=driver)
    can = registry.workloads.get(workload).can
    run = measure(spec)
    assert (run.status, run.reasons) == ("ok", ())
    assert run.path == runs_dir / "throughput" / spec.key
    for name, columns in TABLES.items():
        assert list(getattr(run, name).columns) == list(columns)
    flows = run.flows
    assert list(flows["pair"]) == [0, 1]
    assert list(flows["status"]) == ["ok", "ok"], list(flows["error"])
    assert list(flows["protocol"]) == ["tcp", "tcp"]
    assert (flows["throughput_bps"] > 1e6).all()
    assert flows["duration_s"].between(0.95 if "time" in can else 1e-4, 5).all()
    assert (flows["throughput_bps"] * flows["duration_s"] / 8).to_list() == pytest.approx(
        flows["flow_bytes"].to_list(), rel=0.01
    )
    assert (flows["start_s"] >= 0).all()
    assert (flows["connected_s"] > flows["start_s"]).all() == (workload == "flowgen")
    if "warmup" in can:  # it tells of intervals, and of TCP
        assert (flows["retransmits"] >= 0).all()
        assert (flows["rtt_s"] > 0).all()
        by_pair = run.intervals.groupby("pair")["interval_bytes"].sum()
        assert by_pair.to_list() == pytest.approx(flows["flow_bytes"].to_list(), rel=0.02)
    assert run.facts["held"] == ["exec"]
    assert run.facts["urgency"][0] in ("realtime", "slice", "none")
    assert flows["start_s"].max() - flows["start_s"].min() == pytest.approx(run.skew_s)
    shares = run.cpu[["usr", "sys", "softirq", "irq", "iowait", "idle", "steal"]].sum(axis=1)
    assert shares.to_list() == pytest.approx([1.0] * len(shares))
    if "time" in can:  # one that ends sooner than the kernel counts may have no row
        assert set(run.cpu["cpu"]) == set(range(os.cpu_count()))
        assert run.cpu["end_s"].max() >= 0.95
        assert "client-0.out" in run.raw
    assert run.facts["host"]["kernel"] == os.uname().release
    assert run.facts["network"]["tcp_congestion_control"]
    assert run.facts["network"]["tso"] in (0, 1)
    assert run.facts["versions"]["flowgen"].startswith("flowgen 0")
    assert workload.rstrip("3") in run.facts["versions"][workload].lower()
    assert run.harness_cpu_s < 1


def able(*features):
    """The workloads that have these features."""
    return [name for name in registry.workloads.names() if registry.workloads.get(name).can >= set(features)]


@pytest.mark.parametrize("workload", able("bytes"))
@pytest.mark.parametrize("backend", registry.backends.names())
def test_a_flow_with_an_end_is_timed_from_its_start_to_its_last_byte(backend, workload, runs_dir, clean_host):
    need(backend, workload=workload)
    asked = {"elephant_share": 0.34, "elephant_bytes": 3 * FLOW_BYTES, "flow_bytes": FLOW_BYTES, "duration_s": 20}
    run = measure(asking(workload, backend=backend, pairs=3, **asked))
    assert (run.status, run.reasons) == ("ok", ())
    flows = run.flows
    assert sorted(flows["role"]) == ["elephant", "mouse", "mouse"]
    assert (flows["size_bytes"] == flows["role"].map({"mouse": FLOW_BYTES, "elephant": 3 * FLOW_BYTES})).all()
    assert (flows["flow_bytes"] == flows["size_bytes"]).all()
    assert (flows["fct_s"] == flows["completed_s"] - flows["start_s"]).all()
    assert (flows["intended_fct_s"] == flows["completed_s"]).all()
    assert (flows["completed_s"] < 20).all()
    begun_s = flows["connected_s"].fillna(flows["start_s"])
    assert (flows["duration_s"] == flows["completed_s"] - begun_s).all()
    if workload == "flowgen":
        told = flows[["start_s", "connected_s", "first_byte_s", "completed_s"]]
        assert (told.diff(axis=1).iloc[:, 1:] > 0).all(axis=None)
        by_pair = run.intervals.groupby("pair")["interval_bytes"].sum()
        assert by_pair.to_list() == flows["flow_bytes"].to_list()


@pytest.mark.parametrize("workload", able("bytes"))
def test_a_flow_that_is_not_complete_in_its_time_has_failed_and_says_so(workload, runs_dir, clean_host):
    need("netns", workload=workload)
    asked = {"flow_bytes": FLOW_BYTES, "elephant_bytes": 1 << 30, "elephant_share": 0.5}
    run = measure(asking(workload, **asked, duration_s=0.15, interval_s=0.1))
    by_role = run.flows.set_index("role")
    assert by_role.loc["elephant", "status"] == "failed"
    assert "not complete after 0.15 s" in by_role.loc["elephant", "error"]
    assert by_role.loc["elephant", ["fct_s", "completed_s", "throughput_bps"]].isna().all()
    assert by_role.loc["elephant", "size_bytes"] == 1 << 30
    assert by_role.loc["mouse", "status"] == "ok", by_role.loc["mouse", "error"]
    assert run.status == "ok"


@pytest.mark.parametrize("workload", able("bytes"))
def test_a_flow_whose_server_dies_on_the_way_has_failed(workload, runs_dir, clean_host, monkeypatch):
    need("netns", workload=workload)
    real = measurement._watch

    def watch(bed, *others):
        (server,) = (
            each for each in bed.conductor._processes.values() if each.slot.startswith("server-1.") and each.ready
        )
        bed.conductor.stop([server])
        real(bed, *others)

    monkeypatch.setattr(measurement, "_watch", watch)
    asked = {"flow_bytes": FLOW_BYTES, "elephant_bytes": 300_000_000, "elephant_share": 0.5}
    run = measure(asking(workload, **asked, seed=elephant_is(1)))
    assert list(run.flows["status"]) == ["ok", "failed"], list(run.flows["error"])
    assert run.flows["fct_s"].isna().to_list() == [False, True]


@pytest.mark.parametrize("workload", able("flows"))
def test_every_flow_of_a_pair_is_a_row(workload, runs_dir, clean_host):
    need("netns", workload=workload)
    run = measure(asking(workload, flows_per_pair=3))
    assert (run.status, run.reasons) == ("ok", ())
    flows = run.flows
    assert list(zip(flows["pair"], flows["flow"], strict=True)) == [(p, f) for p in range(2) for f in range(3)]
    assert (flows["throughput_bps"] > 1e6).all()
    assert flows["client_cpu_s"].notna().to_list() == [True, False, False] * 2  # it is of all of them together
    by_flow = run.intervals.groupby(["pair", "flow"])["interval_bytes"].sum()
    assert by_flow.to_list() == pytest.approx(flows["flow_bytes"].to_list(), rel=0.02)


@pytest.mark.parametrize("workload", able("udp"))
@pytest.mark.parametrize("driver", ["bridge", "host"])
@pytest.mark.parametrize("backend", registry.backends.names())
def test_udp_beside_tcp_tells_what_was_sent_and_what_came(backend, driver, workload, runs_dir, clean_host):
    need(backend, driver, workload)
    asked = {"udp_share": 0.5, "udp_rate_bps": 2e7, "flows_per_pair": 2, "message_bytes": 1000}
    run = measure(asking(workload, backend=backend, driver=driver, **asked))
    assert (run.status, run.reasons) == ("ok", ())
    flows = run.flows.set_index("protocol")
    udp, tcp = flows.loc["udp"], flows.loc["tcp"]
    assert (len(udp), len(tcp)) == (2, 2)
    assert (udp["datagrams_sent"] == udp["datagrams_received"] + udp["datagrams_lost"]).all()
    assert (udp["datagrams_reordered"] <= udp["datagrams_received"]).all()
    assert (udp["flow_bytes"] == udp["datagrams_received"] * 1000).all()
    assert udp["datagrams_sent"].between(250, 2600).all()  # 20 Mbit/s for a second are 2500
    assert (udp["first_byte_s"] > udp["start_s"]).all()
    assert udp[["retransmits", "netns_retransmits", "connected_s", "rtt_s"]].isna().all(axis=None)
    assert tcp[["datagrams_sent", "datagrams_lost"]].isna().all(axis=None)
    assert (tcp["throughput_bps"] > 1e6).all()


def test_udp_without_a_server_is_a_failed_flow(runs_dir, monkeypatch):
    need("netns")
    plugin = registry.workloads.get("flowgen")
    real = plugin.server

    def deaf(self, pair, spec, site):
        return real(self, pair, spec, site) if pair.task.protocol == "tcp" else ["false"]

    monkeypatch.setattr(plugin, "server", deaf)
    run = measure(asking("flowgen", udp_share=0.5))
    assert dict(zip(run.flows["protocol"], run.flows["status"], strict=True)) == {"tcp": "ok", "udp": "failed"}
    assert "1 of 2 servers never listened" in run.reasons[0]


@pytest.mark.parametrize("workload", able("flows", "warmup"))
@pytest.mark.parametrize("backend", registry.backends.names())
def test_the_kernel_counts_what_a_client_retransmits_as_its_tool_does(backend, workload, runs_dir, clean_host):
    need(backend, workload=workload)
    flows = measure(asking(workload, backend=backend, pairs=3, flows_per_pair=4)).flows
    by_pair = flows.groupby("pair")[["retransmits", "netns_retransmits", "diag_retransmits"]].sum(min_count=1)
    assert by_pair.notna().all(axis=None)
    assert flows["netns_retransmits"].notna().to_list() == [True, False, False, False] * 3
    assert (by_pair["netns_retransmits"] >= by_pair["retransmits"]).all()
    assert (by_pair["netns_retransmits"] >= by_pair["diag_retransmits"]).all()


def test_of_clients_that_share_a_namespace_none_has_its_counts(runs_dir):
    need("netns", "host")
    run = measure(asking("flowgen", driver="host"))
    assert run.flows["netns_retransmits"].isna().all()
    assert run.flows["diag_retransmits"].notna().all()


@pytest.mark.parametrize("workload", able("message"))
def test_smaller_messages_are_written_in_more_calls(workload, runs_dir, clean_host):
    """Throughput falls by so much that it can be seen on any machine: 64 B in a call, or 64 KiB."""
    need("netns", workload=workload)
    small, large = (measure(asking(workload, message_bytes=size)) for size in (64, 65_000))
    assert small.status == large.status == "ok"
    assert small.total_throughput_bps < 0.7 * large.total_throughput_bps


@pytest.mark.parametrize("workload", able("congestion"))
def test_congestion_control_is_what_was_asked_for_or_the_flow_failed(workload, runs_dir, clean_host, monkeypatch):
    need("netns", workload=workload)
    reno = measure(asking(workload, congestion_control="reno"))
    assert set(reno.flows["congestion_control"]) == {"reno"}
    with pytest.raises(Unavailable, match="this kernel has no congestion control 'no_such'"):
        measure(asking(workload, congestion_control="no_such"))
    monkeypatch.setattr(congestion, "lacks", lambda name, backend: [])  # a host that does not tell what it has
    none = measure(asking(workload, congestion_control="no_such"))
    assert none.status == "failed"
    assert "ongestion" in none.flows["error"][0]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"workload": "iperf", "flow_bytes": 1}, "'iperf' cannot send a flow of flow_bytes.*: flowgen, netcat"),
        ({"workload": "netcat"}, "'netcat' cannot send until a time is over: give flow_bytes; .*: flowgen, iperf"),
        ({"workload": "sockperf", "warmup_s": 1.0}, "'sockperf' cannot tell of intervals"),
        (
            {"workload": "sockperf", "flows_per_pair": 2, "congestion_control": "reno"},
            "cannot choose.* nor send several",
        ),
        ({"workload": "netcat", "flow_bytes": 1 << 31}, "of 1073741824 bytes at most"),
    ],
)
def test_what_a_workload_cannot_do_is_refused_with_those_that_can(asked, told, runs_dir):
    with pytest.raises(BadSpec, match=told):
        measure(Spec(**asked))
    assert not runs_dir.exists()


def elephant_is(pair):
    """A seed by which, of two pairs, this one is the elephant."""
    asked = {"pairs": 2, "flow_bytes": 1, "elephant_bytes": 2, "elephant_share": 0.5}
    return next(seed for seed in range(100) if draw(Spec(**asked, seed=seed))[pair].role == "elephant")


@pytest.fixture
def short():
    need("netns")
    return Spec(workload="flowgen", pairs=2, duration_s=0.5, max_skew_s=5)


def test_a_stored_run_is_given_back_and_measured_again_only_when_told(short, runs_dir):
    first = measure(short)
    again = measure(short)
    assert again.measured_at == first.measured_at
    fresh = measure(short, fresh=True)
    assert fresh.measured_at > first.measured_at
    assert [path.name[:16] for path in (runs_dir / "throughput" / ".replaced").iterdir()] == [short.key]


def test_warm_up_is_left_out_of_a_flow_and_kept_in_its_intervals(short, runs_dir):
    run = measure(short.replace(warmup_s=0.5, duration_s=1.0))
    assert run.flows["duration_s"].to_list() == pytest.approx([1.0, 1.0], abs=0.2)
    warm = run.intervals[run.intervals["warmup"]]
    kept = run.intervals[~run.intervals["warmup"]]
    assert len(warm) >= 2
    assert (warm["start_s"] < 0.45).all()
    assert kept.groupby("pair")["interval_bytes"].sum().to_list() == run.flows["flow_bytes"].to_list()
    assert kept.groupby("pair")["retransmits"].sum().to_list() == run.flows["retransmits"].to_list()


def test_a_window_needs_an_interval_after_the_warm_up():
    one = {"start_s": 0.0, "end_s": 0.5, "interval_bytes": 10, "retransmits": 1}
    two = {"start_s": 0.5, "end_s": 1.0, "interval_bytes": 20, "retransmits": 2}
    kept = window(Measured({"throughput_bps": 1.0, "rtt_s": 0.1}, [one, two]), 0.5).flow
    assert kept == {
        "duration_s": 0.5,
        "flow_bytes": 20,
        "throughput_bps": 320.0,
        "retransmits": 2,
        "rtt_s": 0.1,
    }
    with pytest.raises(ValueError, match="no interval after its warm-up"):
        window(Measured({}, [one]), 0.5)


def test_clients_that_start_too_far_apart_make_the_run_invalid(short, runs_dir):
    run = measure(short.replace(pairs=10, max_skew_s=1e-9))
    assert run.status == "invalid"
    assert "clients started within" in run.reasons[0]
    assert len(load_runs(runs_dir).left_out) == 1


def test_a_client_that_dies_is_a_failed_flow_and_spoils_no_other(short, runs_dir, monkeypatch):
    """One client's command is made one that fails at once; the others measure on."""
    workload = registry.workloads.get("flowgen")
    real = workload.client

    def broken(self, pair, spec, site):
        argv = real(self, pair, spec, site)
        return ["sh", "-c", "echo out of luck >&2; exit 7"] if pair.index == 1 else argv

    monkeypatch.setattr(workload, "client", broken)
    run = measure(short.replace(pairs=3))
    assert run.status == "ok"
    assert list(run.flows["status"]) == ["ok", "failed", "ok"]
    assert run.flows["error"][1] == "ended with 7: out of luck"
    assert run.flows["throughput_bps"].isna().to_list() == [False, True, False]
    assert run.failed_flows == 1
    assert run.raw["client-1.err"] == "out of luck\n"


def test_a_run_in_which_every_flow_failed_is_failed(short, runs_dir, monkeypatch):
    monkeypatch.setattr(registry.workloads.get("flowgen"), "client", lambda *_: ["false"])
    run = measure(short)
    assert run.status == "failed"
    assert run.reasons == ("all 2 flows failed, the first: ended with 1",)


def test_servers_that_never_listen_are_told_of_and_the_run_is_kept_as_failed(short, runs_dir, monkeypatch, clean_host):
    monkeypatch.setattr(registry.workloads.get("flowgen"), "server", lambda *_: ["sh", "-c", "echo deaf >&2; exit 1"])
    run = measure(short)
    assert run.status == "failed"
    assert "Connection refused" in run.reasons[0]


def test_a_daemon_that_goes_away_is_a_failed_run_on_record(short, runs_dir, monkeypatch, clean_host):
    def sandbox_killed(bed, workload):
        os.kill(bed.site.sandbox.pid, signal.SIGKILL)
        bed.pairs[0].client.run(["true"])

    monkeypatch.setattr(measurement, "_facts", sandbox_killed)
    with pytest.raises(TestbedError, match="the sandbox ended"):
        measure(short)
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    assert "the sandbox ended" in run.reasons[0]


def test_a_testbed_that_does_not_go_whole_costs_no_run_and_is_told_of(short, runs_dir, monkeypatch):
    from pairlab import measurement
    from pairlab.testbed.bed import open_testbed

    @contextlib.contextmanager
    def sticky(spec, progress):
        with open_testbed(spec, progress) as bed:
            yield bed
        raise TestbedError("a network stays")

    monkeypatch.setattr(measurement, "open_testbed", sticky)
    with pytest.warns(UserWarning, match="not taken down whole: a network stays"):
        run = measure(short)
    assert run.status == "ok"
    assert run.facts["left_behind"] == "a network stays"


def test_what_this_host_cannot_do_is_a_recorded_skip(short, runs_dir, monkeypatch, clean_host):
    monkeypatch.setattr(registry.workloads.get("iperf3"), "programs", (Program("no-such-iperf3", "iperf3"),))
    with pytest.raises(Unavailable, match="no-such-iperf3 is not installed: sudo apt-get install iperf3"):
        measure(short.replace(workload="iperf3", duration_s=1))
    (run,) = load_runs(runs_dir)
    assert run.status == "skipped"
    assert "sudo apt-get install iperf3" in run.reasons[0]


def test_more_pairs_than_a_bridge_has_ports_are_refused(runs_dir):
    with pytest.raises(BadSpec, match="pairs: 'bridge' can have 511 at most, not 512"):
        measure(Spec(driver="bridge", pairs=512))
    assert not runs_dir.exists()


def test_a_client_that_never_starts_makes_the_run_invalid(short, runs_dir, monkeypatch):
    workload = registry.workloads.get("flowgen")
    real = workload.client

    def missing(self, pair, spec, site):
        return ["no-such-tool"] if pair.index else real(self, pair, spec, site)

    monkeypatch.setattr(workload, "client", missing)
    run = measure(short)
    assert (run.status, run.reasons) == ("invalid", ("1 of 2 clients never started",))
    assert list(run.flows["status"]) == ["ok", "failed"]
    assert "cannot run no-such-tool" in run.flows["error"][1]


def test_connections_that_come_late_make_the_run_invalid(short, runs_dir, monkeypatch):
    workload = registry.workloads.get("flowgen")
    real = workload.client

    def slow(self, pair, spec, site):
        argv = real(self, pair, spec, site)
        return ["sh", "-c", 'sleep 0.4; exec "$@"', "sh", *argv] if pair.index else argv

    monkeypatch.setattr(workload, "client", slow)
    run = measure(short.replace(max_skew_s=0.2, duration_s=1))
    assert run.status == "invalid"
    assert run.reasons[0].startswith("1 of 2 connections stood only after 0.2 s")
    first = run.intervals.groupby("pair")["start_s"].min()
    assert first.to_list() == pytest.approx(run.flows["connected_s"].to_list())


def test_iperf3_takes_whole_seconds_only_and_says_so(short, runs_dir):
    with pytest.raises(BadSpec, match=r"whole seconds only, and warmup_s \+ duration_s is 1\.5"):
        measure(short.replace(workload="iperf3", duration_s=1.5))
    assert not runs_dir.exists()
    assert iperf3_module.Iperf3.name == "iperf3"


def test_a_second_measurement_waits_for_the_first_or_is_refused(short, runs_dir):
    script = (
        "import sys\n"
        "from pairlab.testbed import hostlock\n"
        "with hostlock.measuring():\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HostBusy, match=f"process {holder.pid} of "):
            measure(short, wait=False)
        told = []

        def tell(phase, done, total):
            told.append(phase)
            if phase.startswith("waiting for process"):
                holder.stdin.write("\n")
                holder.stdin.flush()

        assert measure(short, progress=tell).status == "ok"
    assert told[0].startswith(f"waiting for process {holder.pid} of ")
    with hostlock.measuring(wait=False):  # and it is free again
        pass


def test_progress_names_the_phases_in_order(short, runs_dir):
    phases = []
    measure(short, progress=lambda phase, done, total: phases.append(phase))
    own = [phase for phase in dict.fromkeys(phases) if not phase.startswith("waiting for process")]
    assert own == [
        "bringing up",
        "servers listening",
        "clients ready",
        "measuring (s)",
        "taking down",
    ]


def test_ctrl_c_leaves_the_host_clean_and_no_half_run(runs_dir, clean_host):
    need("netns")
    script = (
        "from pairlab import Spec, measure\n"
        "def tell(phase, done, total):\n"
        "    if phase == 'measuring (s)': print(phase, flush=True)\n"
        "measure(Spec(workload='flowgen', pairs=2, duration_s=60), progress=tell)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=host.heeding_ctrl_c,
    )
    with process:
        assert process.stdout.readline() == "measuring (s)\n"
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert told.rstrip().endswith("KeyboardInterrupt")
    assert not list(runs_dir.glob("throughput/*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may move a launcher to another cgroup")
def test_clients_in_docker_are_let_go_in_real_time_and_run_as_anybody(runs_dir):
    need("docker", "bridge", "flowgen")
    with open_testbed(Spec(backend="docker", pairs=1)) as bed:
        gate = bed.conductor.gate()
        (client,) = bed.conductor.start([(bed.pairs[0].client, ["cat", "/proc/self/sched"])], gate=gate)
        bed.conductor.wait_ready([client], 20)
        assert client.urgency == "realtime"
        gate.release()
        bed.conductor.wait_ended([client], 20)
        (client,) = bed.conductor.results([client])
    policy = next(line.split()[-1] for line in client.stdout.splitlines() if line.startswith("policy"))
    assert policy == "0"  # SCHED_OTHER
