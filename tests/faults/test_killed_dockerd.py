"""Dockerd killed, or not answering, under a measurement: a failed run, and nothing of the testbed outlives it.

Proves "dockerd" of "killed anywhere", and that a daemon going away is a failed cell. What is a process or a namespace
is gone within 5 s without a daemon; what only a daemon can remove, within 5 s of its return. The daemon is the test's
own: see dockerd.py.
"""

import contextlib
import json
import signal
import subprocess
import time

import pytest

from pairlab import load_runs
from tests.conftest import diagonal
from tests.faults.dockerd import Dockerd, needs_a_daemon_of_our_own
from tests.faults.processes import DYING_S

pytestmark = pytest.mark.usefixtures("before_flows")

GONE_S = 5.0
#: So long that it still flows when the daemon is killed, whatever seconds the machine does without us.
TRAFFIC_S = 4.0

#: The daemon may take less time for an answer than it is given in earnest, so that the test need not wait for that.
MEASURE = """
import json, sys
from pairlab import Spec, measure
from pairlab.errors import PairlabError
from pairlab.testbed.docker import daemon
daemon.ANSWER_S = 5
def tell(phase, done, total): print(json.dumps([phase, done]), flush=True)
driver, duration_s = sys.argv[1], float(sys.argv[2])
spec = Spec(backend="docker", driver=driver, workload="flowgen", pairs=2, duration_s=duration_s, max_skew_s=5)
try:
    run = measure(spec, fresh=True, progress=tell)
    print(json.dumps([run.status, ". ".join(run.reasons)]), flush=True)
except PairlabError as error:
    print(json.dumps([type(error).__name__, str(error)]), flush=True)
"""

SWEEP = f"""
name: goes-on
backend: docker
experiments:
  throughput: {{driver: [bridge], pairs: [1], workload: [flowgen], duration_s: [{TRAFFIC_S}], max_skew_s: 5.0}}
"""


@pytest.fixture(scope="module")
def dockerd():
    needs_a_daemon_of_our_own()
    with Dockerd() as one:
        yield one


@pytest.fixture
def measuring(dockerd, runs_dir):
    """Starts a measurement; afterwards nothing is left, with the daemon up again."""
    before = left(dockerd)
    assert not any(before.values())
    started = []

    def measuring(driver="bridge", duration_s=1.0):
        started.append(
            dockerd.python(MEASURE, driver, str(duration_s), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield measuring
    for each in started:
        if each.poll() is None:
            dockerd.signal_to(each, signal.SIGKILL)
        each.communicate()
    if not dockerd.alive():  # the test failed before that; the next one shall not for it
        dockerd.start()
        with contextlib.suppress(AssertionError):
            everything_gone(dockerd)


def come_to(process, phase, done=0):
    for line in process.stdout:
        if json.loads(line) == [phase, done]:
            return
    raise AssertionError(f"it ended before {phase!r}: {process.stderr.read()}")


def outcome(process):
    output, complaint = process.communicate(timeout=90)
    assert output, complaint
    return json.loads(output.splitlines()[-1])


def left(dockerd):
    """What there is of pairlab's with this daemon, and in its namespaces."""
    found = {
        "processes": [line for _, line in dockerd.processes()],
        "shims": [line for _, line in dockerd.shims()],
        "cgroups": list(dockerd.cgroups()),
        "links": [link for link in dockerd.links() if link != "lo"],
        "directories": list(dockerd.directories()),
    }
    with contextlib.suppress(Exception), dockerd.client() as client:
        found["containers"] = [each["Names"] for each in client.api.containers(all=True)]
        found["networks"] = [each["Name"] for each in client.api.networks() if each["Name"] not in ("host", "none")]
        found["rules"] = dockerd.rules_about("br-")
    return found


def gone(find, what, within_s=GONE_S):
    """Waits until nothing is seen; returns how long that took, in seconds."""
    begun = time.monotonic()
    while found := find():
        assert time.monotonic() < begun + within_s, f"{what} after {within_s} s: {found}"
        time.sleep(0.02)
    took_s = time.monotonic() - begun
    assert took_s < within_s, f"{what} were there for {took_s:.1f} s"
    return round(took_s, 3)


def everything_gone(dockerd):
    def find():
        found = left(dockerd)
        return {kind: things for kind, things in found.items() if things} or "containers" not in found

    return gone(find, "left")


@pytest.mark.parametrize(
    ("driver", "moment"), diagonal(("bridge", "macvlan"), ("bringing up", "measuring (s)", "taking down"))
)
def test_dockerd_killed_is_a_failed_run_whose_containers_end_without_it(
    driver, moment, dockerd, measuring, runs_dir, record_property
):
    one = measuring(driver, TRAFFIC_S if moment == "measuring (s)" else 1.0)
    come_to(one, moment, done=2 if moment == "bringing up" else 0)
    dockerd.kill()
    kind, message = outcome(one)
    (run,) = load_runs(runs_dir)
    if kind in ("ok", "invalid"):  # it was measured, and could only not be taken down
        assert moment == "taking down"
        assert "daemon does not answer" in run.facts["left_behind"]
    else:
        assert kind in ("MeasurementFailed", "TestbedError")
        assert "ocker daemon" in message
        assert (run.status, run.reasons) == ("failed", (message,))
    record_property("processes_gone_after_s", gone(lambda: list(dockerd.processes()), "processes"))
    dockerd.start()
    record_property("all_gone_after_its_return_s", everything_gone(dockerd))


def test_what_dockerd_forgets_of_a_container_that_it_was_starting_ends_all_the_same(
    dockerd, measuring, runs_dir, record_property
):
    dockerd.set_trap()
    kind, message = outcome(measuring())
    dockerd.await_death()
    assert kind == "TestbedError"
    assert "ocker daemon" in message
    record_property("processes_gone_after_s", gone(lambda: list(dockerd.processes()), "processes"))
    dockerd.start()
    record_property("all_gone_after_its_return_s", everything_gone(dockerd))


def test_dockerd_and_the_measuring_process_killed_at_once(dockerd, measuring, record_property):
    one = measuring("macvlan", 30.0)
    come_to(one, "measuring (s)")
    dockerd.kill()
    dockerd.signal_to(one, signal.SIGKILL)
    one.wait(DYING_S)
    record_property("processes_gone_after_s", gone(lambda: list(dockerd.processes()), "processes"))
    dockerd.start()
    record_property("all_gone_after_its_return_s", everything_gone(dockerd))


@pytest.mark.parametrize("moment", ["bringing up", "measuring (s)"])
def test_a_daemon_that_does_not_answer_is_reported_within_a_bound(
    moment, dockerd, measuring, runs_dir, record_property
):
    one = measuring(duration_s=TRAFFIC_S)
    come_to(one, moment, done=2 if moment == "bringing up" else 0)
    begun = time.monotonic()
    dockerd.signal(signal.SIGSTOP)
    try:
        kind, message = outcome(one)
        record_property("reported_after_s", round(time.monotonic() - begun, 3))
        assert kind in ("MeasurementFailed", "TestbedError")
        assert "imed out" in message
        gone(lambda: list(dockerd.processes()), "processes")
    finally:
        dockerd.signal(signal.SIGCONT)
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    record_property("all_gone_after_its_return_s", everything_gone(dockerd))


def test_a_sweep_counts_the_cell_as_failed(dockerd, measuring, runs_dir, tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    command = ["from pairlab.cli import main; main()", "sweep", str(tmp_path / "sweep.yaml")]
    with dockerd.python(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as sweep:
        gone(lambda: not any(" client " in line for _, line in dockerd.processes()), "nothing", within_s=60)
        dockerd.kill()
        output, _ = sweep.communicate(timeout=90)
    assert sweep.returncode == 3, output  # none of its cells is done
    assert "daemon stopped" in output
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    dockerd.start()
    everything_gone(dockerd)
