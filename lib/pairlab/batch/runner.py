"""Sweeps: measures the cells of a sweep file, block after block, and resumes where it was interrupted.

A block is all cells of one repetition (executors/block_queue). An executor measures a block as a whole, so that what is
compared within a repetition was measured on one host; with several executors, several blocks are under way.
"""

import time
from collections import Counter
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from pairlab import store
from pairlab.batch import experiments, kernels, stopping_rule, sweep_manifest
from pairlab.batch.eta import OVERHEAD_S, Schedule, estimate_s, succeeded, to_measure, traffic_s
from pairlab.batch.executors.activity import WorkerActivity
from pairlab.batch.executors.block_queue import Block, BlockQueue
from pairlab.batch.executors.executor import CellOutcome, Executor, WorkerLost
from pairlab.batch.executors.local import LocalExecutor
from pairlab.batch.executors.workers import WorkerPool
from pairlab.batch.sweep_file import SweepFile, cells, load, rules
from pairlab.measurement import in_store
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Progress, silent

__all__ = ["OVERHEAD_S", "CellReport", "SweepFile", "Tally", "cells", "estimate_s", "load", "rules", "run"]


#: How often it is looked who has come, and how long is waited where nobody measures.
_LOOK_S, _IDLE_S = 1.0, 0.05
#: Workers of a sweep, at most: a thread each, which sleeps while its worker measures.
_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class CellReport:
    """One cell that ended, and how far the sweep has come. state: done, stored (done before), invalid, failed, skipped.

    text: its result, or why there is none. total: how many cells the sweep will have, as far as is known; most: how
    many it can have, where cells are repeated until an estimate is precise. left_s: how long the rest takes.
    """

    number: int
    total: int
    most: int
    spec: Spec
    state: str
    text: str
    left_s: float


@dataclass
class Tally:
    """How many cells are done, how many were skipped for each reason, and which are not done and why.

    troubles: status and reason of each cell that is not done. imprecise: cells whose estimate was not as precise as
    asked after at_most repetitions, and how precise it was. stopped: the sweep ended at the first failure, as asked.
    measurements: how many were made, those of cells that were measured again included; spoilt: why each of those did
    not count that did not.
    """

    unavailable: str
    done: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    not_done: list[str] = field(default_factory=list)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    imprecise: list[str] = field(default_factory=list)
    stopped: bool = False
    measurements: int = 0
    spoilt: list[str] = field(default_factory=list)

    def add_attempts(self, run: Run) -> None:
        """Counts the measurements that were made for this run, and those of them that did not count."""
        for attempt in run.facts.get("attempts", []):
            self.measurements += 1
            if attempt["reasons"]:
                self.spoilt.append("; ".join(attempt["reasons"]))

    @property
    def skipped(self) -> int:
        return self.skips.total()

    @property
    def good(self) -> bool:
        """Whether the sweep succeeded: see eta.succeeded."""
        return succeeded(self.done, len(self.not_done), self.skipped, self.unavailable)


def run(
    sweep: SweepFile,
    *,
    backend: str | None = None,
    retry: bool = False,
    wait: bool = True,
    stop_on_failure: bool | None = None,
    attempts: int | None = None,
    tell: Callable[[CellReport], None] = lambda report: None,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
    execute: Callable[[Spec], Run] | None = None,
    pool: WorkerPool | None = None,
) -> Tally:
    """Measures every cell that is not done yet; resumes where it was interrupted.

    retry: measure also the cells that failed or were invalid before, which are otherwise left and counted as not done.
    A cell that fails is stored with its reason, and the sweep continues, or ends there if stop_on_failure, by default
    as the file says; what failed in an earlier run does not stop it. attempts: how often a cell is measured at most
    while only the machine spoils it, by default as the file says. wait: for other measurements on this host (else
    HostBusy); say is called with whose, and with how many cells were measured on another ground, such as an older
    kernel, and are measured again. tell is called with each cell that has ended, progress with the phases of the one at
    work. execute: what measures a cell on this host, by default papermill on its notebook. pool: the workers of a Dask
    scheduler measure it instead; a cell is then done wherever it was measured, and a cell whose worker is lost is
    measured elsewhere, `attempts` times at most. Raises BadSweep before anything is measured, StoreError where runs
    cannot be stored, and Unavailable where there are no workers.
    """
    sweep = sweep_manifest.keep_auto(sweep, say)
    often = rules(sweep, backend)
    attempts = attempts or sweep.attempts
    stored = store.outcomes(stopping_rule.repetitions(often))
    statuses = in_store.statuses_of(stored) if pool is None else store.statuses_of(stored)
    if pool is not None:  # what one worker could not measure, another one may
        statuses = {spec: None if status == "skipped" else status for spec, status in statuses.items()}
    stop = sweep.on_failure == "stop" if stop_on_failure is None else stop_on_failure
    ledger = _Ledger(sweep, Schedule(often, to_measure(statuses, retry)), tell, stop)
    queue = BlockQueue(sweep, often, ledger.schedule, {} if pool is None else stored)
    if pool is None:
        for line in in_store.measured_elsewhere({spec: stored[spec] for spec in cells(sweep, backend)}):
            say(line)
    with store.running(sweep.name, sweep_manifest.backends(often)), kernels.kept():
        sweep_manifest.write(sweep, often, retry=retry, pool=pool)
        if pool is None:
            usual = partial(experiments.measure_cell, wait=wait, attempts=attempts, say=say, progress=progress)
            executor = LocalExecutor((lambda cell: execute(cell.spec)) if execute else usual, retry)
            _measure_here(executor, queue, ledger)
        else:
            _SharedSweep(pool, queue, ledger, attempts, say).measure()
    if not ledger.tally.stopped:
        ledger.tally.imprecise = ledger.schedule.imprecise()
    return ledger.tally


class _Ledger:
    """Keeps what became of each cell. activity: of those that measure it, where several do."""

    def __init__(self, sweep: SweepFile, schedule: Schedule, tell: Callable[[CellReport], None], stop: bool):
        self.schedule = schedule
        self.tally = Tally(sweep.unavailable)
        self.activity = WorkerActivity(sweep.name)
        self._tell = tell
        self._stop = stop
        self._costs: list[float] = []
        self._number = 0

    def add(self, spec: Spec, outcome: CellOutcome, took_s: float) -> None:
        """Counts a cell that has ended so, after so long."""
        tally = self.tally
        if outcome.state in ("done", "invalid", "failed") and not outcome.not_retried:
            self._costs.append(took_s - traffic_s(spec))
            if outcome.run:
                tally.add_attempts(outcome.run)
        if outcome.state in ("done", "stored"):
            tally.done += 1
        elif outcome.state == "skipped":
            tally.skips[outcome.text] += 1
        else:
            tally.not_done.append(f"{spec}: {outcome.text}")
            tally.troubles.append((outcome.state, outcome.text))
        self.schedule.add(spec, outcome.run)
        self._number += 1
        left_s = self.schedule.left_s(self._costs) / self.activity.at_work
        extent = self.schedule.total, self.schedule.most
        self._tell(CellReport(self._number, *extent, spec, outcome.state, outcome.text, left_s))
        tally.stopped = tally.stopped or (self._stop and outcome.state == "failed" and not outcome.not_retried)


def _measure_here(executor: LocalExecutor, queue: BlockQueue, ledger: _Ledger) -> None:
    while block := queue.next(executor.host):
        while block.left:
            begun = time.monotonic()
            spec = block.left.pop(0)
            ledger.add(spec, executor.measure_cell(spec), time.monotonic() - begun)
            if ledger.tally.stopped:
                return
        queue.requeue(block)


class _SharedSweep:
    """A sweep that the workers of a pool measure, each in a thread of its own. All decisions are made in this one."""

    def __init__(self, pool: WorkerPool, queue: BlockQueue, ledger: _Ledger, attempts: int, say: Callable[[str], None]):
        self._pool, self._queue, self._ledger = pool, queue, ledger
        self._attempts = attempts
        self._say = say
        self._idle: list[Executor] = []
        self._under_way: dict[Future[CellOutcome], tuple[Executor, Block, float]] = {}
        self._losses: Counter[Spec] = Counter()
        self._looked_at = -_LOOK_S

    def measure(self) -> None:
        """Returns when nothing is left to do. Raises what stopped a worker, and Unavailable as pool.arrived does."""
        with ThreadPoolExecutor(_MOST_WORKERS, "worker") as self._threads:
            try:
                while not (self._queue.finished or self._ledger.tally.stopped):
                    self._look()
                    self._give()
                    if not self._under_way:
                        time.sleep(_IDLE_S)
                    for each in futures.wait(self._under_way, _LOOK_S, futures.FIRST_COMPLETED).done:
                        self._end(each)
            finally:
                self._pool.stop()

    def _look(self) -> None:
        """Who has come, about once a second, and at once after somebody has left."""
        if time.monotonic() - self._looked_at >= _LOOK_S:
            self._idle += self._pool.arrived(self._say)
            self._ledger.activity.note()
            self._looked_at = time.monotonic()

    def _give(self) -> None:
        """A block to each that measures nothing; one that is lost leaves."""
        for worker in [*self._idle]:
            if worker.lost:
                self._idle.remove(worker)
                self._leave(worker, worker.lost)
            elif block := self._queue.next(worker.host):
                self._idle.remove(worker)
                self._begin(worker, block)

    def _begin(self, worker: Executor, block: Block) -> None:
        """The next cell of a block."""
        self._ledger.activity.begins(worker, block.left[0])
        future = self._threads.submit(worker.measure_cell, block.left[0])
        self._under_way[future] = worker, block, time.monotonic()

    def _end(self, future: Future[CellOutcome]) -> None:
        """What becomes of a cell, of the rest of its block, and of who measured it."""
        worker, block, begun = self._under_way.pop(future)
        spec, lost, outcome = block.left[0], None, None
        try:
            outcome = future.result()
        except WorkerLost as error:
            lost = error
            self._losses[spec] += error.measuring
            if error.measuring and self._losses[spec] >= self._attempts:
                outcome = self._given_up(spec, worker, error)
        if outcome:
            block.left.pop(0)
            if outcome.state != "stored" and not outcome.not_retried:
                self._ledger.activity.measured(worker)
            self._ledger.add(spec, outcome, time.monotonic() - begun)
        if self._ledger.tally.stopped:
            return
        if block.left and not lost:
            self._begin(worker, block)
            return
        self._queue.requeue(block)
        if lost:
            self._leave(worker, str(lost))
        else:
            self._ledger.activity.waits(worker)
            self._idle.append(worker)

    def _given_up(self, spec: Spec, worker: Executor, error: WorkerLost) -> CellOutcome:
        """The cell has failed, as every worker was lost that measured it."""
        count = "1 worker was" if self._attempts == 1 else f"{self._attempts} workers were"
        why = f"{count} lost while measuring it, the last one: {error}"
        run = Run(spec, "failed", (why,), datetime.now(UTC), facts={"host": dict(worker.facts)})
        return CellOutcome("failed", why, store.write(run))

    def _leave(self, worker: Executor, why: str) -> None:
        self._say(f"{worker.name}: {why}")
        self._ledger.activity.leaves(worker)
        self._pool.leave(worker)
        self._looked_at = -_LOOK_S  # it may be back, or another one in its place
