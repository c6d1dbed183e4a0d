"""Promise: whatever is killed, and whenever, within 5 s nothing of a netns testbed is left on the host.

The measuring process at points all over a run, with every driver; the sandbox, its agent, one client, one server,
Open vSwitch's daemon, the guard. The proof is a snapshot of the host before and after. What is measured while something
was killed is passed to be so. The kernels of notebooks, and Ctrl-C, are in test_killed_notebooks.
"""

import os
import signal
import subprocess
import time

import pytest

from pairlab import Spec, measure
from pairlab.errors import MeasurementFailed, PairlabError
from pairlab.store.dataset import load_runs
from pairlab.testbed.cleanup import process_table
from tests.conftest import diagonal, need, need_all_of
from tests.faults.forked import Forked
from tests.faults.processes import DYING_S, await_process, await_traffic, ours

DRIVERS = ("bridge", "macvlan", "ovs", "host")
#: The phases as measure() reports them; a run is killed at the beginning of each.
PHASES = ("bringing up", "servers listening", "clients ready", "measuring (s)", "taking down")
#: On two hosts.
SPANNING = ("overlay", "bgp", "nat", "macvlan", "flannel-vxlan", "host", "process", "weave")
TWO_HOSTS = Spec(workload="flowgen", pairs=2, duration_s=2, hosts=2, placement="across")
#: And at these shares of a run's length.
MOMENTS = (1 / 6, 1 / 2, 5 / 6)

#: Measures, and says so on its output: when it begins, each phase, the end. Kills itself at the phase it is given.
MEASURING = """
import os, signal, sys
from pairlab import Spec, measure
driver, deadly = sys.argv[1:]
def tell(phase, done, total):
    print(phase, flush=True)
    if phase == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
print("begun", flush=True)
measure(Spec(driver=driver, workload="flowgen", pairs=2, duration_s=0.5), fresh=True, progress=tell)
print("ended", flush=True)
"""

pytestmark = pytest.mark.usefixtures("runs_dir", "forking")


def measuring(driver, deadly="", script=MEASURING):
    return Forked(script, driver, deadly)


@pytest.fixture(scope="module")
def length_s(tmp_path_factory):
    """How long a run takes here from its first line to its last, by driver; measured once."""
    known = {}

    def length_s(driver):
        if driver not in known:
            with measuring(driver) as process:
                assert process.stdout.readline() == "begun\n"
                begun = time.monotonic()
                assert process.stdout.read().endswith("ended\n"), process.complaint()
                known[driver] = time.monotonic() - begun
        return known[driver]

    return length_s


ON_UML_HOSTS = MEASURING.replace("duration_s=0.5", "duration_s=0.5, hosts=2, placement='across', backend='uml'")
ON_TWO_HOSTS = MEASURING.replace("duration_s=0.5", "duration_s=0.5, hosts=2, placement='across'")


@pytest.mark.parametrize(
    ("script", "driver", "phase"),
    [
        pytest.param(script, *each.values, marks=each.marks, id="-".join([*each.values, hosts]))
        for script, hosts, drivers in (
            (MEASURING, "one", DRIVERS),
            (ON_TWO_HOSTS, "two", SPANNING),
            (ON_UML_HOSTS, "two-kernels", ("overlay", "process")),
        )
        for each in diagonal(drivers, PHASES)
    ],
)
def test_a_measuring_process_killed_as_a_phase_begins_leaves_nothing(script, driver, phase, clean):
    on_two = TWO_HOSTS.replace(driver=driver, backend="uml" if script == ON_UML_HOSTS else "netns")
    need_all_of(spec(driver=driver) if script == MEASURING else on_two)
    with measuring(driver, phase, script) as process:
        output = process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    assert output.endswith(f"{phase}\n")
    clean()


@pytest.mark.parametrize(("driver", "share"), diagonal(DRIVERS, MOMENTS))
def test_a_measuring_process_killed_anywhere_in_its_run_leaves_nothing(driver, share, length_s, clean):
    need("netns", driver)
    wait_s = share * length_s(driver)
    with measuring(driver) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(wait_s)  # a moment is what this is about; which phase it falls into differs
        process.kill()
    assert process.returncode in (-signal.SIGKILL, 0)  # 0: this run was faster than the first
    clean()


def test_a_measuring_process_killed_while_a_host_does_not_answer_leaves_nothing(clean):
    need_all_of(TWO_HOSTS.replace(driver="overlay", backend="uml"))
    with measuring("overlay", script=ON_UML_HOSTS) as process:
        os.kill(await_process(lambda: ours("linux.uml")).pid, signal.SIGSTOP)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    clean()


def test_a_measuring_process_killed_while_clients_are_due_later_leaves_nothing(clean):
    need("netns")
    apart = MEASURING.replace("duration_s=0.5", "duration_s=60.0, start_spacing_s=50.0")
    with measuring("bridge", "measuring (s)", apart) as process:
        assert process.stdout.read().endswith("measuring (s)\n")
    assert process.returncode == -signal.SIGKILL
    clean()


def children(pid):
    return [each for each in process_table.read_processes().values() if each.parent == pid]


def the_sandbox():
    return next(each for each in children(os.getpid()) if each.words[0].endswith("unshare"))


def the_agent():
    return next(iter(children(the_sandbox().pid)))


def the_guard():
    return next(each for each in children(os.getpid()) if each.words[0] == "/bin/sh")


def the_tool_of(endpoint):
    """The traffic tool of that endpoint: what its launcher launched."""
    launcher = next(each for each in ours("hold", f"{endpoint}."))
    return next(iter(children(launcher.pid)))


def killing(find):
    """A progress callback that kills that process once, when traffic flows."""
    killed = []

    def progress(phase, done, total):
        if phase == "measuring (s)" and done and not killed:
            killed.append(find())
            os.kill(killed[0].pid, signal.SIGKILL)

    return progress


def spec(**changed):
    return Spec(workload="flowgen", pairs=2, duration_s=2).replace(**changed)


@pytest.mark.parametrize(("driver", "victim"), diagonal(DRIVERS, (the_sandbox, the_agent)))
def test_a_killed_sandbox_is_a_failed_run_that_says_so(driver, victim, clean, runs_dir):
    need("netns", driver)
    with pytest.raises(PairlabError, match=r"the sandbox ended during '\w+': it was killed"):
        measure(spec(driver=driver, duration_s=30), progress=killing(victim))
    clean()
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    assert "the sandbox ended" in run.reasons[0]


def the_program(name):
    return next(each for each in ours(name) if each.words[0].endswith(name))


def test_a_killed_kernel_of_a_host_is_a_failed_run_that_says_so(clean, runs_dir):
    on_kernels = TWO_HOSTS.replace(backend="uml", driver="process", duration_s=4)
    need_all_of(on_kernels)
    with pytest.raises(PairlabError, match=r"host-\d ended: it was killed"):
        measure(on_kernels, progress=killing(lambda: the_program("linux.uml")))
    clean()
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"


#: A network's daemons, and what is said of their end.
DAEMONS = [
    (spec(driver="ovs"), "ovs-vswitchd", "ovs-vswitchd has ended, and with it the network"),
    (TWO_HOSTS.replace(driver="bgp"), "bird", "bird has ended, and with it the routes between hosts"),
    *(
        (TWO_HOSTS.replace(driver=driver), daemon, rf"{daemon} of host-\d has ended. Its last words: .*\w")
        for driver, daemon in (("flannel-vxlan", "flanneld"), ("flannel-vxlan", "etcd"), ("weave", "weaver"))
    ),
]


@pytest.mark.parametrize(("measured", "daemon", "told"), DAEMONS, ids=[daemon for _, daemon, _ in DAEMONS])
def test_a_networks_daemon_that_died_is_a_failed_run_although_flows_came_to_an_end(
    measured, daemon, told, clean, runs_dir
):
    need_all_of(measured)
    with pytest.raises(MeasurementFailed, match=told):
        measure(measured, progress=killing(lambda: the_program(daemon)))
    clean()
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"


@pytest.mark.skipif(os.geteuid() != 0, reason="an uplink is set down from outside, which needs root")
def test_an_uplink_that_goes_down_is_told_by_its_flows(clean, runs_dir):
    need_all_of(TWO_HOSTS.replace(driver="overlay"))
    cut = []

    def progress(phase, done, total):
        if phase == "measuring (s)" and done and not cut:
            inside = ["nsenter", "--target", str(the_agent().pid), "--net"]
            cut.append(subprocess.run([*inside, "ip", "link", "set", "host-1", "down"], check=True))

    run = measure(TWO_HOSTS.replace(driver="overlay"), progress=progress)
    clean()
    assert run.status == "invalid"
    assert run.reasons


@pytest.mark.parametrize(("driver", "side"), diagonal(DRIVERS, ("client", "server")))
def test_one_of_five_killed_is_a_failed_flow_in_a_run_that_stays_and_says_so(driver, side, clean, runs_dir):
    need("netns", driver)
    run = measure(spec(driver=driver, pairs=5), progress=killing(lambda: the_tool_of(f"{side}-3")))
    clean()
    failed = run.flows[run.flows.status != "ok"]
    assert list(failed.pair) == [3]
    assert "SIGKILL" in failed.error.iloc[0] or "signal 9" in failed.error.iloc[0] or side == "server"
    assert failed.throughput_bps.isna().all()
    assert run.flows[run.flows.pair != 3].throughput_bps.gt(0).all()
    assert "1 of 5 flows failed" in str(run)
    (stored,) = load_runs(runs_dir, environment="all").runs
    assert (stored.status, stored.reasons, stored.failed_flows) == (run.status, run.reasons, 1)


def test_a_killed_guard_is_not_missed(clean):
    need("netns")
    assert measure(spec(), progress=killing(the_guard)).flows.status.eq("ok").all()
    clean()


def test_a_guard_and_a_measuring_process_killed_together_leave_nothing(clean):
    need("netns")
    long = MEASURING.replace("duration_s=0.5", "duration_s=30")
    with measuring("bridge", script=long) as process:
        await_traffic()
        guard = next(each for each in children(process.pid) if each.words[0] == "/bin/sh")
        os.kill(guard.pid, signal.SIGKILL)
        process.kill()
        process.wait(DYING_S)
    clean()


@pytest.mark.skipif(os.geteuid() != 0, reason="CPU quotas in netns need root")
def test_groups_of_cpu_time_go_with_a_process_that_is_killed(clean):
    need("netns")
    script = MEASURING.replace("pairs=2", "pairs=2, cpu_quota=0.5")
    with measuring("bridge", "measuring (s)", script) as process:
        process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    clean()
