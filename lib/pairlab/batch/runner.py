"""Sweeps: measures the cells of a sweep file, block after block, and resumes where it was interrupted.

A block is all cells of one repetition (executors/blocks.py). A place measures a block as a whole, so that what is
compared within a repetition was measured on one host; with several places, several blocks are under way.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from pairlab import store
from pairlab.batch import kernels, stopping_rule, sweep_manifest
from pairlab.batch.eta import OVERHEAD_S, Schedule, estimate_s, succeeded, to_measure, traffic_s
from pairlab.batch.executors import here
from pairlab.batch.executors.blocks import Blocks
from pairlab.batch.executors.here import Executor, Here
from pairlab.batch.executors.places import SWEEP_ENDED, Ended, Place, PlaceLost, Places
from pairlab.batch.executors.roster import Roster
from pairlab.batch.sweep_file import SweepFile, cells, load, rules
from pairlab.measurement import in_store
from pairlab.model.ground import Ground
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed.contracts import Progress, silent

__all__ = ["OVERHEAD_S", "CellReport", "SweepFile", "Tally", "cells", "estimate_s", "load", "rules", "run"]


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
    execute: Executor | None = None,
    places: Places | None = None,
) -> Tally:
    """Measures every cell that is not done yet; resumes where it was interrupted.

    retry: measure also the cells that failed or were invalid before, which are otherwise left and counted as not done.
    A cell that fails is stored with its reason, and the sweep continues, or ends there if stop_on_failure, by default
    as the file says; what failed in an earlier run does not stop it. attempts: how often a cell is measured at most
    while only the machine spoils it, by default as the file says. wait: for other measurements on this host (else
    HostBusy); say is called with whose, and with how many cells were measured on another ground, such as an older
    kernel, and are measured again. tell is called with each cell that has ended, progress with the phases of the one at
    work. execute: what measures a cell on this host, by default papermill on its notebook. places: measure there
    instead, such as the workers of a Dask scheduler; a cell is then done wherever it was measured, and a cell whose
    place is lost is measured elsewhere, `attempts` times at most. Raises BadSweep before anything is measured,
    StoreError where runs cannot be stored, and Unavailable where there are no places.
    """
    sweep = sweep_manifest.keep_auto(sweep, say)
    often = rules(sweep, backend)
    attempts = attempts or sweep.attempts
    every = list(stopping_rule.repetitions(often))
    found = {} if places is None else store.outcomes(every)
    pending = to_measure(every, retry) if places is None else _open(found, retry)
    stop = sweep.on_failure == "stop" if stop_on_failure is None else stop_on_failure
    book = _Book(sweep, Schedule(often, pending), tell, stop)
    blocks = Blocks(sweep, often, book.schedule, found)
    if places is None:
        for line in in_store.measured_elsewhere(cells(sweep, backend)):
            say(line)
    with store.running(sweep.name, sweep_manifest.backends(often)), kernels.kept():
        sweep_manifest.write(sweep, often, retry=retry, places=places)
        if places is None:
            measure = partial(here.execute, wait=wait, attempts=attempts, say=say, progress=progress)
            _work(Here(execute or measure, retry), blocks, book, attempts)
        else:
            book.roster = Roster(sweep.name)
            _work_on(places, partial(_work, blocks=blocks, book=book, attempts=attempts), blocks, book, say)
    if not book.tally.stopped:
        book.tally.imprecise = book.schedule.imprecise()
    return book.tally


def _open(found: dict[Spec, list[tuple[str, Ground]]], retry: bool) -> list[Spec]:
    """The cells that are to be measured, of these and what the store has of them, from whatever host."""
    closed = {"ok"} if retry else {"ok", "failed", "invalid"}
    return [spec for spec, its in found.items() if not closed & {status for status, _ in its}]


class _Book:
    """Keeps what became of each cell, for all places at once."""

    def __init__(self, sweep: SweepFile, schedule: Schedule, tell: Callable[[CellReport], None], stop: bool):
        self.schedule = schedule
        self.tally = Tally(sweep.unavailable)
        self.roster: Roster | None = None
        self._tell = tell
        self._stop = stop
        self._costs: list[float] = []
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def add(self, spec: Spec, ended: Ended, took_s: float) -> bool:
        """Counts a cell that has ended so, after so long. Whether the sweep goes on."""
        with self._lock:
            tally = self.tally
            if ended.state in ("done", "invalid", "failed") and not ended.kept:
                self._costs.append(took_s - traffic_s(spec))
                if ended.run:
                    tally.add_attempts(ended.run)
            if ended.state in ("done", "stored"):
                tally.done += 1
            elif ended.state == "skipped":
                tally.skips[ended.text] += 1
            else:
                tally.not_done.append(f"{spec}: {ended.text}")
                tally.troubles.append((ended.state, ended.text))
            self.schedule.add(spec, ended.run)
            left_s = self.schedule.left_s(self._costs) / (self.roster.at_work if self.roster else 1)
            extent = self.schedule.total, self.schedule.most
            self._tell(CellReport(next(self._numbers), *extent, spec, ended.state, ended.text, left_s))
            tally.stopped = tally.stopped or (self._stop and ended.state == "failed" and not ended.kept)
            return not tally.stopped


def _work(place: Place, blocks: Blocks, book: _Book, attempts: int) -> None:
    """That place measures block after block, until none is left for it. Raises PlaceLost where it can no more."""
    while (given := blocks.take(place)) is not None:
        while given.left:
            spec = given.left[0]
            begun = time.monotonic()
            if book.roster:
                book.roster.begins(place.name, spec)
            lost = None
            try:
                ended = place.finish(spec)
            except PlaceLost as error:
                lost = error
                if not error.measuring or blocks.lost(spec) < attempts:
                    blocks.give_back(given)
                    raise
                count = "1 place was" if attempts == 1 else f"{attempts} places were"
                ended = _given_up(spec, place, f"{count} lost while measuring it, the last one: {lost}")
            given.left.pop(0)
            if book.roster and ended.state != "stored" and not ended.kept:
                book.roster.measured(place.name)
            if not book.add(spec, ended, time.monotonic() - begun):
                blocks.stop()
                return
            if lost:
                blocks.give_back(given)
                raise lost
        if book.roster:
            book.roster.waits(place.name)
        blocks.end(given)
    if place.lost:
        raise PlaceLost(place.lost, measuring=False)


def _given_up(spec: Spec, place: Place, why: str) -> Ended:
    run = Run(spec, "failed", (why,), datetime.now(UTC), facts={"host": dict(place.facts)})
    return Ended("failed", why, store.write(run))


def _work_on(
    places: Places, work: Callable[[Place], None], blocks: Blocks, book: _Book, say: Callable[[str], None]
) -> None:
    """All places work, each in a thread, those that come later, too; returns when nothing is left to do.

    Raises what stopped one of them, and Unavailable where there was none for as long as `places` waits.
    """
    troubles: list[BaseException] = []

    def run(place: Place) -> None:
        try:
            work(place)
        except PlaceLost as lost:
            if str(lost) != SWEEP_ENDED:
                say(f"{place.name}: {lost}")
        except BaseException as error:
            troubles.append(error)
        finally:
            places.leave(place)
            if book.roster:
                book.roster.leaves(place.name)
            blocks.wake()

    threads = []
    try:
        while not (blocks.finished or troubles):
            for place in places.arrived(say):
                threads.append(threading.Thread(target=run, args=(place,), name=place.name, daemon=True))
                threads[-1].start()
            if book.roster:
                book.roster.note()
            blocks.wake()  # places that wait for a block may be lost
            blocks.wait(1.0)
    finally:
        blocks.stop()
        places.stop()
        for thread in threads:
            thread.join()
    if troubles:
        raise troubles[0]
