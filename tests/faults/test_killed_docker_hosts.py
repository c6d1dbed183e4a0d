"""Killed anywhere, a Docker testbed of hosts with a daemon each leaves nothing behind, and touches nobody else's.

Proves, for Docker, "killed anywhere" on hosts: the measuring process at points all over a run, and each daemon of a
host.
"""

import contextlib
import re
import signal

import docker
import pytest

from pairlab import Spec, load_runs
from tests.conftest import diagonal, need, need_all_of
from tests.faults.host_state import wait_clean
from tests.faults.in_docker import MEASURED, someone_elses, until
from tests.faults.processes import DYING_S

pytestmark = pytest.mark.usefixtures("forking", "before_flows")

#: The phases of a run on such hosts.
PHASES = ("starting Docker on each host", "bringing up", "servers listening", "measuring (s)", "taking down")
#: Calls to a daemon: while an image is saved and loaded, a swarm forms, networks and containers are made, tools start.
CALLS = (
    *(("overlay", "get_image"), ("macvlan", "load_image"), ("overlay", "join_swarm")),
    pytest.param("overlay", "create_network", marks=pytest.mark.long),
    pytest.param("macvlan", "create_network", marks=pytest.mark.long),
    pytest.param("nat", "start", marks=pytest.mark.long),
    pytest.param("host", "exec_start", marks=pytest.mark.long),
)
HAS_ENDED = r"has ended\. Its last words: .*\w"


def two_hosts(driver):
    return Spec(backend="docker", driver=driver, pairs=2, hosts=2, placement="across")


@pytest.fixture(scope="module")
def users_own(forking):
    """A container and a network of the user's daemon, which gives the image; tells how they are."""
    need("docker")
    with contextlib.closing(docker.from_env()) as client, someone_elses(client, "users-own") as look:
        yield look


@pytest.fixture
def clean(users_own, before, client, record_property):
    """clean(): within 5 s the host is as it was, and the user's daemon is as it was all the time."""
    theirs = users_own()
    assert theirs[0]["Running"]

    def clean():
        record_property("clean_after_s", round(wait_clean(before), 3))
        assert users_own() == theirs
        assert client.info()["Swarm"]["LocalNodeState"] == "inactive"

    return clean


@pytest.mark.parametrize(("phase", "driver"), diagonal(PHASES, ("overlay", "bgp", "nat-proxy", "process")))
def test_a_measuring_process_killed_as_a_phase_begins_leaves_nothing(phase, driver, clean, measuring, record_property):
    need_all_of(two_hosts(driver))
    one = measuring(driver, hosts=2)
    one.until(phase)
    record_property("dead_after_s", one.kill())
    clean()


@pytest.mark.parametrize(("driver", "call"), CALLS)
def test_a_measuring_process_killed_before_a_daemon_answers_leaves_nothing(driver, call, clean, measuring):
    need_all_of(two_hosts(driver))
    process = measuring(driver, hosts=2, deadly=call).process
    assert process.wait(DYING_S) == -signal.SIGKILL, process.complaint()
    clean()


def test_a_measuring_process_killed_while_daemons_start_leaves_nothing(clean, measuring, record_property):
    need_all_of(two_hosts("nat"))
    one = measuring("nat", hosts=2)
    one.until("starting Docker on each host")
    until(lambda: one.named("containerd"))
    record_property("dead_after_s", one.kill())
    clean()


@pytest.mark.parametrize(
    ("driver", "phase"), [("overlay", "measuring (s)"), pytest.param("bgp", "clients ready", marks=pytest.mark.long)]
)
def test_a_measuring_process_killed_amid_a_phase_leaves_nothing(driver, phase, clean, measuring, record_property):
    """Of flows that would last for 30 s, and of clients that are held until all are ready."""
    need_all_of(two_hosts(driver))
    one = measuring(driver, 30, hosts=2)
    for _ in range(2):  # at its beginning, and later
        one.until(phase)
    record_property("dead_after_s", one.kill())
    clean()


@pytest.mark.parametrize(
    ("driver", "daemon", "words"),
    [
        ("overlay", "dockerd", HAS_ENDED),
        ("bgp", "bird", "has ended, and with it the routes between hosts"),
        ("flannel-vxlan", "flanneld", HAS_ENDED),
        ("flannel-vxlan", "etcd", HAS_ENDED),
        ("weave", "weaver", HAS_ENDED),
    ],
    ids=["dockerd", "bird", "flanneld", "etcd", "weaver"],
)
def test_a_hosts_daemon_that_is_killed_is_a_failed_run_that_says_so(driver, daemon, words, clean, measuring, runs_dir):
    need_all_of(two_hosts(driver))
    one = measuring(driver, 2, hosts=2, stopped="clients ready")
    one.until_stopped()
    victim = one.named(daemon)[0]
    one.go_on()
    one.until("measuring (s)")
    victim.kill()
    assert re.search(f"{daemon} (of host-\\d )?{words}", one.failed())
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    assert re.search(f"{daemon} (of host-\\d )?{words}", run.reasons[0])
    clean()


def test_a_hosts_containerd_that_is_killed_is_not_missed(clean, measuring):
    """dockerd starts another one, and containers do not need one that runs."""
    need_all_of(two_hosts("overlay"))
    one = measuring("overlay", 2, hosts=2, stopped="clients ready")
    one.until_stopped()
    victim = one.named("containerd")[0]
    one.go_on()
    one.until("measuring (s)")
    victim.kill()
    status, _, flows = one.ended()
    assert status in MEASURED
    assert set(flows) == {"ok"}
    clean()
