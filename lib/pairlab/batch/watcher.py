"""Boards of a sweep, one after another, from the store alone; each reads only the new runs.

So they also cover a sweep of another process or another host that shares the store, and one that was killed. A watcher
measures nothing and takes no lock.
"""

import contextlib
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pairlab import paths, store
from pairlab.batch import stopping_rule, sweep_manifest
from pairlab.batch.board import Board, Count, Part, Result
from pairlab.batch.executors.workers import WorkerState
from pairlab.batch.schedule import Schedule, left_s
from pairlab.batch.stopping_rule import Rule, Until
from pairlab.batch.sweep_manifest import Manifest
from pairlab.errors import StoreError
from pairlab.measurement.estimate import traffic_s
from pairlab.model import reasons
from pairlab.model.records import Run
from pairlab.model.spec import Spec
from pairlab.model.summaries import MainValue, main_value

#: How many results a board lists.
_NEWEST = 5
#: Without locks, a sweep counts as not running after this silence, and after the time of so many cells.
_SILENT_S, _SILENT_CELLS = 60.0, 3


class Watcher:
    """Boards of one sweep, one after another; each after the first reads only the runs since the one before."""

    def __init__(self, name: str, *, backend: str | None = None, root: str | Path | None = None):
        self.sweep = f"{name}/{backend}" if backend else name
        self._root = paths.existing(root) if root else paths.runs()
        self._starts: Mapping[str, Any] = {}
        self._view: _View | None = None

    def board(self) -> Board:
        """The present board. Raises NoRuns if the sweep was never started, and StoreError."""
        starts = store.starts_of_sweep(self.sweep, self._root)
        if self._view is None or starts != self._starts:
            manifests = {backend: sweep_manifest.read(start, self.sweep) for backend, start in starts.items()}
            self._view, self._starts = _View(self.sweep.partition("/")[0], manifests, self._root), starts
        return self._view.board()


class _View:
    """A sweep since the latest start, with the stored runs."""

    def __init__(self, name: str, starts: Mapping[str, Manifest], root: Path):
        self._name, self._starts, self._root = name, starts, root
        self._start = max(starts.values(), key=attrgetter("at"))
        self._shared = not self._start.ground.host
        self._rules: dict[Spec, Rule] = {
            cell.spec: cell.rule
            for backend, start in starts.items()
            for cell in start.cells
            if cell.spec.backend == backend
        }
        repetitions = list(stopping_rule.repetitions(self._rules))
        self._keys: dict[Spec, list[str]] = {spec: [] for spec in self._rules}
        self._cells: dict[str, Spec] = {}
        for spec in repetitions:
            cell = self._cells[spec.key] = spec.replace(repetition=0)
            self._keys[cell].append(spec.key)
        self._follower = store.Follower(repetitions, root, lambda spec: starts[spec.backend].ground)
        self._schedule = Schedule(self._rules, repetitions)
        self._values: dict[tuple[str, Until | None], Any] = {}
        self._counts = {spec: self._count(spec) for spec in self._rules}
        self._board: Board | None = None

    def board(self) -> Board:
        locks = [store.is_running(self._name, backend, self._root) for backend in self._starts]
        changed = self._follower.look()  # after the locks: all results of a sweep that ends in between are read
        self._values = {of: value for of, value in self._values.items() if of[0] not in changed}
        for spec in {self._cells[key] for key in changed}:
            self._counts[spec] = self._count(spec)
        if changed or self._board is None:
            self._board = self._read()
        running, died = self._life(locks, self._board)
        return replace(self._board, running=running, died=died, workers=self._workers() if running else ())

    def _life(self, locks: Sequence[bool | None], board: Board) -> tuple[bool, bool]:
        """Whether the sweep runs, and whether its process died: by the sweep's locks.

        In a store that was copied from another host: by the age of the newest result.
        """
        if any(locks):
            return True, False
        if None not in locks and self._start.host == platform.node():
            return False, board.count.left > 0
        silent_s = (datetime.now(UTC) - board.heard_at).total_seconds()
        return silent_s < max(_SILENT_S, _SILENT_CELLS * (board.cell_s or 0.0)), False

    def _workers(self) -> tuple[WorkerState, ...]:
        """The workers of a shared sweep; none if another version of pairlab noted them."""
        noted = store.workers_of_sweep(self._name, self._root) if self._shared else []
        with contextlib.suppress(ValidationError):
            return tuple(sorted(TypeAdapter(list[WorkerState]).validate_python(noted), key=attrgetter("name")))
        return ()

    def _read(self) -> Board:
        start = self._start
        timed = [(run.measured_at, run) for run in self._follower.runs.values() if run.measured_at]
        timed.sort(key=itemgetter(0))
        gaps = [  # from each cell measured since the latest start to the next
            (run.spec, (after - begun).total_seconds())
            for (begun, run), (after, _) in pairwise(timed)
            if begun >= start.at and run.status != "skipped"
        ]
        newest = [self._result(run, when, first=not n) for n, (when, run) in enumerate(timed[: -_NEWEST - 1 : -1])]
        parts: dict[tuple[str, str, str], Count] = {}
        for spec, count in self._counts.items():
            part = spec.backend, spec.experiment, spec.driver
            parts[part] = parts.get(part, Count()) + count
        return Board(
            name=self._name,
            backend=", ".join(sorted({spec.backend for spec in self._rules})),
            start=start,
            heard_at=max([start.at, *(each.measured_at for each in newest)]),
            count=sum(parts.values(), Count()),
            most=self._schedule.most,
            cell_s=fmean(gap for _, gap in gaps) if gaps else None,
            left_s=self._left_s(gaps),
            parts=tuple(Part(*part, count) for part, count in sorted(parts.items())),
            newest=tuple(newest),
            troubles=reasons.grouped(
                (run.status, "; ".join(run.reasons)) for _, run in timed if run.status != "ok" and self._is_final(run)
            ),
            damaged=tuple(sorted(self._follower.troubles.values())),
            imprecise=tuple(self._schedule.imprecise()),
        )

    def _left_s(self, gaps: Sequence[tuple[Spec, float]]) -> float:
        """Time of the rest; with several workers, shorter than on one host by the ratio so far."""
        if not self._shared:
            return self._schedule.left_s([gap - traffic_s(spec) for spec, gap in gaps])
        on_one_s = left_s(((spec, 1) for spec, _ in gaps), ())
        return self._schedule.left_s(()) * (sum(gap for _, gap in gaps) / on_one_s if on_one_s else 1.0)

    def _is_final(self, run: Run) -> bool:
        """Whether the sweep keeps the run: with --retry, it measures earlier failed and invalid runs again."""
        start = self._starts[run.spec.backend]
        again = start.retry and run.status in ("failed", "invalid")
        return not (again and run.measured_at is not None and run.measured_at < start.at)

    def _count(self, spec: Spec) -> Count:
        """The number of repetitions of a cell by status; updates the schedule with them."""
        rule, keys = self._rules[spec], self._keys[spec]
        stored = ((number, self._follower.runs.get(key)) for number, key in enumerate(keys))
        ended = {number: run for number, run in stored if run and self._is_final(run)}
        by_run = (self._value(run, rule) for run in ended.values()) if isinstance(rule, Until) else ()
        values = [value for value in by_run if value is not None]
        self._schedule.update(spec, len(ended), values, set(range(len(keys))) - ended.keys())
        by = Counter(run.status for run in ended.values())
        return Count(self._schedule.expected[spec], by["ok"], by["failed"], by["invalid"], by["skipped"])

    def _value(self, run: Run, rule: Until | None = None) -> Any:
        """The rule's value of the run, by default the main value; None if there is none, or the run is damaged.

        A value is computed once, and the run's tables are released: those of many runs are large.
        """
        key = run.spec.key
        if (key, rule) not in self._values:
            try:
                assert run.path
                whole = store.read(run.path)
                value = stopping_rule.value_of(whole, rule) if rule else main_value(whole)
            except StoreError as error:
                self._follower.troubles[key], value = str(error), None
            self._values[key, rule] = value
        return self._values[key, rule]

    def _result(self, run: Run, when: datetime, first: bool) -> Result:
        if run.status == "ok":
            own = self._value(run)
            against = self._against(run, own) if first and own and own.value == own.value else []
            text = ", ".join([own.text() if own else "without a value", *(["; ".join(against)] if against else ())])
        else:
            text = "; ".join(run.reasons)
        return Result(run.key, str(run.spec), run.status, when, text)

    def _against(self, run: Run, own: MainValue) -> list[str]:
        """Comparisons of the run with the other repetitions of the cell, and with the same cell of other drivers."""
        cell = self._cells[run.spec.key]
        texts = ["its first valid repetition"]
        if others := self._values_like(own, cell, but=run.spec.key):
            rest = "its other repetition" if len(others) == 1 else f"the median of its {len(others)} other repetitions"
            texts = [f"{_apart(own.value, median(others))} {rest}"]
        for driver in sorted({spec.driver for spec in self._rules} - {cell.driver}):
            if theirs := self._values_like(own, cell.replace(driver=driver)):
                centre = median(theirs)
                basis = f"median of {len(theirs)}" if len(theirs) > 1 else "one run"
                texts.append(f"{_apart(own.value, centre)} {driver} ({own.text(centre)}, {basis})")
        return texts

    def _values_like(self, own: MainValue, cell: Spec, but: str = "") -> list[float]:
        """Values of the same measure in the valid repetitions of a cell; none for a cell outside the sweep."""
        runs = (self._follower.runs.get(key) for key in self._keys.get(cell, ()) if key != but)
        values = (self._value(run) for run in runs if run and run.status == "ok")
        return [each.value for each in values if each and each.name == own.name and each.value == each.value]


def _apart(value: float, other: float) -> str:
    """The distance of a value from another, such as "3.2 % below"."""
    if not other:
        return "equal to" if value == other else "above"
    percent = 100 * (value / other - 1)
    text = f"{abs(percent):.1f}" if abs(percent) < 9.95 else f"{abs(percent):,.0f}"
    return "equal to" if text == "0.0" else f"{text} % {'below' if percent < 0 else 'above'}"
