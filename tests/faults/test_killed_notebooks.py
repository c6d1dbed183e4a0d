"""Promise: a notebook that is interrupted, or whose kernel is killed, leaves nothing of its netns testbed within 5 s.

An experiment's kernel is killed, or the process that runs it; Ctrl-C in the shell; the notebook's stop button; a kernel
is killed or restarted while it measures. The proof is a snapshot of the host before and after.
"""

import contextlib
import os
import queue
import signal
import subprocess
import time
from pathlib import Path

import pytest

from pairlab import paths
from tests.conftest import need
from tests.faults.processes import await_process, await_traffic, ours
from tests.support import host

pytestmark = pytest.mark.usefixtures("runs_dir", "forking")


def started(*command):
    """A program in a session of its own, as a shell would start it."""
    return host.started([host.BIN / command[0], *command[1:]], stderr=subprocess.STDOUT)


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
