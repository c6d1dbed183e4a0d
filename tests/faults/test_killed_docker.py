"""Killed anywhere, a testbed of the docker backend leaves nothing behind, and touches nobody else's.

Proves, for Docker, "killed anywhere": the measuring process at points all over a run, its lifeline, a client, a server,
the attached sandbox, Open vSwitch, by SIGKILL and by Ctrl-C. Dockerd is in test_killed_dockerd.py, hosts
with a daemon each are in test_killed_docker_hosts.py.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from pairlab import load_runs
from pairlab.testbed.audit import leftovers
from pairlab.testbed.docker.reaper import LABEL
from tests.conftest import diagonal, need
from tests.faults.host_state import wait_clean
from tests.faults.in_docker import DURATION_S, MEASURED, Measuring, owned, someone_elses, until
from tests.faults.processes import DYING_S
from tests.support.owners import owner_of

pytestmark = pytest.mark.usefixtures("forking", "before_flows")

#: At these shares of a run's length the measuring process is killed.
MOMENTS = (1 / 8, 3 / 8, 5 / 8, 7 / 8)


@pytest.fixture(scope="module")
def run_lasts_s(tmp_path_factory):
    """How long a whole run takes with each driver, from its first word, so that points can be spread over it."""
    known = {}

    def lasts_s(driver):
        if driver not in known:
            one = Measuring(driver)
            one.until("begun")
            begun = time.monotonic()
            assert one.ended()[0] in MEASURED, one.complaint
            known[driver] = time.monotonic() - begun
            one.process.close()
        return known[driver]

    return lasts_s


@pytest.mark.parametrize(("driver", "point"), diagonal(("bridge", "host", "macvlan", "ovs"), MOMENTS))
def test_the_measuring_process_killed_at_any_point_leaves_nothing(driver, point, clean, measuring, run_lasts_s):
    need("docker", driver)
    moment_s = point * run_lasts_s(driver)
    while not _killed_after(measuring(driver), moment_s):
        moment_s *= 0.9  # this one was faster, and a kill that comes too late tells nothing
    clean()


def _killed_after(one, moment_s):
    """Whether it was killed then, and had not ended before. A moment of its run, and not an event, is what is asked."""
    one.until("begun")
    with contextlib.suppress(subprocess.TimeoutExpired):
        one.process.wait(moment_s)
    one.kill()
    assert one.process.returncode in (-signal.SIGKILL, 0)
    return one.process.returncode != 0


@pytest.mark.parametrize("victims", [[0], [1], [0, 1]], ids=["its shell", "itself", "both"])
def test_without_its_lifeline_a_testbed_is_removed_all_the_same(victims, clean, measuring):
    one = measuring("macvlan", 1)
    one.until("clients ready")
    lifeline = one.lifeline()
    one.until("measuring (s)")
    for number in victims:
        lifeline[number].kill()
    status, _, _ = one.ended()
    assert status in MEASURED
    assert "not taken down whole" not in one.complaint
    clean()


def test_a_lifeline_that_was_killed_and_came_back_still_serves(clean, measuring):
    one = measuring("bridge", 30)
    one.until("measuring (s)")
    _, first = one.lifeline()
    first.kill()
    until(one.lifeline_that_stands, DYING_S)
    one.kill()
    clean()


def test_when_all_who_could_remove_them_are_dead_containers_end_by_themselves(
    before, measuring, client, record_property
):
    """What is left is Docker's network and the link below it, of which no process is; `pairlab clean` removes both."""
    one = measuring("macvlan", 30)
    one.until("measuring (s)")
    assert len(one.containers(client)) == 4
    lifeline = one.lifeline()
    for victim in lifeline:  # its shell first
        victim.kill()
    one.kill()
    assert not psutil.wait_procs(lifeline, DYING_S)[1]
    begun = time.monotonic()
    until(lambda: not one.containers(client) and not list(one.below()), 5)
    record_property("containers_gone_after_s", round(time.monotonic() - begun, 3))
    dead = [left for left in leftovers.find().dead if left.what.startswith(("Docker testbed", "link"))]
    assert dead
    for left in dead:
        left.remove()
    wait_clean(before)


@pytest.mark.parametrize(("side", "how"), diagonal(("client", "server"), ("its process", "its container")))
def test_one_end_that_is_killed_is_a_failed_flow(side, how, clean, measuring, client):
    """iperf's clients and servers are under flowgen too; here it is flowgen's own.

    Flows leave the CPUs to others, so that what is told of the phase is told while they last.
    """
    one = measuring("bridge", 2, stopped="clients ready", link_rate_bps=1e8)
    one.until_stopped()
    (container,) = [each for each in one.containers(client) if each["Names"][0].endswith(f"-{side}-1")]
    pid = client.api.inspect_container(container["Id"])["State"]["Pid"]
    victim = psutil.Process(pid)  # as `docker kill` does
    if how == "its process":
        (victim,) = [
            each for each in psutil.process_iter() if f"/pairlab/flowgen {side}" in _line_in(each, pid) and _own(each)
        ]
    one.go_on()
    one.until("measuring (s)")
    victim.kill()
    status, _, flows = one.ended()
    assert flows == ["ok", "failed"]
    assert status in MEASURED
    clean()


def _line_in(process, first):
    """The command line of a process in the container whose first process that is; else nothing."""
    with contextlib.suppress(psutil.Error, OSError):
        if os.readlink(f"/proc/{process.pid}/ns/pid") == os.readlink(f"/proc/{first}/ns/pid"):
            return " ".join(process.cmdline())
    return ""


def _own(process):
    """Not a launcher, whose command line ends with what it launches."""
    return " hold " not in " ".join(process.cmdline())


@pytest.mark.parametrize("victim", ["pairlab.testbed.netns.agent", "ovs-vswitchd", "ovsdb-server"])
def test_a_switch_that_is_killed_leaves_nothing(victim, clean, measuring):
    need("docker", "ovs")
    one = measuring("ovs", 1, stopped="clients ready")
    one.until_stopped()
    killed = [each for each in one.below(victim) if each.name() != "unshare"]
    assert killed
    one.go_on()
    one.until("measuring (s)")
    for each in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    one.process.communicate(timeout=60)
    (run,) = load_runs()
    assert run.status == "failed"
    clean()


@pytest.mark.parametrize("phase", ["bringing up", "clients ready", "measuring (s)", "taking down"])
def test_ctrl_c_leaves_nothing_and_no_half_run(phase, clean, measuring, tmp_path):
    """From outside; but taking down lasts a second, which may be over before this process hears that it has begun."""
    by_itself = phase == "taking down"
    one = measuring("bridge", DURATION_S, phase) if by_itself else measuring("bridge", 30)
    one.until(phase)
    if not by_itself:
        os.killpg(one.pid, signal.SIGINT)
    _, output = one.process.communicate(timeout=60)
    assert output.rstrip().endswith("KeyboardInterrupt")
    clean()
    assert not list((tmp_path / "runs").glob("throughput/*"))


HOLD = """
import sys
from pairlab import Spec, open_testbed
with open_testbed(Spec(backend="docker", driver="bridge", pairs=int(sys.argv[1]))):
    print("up", flush=True)
    sys.stdin.read()
"""


def test_removal_after_a_kill_takes_no_longer_for_a_pair_among_more(before, client, record_property):
    """Of four times as many pairs; twice the time of a pair is left to noise, and a quadratic one would take four.

    The shortest of each counts, in up to three turns: what others do meanwhile only makes it longer.
    """
    took_s = {3: math.inf, 12: math.inf}
    for _ in range(3):
        for pairs in took_s:
            took_s[pairs] = min(took_s[pairs], _removal_s(client, pairs) / pairs)
        if took_s[12] < 2 * took_s[3]:
            break
    for pairs, pair_s in took_s.items():
        record_property(f"removal_of_a_pair_of_{pairs}_s", round(pair_s, 3))
    assert took_s[12] < 2 * took_s[3]
    wait_clean(before)


def _removal_s(client, pairs):
    """How long all of a testbed of so many pairs takes to go when its process is killed."""
    command = [sys.executable, "-c", HOLD, str(pairs)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        begun = time.monotonic()  # before the kill, as the shortest time counts
        process.kill()
    until(lambda: not owned(client, f"{process.pid}@"), 60)
    return time.monotonic() - begun


def test_what_is_not_ours_is_never_touched(client, before, measuring):
    """Others' containers and networks: without our labels, with a name like ours, with a living owner's labels."""
    someone = subprocess.Popen(["sleep", "1000"])
    theirs = {LABEL: "theirs", "pairlab.owner": owner_of(someone.pid)}
    one = measuring("bridge", 30)
    one.until("measuring (s)")
    named = {"bystander": {}, "pairlab-bystander": {"pairlab": "x"}, "owned": theirs}
    with contextlib.ExitStack() as stack:
        stack.callback(someone.wait)
        stack.callback(someone.kill)
        looks = [stack.enter_context(someone_elses(client, name, labels)) for name, labels in named.items()]
        was = [look() for look in looks]
        one.kill()
        until(lambda: not one.containers(client))
        for left in leftovers.find().dead:  # as `pairlab clean` does
            if "theirs" in left.what:
                left.remove()
        assert [look() for look in looks] == was
        assert all(state["Running"] and len(containers) == 1 for state, containers in was)
    wait_clean(before)
