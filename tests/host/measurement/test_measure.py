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
from pairlab.errors import HostBusy, TestbedError, Unavailable
from pairlab.measurement import measure as measurement
from pairlab.testbed import environment, registry
from pairlab.testbed.host import facts, lock
from pairlab.testbed.process_launcher import Gate
from pairlab.testbed.requirements import Program
from tests.conftest import need
from tests.support import host
from tests.support.attempts import measured, sound

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
def lasting(short):
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
    assert (second.environment.kernel, second.path.name == stored.path.name) == ("99.1", False)
    assert measure(stored.spec).path == second.path
    newest, both = load_runs(runs_dir), load_runs(runs_dir, environment="all")
    assert set(newest.index["kernel"]) == {"99.1"}
    assert "measured otherwise" in newest.elsewhere[0]
    assert set(both.index["kernel"]) == {"99.1", stored.environment.kernel}


def test_the_environment_told_before_a_measurement_is_the_one_its_run_records(shared_run):
    run = shared_run("netns", "bridge").run
    assert run.environment == environment.here(run.spec)


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


def test_a_client_that_dies_is_a_failed_flow_and_spoils_no_other(lasting, runs_dir, changed_tool):
    """One client's command is made one that fails at once; the others measure on."""
    fails = ["sh", "-c", "echo out of luck >&2; exit 7"]
    changed_tool("client", lambda argv, pair, *_: fails if pair.index == 1 else argv)
    run = measured(lasting.replace(pairs=3))
    assert sound(run), run.reasons
    assert list(run.flows["status"]) == ["ok", "failed", "ok"]
    assert run.flows["error"][1] == "ended with 7: out of luck"
    assert run.flows["throughput_bps"].isna().to_list() == [False, True, False]
    assert run.failed_flows == 1
    assert run.raw["client-1.err"] == "out of luck\n"


@pytest.mark.parametrize(("method", "told"), [("client", "ended with 1"), ("server", "flowgen: .*Connection refused")])
def test_a_run_in_which_every_flow_failed_is_kept_as_failed(method, told, short, runs_dir, changed_tool, clean_host):
    """Of clients that end at once, and of servers that never listen."""
    changed_tool(method, lambda *_: ["false"])
    run = measure(short)
    assert run.status == "failed"
    assert re.match(f"all 2 flows failed, the first: {told}", run.reasons[0])


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


def test_incomplete_cleanup_costs_no_run_and_is_recorded(lasting, runs_dir, monkeypatch):
    from pairlab.measurement import measure as measurement
    from pairlab.testbed.open import open_testbed

    @contextlib.contextmanager
    def sticky(spec, progress):
        with open_testbed(spec, progress) as bed:
            yield bed
        raise TestbedError("a network stays")

    monkeypatch.setattr(measurement, "open_testbed", sticky)
    with pytest.warns(UserWarning, match="cleanup was incomplete: a network stays"):
        run = measured(lasting)
    assert sound(run), run.reasons
    assert run.facts["left_behind"] == "a network stays"


def test_what_this_host_cannot_do_is_a_recorded_skip(short, runs_dir, monkeypatch, clean_host):
    monkeypatch.setattr(registry.workloads.get("iperf3"), "programs", (Program("no-such-iperf3", "iperf3"),))
    with pytest.raises(Unavailable, match="no-such-iperf3 is not installed: sudo apt-get install iperf3"):
        measure(short.replace(workload="iperf3", duration_s=1))
    (run,) = load_runs(runs_dir)
    assert run.status == "skipped"
    assert "sudo apt-get install iperf3" in run.reasons[0]


def test_a_client_that_never_starts_makes_the_run_invalid(short, runs_dir, changed_tool):
    changed_tool("client", lambda argv, pair, *_: ["no-such-tool"] if pair.index else argv)
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


@pytest.mark.whole
def test_a_second_measurement_waits_for_the_first_or_is_refused(lasting, runs_dir):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HostBusy, match=f"process {holder.pid} of "):
            measure(lasting, wait=False)
        told = []

        def tell(phase, done, total):
            told.append(phase)
            if phase.startswith("waiting for process"):
                holder.stdin.write("\n")
                holder.stdin.flush()

        run = measured(lasting, progress=tell)
    assert sound(run), run.reasons
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


def test_progress_names_the_phases_in_order_and_measuring_from_its_begin_however_late_that_is_told(
    short, runs_dir, monkeypatch
):
    """As where the clients that were let go have the CPUs before the one who let them go."""
    real = Gate.release

    def late(gate):
        release_ns = real(gate)
        time.sleep(0.2)
        return release_ns

    monkeypatch.setattr(Gate, "release", late)
    told = []
    measure(short, progress=lambda phase, done, total: told.append((phase, done)))
    own = [phase for phase in dict(told) if not phase.startswith("waiting for process")]
    assert own == ["bringing up", "servers listening", "clients ready", "measuring (s)", "taking down"]
    assert next(done for phase, done in told if phase == "measuring (s)") == 0


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
        gate = bed.launcher.gate()
        (client,) = bed.launcher.start([(bed.pairs[0].client, ["cat", "/proc/self/sched"])], gate=gate)
        bed.launcher.wait_ready([client], 20)
        assert client.priority == "realtime"
        gate.release()
        bed.launcher.wait_ended([client], 20)
        (client,) = bed.launcher.results([client])
    policy = next(line.split()[-1] for line in client.stdout.splitlines() if line.startswith("policy"))
    assert policy == "0"  # SCHED_OTHER
