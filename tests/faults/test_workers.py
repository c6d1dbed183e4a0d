"""A sweep that workers of Dask share, while workers, scheduler and the sweep itself are killed. Cells are made up."""

import contextlib
import random
import subprocess
from collections import Counter

import pytest

from pairlab.batch import sweep_file
from pairlab.store.dataset import load_runs
from tests.support import dask_workers

#: Of each kind so many are killed, in each of two orders.
KILLS = ("worker", "worker", "sweep", "worker", "scheduler", "worker", "sweep", "worker", "scheduler", "worker")


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_shared_sweep_loses_nothing_and_never_measures_two_cells_at_once_on_a_worker(tmp_path, seed, record_property):
    """20 kills in all, each at another moment: as many cells after the last one as the seed draws."""
    chance = random.Random(seed)
    file = dask_workers.sweep_file(tmp_path, repetitions=10, cells=10)
    kills = list(KILLS)
    chance.shuffle(kills)
    with dask_workers.Processes(tmp_path, dask_workers.free_port()) as made:
        scheduler = made.scheduler()
        workers = made.workers(3)
        sweep = made.sweep(file)
        for victim in kills:
            wanted = len(made.measured()) + chance.randint(2, 8)
            while len(made.measured()) < wanted and sweep.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    sweep.wait(0.02)
            if victim == "worker":
                workers.pop(0).kill()
                workers.append(made.worker())
            elif victim == "scheduler":
                scheduler.kill()
                scheduler.wait()
                scheduler = made.scheduler()
            else:
                sweep.kill()
                sweep.wait()
                sweep = made.sweep(file)
        printed, said = sweep.communicate(timeout=300)
        measured = Counter(made.measured())
        two_at_once = made.two_at_once
    cells = {spec.key for spec in sweep_file.cells(sweep_file.load(file))}
    assert printed.split() == [str(len(cells)), "0"], said
    assert "Traceback" not in said
    assert measured.keys() == cells
    assert not two_at_once
    runs = load_runs(made.runs, environment="all")
    assert Counter(run.spec.key for run in runs) == dict.fromkeys(cells, 1)
    again = measured.total() - len(cells)
    assert again <= 3 * len(kills)  # what was under way at the moment of a kill
    record_property("kills of workers, scheduler and sweep survived", len(kills))
    record_property("cells measured again after a kill", again)
