"""Promise: whatever is killed, and whenever, within 5 s nothing of a netns testbed is left on the host.

The measuring process at points all over a run, with every driver; the sandbox, its agent, one client, one server,
Open vSwitch's daemon, the guard; the kernel of a notebook; Ctrl-C in the shell, and the notebook's stop button. The
proof is a snapshot of the host before and after. What is measured while something was killed is passed to be so.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pairlab import Spec, measure, paths
from pairlab.errors import MeasurementFailed, PairlabError
from pairlab.store.dataset import load_runs
from pairlab.testbed import registry
from pairlab.testbed.audit import snapshot
from pairlab.testbed.cleanup import process_table
from tests.conftest import need
from tests.faults.forked import Forked, points
from tests.faults.host_state import wait_clean
from tests.support import host

BIN = Path(sys.executable).parent
DRIVERS = registry.drivers.names()
#: The phases as measure() reports them; a run is killed at the beginning of each.
PHASES = ("bringing up", "servers listening", "clients ready", "measuring (s)", "taking down")
#: And at so many moments in between. With the phases, 32 points in all.
MOMENTS = {"bridge": 3, "host": 3, "macvlan": 3, "ovs": 3}

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


@pytest.fixture
def clean(record_property):
    """clean(): within 5 s the host is as it was when the test began, or the test fails."""
    before = snapshot.take()
    return lambda: record_property("clean_after_s", round(wait_clean(before), 2))


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


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_measuring_process_killed_as_a_phase_begins_leaves_nothing(driver, phase, clean):
    need("netns", driver)
    with measuring(driver, phase) as process:
        output = process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    assert output.endswith(f"{phase}\n")
    clean()


@pytest.mark.parametrize(("driver", "share"), points(MOMENTS))
def test_a_measuring_process_killed_anywhere_in_its_run_leaves_nothing(driver, share, length_s, clean):
    need("netns", driver)
    wait_s = share * length_s(driver)
    with measuring(driver) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(wait_s)  # a moment is what this is about; which phase it falls into differs
        process.kill()
    assert process.returncode in (-signal.SIGKILL, 0)  # 0: this run was faster than the first
    clean()


def test_a_measuring_process_killed_while_clients_are_due_later_leaves_nothing(clean):
    need("netns")
    apart = MEASURING.replace("duration_s=0.5", "duration_s=60.0, start_spacing_s=50.0")
    with measuring("bridge", "measuring (s)", apart) as process:
        assert process.stdout.read().endswith("measuring (s)\n")
    assert process.returncode == -signal.SIGKILL
    clean()


def ours(*words):
    """Processes of this session with each of these words in their command line."""
    known = process_table.read_processes()
    return [
        each
        for each in known.values()
        if each.session == os.environ[process_table.SESSION]
        and all(any(word in one for one in each.words) for word in words)
    ]


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


def the_switch():
    return next(each for each in ours("ovs-vswitchd") if each.words[0].endswith("ovs-vswitchd"))


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


@pytest.mark.parametrize("victim", [the_sandbox, the_agent], ids=lambda each: each.__name__)
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_killed_sandbox_is_a_failed_run_that_says_so(driver, victim, clean, runs_dir):
    need("netns", driver)
    with pytest.raises(PairlabError, match=r"the sandbox ended during '\w+': it was killed"):
        measure(spec(driver=driver, duration_s=30), progress=killing(victim))
    clean()
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"
    assert "the sandbox ended" in run.reasons[0]


def test_a_switch_that_died_is_a_failed_run_although_flows_came_to_an_end(clean, runs_dir):
    need("netns", "ovs")
    with pytest.raises(MeasurementFailed, match="ovs-vswitchd has ended, and with it the network"):
        measure(spec(driver="ovs"), progress=killing(the_switch))
    clean()
    (run,) = load_runs(runs_dir)
    assert run.status == "failed"


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize("driver", DRIVERS)
def test_one_of_five_killed_is_a_failed_flow_in_a_run_that_stays_and_says_so(driver, side, clean):
    need("netns", driver)
    run = measure(spec(driver=driver, pairs=5), progress=killing(lambda: the_tool_of(f"{side}-3")))
    clean()
    failed = run.flows[run.flows.status != "ok"]
    assert list(failed.pair) == [3]
    assert failed.error.iloc[0]
    assert run.flows[run.flows.pair != 3].throughput_bps.gt(0).all()
    assert "1 of 5 flows failed" in str(run)


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
        clean()


@pytest.mark.skipif(os.geteuid() != 0, reason="CPU quotas in netns need root")
def test_groups_of_cpu_time_go_with_a_process_that_is_killed(clean):
    need("netns")
    script = MEASURING.replace("pairs=2", "pairs=2, cpu_quota=0.5")
    with measuring("bridge", "measuring (s)", script) as process:
        process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    clean()


def started(*command):
    """A program in a session of its own, as a shell would start it."""
    return host.started([BIN / command[0], *command[1:]], stderr=subprocess.STDOUT)


def await_traffic(within_s=60.0):
    """Returns when a client of ours sends."""
    await_process(lambda: ours("flowgen", "client", "--connect"), within_s)


def await_process(find, within_s=60.0):
    deadline = time.monotonic() + within_s
    while not (found := find()):
        assert time.monotonic() < deadline, "it did not come up"
        time.sleep(0.1)  # to look at all processes takes a fifth of that, from what is waited for
    return found[0]


RUN = ("pairlab", "run", "throughput", "-p", "pairs", "2", "-p", "workload", "flowgen", "-p", "duration_s", "30")


def the_kernel():
    return await_process(
        lambda: [each for each in ours("pairlab.batch.kernel_parent") if named(each.pid) == "pairlab-kernel"]
    )


def named(pid):
    """What a process calls itself; empty of one that has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("moment", [await_traffic, the_kernel], ids=["measuring", "kernel coming up"])
def test_a_killed_kernel_of_an_experiment_is_a_failed_run_that_says_so(moment, clean):
    need("netns")
    with started(*RUN) as process:
        moment()
        os.kill(the_kernel().pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=60)
        clean()
    assert process.returncode == 1
    assert "kernel" in output
    assert "Traceback" not in output


def test_an_experiment_whose_process_is_killed_leaves_no_kernel(clean):
    need("netns")
    with started(*RUN) as process:
        await_traffic()
        process.kill()
        clean()
        process.communicate(timeout=60)


@pytest.mark.parametrize("moment", [the_kernel, await_traffic], ids=["kernel coming up", "measuring"])
def test_ctrl_c_in_the_shell_ends_a_run(moment, clean):
    need("netns")
    with started(*RUN) as process:
        moment()
        os.killpg(process.pid, signal.SIGINT)
        clean()  # and the program itself has ended by then
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert output.splitlines()[-1] == "pairlab: interrupted: the host is clean, and finished runs are kept"


SWEEP = """
name: long
seed: 1
repetitions: 1
experiments:
  throughput: {driver: [bridge, macvlan], workload: flowgen, duration_s: 30}
"""


@pytest.mark.parametrize("moment", [the_kernel, await_traffic], ids=["kernel coming up", "measuring"])
def test_ctrl_c_in_the_shell_ends_a_sweep(moment, clean, tmp_path):
    need("netns")
    (tmp_path / "long.yaml").write_text(SWEEP)
    with started("pairlab", "sweep", tmp_path / "long.yaml") as process:
        moment()
        os.killpg(process.pid, signal.SIGINT)
        clean()  # and the program itself has ended by then
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "interrupted: the host is clean" in output


class Notebook:
    """A kernel as a notebook has one: cells are executed, stopped, and it is started again."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(startup_timeout=120, cwd=str(paths.ROOT))

    def begin(self, cell):
        return self.client.execute(cell)

    def outcome(self, asked, within_s=60.0):
        """How that cell ended: `ok`, or the name of its error."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                reply = self.client.get_shell_msg(timeout=1)
                if reply["parent_header"].get("msg_id") == asked:
                    return reply["content"].get("ename") or reply["content"]["status"]
        raise AssertionError("the cell did not end")

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook():
    need("netns")
    running = Notebook()
    yield running
    running.close()


LONG_CELL = "from pairlab import Spec, measure\nmeasure(Spec(workload='flowgen', pairs=2, duration_s=60))"
SHORT_CELL = "assert measure(Spec(workload='flowgen', duration_s=0.5)).flows.status.eq('ok').all()"


ATTENDED = """
from pairlab import Spec, measure
from pairlab.measurement.in_subprocess import attend, attend_async
{}(Spec(workload='flowgen', pairs=2, duration_s=60))
"""


def coming_up():
    await_process(lambda: ours("pairlab.testbed.netns.agent"))


@pytest.mark.parametrize("moment", [coming_up, await_traffic], ids=["coming up", "measuring"])
def test_the_stop_button_leaves_nothing_and_a_kernel_that_can_go_on(moment, notebook, clean):
    cell = notebook.begin(LONG_CELL)
    moment()
    notebook.manager.interrupt_kernel()
    assert notebook.outcome(cell) == "KeyboardInterrupt"
    clean()
    assert notebook.outcome(notebook.begin(SHORT_CELL)) == "ok"
    clean()


@pytest.mark.parametrize(("way", "error"), [("attend", "KeyboardInterrupt"), ("await attend_async", "CancelledError")])
def test_the_stop_button_ends_what_is_measured_in_a_process_of_its_own(way, error, notebook, clean):
    cell = notebook.begin(ATTENDED.format(way))
    await_traffic()
    notebook.manager.interrupt_kernel()
    assert notebook.outcome(cell) == error
    clean()
    assert notebook.outcome(notebook.begin(SHORT_CELL)) == "ok"
    clean()


def killed(manager):
    os.kill(manager.provisioner.pid, signal.SIGKILL)


def restarted(manager):
    manager.shutdown_kernel(now=True, restart=True)  # JupyterLab's "Restart Kernel", up to where it starts it again


@pytest.mark.parametrize("cell", [LONG_CELL, ATTENDED.format("await attend_async")], ids=["itself", "attended"])
@pytest.mark.parametrize("end", [killed, restarted])
def test_a_notebooks_kernel_that_ends_while_it_measures_leaves_nothing(end, cell, notebook, clean):
    notebook.begin(cell)
    await_traffic()
    end(notebook.manager)
    clean()
