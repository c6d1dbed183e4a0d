"""A long sweep in short cells, with kills: of the cell's kernel, sandbox or client, or of the whole sweep.

The sweep is the real one, `pairlab sweep`, started again until all its cells are done, as its user would.
"""

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

from pairlab import store
from pairlab.batch import runner as sweeps
from pairlab.testbed.audit import snapshot
from tests.faults.host_state import wait_clean

PAIRLAB = Path(sys.executable).parent / "pairlab"
#: Ten cells in each repetition. A flow of 20 MB takes tens of milliseconds, beside 2 s for its notebook's kernel.
SWEEP = """
name: soak
seed: {seed}
repetitions: {repetitions}
experiments:
  throughput:
    - {{driver: [bridge, macvlan, host], pairs: [1, 2], workload: flowgen, duration_s: 0.5, interval_s: 0.5,
       max_skew_s: 5, max_foreign_cpu: 1.0}}
  fct:
    - {{driver: [bridge, macvlan], pairs: [1, 2], workload: flowgen, flow_bytes: 20_000_000, duration_s: 20,
       max_skew_s: 5, max_foreign_cpu: 1.0}}
"""
CELLS_PER_REPETITION = 10
#: Share of the cells in which something is killed.
KILLED = 0.03
VICTIMS = ("kernel", "sandbox", "client", "sweep")
#: How soon after a killed sweep nothing of it may be left.
CLEAN_S = 5.0
#: A sweep that has not come to its end after so many starts never will.
MOST_STARTS = 60


def run(record, *, quick: bool = False) -> None:
    """500 short cells in one sweep, with a kill in 3 % of them, started again until all are done."""
    cells, kills = (10, 4) if quick else (500, round(KILLED * 500))
    with tempfile.TemporaryDirectory() as place:
        _Campaign(Path(place), cells, kills, seed=4).run(record)


class _Campaign:
    """A sweep file and a store of its own, and the kills that are still to come."""

    def __init__(self, place: Path, cells: int, kills: int, seed: int):
        self.file, self.root = place / "soak.yaml", place / "runs"
        repetitions = cells // CELLS_PER_REPETITION
        self.file.write_text(SWEEP.format(seed=seed, repetitions=repetitions))
        self.cells = sweeps.cells(sweeps.load(self.file))
        self.random = random.Random(seed)
        deck = itertools.cycle(VICTIMS)
        numbers = sorted(self.random.sample(range(1, cells * 9 // 10), kills))  # the last have time to find theirs
        self.due = [(number, next(deck)) for number in numbers]
        self.starts = self.measured = 0
        self.killed: Counter[str] = Counter()

    def run(self, record) -> None:
        before, began, done = snapshot.take(), time.monotonic(), {}
        for _ in range(MOST_STARTS):
            ended, output = self._sweep_once()
            record("clean_after_s", wait_clean(before, CLEAN_S))
            done = self._still_done(done)
            if ended == 0:
                break
        else:
            raise AssertionError(f"{len(self.cells) - len(done)} cells not done after {MOST_STARTS} starts: {output}")
        assert len(done) == len(self.cells)
        assert not self.due, f"never came to kill: {self.due}"
        record("cells_done", len(done))
        record("cells", len(self.cells))
        record("starts", self.starts)
        for victim in VICTIMS:
            record(f"kills_of_{victim}", self.killed[victim])
        record("per_cell_s", (time.monotonic() - began) / len(self.cells))
        self._tidied(record)

    def _sweep_once(self) -> tuple[int, str]:
        """Starts the sweep and sees it to its end, or its killing; returns its exit status and what it said last."""
        self.starts += 1
        command = [str(PAIRLAB), "sweep", str(self.file), "--retry"]
        environment = os.environ | {"PAIRLAB_RUNS": str(self.root)}
        with tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
            ) as sweep:
                last = ""
                self._kill_if_due(sweep)
                for last in sweep.stdout:
                    if last.split()[1:2] and last.split()[1] in ("done", "failed", "invalid"):
                        self.measured += 1
                        self._kill_if_due(sweep)
            errors.seek(0)
            return sweep.returncode, last + errors.read()[-2000:]

    def _kill_if_due(self, sweep: subprocess.Popen) -> None:
        """Kills what is due in the cell that comes now, at a moment drawn from the seed; in the next one, if missed."""
        while self.due and self.measured >= self.due[0][0]:
            victim = self.due[0][1]
            delay_s = self.random.uniform(0, 2.0 if victim == "sweep" else 0.1)
            if not _kill(victim, psutil.Process(sweep.pid), delay_s):
                return
            self.killed[victim] += 1
            del self.due[0]
            if victim == "sweep":
                return

    def _still_done(self, before: dict) -> dict:
        """When each cell that is done was measured; asserts that no cell done before was measured again or is gone."""
        found = {spec.key: store.find(spec, self.root) for spec in self.cells}
        done = {key: run.measured_at for key, run in found.items() if run and run.status == "ok"}
        assert {key: done.get(key) for key in before} == before, "a cell that was done is gone, or was measured again"
        return done

    def _tidied(self, record) -> None:
        """Drafts of killed sweeps are never taken for runs, and `pairlab clean` takes them away."""
        drafts = list(store.leftovers(self.root))
        record("drafts_of_the_killed", len(drafts))
        environment = os.environ | {"PAIRLAB_RUNS": str(self.root)}
        subprocess.run([str(PAIRLAB), "clean"], env=environment, check=True, capture_output=True)
        assert not list(store.leftovers(self.root))


def _kill(victim: str, sweep: psutil.Process, delay_s: float) -> bool:
    """kill -9 of the sweep, or of a process of that kind below it as soon as there is one, and that much later."""
    if victim == "sweep":
        time.sleep(delay_s)
        sweep.kill()
        return True
    while sweep.is_running() and sweep.status() != psutil.STATUS_ZOMBIE:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in sweep.children(recursive=True):
                if _kind(process) == victim:
                    time.sleep(delay_s)
                    process.send_signal(signal.SIGKILL)
                    return True
        time.sleep(0.005)
    return False


def _kind(process: psutil.Process) -> str:
    """What a process below a sweep is, by its command line."""
    words = process.cmdline()
    if process.name() == "pairlab-kernel":
        return "kernel"
    if "pairlab.testbed.netns.agent" in words:
        return "sandbox"
    if len(words) > 1 and words[0].endswith("flowgen") and words[1] == "client":
        return "client"
    return ""
