"""Sweeps: measures the cells of a sweep file one after another, and resumes where it was interrupted."""

import itertools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from pairlab import store
from pairlab.batch import experiments, kernels, stopping_rule, sweep_manifest
from pairlab.batch.eta import OVERHEAD_S, Schedule, estimate_s, succeeded, to_measure, traffic_s
from pairlab.batch.sweep_file import SweepFile, block, cells, load, rules
from pairlab.errors import BadSpec, HostBusy, PairlabError, StoreError, Unavailable
from pairlab.measurement import in_store
from pairlab.measurement.measure import check, note
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.testbed import registry
from pairlab.testbed.contracts import Progress, silent

__all__ = [
    "OVERHEAD_S",
    "CellReport",
    "Executor",
    "SweepFile",
    "Tally",
    "cells",
    "estimate_s",
    "execute_here",
    "load",
    "rules",
    "run",
]

#: Measures one cell and returns its run, or raises why not. Another executor may send it to another host.
Executor = Callable[[Spec], Run]


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


def execute_here(
    spec: Spec,
    *,
    wait: bool = True,
    attempts: int = 1,
    say: Callable[[str], None] = lambda text: None,
    progress: Progress = silent,
) -> Run:
    """The executor that measures on this host: papermill on the experiment's notebook."""
    values = spec.model_dump(include=set(experiments.defaults(spec.experiment)))
    return experiments.run(spec.experiment, values, wait=wait, attempts=attempts, say=say, progress=progress)


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
) -> Tally:
    """Measures every cell that is not done yet, one after another; resumes where it was interrupted.

    retry: measure also the cells that failed or were invalid before, which are otherwise left and counted as not done.
    A cell that fails is stored with its reason, and the sweep continues, or ends there if stop_on_failure, by default
    as the file says; what failed in an earlier run does not stop it. attempts: how often a cell is measured at most
    while only the machine spoils it, by default as the file says. wait: for other measurements on this host (else
    HostBusy); say is called with whose, and with how many cells were measured on another ground, such as an older
    kernel, and are measured again. tell is called with each cell that has ended, progress with the phases of the one at
    work. execute: by default `execute_here`. Raises BadSweep before anything is measured, and StoreError where runs
    cannot be stored.
    """
    sweep = sweep_manifest.keep_auto(sweep, say)
    often = rules(sweep, backend)
    schedule = Schedule(often, to_measure(stopping_rule.repetitions(often), retry))
    here = partial(execute_here, wait=wait, attempts=attempts or sweep.attempts, say=say, progress=progress)
    finish = _Finisher(execute or here, retry)
    stop = sweep.on_failure == "stop" if stop_on_failure is None else stop_on_failure
    for line in in_store.measured_elsewhere(cells(sweep, backend)):
        say(line)
    with store.running(sweep.name, sweep_manifest.backends(often)), kernels.kept():
        sweep_manifest.write(sweep, often, retry=retry)
        return _measure(sweep, schedule, finish, stop, tell)


def _measure(
    sweep: SweepFile, schedule: Schedule, finish: "_Finisher", stop: bool, tell: Callable[[CellReport], None]
) -> Tally:
    """Finishes cell after cell, block by block, until no cell needs another repetition."""
    tally = Tally(sweep.unavailable)
    costs: list[float] = []
    numbers = itertools.count(1)
    for number in itertools.count():
        visited = block(sweep, number, schedule.due(number))
        for spec in visited:
            begun = time.monotonic()
            state, text, run = finish(spec)
            if state in ("done", "invalid", "failed") and not finish.kept:
                costs.append(time.monotonic() - begun - traffic_s(spec))
                if run:
                    tally.add_attempts(run)
            if state in ("done", "stored"):
                tally.done += 1
            elif state == "skipped":
                tally.skips[text] += 1
            else:
                tally.not_done.append(f"{spec}: {text}")
                tally.troubles.append((state, text))
            schedule.add(spec, run)
            left_s = schedule.left_s(costs)
            tell(CellReport(next(numbers), schedule.total, schedule.most, spec, state, text, left_s))
            if stop and state == "failed" and not finish.kept:
                tally.stopped = True
                return tally
        if not visited:
            tally.imprecise = schedule.imprecise()
            return tally


class _Finisher:
    """Measures one cell after another, where needed. kept: the last one was not tried, as it failed before."""

    def __init__(self, execute: Executor, retry: bool):
        self._execute = execute
        self._retry = retry
        self._available: set[str] = set()
        self.kept = False

    def __call__(self, spec: Spec) -> tuple[str, str, Run | None]:
        """The state of the cell, its result or reason as text, and its run if one was measured."""
        stored = in_store.find(spec)
        self.kept = bool(stored and stored.status in ("failed", "invalid") and not self._retry)
        if stored and stored.status == "ok":
            return "stored", _figures(stored), stored
        if self.kept:
            return stored.status, f"kept from before ({'; '.join(stored.reasons)})", stored
        try:
            _check_host(spec)
            self._available.add(spec.backend)
            run = self._execute(spec)
        except Unavailable as error:
            if spec.backend in self._available and registry.backends.get(spec.backend)().lacks():
                return self._failed(spec, stored, f"backend {spec.backend!r} is no longer available: {error}")
            if not stored or (stored.status, stored.reasons) != ("skipped", (str(error),)):
                note(spec, "skipped", str(error))
            return "skipped", str(error), None
        except (HostBusy, StoreError):  # the next cell would end the same
            raise
        except PairlabError as error:
            return self._failed(spec, stored, str(error))
        if run.status == "ok":
            return "done", _figures(run), run
        return run.status, "; ".join(run.reasons), run

    def _failed(self, spec: Spec, before: Run | None, reason: str) -> tuple[str, str, None]:
        now = store.latest(spec)
        measured = now is not None and not (before and now.measured_at == before.measured_at)
        if not measured or now.status == "skipped":  # otherwise measure() has stored it
            note(spec, "failed", reason)
        return "failed", reason, None


def _check_host(spec: Spec) -> None:
    """Raises Unavailable where this host cannot do it: also for more cores than it has, as the cell as such is fine."""
    try:
        check(spec)
    except BadSpec as error:
        raise Unavailable(str(error)) from error


def _figures(run: Run) -> str:
    failed = f", {run.failed_flows} of {len(run.flows)} flows failed" if run.failed_flows else ""
    return f"{run.outcome}{failed}"
