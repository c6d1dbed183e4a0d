"""Real processes of Dask that measure made-up cells: a scheduler, workers that can be killed, a sweep that can be."""

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import yaml

from pairlab import store
from pairlab.base import credentials
from pairlab.base.environment import setting
from pairlab.model.spec import Spec
from pairlab.testbed.cleanup.workdir import working_directory
from pairlab.testbed.host import facts
from tests.support.runs import made_up

ROOT = Path(__file__).parents[2]
#: The command, which finds these modules by PYTHONPATH; .venv's own does not read that.
PAIRLAB = (sys.executable, "-m", "pairlab")
#: Where the workers write what they do, and how long a cell takes (s).
LOG, CELL_S = "PAIRLAB_TEST_LOG", "PAIRLAB_TEST_CELL_S"


def made_up_cell(values, *_):
    """Stands in for workers.measure_cell: takes its time, and notes who else measured on this worker meanwhile."""
    folder = Path(os.environ[LOG])
    spec = Spec(**values)
    with open(folder / f"worker-{os.getpid()}", "a+") as mine:
        try:
            fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            (folder / "two-at-once").touch()
        print(spec.key, file=mine, flush=True)
        time.sleep(float(os.environ[CELL_S]))
    with working_directory() as place:
        host = {"cpu_model": "a CPU", "cpus": 2, "machine": str(os.getpid()), "kernel": facts.host()["kernel"]}
        run = replace(made_up(), spec=spec, measured_at=datetime.now(UTC), facts={"host": host})
        content = store.export_run(store.write(run, place))
    return {"state": "done", "text": "made up", "run": content, "counts": True}


def sweep_file(folder, *, repetitions, cells):
    """A sweep of so many cells in each repetition."""
    file = folder / "shared.yaml"
    grid = {"driver": "bridge", "pairs": list(range(1, cells + 1)), "workload": "flowgen", "duration_s": 1}
    file.write_text(yaml.safe_dump({"name": "shared", "repetitions": repetitions, "experiments": {"throughput": grid}}))
    return file


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Processes:
    """Context manager: a scheduler at a port, workers and sweeps as processes, all gone at the end.

    Meanwhile this process and those that it starts have the scheduler's credentials.
    """

    def __init__(self, folder, port, *, cell_s=0.1):
        self.folder, self.address = Path(folder), f"tls://127.0.0.1:{port}"
        self.credentials = self.folder / "scheduler.pem"
        self._port = str(port)
        self._running = []
        self.log = self.folder / "log"
        self.log.mkdir(exist_ok=True)
        self.runs = self.folder / "runs"
        self._environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PAIRLAB_RUNS": str(self.runs),
            credentials.VARIABLE: str(self.credentials),
            LOG: str(self.log),
            CELL_S: str(cell_s),
        }

    def __enter__(self):
        self._known = setting(**{credentials.VARIABLE: str(self.credentials)})
        self._known.__enter__()
        return self

    def __exit__(self, *_):
        self._known.__exit__(None, None, None)
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        for process in self._running:
            process.communicate()

    def _start(self, *argv, **named):
        made = subprocess.Popen(argv, env=self._environment, cwd=ROOT, text=True, **named)
        self._running.append(made)
        return made

    def scheduler(self):
        """A scheduler, which listens when this returns."""
        argv = (*PAIRLAB, "scheduler", "--port", self._port)
        made = self._start(*argv, stdout=subprocess.PIPE)
        assert "scheduler at" in made.stdout.readline()
        return made

    def worker(self):
        """A worker, which has come to the scheduler when this returns."""
        (made,) = self.workers(1)
        return made

    def workers(self, count):
        """So many workers, which have all come to the scheduler when this returns."""
        argv = (*PAIRLAB, "worker", "--scheduler", self.address)
        made = [self._start(*argv, stdout=subprocess.PIPE) for _ in range(count)]
        for worker in made:
            assert "worker at" in worker.stdout.readline()
        return made

    def sweep(self, file, wait_s=30.0):
        """A process that has this sweep measured, and prints what became of it."""
        argv = (sys.executable, "-m", "tests.support.dask_workers", str(file), self.address, str(wait_s))
        return self._start(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def measured(self):
        """The key of each cell that a worker began to measure, once for each time."""
        return [key for path in self.log.glob("worker-*") for key in path.read_text().split()]

    def at_work(self, workers):
        """One of these workers that has begun a cell, taken out of them."""
        return workers.pop(next(n for n, each in enumerate(workers) if (self.log / f"worker-{each.pid}").exists()))

    @property
    def two_at_once(self):
        return (self.log / "two-at-once").exists()


def main():
    from pairlab.batch import runner
    from pairlab.batch import sweep_file as files
    from pairlab.batch.executors.workers import WorkerPool

    plan = files.load(sys.argv[1])
    with WorkerPool(sys.argv[2], wait_s=float(sys.argv[3]), measure=made_up_cell) as pool:
        tally = runner.run(plan, pool=pool, attempts=100, say=lambda text: print(text, file=sys.stderr))
    print(tally.done, len(tally.not_done))


if __name__ == "__main__":
    main()
