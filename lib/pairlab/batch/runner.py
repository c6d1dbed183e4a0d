"""Sweeps: measures the cells of a sweep file, block after block, and resumes where it was interrupted.

A block holds cells of one repetition that are compared with each other, and begin within ten minutes (blocks). An
executor measures a whole block, one cell directly after the other; several executors have several blocks under way.
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
from pairlab.base.caller import caller_with
from pairlab.batch import experiments, kernels, stopping_rule, sweep_manifest
from pairlab.batch.executors.executor import CellOutcome, LocalExecutor, WorkerLost
from pairlab.batch.executors.workers import Worker, WorkerActivity, WorkerPool
from pairlab.batch.schedule import Block, BlockQueue, Schedule, estimate_s, succeeded, to_measure
from pairlab.batch.sweep_file import SweepFile, cells, load, rules
from pairlab.measurement.estimate import measured_elsewhere, traffic_s
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import environment
from pairlab.testbed.contracts import Progress, no_progress

__all__ = ["CellReport", "SweepFile", "Tally", "cells", "estimate_s", "load", "rules", "run"]


#: The interval between looks for new workers, and the pause while no worker measures.
_LOOK_S, _IDLE_S = 1.0, 0.05
#: Most workers of a sweep: each takes a thread, which sleeps while the worker measures.
_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class CellReport:
    """A cell that ended, and the sweep's progress. state: done, stored (done before), invalid, failed, skipped.

    text: the result, or the reason for having none. total: expected number of cells of the sweep; most: the largest
    possible number, where cells are repeated until an estimate is precise. left_s: estimated time of the rest.
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
    """Number of cells done, number skipped by reason, and the cells that are not done, with reasons.

    troubles: status and reason of each cell that is not done. imprecise: cells whose estimate was less precise than
    requested after at_most repetitions, with the precision reached. stopped: the sweep ended at the first failure, as
    requested. measurements: number of measurements, repeated ones included; disturbed: reasons of those that did not
    count.
    """

    unavailable: str
    done: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    not_done: list[str] = field(default_factory=list)
    troubles: list[tuple[str, str]] = field(default_factory=list)
    imprecise: list[str] = field(default_factory=list)
    stopped: bool = False
    measurements: int = 0
    disturbed: list[str] = field(default_factory=list)

    def add(self, spec: Spec, outcome: CellOutcome) -> None:
        """Counts a cell with this outcome, and the cell's measurements."""
        if outcome.state in ("done", "stored"):
            self.done += 1
        elif outcome.state == "skipped":
            self.skips[outcome.text] += 1
        else:
            self.not_done.append(f"{spec}: {outcome.text}")
            self.troubles.append((outcome.state, outcome.text))
        for attempt in outcome.run.facts.get("attempts", []) if outcome.measured and outcome.run else ():
            self.measurements += 1
            if attempt["reasons"]:
                self.disturbed.append("; ".join(attempt["reasons"]))

    @property
    def skipped(self) -> int:
        return self.skips.total()

    @property
    def good(self) -> bool:
        return succeeded(self.done, len(self.not_done), self.skipped, self.unavailable)


def run(
    sweep: SweepFile,
    *,
    backend: str | None = None,
    retry: bool = False,
    wait: bool = True,
    stop_on_failure: bool | None = None,
    attempts: int | None = None,
    where: Callable[[Spec], bool] = lambda spec: True,
    tell: Callable[[CellReport], None] = lambda report: None,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = no_progress,
    execute: Callable[[Spec], Run] | None = None,
    pool: WorkerPool | None = None,
) -> Tally:
    """Measures every cell that is not done yet; resumes an interrupted sweep.

    retry: measure also cells that failed or were invalid before; by default they stay, and count as not done. A failed
    cell is stored with the reason, and the sweep continues, or ends there with stop_on_failure (default: as in the
    file); failures of an earlier run do not stop the sweep. attempts: most measurements of a cell that other load
    disturbs (default: as in the file). where: selects the cells to measure now; the sweep still has all cells. wait:
    for other measurements on this host (else HostBusy); say is called with their owner, and with the number of cells
    that are measured again because the environment differs, such as an older kernel. tell is called with each cell that
    has ended, progress with the phases of the current cell. execute: measures a cell on this host, by default with
    papermill and the notebook. pool: workers of a Dask scheduler that measure instead; a cell then counts on whatever
    host it was measured, and a cell of a lost worker is measured elsewhere, at most `attempts` times. Raises BadSweep
    before the first measurement, StoreError where runs cannot be stored, and Unavailable without workers.
    """
    sweep = sweep_manifest.keep_auto(sweep, say)
    all_rules = rules(sweep, backend)
    selected = {spec: rule for spec, rule in all_rules.items() if where(spec)}
    attempts = attempts or sweep.attempts
    stored = store.outcomes(stopping_rule.repetitions(selected))
    if pool is None:
        statuses = store.statuses_of(stored, environment.here)
        for line in measured_elsewhere(
            {spec: stored[spec] for spec in cells(sweep, backend) if where(spec.replace(repetition=0))}
        ):
            say(line)
    else:  # a cell that one worker could not measure may suit another
        statuses = store.statuses_of(stored)
        statuses = {spec: None if status == "skipped" else status for spec, status in statuses.items()}
    stop = sweep.on_failure == "stop" if stop_on_failure is None else stop_on_failure
    ledger = _Ledger(sweep, Schedule(selected, to_measure(statuses, retry)), tell, stop)
    queue = BlockQueue(sweep, selected, ledger.schedule, {} if pool is None else stored)
    with store.running(sweep.name, sweep_manifest.backends(selected)), kernels.kept():
        in_file = rules(sweep.as_written(), backend)
        remembered = {spec: max(rule, in_file[spec], key=stopping_rule.most) for spec, rule in all_rules.items()}
        sweep_manifest.write(sweep, remembered, retry=retry, pool=pool)
        if pool is None:
            usual = partial(experiments.measure_cell, wait=wait, attempts=attempts, say=say, progress=progress)
            _measure_here(LocalExecutor((lambda cell: execute(cell.spec)) if execute else usual, retry), queue, ledger)
        else:
            pool.begin(selected, attempts=attempts, retry=retry, wait=wait)
            _SharedSweep(pool, queue, ledger, attempts, say).measure()
    if not ledger.tally.stopped:
        ledger.tally.imprecise = ledger.schedule.imprecise()
    return ledger.tally


class _Ledger:
    """The outcomes of cells. activity: of the workers, in a shared sweep."""

    def __init__(self, sweep: SweepFile, schedule: Schedule, tell: Callable[[CellReport], None], stop: bool):
        self.schedule = schedule
        self.tally = Tally(sweep.unavailable)
        self.activity = WorkerActivity(sweep.name)
        self._tell, self._stop = tell, stop
        self._costs: list[float] = []
        self._number = 0

    def add(self, spec: Spec, outcome: CellOutcome, took_s: float) -> None:
        """Counts a cell with this outcome, which took so long."""
        if outcome.measured:
            self._costs.append(took_s - traffic_s(spec))
        self.tally.add(spec, outcome)
        self.schedule.add(spec, outcome.run)
        self._number += 1
        left_s = self.schedule.left_s(self._costs) / self.activity.at_work
        extent = self.schedule.total, self.schedule.most
        self._tell(CellReport(self._number, *extent, spec, outcome.state, outcome.text, left_s))
        self.tally.stopped = self.tally.stopped or (self._stop and outcome.measured and outcome.state == "failed")


def _measure_here(executor: LocalExecutor, queue: BlockQueue, ledger: _Ledger) -> None:
    while block := queue.next(executor.host):
        while block.left:
            begun = time.monotonic()
            spec = block.left.pop(0)
            with caller_with(block=block.label):
                outcome = executor.measure_cell(spec)
            ledger.add(spec, outcome, time.monotonic() - begun)
            if ledger.tally.stopped:
                return
        queue.requeue(block)


class _SharedSweep:
    """A sweep that a pool of workers measures, with a thread for each. All decisions are made in this thread."""

    def __init__(self, pool: WorkerPool, queue: BlockQueue, ledger: _Ledger, attempts: int, say: Callable[[str], None]):
        self._pool, self._queue, self._ledger = pool, queue, ledger
        self._attempts, self._say = attempts, say
        self._idle: list[Worker] = []
        self._under_way: dict[Future[CellOutcome], tuple[Worker, Block, float]] = {}
        self._losses: Counter[Spec] = Counter()
        self._looked_at = -_LOOK_S

    def measure(self) -> None:
        """Returns when nothing is left to do. Raises a worker's error, and Unavailable as pool.arrived does."""
        with ThreadPoolExecutor(_MOST_WORKERS, "worker") as self._threads:
            try:
                while not (self._queue.finished or self._ledger.tally.stopped):
                    self._look()
                    self._assign()
                    if not self._under_way:
                        time.sleep(_IDLE_S)
                    for each in futures.wait(self._under_way, _LOOK_S, futures.FIRST_COMPLETED).done:
                        self._end(each)
            finally:
                self._pool.stop()

    def _look(self) -> None:
        """Takes in new workers, about once a second, and at once after the loss of a worker."""
        if time.monotonic() - self._looked_at >= _LOOK_S:
            self._idle += self._pool.arrived(self._say)
            self._ledger.activity.save()
            self._looked_at = time.monotonic()

    def _assign(self) -> None:
        """Gives each idle worker a block; removes lost workers."""
        for worker in [*self._idle]:
            if worker.lost:
                self._idle.remove(worker)
                self._remove(worker, worker.lost)
            elif block := self._queue.next(worker.host):
                self._idle.remove(worker)
                self._begin(worker, block)

    def _begin(self, worker: Worker, block: Block, measured: int = 0) -> None:
        """Starts the next cell of the block. measured: cells that the worker has just measured."""
        self._ledger.activity.set(worker, block.left[0], measured=measured)
        future = self._threads.submit(worker.measure_cell, block.left[0], block.label)
        self._under_way[future] = worker, block, time.monotonic()

    def _end(self, future: Future[CellOutcome]) -> None:
        """Handles the end of a cell: the outcome, the rest of the block, and the worker."""
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
            self._ledger.add(spec, outcome, time.monotonic() - begun)
        measured = int(outcome is not None and outcome.measured)
        if self._ledger.tally.stopped:
            return
        if block.left and not lost:
            self._begin(worker, block, measured)
            return
        self._queue.requeue(block)
        if lost:
            self._remove(worker, str(lost))
        else:
            self._ledger.activity.set(worker, None, measured=measured)
            self._idle.append(worker)

    def _given_up(self, spec: Spec, worker: Worker, error: WorkerLost) -> CellOutcome:
        """The outcome `failed` of a cell whose measurements all lost their worker."""
        count = "1 worker was" if self._attempts == 1 else f"{self._attempts} workers were"
        why = f"{count} lost while measuring it, the last one: {error}"
        run = Run(spec, "failed", (why,), datetime.now(UTC), facts={"host": dict(worker.facts)})
        return CellOutcome("failed", why, store.write(run))

    def _remove(self, worker: Worker, why: str) -> None:
        self._say(f"{worker.name}: {why}")
        self._ledger.activity.remove(worker)
        self._pool.remove(worker)
        self._looked_at = -_LOOK_S  # the worker may be back, or a replacement
