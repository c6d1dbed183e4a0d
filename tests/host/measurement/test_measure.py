"""A measurement from spec to stored run, with real traffic: what becomes of it, however it goes."""

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from pairlab import Spec, load_runs, measure, open_testbed, store
from pairlab.errors import BadSpec, HostBusy, TestbedError, Unavailable
from pairlab.measurement import measure as measurement
from pairlab.measurement.flow_rows import window
from pairlab.testbed import ground, registry
from pairlab.testbed.contracts import Measured
from pairlab.testbed.host import facts, lock
from pairlab.testbed.launch.conductor import Gate
from pairlab.testbed.requirements import Program
from pairlab.testbed.workloads import iperf3 as iperf3_module
from tests.conftest import need
from tests.support import host
from tests.support.spoilt import measured

#: A process that measures, as far as others see, until it is told a line.
HOLDER = """
import sys
from pairlab.testbed.host import lock as hostlock
with hostlock.measuring():
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def short():
    need("netns")
    return Spec(workload="flowgen", pairs=2, duration_s=0.5, max_skew_s=5, max_foreign_cpu=1)


@pytest.fixture
def sound(short):
    """Ends ok although starts are 0.2 s apart, as flows have to be active together for 0.8 of the time."""
    return short.replace(duration_s=2.0)


@pytest.fixture
def stored(shared_run, runs_dir):
    """A run in the test's own store, measured before."""
    run = shared_run("netns", "bridge").run
    shutil.copytree(run.path, runs_dir / run.path.relative_to(run.path.parents[1]))
    return run


def test_a_stored_run_is_given_back_and_measured_again_only_when_told(stored, runs_dir):
    said = []
    again = measure(stored.spec, progress=lambda phase, done, total: said.append(phase))
    assert again.measured_at == stored.measured_at
    assert re.fullmatch(r"from the store, measured 20..-..-.. ..:.. UTC, kernel \S+", said[-1])
    fresh = measured(stored.spec)
    assert fresh.measured_at > stored.measured_at
    assert {run.measured_at for run in load_runs(runs_dir)} == {stored.measured_at, fresh.measured_at}
    assert measure(stored.spec).measured_at == fresh.measured_at


def test_after_a_kernel_update_a_spec_is_measured_again_beside_the_older_run(stored, runs_dir, monkeypatch):
    updated = facts.host() | {"kernel": "99.1"}
    monkeypatch.setattr(facts, "host", lambda: updated)
    second = measured(stored.spec, fresh=False)
    assert (second.ground.kernel, second.path.name == stored.path.name) == ("99.1", False)
    assert measure(stored.spec).path == second.path
    newest, both = load_runs(runs_dir), load_runs(runs_dir, ground="all")
    assert set(newest.index["kernel"]) == {"99.1"}
    assert "measured elsewhere" in newest.elsewhere[0]
    assert set(both.index["kernel"]) == {"99.1", stored.ground.kernel}


def test_the_ground_told_before_a_measurement_is_the_one_its_run_records(shared_run):
    run = shared_run("netns", "bridge").run
    assert run.ground == ground.here(run.spec)


def test_warm_up_is_left_out_of_a_flow_and_kept_in_its_intervals(short, runs_dir):
    run = measure(short.replace(warmup_s=0.5, duration_s=1.0))
    warm = run.intervals[run.intervals["warmup"]]
    kept = run.intervals[~run.intervals["warmup"]]
    assert set(warm["pair"]) == {0, 1}
    ends_s = [part.groupby("pair")["end_s"].max() for part in (warm, kept)]
    assert (ends_s[0] >= run.flows["connected_s"] + 0.5 - 1e-3).all()
    assert run.flows["duration_s"].to_list() == pytest.approx((ends_s[1] - ends_s[0]).to_list())
    assert (kept.groupby("pair")["start_s"].min() == ends_s[0]).all()
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
    with pytest.raises(ValueError, match="no interval after the warm-up"):
        window(Measured({}, [one]), 0.5)


def test_clients_that_start_too_far_apart_make_the_run_invalid(short, runs_dir):
    run = measure(short.replace(pairs=10, max_skew_s=1e-9))
    assert run.status == "invalid"
    assert any("client start times are spread over" in reason for reason in run.reasons), run.reasons
    assert run.checks["skew_s"] > run.spec.max_skew_s
    assert len(load_runs(runs_dir).left_out) == 1


def test_a_client_that_dies_is_a_failed_flow_and_spoils_no_other(sound, runs_dir, monkeypatch):
    """One client's command is made one that fails at once; the others measure on."""
    workload = registry.workloads.get("flowgen")
    real = workload.client

    def broken(self, pair, spec, site):
        argv = real(self, pair, spec, site)
        return ["sh", "-c", "echo out of luck >&2; exit 7"] if pair.index == 1 else argv

    monkeypatch.setattr(workload, "client", broken)
    run = measured(sound.replace(pairs=3))
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
    def sandbox_killed(bed, workloads):
        sandbox = os.pidfd_open(bed.site.sandbox.pid)
        signal.pidfd_send_signal(sandbox, signal.SIGKILL)
        select.select([sandbox], [], [])  # it has ended when all in it have (pid_namespaces(7))
        os.close(sandbox)
        bed.pairs[0].client.run(["true"])

    monkeypatch.setattr(measurement, "facts_of", sandbox_killed)
    with pytest.raises(TestbedError, match="the sandbox ended"):
        measure(short)
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    assert "the sandbox ended" in run.reasons[0]


def test_incomplete_cleanup_costs_no_run_and_is_recorded(sound, runs_dir, monkeypatch):
    from pairlab.measurement import measure as measurement
    from pairlab.testbed.open import open_testbed

    @contextlib.contextmanager
    def sticky(spec, progress):
        with open_testbed(spec, progress) as bed:
            yield bed
        raise TestbedError("a network stays")

    monkeypatch.setattr(measurement, "open_testbed", sticky)
    with pytest.warns(UserWarning, match="cleanup was incomplete: a network stays"):
        run = measured(sound)
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
    with pytest.raises(BadSpec, match="pairs: 'bridge' can have at most 511, not 512"):
        measure(Spec(driver="bridge", pairs=512))
    assert not runs_dir.exists()


def test_a_client_that_never_starts_makes_the_run_invalid(short, runs_dir, monkeypatch):
    workload = registry.workloads.get("flowgen")
    real = workload.client

    def missing(self, pair, spec, site):
        return ["no-such-tool"] if pair.index else real(self, pair, spec, site)

    monkeypatch.setattr(workload, "client", missing)
    run = measure(short)
    assert run.status == "invalid"
    assert "1 of 2 clients never started" in run.reasons
    assert list(run.flows["status"]) == ["ok", "failed"]
    assert "cannot run no-such-tool" in run.flows["error"][1]


def test_connections_that_come_late_make_the_run_invalid(short, runs_dir, begins_late):
    begins_late(0.4)
    run = measure(short.replace(max_skew_s=0.2, duration_s=1))
    assert run.status == "invalid"
    last_s = run.flows["connected_s"].max()
    assert last_s > 0.4
    assert f"a connection took {last_s:.3f} s, and 0.2 s are allowed, for flows to send together" in run.reasons
    first = run.intervals.groupby("pair")["start_s"].min()
    assert first.to_list() == pytest.approx(run.flows["connected_s"].to_list())


def test_iperf3_takes_whole_seconds_only_and_says_so(short, runs_dir):
    with pytest.raises(BadSpec, match=r"whole seconds only, and warmup_s \+ duration_s is 1\.5"):
        measure(short.replace(workload="iperf3", duration_s=1.5))
    assert not runs_dir.exists()
    assert iperf3_module.Iperf3.name == "iperf3"


@pytest.mark.ci
def test_a_second_measurement_waits_for_the_first_or_is_refused(sound, runs_dir):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HostBusy, match=f"process {holder.pid} of "):
            measure(sound, wait=False)
        told = []

        def tell(phase, done, total):
            told.append(phase)
            if phase.startswith("waiting for process"):
                holder.stdin.write("\n")
                holder.stdin.flush()

        assert measured(sound, progress=tell).status == "ok"
    assert told[0].startswith(f"waiting for process {holder.pid} of ")
    with lock.measuring(wait=False):  # and it is free again
        pass


def test_who_waited_while_somebody_else_measured_the_same_has_that_run(short, runs_dir):
    before = measured(short)
    spec = short.replace(repetition=1)
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"

        def tell(phase, done, total):
            if phase.startswith("waiting for process"):
                store.write(replace(before, spec=spec, status="ok", reasons=()))
                holder.communicate("\n")

        found = measure(spec, progress=tell)
    assert found.measured_at == before.measured_at
    assert len(store.directories_of(spec)) == 1


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


def test_the_first_word_of_the_measuring_is_of_its_begin_however_late_it_comes(short, runs_dir, monkeypatch):
    """As where the clients that were let go have the CPUs before the one who let them go."""
    real = Gate.release

    def late(gate):
        release_ns = real(gate)
        time.sleep(0.2)
        return release_ns

    monkeypatch.setattr(Gate, "release", late)
    told_s = []
    measure(short, progress=lambda phase, done, total: phase == "measuring (s)" and told_s.append(done))
    assert told_s[0] == 0


def test_ctrl_c_leaves_the_host_clean_and_no_half_run(runs_dir, clean_host):
    need("netns")
    script = (
        "from pairlab import Spec, measure\n"
        "def tell(phase, done, total):\n"
        "    if phase == 'measuring (s)': print(phase, flush=True)\n"
        "measure(Spec(workload='flowgen', pairs=2, duration_s=60), progress=tell)\n"
    )
    process = host.started([sys.executable, "-c", script])
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
