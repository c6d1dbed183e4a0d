"""Promise: an interrupted sweep leaves the host as it was, and goes on where it was."""

import os
import signal

import pytest

from pairlab import load_runs
from tests.faults.processes import await_process, ours
from tests.host.batch.test_main_job import BIN, pairlab, place  # noqa: F401  (place: a fixture)
from tests.support import host
from tests.support.attempts import sound

THREE = """
name: three
repetitions: 3
parameters: {workload: flowgen, duration_s: 0.5, max_skew_s: 5, max_foreign_cpu: 1.0}
experiments: {throughput: {driver: bridge, pairs: 1}}
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_an_interrupted_sweep_leaves_the_host_clean_and_goes_on_where_it_was(place, clean_host, number):  # noqa: F811
    file = place / "three.yaml"
    file.write_text(THREE)
    sweep = host.started([BIN / "pairlab", "sweep", str(file)])
    with sweep:
        for line in sweep.stdout:
            if " done " in line:
                break
        await_process(lambda: ours("pairlab.testbed.netns.agent"))  # the next cell's testbed is coming up
        os.killpg(sweep.pid, number)
        sweep.communicate(timeout=30)
    assert host.settled(clean_host, within_s=10), host.difference(clean_host)
    before = {run.key: run.measured_at for run in load_runs(place / "runs")}
    assert before
    done = pairlab("sweep", str(file))
    runs = load_runs(place / "runs")
    assert done.returncode == 0 or all(sound(run) for run in runs), done.stdout
    assert "Traceback" not in done.stderr
    after = {run.key: run.measured_at for run in runs}
    assert len(after) == 3
    assert {key: after[key] for key in before} == before
