"""Sweeps: measures the cells of a plan one after another, and goes on where it was interrupted."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from pairlab import experiments, started, store
from pairlab.course import OVERHEAD_S, Course, estimate_s, measured_again, traffic_s, well_done
from pairlab.errors import BadSpec, HostBusy, PairlabError, StoreError, Unavailable
from pairlab.measurement import check
from pairlab.plan import SweepFile, block, cells, load, rules
from pairlab.records import Run
from pairlab.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.contracts import Progress, silent

__all__ = [
    "OVERHEAD_S",
    "Executor",
    "Report",
    "SweepFile",
    "Tally",
    "cells",
    "estimate_s",
    "here",
    "load",
    "rules",
    "run",
]

#: Measures one cell and returns its run, or raises why not. Another executor may send it to another host.
Executor = Callable[[Spec], Run]


@dataclass(frozen=True)
class Report:
    """Where a sweep stands after a cell. state: done, stored (done before), invalid, failed or skipped.

    total: how many cells it will have, as far as is known; most: how many it can have, where cells are repeated until
    an estimate is known.
    """

    number: int
    total: int
    most: int
    spec: Spec
    state: str
    told: str
    left_s: float


@dataclass
class Tally:
    """How many cells ended how: done, skipped for each reason, and the names of those that are not done.

    imprecise: cells whose estimate was not known closely enough after at_most repetitions, and how closely it was.
    stopped: the sweep ended at the first failure, as it was told to.
    """

    unavailable: str
    done: int = 0
    skips: Counter[str] = field(default_factory=Counter)
    not_done: list[str] = field(default_factory=list)
    imprecise: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def skipped(self) -> int:
        return self.skips.total()

    @property
    def good(self) -> bool:
        """Whether the sweep is done as it should be: course.well_done."""
        return well_done(self.done, len(self.not_done), self.skipped, self.unavailable)


def here(
    spec: Spec, *, wait: bool = True, say: Callable[[str], None] = lambda text: None, progress: Progress = silent
) -> Run:
    """The executor that measures on this host: papermill on the experiment's notebook."""
    values = spec.model_dump(include=set(experiments.defaults(spec.experiment)))
    return experiments.run(spec.experiment, values, wait=wait, say=say, progress=progress)


def run(
    sweep: SweepFile,
    *,
    backend: str | None = None,
    retry: bool = False,
    wait: bool = True,
    stop_on_failure: bool | None = None,
    tell: Callable[[Report], None] = lambda report: None,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
    execute: Executor | None = None,
) -> Tally:
    """Measures every cell that is not done yet, one after another; resumes where it was interrupted.

    retry: also those that failed or were invalid before, which are else kept and counted as not done. A cell that
    fails is kept with its reason, and the sweep goes on, or ends there: stop_on_failure, by default as the file says;
    what failed in an earlier run does not stop it. wait: for other measurements on this host (else HostBusy); say hears
    whose. tell hears of each cell that has ended, progress of the phases of the one that is measured. execute: by
    default `here`. Raises BadSweep before anything is measured, and StoreError where runs cannot be stored.
    """
    often = rules(sweep, backend)
    again = measured_again(retry)
    course = Course(often, lambda spec: store.status(spec) in again)
    settle = _Settler(execute or partial(here, wait=wait, say=say, progress=progress), retry)
    stop = sweep.on_failure == "stop" if stop_on_failure is None else stop_on_failure
    backends = started.note(sweep, often, retry=retry)
    with store.running(sweep.name, backends):
        return _measure(sweep, course, settle, stop, tell)


def _measure(sweep: SweepFile, course: Course, settle: "_Settler", stop: bool, tell: Callable[[Report], None]) -> Tally:
    """Brings cell after cell to an end, block by block, until no cell needs another repetition."""
    tally = Tally(sweep.unavailable)
    costs: list[float] = []
    numbers = itertools.count(1)
    for number in itertools.count():
        visited = block(sweep, number, course.going_on(number))
        for spec in visited:
            begun = time.monotonic()
            state, told, run = settle(spec)
            if state in ("done", "invalid", "failed") and not settle.kept:
                costs.append(time.monotonic() - begun - traffic_s(spec))
            if state in ("done", "stored"):
                tally.done += 1
            elif state == "skipped":
                tally.skips[told] += 1
            else:
                tally.not_done.append(f"{spec}: {told}")
            course.settled(spec, run)
            tell(Report(next(numbers), course.total, course.most, spec, state, told, course.left_s(costs)))
            if stop and state == "failed" and not settle.kept:
                tally.stopped = True
                return tally
        if not visited:
            tally.imprecise = course.imprecise()
            return tally


class _Settler:
    """Brings one cell after another to an end. kept: the last one was not tried, as it failed before."""

    def __init__(self, execute: Executor, retry: bool):
        self._execute = execute
        self._retry = retry
        self._there: set[str] = set()
        self.kept = False

    def __call__(self, spec: Spec) -> tuple[str, str, Run | None]:
        """What became of the cell, a line about it, and its run where there is one that was measured."""
        stored = store.find(spec)
        self.kept = bool(stored and stored.status in ("failed", "invalid") and not self._retry)
        if stored and stored.status == "ok":
            return "stored", _figures(stored), stored
        if self.kept:
            return stored.status, f"kept from before ({'; '.join(stored.reasons)})", stored
        try:
            _check_host(spec)
            self._there.add(spec.backend)
            run = self._execute(spec)
        except Unavailable as error:
            if spec.backend in self._there and registry.backends.get(spec.backend)().lacks():
                return self._failed(spec, stored, f"backend {spec.backend!r} went away: {error}")
            if not stored or (stored.status, stored.reasons) != ("skipped", (str(error),)):
                store.write(Run(spec, "skipped", (str(error),), datetime.now(UTC)))
            return "skipped", str(error), None
        except (HostBusy, StoreError):  # the next cell would fare no better
            raise
        except PairlabError as error:
            return self._failed(spec, stored, str(error))
        if run.status == "ok":
            return "done", _figures(run), run
        return run.status, "; ".join(run.reasons), run

    def _failed(self, spec: Spec, before: Run | None, told: str) -> tuple[str, str, None]:
        now = store.find(spec)
        measured = now is not None and not (before and now.measured_at == before.measured_at)
        if not measured or now.status == "skipped":  # else measure() has kept it
            store.write(Run(spec, "failed", (told,), datetime.now(UTC)))
        return "failed", told, None


def _check_host(spec: Spec) -> None:
    """Raises Unavailable where this host cannot do it: also for more cores than it has, as the cell as such is fine."""
    try:
        check(spec)
    except BadSpec as error:
        raise Unavailable(str(error)) from error


def _figures(run: Run) -> str:
    failed = f", {run.failed_flows} of {len(run.flows)} flows failed" if run.failed_flows else ""
    return f"{run.outcome}{failed}"
