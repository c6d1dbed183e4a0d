"""Killed anywhere, a testbed of the docker backend leaves nothing behind, and touches nobody else's.

Proves, for Docker, "killed anywhere": the measuring process at 16 points of a run, its lifeline, a client, a server,
the attached sandbox, Open vSwitch, by SIGKILL and by Ctrl-C. Dockerd is in test_killed_dockerd.py.
"""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time

import docker
import psutil
import pytest

from pairlab import Spec, load_runs
from pairlab.testbed.audit import leftovers, snapshot
from pairlab.testbed.docker.reaper import LABEL
from tests.conftest import need, need_all_of
from tests.faults.forked import Forked, points
from tests.faults.host_state import wait_clean
from tests.support.owners import owner_of

pytestmark = pytest.mark.usefixtures("forking")

DURATION_S = 0.5
#: Whether a run counts is not the question here: a machine on which others work makes it invalid.
MEASURED = ("ok", "invalid")
#: At how many moments of a run with each driver the measuring process is killed: 16 in all.
MOMENTS = {"bridge": 6, "host": 2, "macvlan": 5, "ovs": 3}

#: The phases of a run on hosts that have a daemon each.
OF_HOSTS = ("starting Docker on each host", "bringing up", "servers listening", "measuring (s)", "taking down")

#: Measures, and tells each phase. Its Ctrl-C, where it is asked for, comes 0.1 s after that phase has begun.
MEASURE = """
import json, os, signal, sys
from pairlab import Spec, measure
driver, duration_s, interrupted, hosts = sys.argv[1], float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
signal.signal(signal.SIGALRM, lambda *_: os.killpg(0, signal.SIGINT))
def tell(phase, done, total):
    print(json.dumps(phase), flush=True)
    if phase == interrupted:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
spec = Spec(backend="docker", driver=driver, workload="flowgen", pairs=2, duration_s=duration_s, max_skew_s=5)
if hosts > 1:
    spec = spec.replace(hosts=hosts, placement="across")
print(json.dumps("begun"), flush=True)
run = measure(spec, fresh=True, progress=tell)
print(json.dumps([run.status, list(run.reasons), list(run.flows["status"])]), flush=True)
"""


class Measuring:
    """A process that measures. until(phase) waits for that phase; ended() for its end, and gives its last output."""

    def __init__(self, driver, duration_s=DURATION_S, interrupted="", hosts=1):
        self.process = Forked(MEASURE, driver, duration_s, interrupted, hosts)
        self.pid = self.process.pid
        self.last = None

    def until(self, phase):
        for line in self.process.stdout:
            self.last = json.loads(line)
            if self.last == phase:
                return
        raise AssertionError(f"it ended before {phase!r}: {self.process.complaint()}")

    def ended(self):
        output, self.complaint = self.process.communicate(timeout=60)
        return json.loads(output.splitlines()[-1])

    def failed(self):
        """What it said as it failed."""
        _, complaint = self.process.communicate(timeout=60)
        assert self.process.returncode not in (0, None)
        return complaint

    def kill(self):
        self.process.kill()
        self.process.wait()

    def below(self, *words):
        """Processes that it started, of this session, whose command lines have all these words."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                line = " ".join(process.cmdline())
                if all(word in line for word in words) and f"PAIRLAB_OWNER={self.pid}@" in _environment(process):
                    yield process

    def lifeline(self):
        """The shell that starts the lifeline again, and the lifeline."""
        found = {process.name() == "sh": process for process in self.below("pairlab.testbed.docker.reaper")}
        return found[True], found[False]

    def containers(self, client):
        return [each for each in _owned(client, f"{self.pid}@") if "Image" in each]


def _environment(process):
    return " ".join(f"{key}={value}" for key, value in process.environ().items())


@pytest.fixture
def client():
    need("docker")
    with contextlib.closing(docker.from_env()) as client:
        yield client


@pytest.fixture
def before(client, tmp_path, monkeypatch):
    monkeypatch.setenv("PAIRLAB_RUNS", str(tmp_path / "runs"))
    return snapshot.take()


@pytest.fixture
def measuring(before):
    started = []

    def measuring(*arguments):
        started.append(Measuring(*arguments))
        return started[-1]

    yield measuring
    for each in started:
        if each.process.poll() is None:
            each.kill()
        each.process.close()


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


@pytest.mark.parametrize(("driver", "point"), points(MOMENTS))
def test_the_measuring_process_killed_at_any_point_leaves_nothing(
    driver, point, before, measuring, run_lasts_s, record_property
):
    need("docker", driver)
    moment_s = point * run_lasts_s(driver)
    while not _killed_after(measuring(driver), moment_s):
        moment_s *= 0.9  # this one was faster, and a kill that comes too late tells nothing
    record_property("clean_after_s", round(wait_clean(before), 3))


def _killed_after(one, moment_s):
    """Whether it was killed then, and had not ended before. A moment of its run, and not an event, is what is asked."""
    one.until("begun")
    with contextlib.suppress(subprocess.TimeoutExpired):
        one.process.wait(moment_s)
    one.kill()
    assert one.process.returncode in (-signal.SIGKILL, 0)
    return one.process.returncode != 0


@pytest.mark.parametrize("driver", ["overlay", "bgp", "nat-proxy", "process"])
@pytest.mark.parametrize("phase", OF_HOSTS)
def test_the_measuring_process_killed_as_a_phase_begins_leaves_nothing_of_two_hosts(
    phase, driver, before, measuring, client, record_property
):
    need_all_of(Spec(backend="docker", driver=driver, pairs=2, hosts=2, placement="across"))
    one = measuring(driver, DURATION_S, "", 2)
    one.until(phase)
    one.kill()
    record_property("clean_after_s", round(wait_clean(before), 3))
    assert client.info()["Swarm"]["LocalNodeState"] == "inactive"


@pytest.mark.parametrize("daemon", ["dockerd", "containerd"])
def test_a_hosts_daemon_that_is_killed_is_a_failed_run_or_one_that_does_not_mind(daemon, before, measuring):
    """dockerd starts a containerd again, and containers do not need one that runs; a dockerd nobody starts again."""
    need("docker", "overlay")
    one = measuring("overlay", 2, "", 2)
    one.until("measuring (s)")
    [next(each for each in one.below(daemon) if each.name() == daemon)][0].kill()
    if daemon == "dockerd":
        complaint = one.failed()
        assert "dockerd of host-" in complaint
        assert "has ended. Its last words:" in complaint
    else:
        status, _, flows = one.ended()
        assert status in MEASURED
        assert set(flows) == {"ok"}
    wait_clean(before)


@pytest.mark.parametrize("victims", [[0], [1], [0, 1]], ids=["its shell", "itself", "both"])
def test_without_its_lifeline_a_testbed_is_removed_all_the_same(victims, before, measuring, record_property):
    one = measuring("macvlan", 1)
    one.until("clients ready")
    lifeline = one.lifeline()
    one.until("measuring (s)")
    for number in victims:
        lifeline[number].kill()
    status, _, _ = one.ended()
    assert status in MEASURED
    assert "not taken down whole" not in one.complaint
    record_property("clean_after_s", round(wait_clean(before), 3))


def test_a_lifeline_that_was_killed_and_came_back_still_serves(before, measuring, record_property):
    one = measuring("bridge", 30)
    one.until("measuring (s)")
    _, first = one.lifeline()
    first.kill()
    until(lambda: len(set(one.below("pairlab.testbed.docker.reaper")) - {first}) == 2)
    one.kill()
    record_property("clean_after_s", round(wait_clean(before), 3))


def test_when_all_who_could_remove_them_are_dead_containers_end_by_themselves(
    before, measuring, client, record_property
):
    """What is left is Docker's network and the link below it, of which no process is; `pairlab clean` removes both."""
    one = measuring("macvlan", 30)
    one.until("measuring (s)")
    assert len(one.containers(client)) == 4
    for victim in (*one.lifeline(), one.process):  # its shell first
        victim.kill()
    begun = time.monotonic()
    until(lambda: not one.containers(client) and not list(one.below()), 5)
    record_property("containers_gone_after_s", round(time.monotonic() - begun, 3))
    one.process.wait()
    owned = [left for left in leftovers.find().dead if left.what.startswith(("Docker testbed", "link"))]
    assert owned
    for left in owned:
        left.remove()
    wait_clean(before)


@pytest.mark.parametrize("how", ["its process", "its container"])
@pytest.mark.parametrize("side", ["client", "server"])
def test_one_end_that_is_killed_is_a_failed_flow(side, how, before, measuring, client, record_property):
    """iperf's clients and servers are under flowgen too; here it is flowgen's own."""
    one = measuring("bridge", 2)
    one.until("clients ready")
    (container,) = [each for each in one.containers(client) if each["Names"][0].endswith(f"-{side}-1")]
    one.until("measuring (s)")
    if how == "its container":
        client.api.kill(container["Id"])
    else:
        pid = client.api.inspect_container(container["Id"])["State"]["Pid"]
        (victim,) = [
            each for each in psutil.process_iter() if f"/pairlab/flowgen {side}" in _line_in(each, pid) and _own(each)
        ]
        victim.kill()
    status, _, flows = one.ended()
    assert flows == ["ok", "failed"]
    assert status in MEASURED
    record_property("clean_after_s", round(wait_clean(before), 3))


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
def test_a_switch_that_is_killed_leaves_nothing(victim, before, measuring, record_property):
    need("docker", "ovs")
    one = measuring("ovs", 1)
    one.until("clients ready")
    killed = [each for each in one.below(victim) if each.name() != "unshare"]
    assert killed
    one.until("measuring (s)")
    for each in killed:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    one.process.communicate(timeout=60)
    (run,) = load_runs()
    assert run.status == "failed"
    record_property("clean_after_s", round(wait_clean(before), 3))


@pytest.mark.parametrize("phase", ["bringing up", "clients ready", "measuring (s)", "taking down"])
def test_ctrl_c_leaves_nothing_and_no_half_run(phase, before, measuring, tmp_path, record_property):
    """From outside; but taking down lasts a second, which may be over before this process hears that it has begun."""
    by_itself = phase == "taking down"
    one = measuring("bridge", DURATION_S, phase) if by_itself else measuring("bridge", 30)
    one.until(phase)
    if not by_itself:
        os.killpg(one.pid, signal.SIGINT)
    _, output = one.process.communicate(timeout=60)
    assert output.rstrip().endswith("KeyboardInterrupt")
    record_property("clean_after_s", round(wait_clean(before), 3))
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
    until(lambda: not _owned(client, f"{process.pid}@"), 60)
    return time.monotonic() - begun


def _owned(client, owner):
    """Containers and networks of that owner."""
    ours = {"label": LABEL}
    found = [*client.api.containers(all=True, filters=ours), *client.api.networks(filters=ours)]
    return [each for each in found if each["Labels"]["pairlab.owner"].startswith(owner)]


def test_what_is_not_ours_is_never_touched(client, before, measuring):
    """Others' containers and networks: without our labels, with a name like ours, with a living owner's labels."""
    someone = subprocess.Popen(["sleep", "1000"])
    theirs = {LABEL: "theirs", "pairlab.owner": owner_of(someone.pid)}
    one = measuring("bridge", 30)
    one.until("measuring (s)")
    image = one.containers(client)[0]["Image"]
    made = []
    try:
        for name, labels in (("bystander", {}), ("pairlab-bystander", {"pairlab": "x"}), ("owned", theirs)):
            network = client.api.create_network(f"{name}-{os.getpid()}", driver="bridge", labels=labels)["Id"]
            made.append((client.api.remove_network, network))
            container = client.api.create_container(
                image,
                ["sleep", "1000"],
                name=f"{name}-{os.getpid()}",
                labels=labels,
                host_config=client.api.create_host_config(network_mode=network, init=True),
            )["Id"]
            made.append((lambda each: client.api.remove_container(each, force=True), container))
            client.api.start(container)
        one.kill()
        until(lambda: not one.containers(client))
        for left in leftovers.find().dead:  # as `pairlab clean` does
            if "theirs" in left.what:
                left.remove()
        for remove, each in made:
            if remove == client.api.remove_network:
                assert len(client.api.inspect_network(each)["Containers"]) == 1
            else:
                assert client.api.inspect_container(each)["State"]["Running"]
    finally:
        for remove, each in reversed(made):
            remove(each)
        someone.kill()
        someone.wait()
    wait_clean(before)


def until(condition, within_s=10.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)
