"""A run in which somebody halted one of its processes from outside is invalid, by that cause: a client, a server, the
background, a worker, a switch, pairlab itself; nor is a launch beside busy loops ok. Where a network stands still by
itself, that is a result.
"""

import contextlib
import os
import subprocess
import sys

import psutil
import pytest

from pairlab import Spec, measure
from pairlab.testbed.host import cgroups
from tests.conftest import mostly_whole, need, need_all_of
from tests.support.attempts import ATTEMPTS
from tests.support.disturbances import BUSY, load, measured_under, nothing, stopped, stopped_in_turns, tools

ANY_MACHINE = {"max_foreign_cpu": 1.0, "max_skew_s": 5.0, "interval_s": 0.1}
BULK = Spec(workload="flowgen", pairs=2, duration_s=2.0, **ANY_MACHINE)
#: Those of the whole: they lie between two others, or are as another one.
FURTHER = {"all clients, for half of it", "one server"}
CAUSES = ("stopped", "beside_stopped", "halted")
#: Attaches to a process as a debugger does (ptrace(2)), for so many seconds.
TRACER = """
import ctypes, os, sys, time
ptrace, pid = ctypes.CDLL(None).ptrace, int(sys.argv[1])
assert ptrace(16, pid, 0, 0) == 0  # PTRACE_ATTACH
os.waitpid(pid, 0x40000000)  # __WALL
time.sleep(float(sys.argv[2]))
ptrace(17, pid, 0, 0)  # PTRACE_DETACH
"""


def client(bed):
    return bed.clients[:1]


def clients(bed):
    return bed.clients


def server(bed):
    return bed.servers[:1]


def background(bed):
    return [each for each in bed.beside if "client" in each.endpoint.name]


def worker(bed):
    return [each for each in bed.beside if not each.ended][-1:]


CASES = {
    "all clients, for most of the time": (BULK, clients, 0.1, 1.75),
    "all clients, for half of it": (BULK, clients, 0.5, 1.0),
    "all clients, for a twentieth": (BULK, clients, 1.0, 0.1),
    "one client": (BULK, client, 0.5, 0.9),
    "one server": (BULK, server, 0.5, 0.9),
    "a server of datagrams": (BULK.replace(udp_share=1.0, udp_rate_bps=5e7, message_bytes=1000), server, 0.5, 0.9),
    "the server of requests": (BULK.replace(workload="rr", pairs=1, duration_s=3.0), server, 1.0, 0.9),
    "all clients on the host's network": (BULK.replace(driver="host"), clients, 0.5, 1.0),
    "a client that sends much": (BULK.replace(flow_bytes=2_000_000_000, duration_s=60.0), client, 0.3, 1.5),
    "a client that is busy": (BULK.replace(workload="stress-ng-cpu", pairs=1), client, 0.3, 1.0),
    "the client of an open loop": (
        BULK.replace(workload="traffic", flow_sizes="uniform", offered_load_bps=5e8),
        client,
        0.5,
        0.2,
    ),
    "the background": (BULK.replace(background_pairs=1), background, 0.5, 1.0),
    "a busy worker": (BULK.replace(interference_workers=2), worker, 0.5, 1.0),
}


@pytest.mark.parametrize("name", mostly_whole(CASES, but=[], only=[(name,) for name in set(CASES) - FURTHER]))
def test_a_run_in_which_somebody_was_stopped_is_invalid_by_that(name, runs_dir, clean_host):
    spec, who, begins_s, lasts_s = CASES[name]
    need_all_of(spec)
    run, _ = measured_under(spec, stopped(who), begins_s=begins_s, lasts_s=lasts_s)
    if run.status != "failed":  # its tool may take that for an end of the connection
        assert run.status == "invalid", run.checks
        assert any("stopped" in reason for reason in run.reasons), run.reasons


@pytest.mark.parametrize("who", [clients, server])
def test_those_who_are_stopped_for_moments_again_and_again_are_found_by_that(who, runs_dir, clean_host):
    """No silence is long, and what comes through is as steady as it would be without."""
    need("netns")
    run, _ = measured_under(BULK, stopped_in_turns(who, 0.01, 0.04), begins_s=0.0, lasts_s=BULK.duration_s)
    assert run.checks["stopped"] > 0.05
    assert any("was stopped for" in reason for reason in run.reasons), run.reasons


def outside(script, *words):
    """A process that none of the testbed's knows of."""
    return subprocess.Popen([sys.executable, "-c", script, *map(str, words)])


@contextlib.contextmanager
def frozen(bed):
    """The group of a client is frozen, as `docker pause` does."""
    (mount,) = (each for each in cgroups.mounts() if each.kind == "cgroup" and "freezer" in each.options)
    group = f"{mount.where}/pairlab-test-{os.getpid()}"
    os.mkdir(group)
    try:
        for each in tools(bed.clients[:1]):
            _write(f"{group}/cgroup.procs", str(each.pid))
        _write(f"{group}/freezer.state", "FROZEN")
        yield
        _write(f"{group}/freezer.state", "THAWED")
        for each in tools(bed.clients[:1]):
            _write(f"{mount.where}/cgroup.procs", str(each.pid))
    finally:
        os.rmdir(group)


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def traced(bed):
    (process,) = tools(bed.servers[:1])
    with outside(TRACER, process.pid, 0.6):
        yield


@contextlib.contextmanager
def pairlab_itself(bed):
    script = "import os, signal, sys, time; me = int(sys.argv[1]); os.kill(me, signal.SIGSTOP); time.sleep(0.7)"
    with outside(f"{script}; os.kill(me, signal.SIGCONT)", os.getpid()):
        yield


@contextlib.contextmanager
def the_switch(bed):
    (switch,) = (each for each in psutil.process_iter(["name"]) if each.info["name"] == "ovs-vswitchd")
    switch.suspend()
    yield
    switch.resume()


@pytest.mark.parametrize(
    ("halt", "driver", "named"),
    [
        (frozen, "bridge", "flowgen"),
        (traced, "bridge", "flowgen"),
        (pairlab_itself, "bridge", "pairlab"),
        (the_switch, "ovs", "ovs-vswitchd"),
    ],
)
def test_who_was_halted_otherwise_is_seen_in_samples_and_named(halt, driver, named, runs_dir, clean_host):
    spec = BULK.replace(driver=driver)
    need_all_of(spec)
    if halt is frozen and not _may_freeze():
        pytest.skip("needs cgroup v1's freezer, and to be root")
    run, _ = measured_under(spec, halt, begins_s=0.5, lasts_s=0.6)
    assert run.status == "invalid"
    assert run.checks["halted"] > 0.1
    assert any("stopped, traced or frozen" in reason and named in reason for reason in run.reasons), run.reasons


def _may_freeze():
    return os.geteuid() == 0 and any(each.kind == "cgroup" and "freezer" in each.options for each in cgroups.mounts())


@pytest.mark.whole
@pytest.mark.parametrize(
    "name", ["one client", "a server of datagrams", "the server of requests", "the background", "a busy worker"]
)
def test_where_nobody_was_nothing_is_said_of_it(name, runs_dir, clean_host):
    spec, *_ = CASES[name]
    need_all_of(spec)
    run, _ = measured_under(spec, nothing, begins_s=0.0, lasts_s=0.1)
    assert not any("stopped" in reason for reason in run.reasons), run.reasons
    assert not any(run.checks.get(cause) for cause in CAUSES)


#: Holds up what the bridge's ports would send for 0.1 s, again and again, and loses nothing; until its input ends.
STANDS_STILL = """
ports=$(ip -oneline link show type veth | cut -d: -f2 | cut -d@ -f1)
while read -r -t 0.4 _; [ $? -gt 128 ]; do  # it was too early for its end
    for each in $ports; do tc qdisc add dev $each root tbf rate 1mbit burst 2000 limit 50mb; done
    sleep 0.1
    for each in $ports; do tc qdisc del dev $each root; done
done
"""


@contextlib.contextmanager
def standing_still_by_itself(bed):
    """A network that does so: the bridge of the sandbox, whose process is the parent of all launchers."""
    sandbox = psutil.Process(bed.clients[0].pid).parent()
    words = ["nsenter", "--net", "--target", str(sandbox.pid), "bash", "-c", STANDS_STILL]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as loop:
        yield
        _, said = loop.communicate()
    assert not said, said


@pytest.mark.whole
def test_a_network_that_stands_still_by_itself_is_measured_as_that(runs_dir, clean_host):
    """Also where it does so for a fifth of the time: no run is refused for it, and it carries that much less."""
    need("netns", "bridge")
    if os.geteuid() != 0:
        pytest.skip("tc in another's namespace takes root")
    spec = BULK.replace(duration_s=3.0)
    for _ in range(ATTEMPTS):
        still, _ = measured_under(spec, standing_still_by_itself, begins_s=0.0, lasts_s=spec.duration_s)
        usual = measure(spec, fresh=True)
        if still.status == usual.status == "ok":
            break
    assert (still.status, usual.status) == ("ok", "ok"), (still.reasons, usual.reasons)
    assert still.total_throughput_bps < 0.95 * usual.total_throughput_bps


@pytest.mark.whole
def test_launches_beside_busy_loops_are_not_ok(runs_dir, clean_host):
    need("netns")
    spec = Spec(workload="flowgen", pairs=2, launches=20)
    quiet = measure(spec, attempts=3)
    with load(BUSY):
        beside = measure(spec.replace(repetition=1))
    assert quiet.status == "ok", quiet.reasons
    assert beside.status == "invalid"
    assert "other processes used" in beside.reasons[0]
