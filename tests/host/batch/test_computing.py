"""Reports whose percentiles and intervals are computed on the workers of a real Dask scheduler."""

import json
import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pairlab import paths
from pairlab.analysis import executors, flow_parts
from pairlab.analysis.questions import fct
from pairlab.base import schedulers
from pairlab.base.caller import VARIABLE
from pairlab.errors import DamagedRun, StoreError, TooFewSamples, Unavailable
from pairlab.store.dataset import load_runs
from tests.support.dask_workers import PAIRLAB, Processes, free_port
from tests.support.synthetic_flows import write_fct


def read(part):
    return part.read(["fct_s"])


def begins_and_waits(flag):
    """Until its worker is killed."""
    Path(flag).touch()
    threading.Event().wait()


def begins_and_ends(folder):
    """Until it may."""
    (Path(folder) / "begun").touch()
    while not (Path(folder) / "may end").exists():
        threading.Event().wait(0.02)
    return folder


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    with Processes(tmp_path_factory.mktemp("dask"), free_port()) as made:
        made.scheduler()
        yield made, made.workers(2)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_fct(tmp_path_factory.mktemp("runs") / "times", pairs=(10, 50), backends=("netns",))


def pid_of(number):
    return os.getpid()


def refused(number):
    raise TooFewSamples(f"{number} is too few")


def dies_once(flag):
    """Ends its worker at the first try, as a kill does."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.getpid()
    os._exit(9)


@pytest.mark.long
def test_a_report_is_the_same_as_without_workers(two_workers, root, tmp_path):
    made, _ = two_workers
    values = []
    for place, options in (("here", []), ("there", ["--scheduler", made.address])):
        argv = [*PAIRLAB, "report", str(paths.ANALYSES / "03-fct.ipynb"), "--runs", str(root), *options]
        done = subprocess.run(
            argv, env=os.environ | {"PAIRLAB_OUT": str(tmp_path / place)}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        values.append((tmp_path / place / "paper/values/times/03-fct.tex").read_text())
    assert values[0] == values[1]
    assert "fct/netns-flowgen/bridge/50/p99" in values[0]


@pytest.mark.whole
def test_parts_are_computed_on_the_workers_and_their_errors_come_back(two_workers, root, monkeypatch):
    made, workers = two_workers
    here = fct.percentiles(load_runs(root))
    monkeypatch.setenv(VARIABLE, json.dumps({"scheduler": made.address}))
    assert fct.percentiles(load_runs(root)).equals(here)
    pids = set(executors.on_workers(pid_of, range(40), [root]))
    assert pids <= {worker.pid for worker in workers}
    assert os.getpid() not in pids
    with pytest.raises(TooFewSamples, match=r"^7 is too few$"):
        executors.on_workers(refused, [7], [root])


def test_workers_that_do_not_have_the_runs_are_left_out_and_say_so(two_workers, tmp_path, monkeypatch, capfd):
    made, _ = two_workers
    monkeypatch.setenv(VARIABLE, json.dumps({"scheduler": made.address}))
    with pytest.raises(Unavailable, match=rf"no worker of .* can compute this: worker .* has no {tmp_path}/gone: what"):
        executors.on_workers(pid_of, [1], [tmp_path / "gone"])
    assert capfd.readouterr().err.count("left out: worker") == 2


def test_a_worker_with_a_store_of_its_own_at_the_same_path_is_refused(root):
    """As runs of the same cells that another host has measured."""
    (part, *_) = flow_parts._parts(load_runs(root), ["pairs"])
    assert len(part.read(["fct_s"])) == part.rows
    other = replace(part, measured_at=(*part.measured_at[:-1], datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(DamagedRun, match="is another run than the one that was loaded"):
        other.read(["fct_s"])
    gone = replace(part, paths=(*part.paths[:-1], part.paths[-1].with_name("gone")))
    for lacking in (other, gone):
        with pytest.raises(StoreError, match=r"^worker .*: what computes on workers needs a store that they share$"):
            flow_parts._on_worker(read, lacking)


@pytest.mark.whole
def test_a_scheduler_that_is_gone_in_between_and_workers_that_die_in_turn_are_said_so(tmp_path, root, monkeypatch):
    with Processes(tmp_path, free_port()) as made:
        scheduler = made.scheduler()
        made.workers(4)
        monkeypatch.setenv(VARIABLE, json.dumps({"scheduler": made.address}))
        with pytest.raises(Unavailable, match="workers died one after the other while they computed the same"):
            executors.on_workers(os._exit, [9], [root])
        made.worker()
        begun = tmp_path / "begun"
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(executors.on_workers, begins_and_waits, [str(begun)], [root])
            while not (begun.exists() or asked.done()):
                wait([asked], timeout=0.02)
            scheduler.kill()
            with pytest.raises(Unavailable, match=f"the scheduler {made.address} is gone: start it"):
                asked.result()


@pytest.mark.whole
@pytest.mark.parametrize("silent_s", [60.0, 1.0])
def test_a_scheduler_that_does_not_answer_is_waited_for_and_not_for_ever(silent_s, tmp_path, root, monkeypatch):
    """As one does on a busy machine."""
    monkeypatch.setattr(executors, "LOOK_S", 0.2)
    monkeypatch.setattr(executors, "SILENT_S", silent_s)
    monkeypatch.setattr(schedulers, "ANSWER_S", 0.3)
    with Processes(tmp_path, free_port()) as made, ThreadPoolExecutor(1) as pool:
        scheduler = made.scheduler()
        made.worker()
        monkeypatch.setenv(VARIABLE, json.dumps({"scheduler": made.address}))
        asked = pool.submit(executors.on_workers, begins_and_ends, [str(tmp_path)], [root])
        while not ((tmp_path / "begun").exists() or asked.done()):
            wait([asked], timeout=0.02)
        os.kill(scheduler.pid, signal.SIGSTOP)
        wait([asked], timeout=2.0 if silent_s > 2 else 30.0)
        os.kill(scheduler.pid, signal.SIGCONT)
        (tmp_path / "may end").touch()
        if silent_s > 2:
            assert asked.result() == [str(tmp_path)]
        else:
            with pytest.raises(Unavailable, match=f"the scheduler {made.address} is gone"):
                asked.result()


@pytest.mark.whole
def test_what_a_killed_worker_computed_is_computed_by_another_and_the_last_is_missed(tmp_path, root, monkeypatch):
    monkeypatch.setattr(executors, "LOOK_S", 0.2)
    with Processes(tmp_path, free_port()) as made:
        made.scheduler()
        workers = made.workers(2)
        monkeypatch.setenv(VARIABLE, json.dumps({"scheduler": made.address}))
        (pid,) = executors.on_workers(dies_once, [str(tmp_path / "died")], [root])
        assert pid in {worker.pid for worker in workers}
        with pytest.raises(Unavailable, match=r"all workers of .* that could compute this are gone"):
            executors.on_workers(dies_once, [str(tmp_path / "died-too")], [root])
